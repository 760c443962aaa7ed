package storagetest

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Azurite is an Azurite server, which stands for Azure's Blob service, that runs until the end of the test that started
// it.
type Azurite struct {
	// Endpoint is the URL of its account.
	Endpoint string
	Account  string
	Key      string // in base64

	client http.Client
}

// StartAzurite starts an empty Azurite server on a free port of the loopback interface: that of `make test-stores`.
func StartAzurite(t testing.TB) *Azurite {
	t.Helper()
	program := chosen(t, "PENSTOCK_AZURITE")
	var err error
	for range 3 { // another process may take the port first
		var a *Azurite
		if a, err = startAzurite(t, program); err == nil {
			return a
		}
	}
	t.Fatalf("start Azurite: %v", err)
	return nil
}

func startAzurite(t testing.TB, program string) (*Azurite, error) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // clean-ups may still need the server
	address, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	a := &Azurite{Account: "account1", Key: base64.StdEncoding.EncodeToString([]byte(rand.Text() + rand.Text()))}
	a.Endpoint = "http://" + address + "/" + a.Account
	a.client.Transport = &http.Transport{}
	host, port, _ := strings.Cut(address, ":")
	cmd := exec.CommandContext(ctx, program, //nolint:gosec // whoever runs the tests names it
		"--blobHost", host, "--blobPort", port, "--silent", "--inMemoryPersistence", "--disableTelemetry")
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "AZURITE_ACCOUNTS="+a.Account+":"+a.Key)
	stop, err := start(t.Context(), cmd, func(ctx context.Context) bool {
		return a.ask(ctx, http.MethodGet, "?comp=list", nil, nil) == nil
	})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { a.client.CloseIdleConnections(); stop() })
	return a, nil
}

// SAS is a signature for all of the account, with permissions such as "rl", until a time.
func (a *Azurite) SAS(permissions string, until time.Time) string {
	const version, services, types = "2021-12-02", "b", "sco"
	expires := until.UTC().Format("2006-01-02T15:04:05Z")
	key, err := base64.StdEncoding.DecodeString(a.Key)
	if err != nil {
		panic(err) // it was encoded here
	}
	mac := hmac.New(sha256.New, key)
	// without a start, addresses and an encryption scope
	fmt.Fprintf(mac, "%s\n%s\n%s\n%s\n\n%s\n\n%s\n%s\n\n", a.Account, permissions, services, types, expires,
		"https,http", version)
	return url.Values{
		"sv": {version}, "ss": {services}, "srt": {types}, "sp": {permissions}, "se": {expires}, "spr": {"https,http"},
		"sig": {base64.StdEncoding.EncodeToString(mac.Sum(nil))},
	}.Encode()
}

// ask sends a request with a path below the account, or a query alone.
func (a *Azurite) ask(ctx context.Context, method, path string, header map[string]string, content []byte) error {
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	req, err := http.NewRequestWithContext(ctx, method,
		a.Endpoint+path+separator+a.SAS("rwdlac", time.Now().Add(time.Hour)), bytes.NewReader(content))
	if err != nil {
		return err
	}
	req.Header.Set("X-Ms-Version", "2021-12-02")
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusMultipleChoices {
		text, _ := io.ReadAll(resp.Body) // what there is of it
		return fmt.Errorf("%s: %s", resp.Status, text)
	}
	return nil
}

// MakeContainer makes a container; public lets anybody read what is in it.
func (a *Azurite) MakeContainer(t testing.TB, name string, public bool) {
	t.Helper()
	header := map[string]string{}
	if public {
		header["X-Ms-Blob-Public-Access"] = "container"
	}
	if err := a.ask(t.Context(), http.MethodPut, "/"+name+"?restype=container", header, nil); err != nil {
		t.Fatalf("make container %s: %v", name, err)
	}
}

// Put writes a blob, or replaces it, with headers besides. Several goroutines may call it.
func (a *Azurite) Put(t testing.TB, container, name string, content []byte, header map[string]string) {
	t.Helper()
	all := map[string]string{"X-Ms-Blob-Type": "BlockBlob"}
	for name, value := range header {
		all[name] = value
	}
	path := "/" + container + "/" + strings.ReplaceAll(url.PathEscape(name), "%2F", "/")
	if err := a.ask(t.Context(), http.MethodPut, path, all, content); err != nil {
		t.Errorf("put az://%s/%s: %v", container, name, err)
	}
}

// Remove deletes a blob.
func (a *Azurite) Remove(t testing.TB, container, name string) {
	t.Helper()
	path := "/" + container + "/" + strings.ReplaceAll(url.PathEscape(name), "%2F", "/")
	if err := a.ask(t.Context(), http.MethodDelete, path, nil, nil); err != nil {
		t.Fatalf("remove az://%s/%s: %v", container, name, err)
	}
}

// Environ is the environment with which a process's profile "default" reads from the server.
func (a *Azurite) Environ() []string {
	return []string{
		"PENSTOCK_STORAGE_DEFAULT_TYPE=az",
		"PENSTOCK_STORAGE_DEFAULT_ACCOUNT=" + a.Account,
		"PENSTOCK_STORAGE_DEFAULT_ENDPOINT=" + a.Endpoint,
		"PENSTOCK_STORAGE_DEFAULT_ACCOUNT_KEY_ENV=AZURITE_KEY",
		"AZURITE_KEY=" + a.Key,
	}
}
