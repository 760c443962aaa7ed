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

// chosen is the program that a variable names, as that of a server which takes long to install. Without it the test is
// skipped, on whatever machine.
func chosen(t testing.TB, variable string) string {
	t.Helper()
	program := os.Getenv(variable)
	if program == "" {
		t.Skipf("%s names no server; `make test-stores` sets it", variable)
	}
	return program
}

// answers reports whether a URL is answered by a status.
func answers(c *http.Client, url string, status int) func(context.Context) bool {
	return func(ctx context.Context) bool {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return false
		}
		request.Close = true
		answer, err := c.Do(request)
		if err != nil {
			return false
		}
		answer.Body.Close()
		return answer.StatusCode == status
	}
}

// start starts a server, and waits until it is ready. The server runs until stop is called.
func start(ctx context.Context, cmd *exec.Cmd, ready func(context.Context) bool) (stop func(), err error) {
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

// wait waits until a server is ready.
func wait(ctx context.Context, ready func(context.Context) bool, exited <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ready(ctx) {
		select {
		case <-exited:
			return errors.New("the server ended")
		case <-ctx.Done():
			return errors.New("the server was not ready in time")
		case <-tick.C:
		}
	}
	return nil
}
