package doctor

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow/flight"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/internal/rpc/rpctest"
)

// fakeMaster knows a fleet, and who leads it; "" is itself, and "-" nobody.
type fakeMaster struct {
	pb.UnimplementedMasterServer
	fleet  *pb.Fleet
	leader string
}

func (m *fakeMaster) GetFleet(context.Context, *pb.GetFleetRequest) (*pb.Fleet, error) {
	return m.fleet, nil
}

func (m *fakeMaster) GetSession(context.Context, *pb.GetSessionRequest) (*pb.Session, error) {
	switch m.leader {
	case "":
		return nil, status.Error(codes.NotFound, "no such session")
	case "-":
		return nil, status.Error(codes.Unavailable, "no master leads at the moment; try again")
	}
	st, err := status.New(codes.Unavailable, "another leads").WithDetails(&pb.NotLeader{Leader: m.leader})
	if err != nil {
		return nil, err
	}
	return nil, st.Err()
}

// serve runs a master, or without one a worker that is healthy or not, and returns its address.
func serve(t *testing.T, host string, cfg rpc.Config, m *fakeMaster, healthy bool) string {
	t.Helper()
	l, err := net.Listen("tcp", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := rpc.NewServer(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if m != nil {
		pb.RegisterMasterServer(s, m)
		m.fleet.Leader = l.Addr().String()
	} else {
		h := health.NewServer()
		if !healthy {
			h.SetServingStatus("", healthpb.HealthCheckResponse_NOT_SERVING)
		}
		healthpb.RegisterHealthServer(s, h)
		if healthy {
			flight.RegisterFlightServiceServer(s, &refuser{})
		}
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// refuser has the Flight port of a worker.
type refuser struct{ flight.BaseFlightServer }

func (*refuser) DoGet(*flight.Ticket, flight.FlightService_DoGetServer) error {
	return status.Error(codes.PermissionDenied, "the ticket is signed by nobody")
}

// want checks that a finding of a target has a state and words.
func want(t *testing.T, findings []finding, target, step string, s state, words ...string) {
	t.Helper()
	for _, f := range findings {
		if f.Target != target || f.Step != step {
			continue
		}
		for _, w := range words {
			if f.State != s || !strings.Contains(f.Seen+". Next: "+f.Next, w) {
				t.Errorf("%+v; want %s with %q", f, s, w)
			}
		}
		return
	}
	t.Errorf("%+v\nhold nothing of %s, %s", findings, target, step)
}

const here = "127.0.0.1"

func newDoctor(masters ...string) *doctor {
	return &doctor{masters: masters, timeout: 5 * time.Second, version: "v1"}
}

func TestDoctorLooksAtEachWorker(t *testing.T) {
	healthy, waiting, drains := serve(t, here, rpc.Config{}, nil, true), serve(t, here, rpc.Config{}, nil, false),
		serve(t, here, rpc.Config{}, nil, false)
	m := &fakeMaster{fleet: &pb.Fleet{Streams: 5}}
	master := serve(t, here, rpc.Config{}, m, true)
	m.fleet.Members = []*pb.FleetMember{
		{Role: "master", Name: "m", Address: master, Version: "v1"},
		{Role: "worker", Name: "worker-" + healthy, Address: healthy, Slots: 3, Version: "v2"},
		{Role: "worker", Name: "waits", Address: waiting, Slots: 4, Version: "v1"},
		{Role: "worker", Name: "drains", Address: drains, Draining: true, Version: "v1"},
		{Role: "worker", Name: "no worker", Address: master, Version: "v1"},
	}
	got := newDoctor(master).examine(t.Context())
	want(t, got, "fleet", "workers", fine, "4, with 7 slots; 5 streams are open")
	want(t, got, "fleet", "versions", warning, `"v1": drains, m, no worker and 2 more; "v2": worker-`+healthy,
		"one release")
	want(t, got, "worker "+healthy, "health", fine, "3 slots")
	want(t, got, "worker "+healthy, "flight", fine, "it serves streams")
	want(t, got, "worker drains "+drains, "flight", failure, "it is no worker", "--advertise")
	want(t, got, "worker waits "+waiting, "health", failure, "no master has answered it yet",
		"--token-file and --tls-ca")
	want(t, got, "worker drains "+drains, "health", warning, "it drains")
	want(t, got, "worker no worker "+master, "health", failure, "it is no worker", "--advertise")
	got = newDoctor(healthy).examine(t.Context())
	want(t, got, "master "+healthy, "call", failure, "it is no master", "name a master's --listen address")
}

func TestDoctorFindsTheLeader(t *testing.T) {
	fleet := func() *pb.Fleet {
		return &pb.Fleet{Members: []*pb.FleetMember{{Role: "master", Name: "m", Version: "v1"}}}
	}
	leader := serve(t, here, rpc.Config{}, &fakeMaster{fleet: fleet()}, true)
	follower := serve(t, here, rpc.Config{}, &fakeMaster{fleet: fleet(), leader: leader}, true)
	lost := serve(t, here, rpc.Config{}, &fakeMaster{fleet: fleet(), leader: "-"}, true)
	stale := serve(t, here, rpc.Config{}, &fakeMaster{fleet: fleet(), leader: follower}, true)

	got := newDoctor(follower).examine(t.Context())
	want(t, got, "master "+follower, "leader", fine, "it does not lead; "+leader+" does")
	want(t, got, "leader "+leader, "leader", fine, "it leads")
	want(t, got, "fleet", "workers", failure, "no worker")
	want(t, got, "fleet", "versions", fine, "all are v1")

	got = newDoctor(lost).examine(t.Context())
	want(t, got, "master "+lost, "leader", failure, "no master leads at the moment", "etcd")

	got = newDoctor(stale).examine(t.Context())
	want(t, got, "leader "+follower, "leader", failure, "it does not lead; "+leader+" does", "again")

	got = newDoctor(stale, leader).examine(t.Context())
	want(t, got, "fleet", "leader", failure, "different leaders", leader, follower, "--etcd")
}

func TestDoctorReadsCertificates(t *testing.T) {
	authority := rpctest.NewAuthority(t)
	cert, key := authority.Issue(t, t.TempDir())
	later, laterKey := authority.IssueUntil(t, t.TempDir(), time.Now().Add(3*time.Hour))
	port := rpc.Config{Cert: cert, Key: key}
	fleet := &fakeMaster{fleet: &pb.Fleet{}}
	look := func(address string) []finding {
		d := newDoctor(address)
		d.rpc = rpc.Config{CA: authority.CA}
		return d.examine(t.Context())
	}
	elsewhere := serve(t, "127.0.0.2", port, fleet, true)
	want(t, look(elsewhere), "master "+elsewhere, "tls", failure, "is for localhost, 127.0.0.1, ::1, not for 127.0.0.2",
		"use one of these names")
	early := serve(t, here, rpc.Config{Cert: later, Key: laterKey}, fleet, true)
	want(t, look(early), "master "+early, "tls", failure, "its certificate begins", "from now", "clock")
	asks := serve(t, here, rpc.Config{Cert: cert, Key: key, ClientCA: authority.CA}, fleet, true)
	want(t, look(asks), "master "+asks, "call", failure, "asks its callers for a certificate",
		"set --tls-cert and --tls-key")
}

func TestDoctorLooksAtAddresses(t *testing.T) {
	d := newDoctor()
	for _, x := range []struct {
		target target
		state  state
		words  string
	}{
		{target{role: "master", address: "localhost"}, failure, "HOST:PORT"},
		{target{role: "master", address: "no..such..host:7070"}, failure, "check the spelling"},
		{
			target{role: "worker", address: "no..such..host:7070", advertised: true},
			failure,
			"start it with --advertise",
		},
		{target{role: "worker", address: "127.0.0.1:7071", advertised: true}, fine, "an IP address"},
		{
			target{role: "worker", address: "127.0.0.1:7071", advertised: true, awayFrom: true},
			failure,
			"means this machine here, but it runs on another. Next: the worker says of itself that it is at " +
				"127.0.0.1:7071",
		},
		{
			target{role: "leader", address: "localhost:7070", advertised: true, awayFrom: true},
			failure,
			"start it with --advertise",
		},
		{target{role: "worker", address: "10.0.0.1:7071", advertised: true, awayFrom: true}, fine, "an IP address"},
	} {
		x.target.doctor = d
		if x.target.add(t.Context(), "name", x.target.resolve) != (x.state == fine) {
			t.Errorf("%s goes on after %+v", x.target.address, x.target.findings)
		}
		want(t, x.target.findings, x.target.label(), "name", x.state, x.words)
	}
}

// A port that speaks neither TLS nor gRPC is somebody else's.
func TestDoctorOfAStranger(t *testing.T) {
	l, err := net.Listen("tcp", here+":0")
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.Close() // without a word
		}
	})
	defer group.Wait()
	defer l.Close()
	stranger := l.Addr().String()
	for step, next := range map[string]string{
		"call": "as gossip's does: name a master's --listen",
		"tls":  "a Penstock port at all",
	} {
		d := newDoctor(stranger)
		d.rpc.TLS = step == "tls"
		got := d.examine(t.Context())
		want(t, got, "master "+stranger, step, failure, next)
		if last := got[len(got)-1]; strings.Contains(last.Seen, "rpc: ") {
			t.Errorf("%s: %s", step, last.Seen)
		}
	}
}

// A token never travels in clear text to another machine; the doctor says so before it connects with one.
func TestDoctorKeepsTheToken(t *testing.T) {
	d := newDoctor()
	d.rpc = rpc.Config{Token: rpc.NewSecret("secret")}
	x := &target{doctor: d, role: "master", address: "192.0.2.1:7070"}
	x.add(t.Context(), "tls", x.handshake)
	want(t, x.findings, "master 192.0.2.1:7070", "tls", failure, "a token is sent over TLS only",
		"set --tls-ca or --tls")
}

// TestDescribeSaysWhichCode tells callers whether their sessions may have functions.
func TestDescribeSaysWhichCode(t *testing.T) {
	for code, want := range map[string]string{
		"":         "may read anything",
		"none":     "may read anything; sessions there may have no Python functions",
		"by-value": "may read anything; sessions there may have Python functions by-value",
	} {
		if got := describe(&pb.Caller{Unlimited: true, Code: code}); !strings.HasSuffix(got, want) {
			t.Errorf("%q: %s", code, got)
		}
	}
}
