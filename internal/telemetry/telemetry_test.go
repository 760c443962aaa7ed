package telemetry_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/penstock-ml/penstock/internal/identity"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/internal/rpc/rpctest"
	"github.com/penstock-ml/penstock/internal/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run serves until the test ends, or until the function that it returns is called, and returns the address.
func run(t *testing.T, cfg telemetry.Config) (address string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Listener, cfg.Logger = l, slog.New(slog.DiscardHandler)
	if cfg.Metrics == nil {
		cfg.Metrics = telemetry.NewRegistry("v1")
	}
	s, err := telemetry.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return l.Addr().String(), stop
}

// get returns the status and body of a request, with headers in pairs.
func get(t *testing.T, client *http.Client, url string, headers ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

func newClient(t *testing.T, cfg *tls.Config) *http.Client {
	transport := &http.Transport{TLSClientConfig: cfg, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func TestPaths(t *testing.T) {
	trouble := errors.New("no master leads")
	at, _ := run(t, telemetry.Config{Ready: func() error { return trouble }, Pages: http.NotFoundHandler()})
	for _, c := range []struct {
		path  string
		code  int
		lines string
	}{
		{"/healthz", 200, "ok"},
		{"/readyz", 503, "no master leads"},
		{"/metrics", 200, `penstock_build_info{goversion="go`},
		{"/debug/pprof/", 200, "goroutine"},
		{"/debug/pprof/goroutine?debug=1", 200, "goroutine profile"},
		{"/elsewhere", 404, "not found"},
	} {
		code, body := get(t, newClient(t, nil), "http://"+at+c.path)
		if code != c.code || !strings.Contains(body, c.lines) {
			t.Errorf("%s: %d, %.200q; want %d, %q", c.path, code, body, c.code, c.lines)
		}
	}
}

// A name that is not this machine's is refused, as a browser shows that was led here by a page from elsewhere.
func TestOtherNamesAreRefused(t *testing.T) {
	at, _ := run(t, telemetry.Config{})
	_, port, _ := net.SplitHostPort(at)
	for host, want := range map[string]int{
		"localhost:" + port: 200, "127.0.0.1": 200, "[::1]:" + port: 200,
		"evil.example:" + port: 403, "evil.example": 403,
	} {
		if code, _ := get(t, newClient(t, nil), "http://"+at+"/metrics", "Host", host); code != want {
			t.Errorf("host %s: %d, want %d", host, code, want)
		}
	}
}

// people are known by tokens that say what they are.
type people struct{}

func (people) Authenticate(_ context.Context, token string) (identity.Identity, error) {
	who, ok := map[string]identity.Identity{
		"viewer": {Everywhere: true, Subject: "v", Roles: []identity.Role{identity.Viewer}},
		"admin":  {Everywhere: true, Subject: "a", Roles: []identity.Role{identity.Admin}},
		"team":   {Namespace: "team", Subject: "t", Roles: []identity.Role{identity.Admin}},
	}[token]
	if !ok {
		return who, identity.ErrStranger
	}
	return who, nil
}

func TestTokenAndCertificate(t *testing.T) {
	authority := rpctest.NewAuthority(t)
	cert, key := authority.Issue(t, t.TempDir())
	encryption, err := rpc.HTTPTLS(rpc.Config{Cert: cert, Key: key})
	if err != nil {
		t.Fatal(err)
	}
	encryption.NextProtos = nil // those of each handshake stay
	at, _ := run(t, telemetry.Config{TLS: encryption, Web: identity.Web{Authenticator: people{}}})
	pem, err := os.ReadFile(authority.CA)
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(pem)
	client := newClient(t, &tls.Config{RootCAs: trusted})
	for _, c := range []struct {
		path, token string
		want        int
	}{
		{"/healthz", "", 200},
		{"/readyz", "", 200},
		{"/metrics", "", 401},
		{"/metrics", "wrong", 401},
		{"/metrics", "viewer", 200},
		{"/metrics", "team", 403},
		{"/debug/pprof/", "", 401},
		{"/debug/pprof/heap", "wrong", 401},
		{"/debug/pprof/heap", "viewer", 403},
		{"/debug/pprof/heap", "admin", 200},
		{"/debug/pprof/heap", "team", 403},
		{"/login", "", 200},
	} {
		code, body := get(t, client, "https://"+at+c.path, "Authorization", "Bearer "+c.token)
		if code != c.want || code == 401 && strings.Contains(body, "goroutine") {
			t.Errorf("%s with token %q: %d, want %d", c.path, c.token, code, c.want)
		}
	}
	// The certificate is read anew, but not one half of a pair.
	renewed, renewedKey := authority.Issue(t, t.TempDir())
	for step, from := range [][2]string{{renewed, cert}, {renewedKey, key}} {
		text, err := os.ReadFile(from[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(from[1], text, 0o600); err != nil {
			t.Fatal(err)
		}
		resp, err := newClient(t, &tls.Config{RootCAs: trusted}).Get("https://" + at + "/healthz")
		if err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		resp.Body.Close()
		shown, err := tls.LoadX509KeyPair(renewed, renewedKey)
		if err != nil {
			t.Fatal(err)
		}
		if isNew := bytes.Equal(resp.TLS.PeerCertificates[0].Raw, shown.Certificate[0]); isNew != (step == 1) {
			t.Errorf("step %d: it shows the renewed certificate: %v", step, isNew)
		}
	}
	if encryption.NextProtos != nil {
		t.Error("the server wrote to what it was configured with, which others may have, too")
	}
}

// A request that runs when the server ends is told so, and waited for.
func TestRunEndsRequests(t *testing.T) {
	begun, told := make(chan struct{}), make(chan struct{})
	at, stop := run(t, telemetry.Config{Pages: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
		close(told)
	})})
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		if resp, err := newClient(t, nil).Get("http://" + at + "/"); err == nil {
			resp.Body.Close()
		}
	}()
	<-begun
	stop()
	select {
	case <-told:
	default:
		t.Error("Run returned while a request ran")
	}
	<-answered
}

func TestMetricsFollowConventions(t *testing.T) {
	gauge := telemetry.Gauge("test_bytes", "Bytes.", "kind")
	total := telemetry.Counter("test_seconds_total", "Seconds.")
	registry := telemetry.NewRegistry("v1", telemetry.Func(func(ch chan<- prometheus.Metric) {
		gauge.Write(ch, 1, "a")
		gauge.Write(ch, telemetry.Bool(false), "b")
		total.Write(ch, 2)
	}))
	problems, err := testutil.GatherAndLint(registry)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	want := "# HELP penstock_test_bytes Bytes.\n# TYPE penstock_test_bytes gauge\npenstock_test_bytes{kind=\"a\"} " +
		"1\npenstock_test_bytes{kind=\"b\"} 0\n"
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "penstock_test_bytes"); err != nil {
		t.Error(err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	if _, err := telemetry.New(telemetry.Config{}); err == nil || !strings.Contains(err.Error(), "Listener") {
		t.Error(err)
	}
	if _, err := rpc.HTTPTLS(rpc.Config{Cert: filepath.Join(t.TempDir(), "none"), Key: "none"}); err == nil {
		t.Error("a certificate that is not there is taken")
	}
}
