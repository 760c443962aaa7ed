package storagetest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Nginx is an nginx server with TLS that runs until the end of the test that started it.
type Nginx struct {
	// URL is its own, CAFile its certificate.
	URL, CAFile string

	dir  string
	puts int
}

const nginxConfig = `daemon off; master_process off; pid %[1]s/pid; error_log %[1]s/errors;
events {}
http {
  access_log off; client_body_temp_path %[1]s/b; proxy_temp_path %[1]s/p; fastcgi_temp_path %[1]s/f;
  uwsgi_temp_path %[1]s/u; scgi_temp_path %[1]s/s;
  server { listen %[2]s ssl; ssl_certificate %[1]s/cert.pem; ssl_certificate_key %[1]s/key.pem; root %[1]s/files; }
}
`

// StartNginx starts an nginx server without files on a free port of the loopback interface. The binary is nginx, on
// the PATH or in /usr/sbin; without one the test is skipped, or fails if CI=true.
func StartNginx(t testing.TB) *Nginx {
	t.Helper()
	binary, err := exec.LookPath("nginx")
	if err != nil {
		binary = "/usr/sbin/nginx"
	}
	if _, err := os.Stat(binary); err != nil {
		const reason = "no nginx server: install Debian's nginx-light"
		if os.Getenv("CI") == "true" {
			t.Fatal(reason)
		}
		t.Skip(reason)
	}
	for range 3 { // another process may take the port first
		var n *Nginx
		if n, err = startNginx(t, binary); err == nil {
			return n
		}
	}
	t.Fatalf("start nginx: %v", err)
	return nil
}

func startNginx(t testing.TB, binary string) (*Nginx, error) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	address, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	dir := t.TempDir()
	n := &Nginx{URL: "https://" + address, CAFile: filepath.Join(dir, "cert.pem"), dir: filepath.Join(dir, "files")}
	trusting, err := certify(dir)
	if err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, nginxConfig, dir, address), 0o644); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, binary, "-e", filepath.Join(dir, "errors"), "-c", config, "-p", dir)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: trusting, DisableKeepAlives: true}}
	stop, err := start(t.Context(), cmd, answers(client, n.URL, http.StatusForbidden)) // there is no index
	if err != nil {
		return nil, err
	}
	t.Cleanup(stop)
	return n, nil
}

// certify writes a certificate for this machine, that of httptest, and its key.
func certify(dir string) (*tls.Config, error) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	key, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	if err != nil {
		return nil, err
	}
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: server.Certificate().Raw},
		"key.pem":  {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			return nil, err
		}
	}
	trusting := &tls.Config{RootCAs: x509.NewCertPool()}
	trusting.RootCAs.AddCert(server.Certificate())
	return trusting, os.Mkdir(filepath.Join(dir, "files"), 0o755)
}

// Put writes a file, or replaces it by one that is a second newer: of a file's time, nginx's ETag has no more.
func (n *Nginx) Put(t testing.TB, name string, content []byte) {
	t.Helper()
	path := filepath.Join(n.dir, name)
	n.puts++
	at := time.Now().Add(time.Duration(n.puts-1000) * time.Second)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path+".part", content, 0o644)
	}
	if err == nil {
		err = os.Chtimes(path+".part", at, at)
	}
	if err == nil {
		err = os.Rename(path+".part", path)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Remove deletes a file.
func (n *Nginx) Remove(t testing.TB, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(n.dir, name)); err != nil {
		t.Fatal(err)
	}
}
