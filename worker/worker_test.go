package worker

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow/flight"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/ticket"
	"github.com/penstock-ml/penstock/internal/fleet"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
	"github.com/penstock-ml/penstock/worker/python"
	"github.com/penstock-ml/penstock/worker/serve"
	"github.com/penstock-ml/penstock/worker/transform"
)

// TestMain excuses memberlist, which does not wait for the answer to its last probe.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).probe"))
}

// fakeMaster answers workers' reports.
type fakeMaster struct {
	pb.UnimplementedMasterServer
	keys    map[string][]byte
	reports chan *pb.WorkerReport
	drain   chan struct{} // closed: workers should drain
}

func (m *fakeMaster) SyncWorker(_ context.Context, r *pb.WorkerReport) (*pb.WorkerOrders, error) {
	select {
	case m.reports <- r:
	default:
	}
	select {
	case <-m.drain:
		return &pb.WorkerOrders{Keys: m.keys, Drain: true}, nil
	default:
		return &pb.WorkerOrders{Keys: m.keys}, nil
	}
}

// certificate writes a self-signed certificate of loopback and its key.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "penstock"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(nil, template, template, public, private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	cert, key = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	for path, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: der},
		key:  {Type: "PRIVATE KEY", Bytes: pkcs},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// startMaster joins a fake master to a fleet, of its own unless it is told another, and returns its gossip address.
func startMaster(t *testing.T, m *fakeMaster, cfg rpc.Config, join ...string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv, err := rpc.NewServer(cfg, rpc.Guarded(func(ctx context.Context, call rpc.Call) (context.Context, error) {
		if call.Token != cfg.Token.Reveal() {
			return nil, status.Error(codes.Unauthenticated, "another token")
		}
		return ctx, nil
	}))
	if err != nil {
		t.Fatal(err)
	}
	pb.RegisterMasterServer(srv, m)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	f, err := fleet.New(fleet.Config{
		Join: join,
		Self: fleet.Member{Name: "master-" + l.Addr().String(), Role: fleet.Master, Address: l.Addr().String()},
		Bind: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	joined := make(chan error, 1)
	go func() { joined <- f.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		srv.Stop()
		if err := errors.Join(<-served, <-joined); err != nil {
			t.Error(err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f.Address()
}

func get(t *testing.T, conn *grpc.ClientConn, signer *ticket.Signer, granted *pb.Ticket) (rows int64, err error) {
	t.Helper()
	program, err := proto.Marshal(pipelinetest.Program())
	if err != nil {
		t.Fatal(err)
	}
	granted.ProgramDigest, granted.ExpiresUnix = []byte(ticket.Digest(program)), time.Now().Add(time.Hour).Unix()
	signed, err := signer.Sign(granted)
	if err != nil {
		t.Fatal(err)
	}
	req := &pb.StreamRequest{Ticket: &pb.SignedTicket{}, Program: program}
	if err := proto.Unmarshal(signed, req.Ticket); err != nil {
		t.Fatal(err)
	}
	b, err := proto.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := flight.NewClientFromConn(conn, nil).DoGet(t.Context(), &flight.Ticket{Ticket: b})
	if err != nil {
		return 0, err
	}
	rd, err := flight.NewRecordReader(stream)
	if err != nil {
		return 0, err
	}
	defer rd.Release()
	for rd.Next() {
		rows += rd.Record().NumRows()
	}
	return rows, nil
}

// A worker finds the master by gossip, learns its keys, serves over TLS to those who have a ticket, drains when it
// is told to, and stops.
func TestWorkerInAFleet(t *testing.T) {
	cert, key := certificate(t)
	secured := rpc.Config{Cert: cert, Key: key, CA: cert, Token: rpc.NewSecret("secret")}
	signer := ticket.NewSigner(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
	m := &fakeMaster{keys: signer.Keys(), reports: make(chan *pb.WorkerReport, 1), drain: make(chan struct{})}
	gossip := startMaster(t, m, secured)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var store pipelinetest.Store
	up := make(chan string, 1)
	w, err := New(Config{
		Listener: l, Fleet: fleet.Config{Bind: "127.0.0.1:0", Join: []string{gossip}}, RPC: secured, Slots: 3,
		Storage: &store, Ops: transform.Builtin(), Logger: slog.New(slog.DiscardHandler), Version: "v1",
		Up: func(address, _ string) { up <- address },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	address := <-up
	if r := <-m.reports; r.GetAddress() != address || r.GetSlots() != 3 || r.GetName() != "worker-"+address {
		t.Errorf("report %v", r)
	}
	conn, err := rpc.Dial(address, secured)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	f := store.Put("mem://f.parquet", pipelinetest.Parquet(t, 1, 300, 200))
	granted := pipelinetest.Ticket(t, &store, f, 64)
	if rows, err := get(t, conn, signer, granted); err != nil || rows != 500 {
		t.Errorf("%d rows, %v; want 500", rows, err)
	}
	other := ticket.NewSigner(ed25519.NewKeyFromSeed([]byte(strings.Repeat("x", ed25519.SeedSize))))
	if _, err := get(t, conn, other, granted); status.Code(err) != codes.PermissionDenied {
		t.Errorf("with a forged ticket: %v, want PermissionDenied", err)
	}
	watch, err := healthpb.NewHealthClient(conn).Watch(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if s, err := watch.Recv(); err != nil || s.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("health %v, %v", s, err)
	}
	close(m.drain)
	for s, err := watch.Recv(); s.GetStatus() != healthpb.HealthCheckResponse_NOT_SERVING; s, err = watch.Recv() {
		if err != nil {
			t.Fatal(err)
		}
	}
	for err = nil; err == nil; { // health is told first
		_, err = get(t, conn, signer, granted)
	}
	if status.Code(err) != codes.Unavailable {
		t.Errorf("while it drains: %v, want Unavailable", err)
	}
	conn.Close()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// What strangers send to a worker is bounded, also where it is nothing that anybody reads, and trainers are served
// meanwhile.
func TestStrangersSendLittle(t *testing.T) {
	signer := ticket.NewSigner(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
	m := &fakeMaster{keys: signer.Keys(), reports: make(chan *pb.WorkerReport, 1), drain: make(chan struct{})}
	gossip := startMaster(t, m, rpc.Config{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var store pipelinetest.Store
	up := make(chan string, 1)
	w, err := New(Config{
		Listener: l, Fleet: fleet.Config{Bind: "127.0.0.1:0", Join: []string{gossip}}, Storage: &store,
		Ops:    transform.Builtin(),
		Logger: slog.New(slog.DiscardHandler), Up: func(address, _ string) { up <- address },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	address := <-up
	conn, err := rpc.Dial(address, rpc.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	f := store.Put("mem://f.parquet", pipelinetest.Parquet(t, 1, 300, 200))
	read := func() {
		t.Helper()
		if rows, err := get(t, conn, signer, pipelinetest.Ticket(t, &store, f, 64)); err != nil || rows != 500 {
			t.Errorf("%d rows, %v; want 500", rows, err)
		}
	}
	read()
	stranger, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	// and no settings
	_, err = io.WriteString(stranger, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	// of a type that nobody knows
	frame := append([]byte("\x00\x40\x00\x77\x00\x00\x00\x00\x00"), make([]byte, 0x4000)...)
	for sent := 0; sent < 48<<20 && err == nil; sent += len(frame) {
		_, err = stranger.Write(frame)
	}
	if err == nil {
		t.Error("a stranger sends as much as it likes")
	}
	read()
	conn.Close()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Who was told to drain takes no stream any more: it ends, so that it is started anew, where nothing stops it.
func TestWorkerThatDrainedEnds(t *testing.T) {
	m := &fakeMaster{reports: make(chan *pb.WorkerReport, 1), drain: make(chan struct{})}
	gossip := startMaster(t, m, rpc.Config{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w, err := New(Config{
		Listener: l, Fleet: fleet.Config{Bind: "127.0.0.1:0", Join: []string{gossip}}, Storage: &pipelinetest.Store{},
		Ops:    transform.Builtin(),
		Logger: slog.New(slog.DiscardHandler), Linger: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- w.Run(t.Context()) }()
	for range 2 { // reports go on while nobody gives the order
		select {
		case <-m.reports:
		case err := <-ended:
			t.Fatalf("it ended without an order: %v", err)
		}
	}
	close(m.drain)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// lines is a log's lines.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	select {
	case l <- string(p):
	default:
	}
	return len(p), nil
}

// A worker that the masters refuse says so, once, and what to look at.
func TestWorkerThatIsRefusedSaysSo(t *testing.T) {
	m := &fakeMaster{reports: make(chan *pb.WorkerReport, 1), drain: make(chan struct{})}
	gossip := startMaster(t, m, rpc.Config{Token: rpc.NewSecret("which the worker lacks")})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	log := make(lines, 100)
	w, err := New(Config{
		Listener: l, Fleet: fleet.Config{Bind: "127.0.0.1:0", Join: []string{gossip}}, Storage: &pipelinetest.Store{},
		Ops:    transform.Builtin(),
		Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	for line := ""; !strings.Contains(line, "the masters refuse this worker"); line = <-log {
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Any master may come to lead, so all of them hear of a worker, whatever becomes of one.
func TestWorkerReportsToAllMasters(t *testing.T) {
	newMaster := func() *fakeMaster {
		return &fakeMaster{reports: make(chan *pb.WorkerReport, 1), drain: make(chan struct{})}
	}
	first, second, gone := newMaster(), newMaster(), newMaster()
	gossip := startMaster(t, first, rpc.Config{})
	startMaster(t, second, rpc.Config{}, gossip)
	startMaster(t, gone, rpc.Config{Token: rpc.NewSecret("which the worker lacks")}, gossip)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w, err := New(Config{
		Listener: l, Fleet: fleet.Config{Bind: "127.0.0.1:0", Join: []string{gossip}}, Storage: &pipelinetest.Store{},
		Ops:    transform.Builtin(),
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	for range 2 {
		for name, m := range map[string]*fakeMaster{"first": first, "second": second} {
			select {
			case <-m.reports:
			case <-time.After(20 * time.Second):
				t.Errorf("no report reaches the %s master", name)
			}
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestLocalSuccessor: a worker that ends leaves the list to one that has its address since.
func TestLocalSuccessor(t *testing.T) {
	var l Local
	successor := &serve.Server{}
	removeFirst := l.add("a:1", &serve.Server{})
	removeSuccessor := l.add("a:1", successor)
	if removeFirst(); l.servers["a:1"] != successor {
		t.Error("a worker that runs is not listed")
	}
	if removeSuccessor(); len(l.servers) != 0 {
		t.Error("a worker that has ended is listed")
	}
}

// TestRunEndsAtOnce stops a worker before it has begun, and one that waits for its Python host.
func TestRunEndsAtOnce(t *testing.T) {
	awaits := python.Environment{Socket: filepath.Join(t.TempDir(), "none.sock"), Modules: []string{"mypkg"}}
	for _, functions := range []*python.Config{
		nil, {Environments: map[string]python.Environment{python.Default: awaits}},
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		w, err := New(Config{
			Listener: l, Fleet: fleet.Config{Bind: "127.0.0.1:0"}, Storage: &pipelinetest.Store{},
			Ops: transform.Builtin(), Logger: slog.New(slog.DiscardHandler), Python: functions,
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := w.Run(ctx); err != nil {
			t.Errorf("with %+v: %v", functions, err)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	good := Config{
		Listener: l, Storage: &pipelinetest.Store{}, Ops: transform.Builtin(),
		Logger: slog.New(slog.DiscardHandler),
	}
	for says, spoil := range map[string]func(*Config){
		"Storage": func(c *Config) { c.Storage = nil }, "Listener": func(c *Config) { c.Listener = nil },
		"-1 slots": func(c *Config) { c.Slots = -1 }, "-1 bytes of memory": func(c *Config) { c.Memory = -1 },
		"at most -2": func(c *Config) { c.MaxMemory = -2 }, "/nowhere": func(c *Config) { c.RPC.Cert = "/nowhere" },
	} {
		cfg := good
		spoil(&cfg)
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want one of %s", err, says)
		}
	}
}
