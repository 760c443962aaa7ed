package storagetest

import (
	"context"
	"crypto/rand"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/internal/storage/s3/s3test"
)

// MinIO is a MinIO server that runs until the end of the test that started it.
type MinIO struct {
	// Endpoint is its URL.
	Endpoint  string
	AccessKey string
	SecretKey string

	writer *s3test.Writer
}

// StartMinIO starts a MinIO server with empty disks on a free port of the loopback interface. The binary is
// $PENSTOCK_MINIO, ~/go/bin/minio or minio on the PATH; without one the test is skipped, or fails if CI=true.
func StartMinIO(t testing.TB) *MinIO {
	t.Helper()
	binary := find(t, "minio", "PENSTOCK_MINIO", "github.com/minio/minio@v0.0.0-20260212201848-7aac2a2c5b7c")
	return startS3(t, "/minio/health/cluster", http.StatusOK, // once it can be written to
		func(ctx context.Context, m *MinIO, address string) *exec.Cmd {
			cmd := exec.CommandContext(ctx, binary, "server", t.TempDir(), "--address", address, "--quiet")
			cmd.Env = append(os.Environ(), "MINIO_ROOT_USER="+m.AccessKey, "MINIO_ROOT_PASSWORD="+m.SecretKey,
				"MINIO_BROWSER=off", "MINIO_UPDATE=off")
			return cmd
		})
}

// StartVersityGW starts a versitygw server with an empty disk, to be used as a MinIO server is: that of
// `make test-stores`.
func StartVersityGW(t testing.TB) *MinIO {
	t.Helper()
	binary := chosen(t, "PENSTOCK_VERSITYGW")
	return startS3(t, "/", http.StatusForbidden, // to who signs nothing
		func(ctx context.Context, m *MinIO, address string) *exec.Cmd {
			return exec.CommandContext(ctx, binary, //nolint:gosec // whoever runs the tests names it
				"--access", m.AccessKey, "--secret", m.SecretKey, "--port", address, "--quiet", "posix", t.TempDir())
		})
}

// command starts an S3 server with the keys of m at an address.
type command func(ctx context.Context, m *MinIO, address string) *exec.Cmd

func startS3(t testing.TB, ready string, status int, of command) *MinIO {
	t.Helper()
	var err error
	for range 3 { // another process may take the port first
		var m *MinIO
		if m, err = tryS3(t, ready, status, of); err == nil {
			return m
		}
	}
	t.Fatalf("start an S3 server: %v", err)
	return nil
}

func tryS3(t testing.TB, ready string, status int, of command) (*MinIO, error) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // clean-ups may still need the server
	address, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	m := &MinIO{Endpoint: "http://" + address, AccessKey: rand.Text(), SecretKey: rand.Text()}
	if m.writer, err = s3test.NewWriter(address, m.AccessKey, m.SecretKey); err != nil {
		return nil, err
	}
	stop, err := start(t.Context(), of(ctx, m, address), answers(http.DefaultClient, m.Endpoint+ready, status))
	if err != nil {
		m.writer.Close()
		return nil, err
	}
	t.Cleanup(func() { m.writer.Close(); stop() })
	return m, nil
}

// MakeBucket makes a bucket.
func (m *MinIO) MakeBucket(t testing.TB, name string) {
	t.Helper()
	if err := m.writer.MakeBucket(t.Context(), name); err != nil {
		t.Fatalf("make bucket %s: %v", name, err)
	}
}

// Put writes an object, or replaces it. Several goroutines may call it.
func (m *MinIO) Put(t testing.TB, bucket, key string, content []byte) {
	t.Helper()
	if err := m.writer.Put(t.Context(), bucket, key, content); err != nil {
		t.Errorf("put s3://%s/%s: %v", bucket, key, err)
	}
}

// PutFile uploads a local file as s3://bucket/key.
func (m *MinIO) PutFile(t testing.TB, bucket, key, path string) {
	t.Helper()
	if err := m.writer.PutFile(t.Context(), bucket, key, path); err != nil {
		t.Fatalf("put s3://%s/%s: %v", bucket, key, err)
	}
}

// Remove deletes an object.
func (m *MinIO) Remove(t testing.TB, bucket, key string) {
	t.Helper()
	if err := m.writer.Remove(t.Context(), bucket, key); err != nil {
		t.Fatalf("remove s3://%s/%s: %v", bucket, key, err)
	}
}

// Environ is the environment with which a process's profile "default" reads from the server.
func (m *MinIO) Environ() []string {
	return []string{
		"AWS_ENDPOINT_URL=" + m.Endpoint,
		"AWS_REGION=us-east-1",
		"AWS_ACCESS_KEY_ID=" + m.AccessKey,
		"AWS_SECRET_ACCESS_KEY=" + m.SecretKey,
		"AWS_EC2_METADATA_DISABLED=true",
	}
}

// Setenv sets Environ for the test's own process.
func (m *MinIO) Setenv(t *testing.T) {
	t.Helper()
	for _, e := range m.Environ() {
		key, value, _ := strings.Cut(e, "=")
		t.Setenv(key, value)
	}
}
