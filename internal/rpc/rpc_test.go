package rpc_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/internal/identity"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/internal/rpc/rpctest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve serves health checks on network and returns the address to dial.
func serve(t *testing.T, network, address string, cfg rpc.Config, also ...grpc.ServerOption) string {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	s, err := rpc.NewServer(cfg, append(also, rpc.Guarded(guard(cfg.Token)))...)
	if err != nil {
		t.Fatal(err)
	}
	healthpb.RegisterHealthServer(s, health.NewServer())
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	if network == "unix" {
		return "unix:" + address
	}
	return l.Addr().String()
}

// guard lets in who shows a token, if there is one.
func guard(token rpc.Secret) rpc.Gate {
	return func(ctx context.Context, call rpc.Call) (context.Context, error) {
		if token.IsZero() {
			return ctx, nil
		}
		_, err := identity.Know(ctx, identity.Fleet{Token: token}, call.Token)
		return ctx, err
	}
}

// call makes a call over a new connection, and a stream.
func call(t *testing.T, address string, cfg rpc.Config) error {
	t.Helper()
	conn, err := rpc.Dial(address, cfg)
	if err != nil {
		return err
	}
	defer conn.Close()
	return check(t, conn)
}

func check(t *testing.T, conn *grpc.ClientConn) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	client := healthpb.NewHealthClient(conn)
	_, err := client.Check(ctx, &healthpb.HealthCheckRequest{})
	watch, streamErr := client.Watch(ctx, &healthpb.HealthCheckRequest{})
	if streamErr == nil {
		_, streamErr = watch.Recv()
	}
	if status.Code(streamErr) != status.Code(err) {
		t.Errorf("the call says %v, the stream %v", err, streamErr)
	}
	return err
}

func TestToken(t *testing.T) {
	secret := rpc.NewSecret("open sesame")
	for _, network := range []string{"tcp", "unix"} {
		address := "127.0.0.1:0"
		if network == "unix" {
			dir, err := os.MkdirTemp("", "rpc") // t.TempDir may be too long for a socket
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(dir)
			address = filepath.Join(dir, "s")
		}
		address = serve(t, network, address, rpc.Config{Token: secret})
		if err := call(t, address, rpc.Config{Token: secret}); err != nil {
			t.Errorf("%s: %v", network, err)
		}
		for want, token := range map[string]rpc.Secret{
			"bears no token":                  {},
			"is not one that this port knows": rpc.NewSecret("open sesam"),
		} {
			err := call(t, address, rpc.Config{Token: token})
			if status.Code(err) != codes.Unauthenticated || !strings.Contains(err.Error(), want) ||
				!strings.Contains(err.Error(), "--token-file") {
				t.Errorf("%s, %s: %v", network, want, err)
			}
			if strings.Contains(err.Error(), "sesam") {
				t.Errorf("the error shows a token: %v", err)
			}
		}
	}
}

// TestTokensAreForMasters holds that workers see no token: they are opened by tickets.
func TestTokensAreForMasters(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	calls := make(chan rpc.Call, 1)
	s, err := rpc.NewServer(rpc.Config{},
		rpc.Guarded(func(ctx context.Context, call rpc.Call) (context.Context, error) {
			calls <- call
			return ctx, nil
		}))
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	defer func() {
		s.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	conn, err := rpc.Dial(l.Addr().String(), rpc.Config{Token: rpc.NewSecret("sesame"), Namespace: "vision"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const flight, master = "/arrow.flight.protocol.FlightService/", "/penstock.v1.Master/"
	for method, want := range map[string]string{master + "Sync": "sesame", flight + "GetFlightInfo": "sesame", flight +
		"DoGet": "", flight + "DoAction": ""} {
		in := &healthpb.HealthCheckRequest{}
		if err := conn.Invoke(t.Context(), method, in, in); status.Code(err) != codes.Unimplemented {
			t.Errorf("%s: %v", method, err)
		}
		if call := <-calls; call.Method != method || call.Token != want ||
			(call.Namespace == "vision") != (want != "") {
			t.Errorf("%s: %+v", method, call)
		}
	}
}

func TestTokenInClearStaysHere(t *testing.T) {
	for address, ok := range map[string]bool{
		"127.0.0.1:1": true, "127.3.2.1:1": true, "[::1]:1": true, "localhost:1": true, "unix:/run/x": true,
		"10.0.0.1:1": false, "0.0.0.0:1": false, "[::]:1": false, "localhost.evil.com:1": false, "example.com:1": false,
		"127.0.0.1":            false,
		"127.0.0.1.evil.com:1": false, ":1": false, "": false,
	} {
		conn, err := rpc.Dial(address, rpc.Config{Token: rpc.NewSecret("x")})
		if err == nil {
			_ = conn.Close()
		}
		if (err == nil) != ok {
			t.Errorf("%q: %v", address, err)
		}
	}
	conn, err := rpc.Dial("10.0.0.1:1", rpc.Config{Token: rpc.NewSecret("x"), TLS: true})
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
}

func TestTLS(t *testing.T) {
	ours, theirs := rpctest.NewAuthority(t), rpctest.NewAuthority(t)
	cert, key := ours.Issue(t, t.TempDir())
	strange, strangeKey := theirs.Issue(t, t.TempDir())
	encrypted := serve(t, "tcp", "127.0.0.1:0", rpc.Config{Cert: cert, Key: key})
	mutual := serve(t, "tcp", "127.0.0.1:0", rpc.Config{Cert: cert, Key: key, ClientCA: ours.CA})
	plain := serve(t, "tcp", "127.0.0.1:0", rpc.Config{})
	for _, c := range []struct {
		name, address string
		cfg           rpc.Config
		want, check   string // parts of the errors of a call and of Check
	}{
		{"trusted", encrypted, rpc.Config{CA: ours.CA}, "", ""},
		{"the name that it bears", encrypted, rpc.Config{CA: ours.CA, ServerName: "localhost"}, "", ""},
		{
			"a name that it does not bear", encrypted,
			rpc.Config{CA: ours.CA, ServerName: "penstock"},
			"--tls-server-name must be one", "not penstock",
		},
		{
			"a name without TLS", encrypted,
			rpc.Config{ServerName: "localhost"},
			"no TLS; set --tls-ca",
			"no TLS; set --tls-ca",
		},
		{
			"wrong authority", encrypted,
			rpc.Config{CA: theirs.CA},
			"is not trusted; --tls-ca",
			"is not trusted; --tls-ca",
		},
		{
			"system's authorities", encrypted,
			rpc.Config{TLS: true},
			"is not trusted; --tls-ca",
			"is not trusted; --tls-ca",
		},
		{"plain to TLS", encrypted, rpc.Config{}, "Unavailable", "speaks TLS; set --tls-ca"},
		{"TLS to plain", plain, rpc.Config{CA: ours.CA}, "does not speak TLS", "does not speak TLS"},
		{"client certificate", mutual, rpc.Config{CA: ours.CA, Cert: cert, Key: key}, "", ""},
		{"no client certificate", mutual, rpc.Config{CA: ours.CA}, "Unavailable", ""},
		{
			"strange client certificate", mutual,
			rpc.Config{CA: ours.CA, Cert: strange, Key: strangeKey},
			"Unavailable",
			"",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			errs := [2]error{call(t, c.address, c.cfg), rpc.Check(t.Context(), c.address, c.cfg)}
			for i, want := range []string{c.want, c.check} {
				if (errs[i] == nil) != (want == "") || errs[i] != nil && !strings.Contains(errs[i].Error(), want) {
					t.Errorf("%d: want %q in the error: %v", i, want, errs[i])
				}
			}
		})
	}
	if err := rpc.Check(t.Context(), "127.0.0.1:1", rpc.Config{CA: ours.CA}); err != nil {
		t.Errorf("a port that may answer later: %v", err)
	}
}

// TestRenewedFiles lets both sides' files change while server and connection live on.
func TestRenewedFiles(t *testing.T) {
	before, after := rpctest.NewAuthority(t), rpctest.NewAuthority(t)
	dir := t.TempDir()
	cert, key := before.Issue(t, dir)
	ca := filepath.Join(dir, "ca.pem")
	place := func(a *rpctest.Authority) {
		text, err := os.ReadFile(a.CA)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(ca, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	place(before)
	cfg := rpc.Config{Cert: cert, Key: key, CA: ca, ClientCA: ca}
	address := serve(t, "tcp", "127.0.0.1:0", cfg)
	pool := rpc.NewPool(cfg)
	defer pool.Close()
	conn, err := pool.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	if err := check(t, conn); err != nil {
		t.Fatal(err)
	}
	after.Issue(t, dir)
	place(after)
	if err := call(t, address, rpc.Config{Cert: cert, Key: key, CA: before.CA}); err == nil {
		t.Error("the server still shows its old certificate")
	}
	if err := call(t, address, cfg); err != nil {
		t.Errorf("after the renewal: %v", err)
	}
	if again, err := pool.Get(address); err != nil || again != conn {
		t.Errorf("the pool made a second connection: %v", err)
	}
}

// TestHalfAPair holds that a certificate whose key is not there yet breaks nothing, on either side, and is told of
// once.
func TestHalfAPair(t *testing.T) {
	var logged bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&logged, nil)))
	defer slog.SetDefault(before)
	a := rpctest.NewAuthority(t)
	dir := t.TempDir()
	cert, key := a.Issue(t, dir)
	cfg := rpc.Config{Cert: cert, Key: key, CA: a.CA, ClientCA: a.CA}
	address := serve(t, "tcp", "127.0.0.1:0", cfg)
	client, clientKey := a.Issue(t, t.TempDir())
	other := rpc.Config{Cert: client, Key: clientKey, CA: a.CA}
	shown := func() string {
		t.Helper()
		peer, err := rpc.Handshake(t.Context(), address, other)
		if err != nil {
			t.Fatal(err)
		}
		return peer.PeerCertificates[0].SerialNumber.String() + string(peer.PeerCertificates[0].Signature)
	}
	first := shown()
	newCert, newKey := a.Issue(t, t.TempDir())
	for _, step := range []struct {
		from, to string
		renewed  bool
	}{{newCert, cert, false}, {newKey, key, true}} {
		text, err := os.ReadFile(step.from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(step.to, text, 0o600); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if (shown() != first) != step.renewed {
				t.Errorf("the server shows another certificate: %v, want %v", !step.renewed, step.renewed)
			}
		}
		if err := call(t, address, other); err != nil {
			t.Error(err)
		}
	}
	if n := strings.Count(logged.String(), "do not match") + strings.Count(logged.String(), "does not match"); n != 1 ||
		strings.Count(logged.String(), "\n") != 1 {
		t.Errorf("logged:\n%s", &logged)
	}
}

func TestMistakesInConfig(t *testing.T) {
	a := rpctest.NewAuthority(t)
	cert, key := a.Issue(t, t.TempDir())
	for name, cfg := range map[string]rpc.Config{
		"go together":        {Cert: cert},
		"no PEM":             {CA: key, Cert: key, Key: key},
		"/nowhere":           {Cert: "/nowhere", Key: key},
		"has no certificate": {CA: a.CA},
	} {
		if _, err := rpc.NewServer(cfg); err == nil || !strings.Contains(err.Error(), name) &&
			!strings.HasPrefix(name, "no PEM") {
			t.Errorf("server, %s: %v", name, err)
		}
		conn, err := rpc.Dial("127.0.0.1:1", cfg)
		if err == nil {
			_ = conn.Close()
		}
		if name != "has no certificate" && (err == nil || !strings.Contains(err.Error(), name)) {
			t.Errorf("client, %s: %v", name, err)
		}
	}
}

// slow is a service whose call lasts as long as its caller's connection, and a little longer.
type slow struct {
	healthpb.UnimplementedHealthServer
	began chan struct{}
	ended atomic.Bool
}

func (s *slow) Check(ctx context.Context, _ *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	close(s.began)
	<-ctx.Done()
	for range 100 {
		runtime.Gosched()
	}
	s.ended.Store(true)
	return nil, ctx.Err()
}

// TestStopWaitsForCalls: who stops a server may close what its calls use.
func TestStopWaitsForCalls(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := rpc.NewServer(rpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	service := &slow{began: make(chan struct{})}
	healthpb.RegisterHealthServer(s, service)
	var group errgroup.Group
	group.Go(func() error { return s.Serve(l) })
	conn, err := rpc.Dial(l.Addr().String(), rpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	group.Go(func() error {
		_, err := healthpb.NewHealthClient(conn).Check(context.Background(), &healthpb.HealthCheckRequest{})
		if status.Code(err) != codes.Unavailable {
			return fmt.Errorf("the call says %w", err)
		}
		return nil
	})
	<-service.began
	s.Stop()
	if !service.ended.Load() {
		t.Error("a call outlives its server")
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

// TestCallsAreBounded: a message has so many bytes, and a connection so many calls, whoever sends them.
func TestCallsAreBounded(t *testing.T) {
	conn, err := rpc.Dial(serve(t, "tcp", "127.0.0.1:0", rpc.Config{MaxMessage: 1 << 20}), rpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := healthpb.NewHealthClient(conn)
	if _, err := client.Check(t.Context(),
		&healthpb.HealthCheckRequest{
			Service: strings.Repeat("x", 1<<20),
		}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a message beyond the bound: %v", err)
	}
	watch := func() (end func()) {
		ctx, cancel := context.WithCancel(t.Context())
		stream, err := client.Watch(ctx, &healthpb.HealthCheckRequest{})
		if err == nil {
			_, err = stream.Recv()
		}
		if err != nil {
			t.Fatal(err)
		}
		return cancel
	}
	end := watch()
	for range 255 {
		defer watch()()
	}
	more := make(chan error, 1)
	go func() {
		_, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{})
		more <- err
	}()
	select {
	case err := <-more:
		t.Errorf("one call more than may be under way: %v", err)
	case <-time.After(50 * time.Millisecond): // it waits at the caller
	}
	end()
	if err := <-more; err != nil {
		t.Errorf("when another had ended: %v", err)
	}
}
