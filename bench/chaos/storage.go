package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-ml/penstock/internal/storage/s3/s3test"
)

const (
	bucket    = "chaos"
	accessKey = "chaos"
	secretKey = "chaos-chaos" //nolint:gosec // of a server that this program runs
)

// storageCommand is the role that runs MinIO, so that it ends with this program. Signals go to both, as one process
// group.
func storageCommand() *cobra.Command {
	var minio, data, address string
	cmd := &cobra.Command{Use: "storage", Hidden: true, Args: cobra.NoArgs}
	cmd.Flags().StringVar(&minio, "minio", "", "MinIO binary")
	cmd.Flags().StringVar(&data, "data", "", "folder of its data")
	cmd.Flags().StringVar(&address, "address", "", "address to listen on")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		runtime.LockOSThread() // with which the server dies
		defer runtime.UnlockOSThread()
		server := exec.CommandContext(cmd.Context(), minio, "server", data, "--address", address, "--quiet")
		server.Env = append(os.Environ(), "MINIO_ROOT_USER="+accessKey, "MINIO_ROOT_PASSWORD="+secretKey,
			"MINIO_BROWSER=off", "MINIO_UPDATE=off")
		server.Stdout, server.Stderr = os.Stderr, os.Stderr
		dieWith(server)
		return server.Run()
	}
	return cmd
}

// findMinIO returns the binary that `make tools` builds, or another one.
func findMinIO() (string, error) {
	home, _ := os.UserHomeDir()
	for _, path := range []string{
		os.Getenv("PENSTOCK_MINIO"), ".cache/tools/bin/minio",
		filepath.Join(home, "go", "bin", "minio"), "minio",
	} {
		if found, err := exec.LookPath(path); path != "" && err == nil {
			return filepath.Abs(found)
		}
	}
	return "", fmt.Errorf("no MinIO server: `make tools` builds one; or name one by PENSTOCK_MINIO")
}

// upload puts files into the bucket once the server is ready.
func upload(ctx context.Context, address string, paths []string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for !healthy(ctx, "http://"+address+"/minio/health/cluster") {
		if pause(ctx, 50*time.Millisecond); ctx.Err() != nil {
			return fmt.Errorf("chaos: MinIO at %s is not ready: %w", address, ctx.Err())
		}
	}
	w, err := s3test.NewWriter(address, accessKey, secretKey)
	if err != nil {
		return fmt.Errorf("chaos: %w", err)
	}
	defer w.Close()
	if err := w.MakeBucket(ctx, bucket); err != nil {
		return fmt.Errorf("chaos: make bucket %s: %w", bucket, err)
	}
	for _, p := range paths {
		if err := w.PutFile(ctx, bucket, filepath.Base(p), p); err != nil {
			return fmt.Errorf("chaos: upload %s: %w", p, err)
		}
	}
	return nil
}

func healthy(ctx context.Context, url string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	request.Close = true
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}
