package storagetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// find returns the path of a server's program: that of an environment variable, in ~/go/bin, or on the PATH. Without
// one the test is skipped, or fails if CI=true.
func find(t testing.TB, program, variable, module string) string {
	t.Helper()
	if path := os.Getenv(variable); path != "" {
		return path
	}
	if home, err := os.UserHomeDir(); err == nil {
		if path, err := exec.LookPath(filepath.Join(home, "go", "bin", program)); err == nil {
			return path
		}
	}
	path, err := exec.LookPath(program)
	if err == nil {
		return path
	}
	reason := fmt.Sprintf("no %s: set %s or `go install %s`", program, variable, module)
	if os.Getenv("CI") == "true" {
		t.Fatal(reason)
	}
	t.Skip(reason)
	return ""
}

// answer is what a server gives once it is ready.
type answer struct {
	client *http.Client
	url    string
	status int
}

// ok is the answer 200.
func ok(url string) answer { return answer{http.DefaultClient, url, http.StatusOK} }

// start starts a server, and waits for an answer of it. The server runs until stop is called.
func start(ctx context.Context, cmd *exec.Cmd, ready answer) (stop func(), err error) {
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = cmd.Wait() // it is killed in the end; if it ended before, its output says why
	}()
	stop = func() {
		_ = cmd.Process.Kill() // it may have ended already
		<-exited
	}
	if err := wait(ctx, ready, exited); err != nil {
		stop()
		return nil, fmt.Errorf("%w\n%s", err, output.String())
	}
	return stop, nil
}

func freeAddress(ctx context.Context) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// wait waits for an answer.
func wait(ctx context.Context, want answer, exited <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, want.url, nil)
		if err != nil {
			return err
		}
		request.Close = true
		got, err := want.client.Do(request)
		if err == nil {
			got.Body.Close()
			if got.StatusCode == want.status {
				return nil
			}
		}
		select {
		case <-exited:
			return errors.New("the server ended")
		case <-ctx.Done():
			return errors.New("the server was not ready in time")
		case <-tick.C:
		}
	}
}
