package storagetest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"testing"
)

// GCS is a server that stands in for Google Cloud Storage (fake-gcs-server), and runs until the end of the test that
// started it. It lets anybody do anything.
type GCS struct {
	// Endpoint is its URL.
	Endpoint string
}

// StartGCS starts one, which keeps objects in memory, on a free port of the loopback interface. The binary is
// $PENSTOCK_FAKE_GCS, ~/go/bin/fake-gcs-server or fake-gcs-server on the PATH; without one the test is skipped, or
// fails if CI=true.
func StartGCS(t testing.TB) *GCS {
	t.Helper()
	binary := find(t, "fake-gcs-server", "PENSTOCK_FAKE_GCS", "github.com/fsouza/fake-gcs-server@v1.56.1")
	var err error
	for range 3 { // another process may take the port first
		var g *GCS
		if g, err = startGCS(t, binary); err == nil {
			return g
		}
	}
	t.Fatalf("start fake-gcs-server: %v", err)
	return nil
}

func startGCS(t testing.TB, binary string) (*GCS, error) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // clean-ups may still need the server
	address, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	g := &GCS{"http://" + address}
	cmd := exec.CommandContext(ctx, binary, "-backend", "memory", "-scheme", "http", "-host", host, "-port", port,
		"-data", t.TempDir(), "-log-level", "error")
	up := answers(http.DefaultClient, g.Endpoint+"/_internal/healthcheck", http.StatusOK)
	stop, err := start(t.Context(), cmd, up)
	if err != nil {
		return nil, err
	}
	t.Cleanup(stop)
	return g, nil
}

// MakeBucket makes a bucket.
func (g *GCS) MakeBucket(t testing.TB, name string) {
	t.Helper()
	g.ask(t, http.MethodPost, "/storage/v1/b?project=test", "application/json", fmt.Appendf(nil, `{"name":%q}`, name))
}

// Put writes an object, or replaces it. Several goroutines may call it.
func (g *GCS) Put(t testing.TB, bucket, key string, content []byte) {
	t.Helper()
	g.ask(t, http.MethodPost, "/upload/storage/v1/b/"+bucket+"/o?uploadType=media&name="+url.QueryEscape(key),
		"application/octet-stream", content)
}

// Remove deletes an object.
func (g *GCS) Remove(t testing.TB, bucket, key string) {
	t.Helper()
	g.ask(t, http.MethodDelete, "/storage/v1/b/"+bucket+"/o/"+url.PathEscape(key), "", nil)
}

func (g *GCS) ask(t testing.TB, method, path, contentType string, body []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, g.Endpoint+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	req.Header.Set("Content-Type", contentType)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Errorf("%s %s: %v", method, path, err)
		return
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode/100 != 2 {
		t.Errorf("%s %s: %s: %s", method, path, resp.Status, text)
	}
}
