package cluster_test

import (
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/client"
	"github.com/penstock-ml/penstock/internal/process"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/internal/rpc/rpctest"
	"github.com/penstock-ml/penstock/master/store/storetest"
)

// etcds runs an etcd until the test ends: a member on each host, or three on this one.
func etcds(t *testing.T, hosts ...string) *storetest.Cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	e, err := storetest.Start(ctx, storetest.Config{Dir: t.TempDir(), Hosts: hosts})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// fleet is a cluster with an etcd beside it.
type fleet struct {
	*cluster.Cluster
	t     *testing.T
	dir   string   // of logs
	flags []string // of masters
	first process.Announcement
}

// log is what a process of the fleet has logged so far.
func (f *fleet) log(name string) string {
	f.t.Helper()
	return text(f.t, filepath.Join(f.dir, name+".log"))
}

// startFleet runs the first master, which leads, and workers. Its etcd is reached at endpoints.
func startFleet(t *testing.T, endpoints []string, workers int, flags ...string) *fleet {
	t.Helper()
	f := &fleet{t: t, dir: t.TempDir(), flags: append(flags, "--ticket-key="+filepath.Join(t.TempDir(), "ticket.key"))}
	f.Cluster = startCluster(t, cluster.Config{
		Binary: binary, Dir: f.dir, MasterFlags: append([]string{"--etcd=" + strings.Join(endpoints, ",")}, f.flags...),
	}, workers)
	var err error
	if f.first, err = f.MasterProcess().Announced(t.Context()); err != nil {
		t.Fatal(err)
	}
	return f
}

// addMaster runs one more master.
func (f *fleet) addMaster(name string, endpoints []string, flags ...string) (*process.Process, process.Announcement) {
	f.t.Helper()
	join := []string{f.first.Gossip} // whose master may be dead
	for _, w := range f.Workers() {
		a, err := w.Announced(f.t.Context())
		if err != nil {
			f.t.Fatal(err)
		}
		join = append(join, a.Gossip)
	}
	args := append([]string{
		"master", "--listen=127.0.0.1:0", "--gossip=127.0.0.1:0", "--join=" + strings.Join(join, ","),
		"--etcd=" + strings.Join(endpoints, ","),
	}, append(slices.Clone(f.flags), flags...)...)
	p, err := f.Run(f.t.Context(), name, args...)
	if err != nil {
		f.t.Fatal(err)
	}
	a, err := p.Announced(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	return p, a
}

func (f *fleet) dial(address string) pb.MasterClient {
	f.t.Helper()
	conn, err := rpc.Dial(address, f.RPC())
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = conn.Close() })
	return pb.NewMasterClient(conn)
}

// leads waits until a master leads, and returns how long that took.
func (f *fleet) leads(m pb.MasterClient) time.Duration {
	f.t.Helper()
	start := time.Now()
	for {
		ctx, cancel := context.WithTimeout(f.t.Context(), time.Second)
		_, err := m.ListSessions(ctx, &pb.ListSessionsRequest{})
		cancel()
		if err == nil {
			return time.Since(start)
		}
		if time.Since(start) > time.Minute {
			f.t.Fatalf("no master leads: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// join opens the session as a trainer whose log goes to the writer.
func (f *fleet) join(s *pb.Spec, rank, world uint32, log io.Writer, masters ...string) *client.Session {
	f.t.Helper()
	job, err := client.Open(context.WithoutCancel(f.t.Context()), client.Config{
		Masters: masters, Session: "job", Spec: s, Rank: rank, WorldSize: world,
		Logger:   slog.New(slog.NewTextHandler(log, nil)),
		Dial:     func(address string) (*grpc.ClientConn, error) { return rpc.Dial(address, f.RPC()) },
		DialLink: rpc.LinkDialer(f.RPC()),
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return job
}

// holder is a rank that holds shards, reads nothing, and Syncs only when it is told to.
type holder struct {
	joined *pb.JoinReply
	sync   *pb.SyncRequest
}

// hold joins as a rank and Syncs until its Sync changes nothing any more.
func (f *fleet) hold(m pb.MasterClient, rank, world uint32) *holder {
	f.t.Helper()
	h := &holder{}
	var err error
	if h.joined, err = m.Join(f.t.Context(), &pb.JoinRequest{
		Session: "job", Rank: rank, WorldSize: world,
		Nonce: "holder",
	}); err != nil {
		f.t.Fatal(err)
	}
	h.sync = &pb.SyncRequest{
		Session: "job", Rank: rank, Generation: h.joined.GetGeneration(), Incarnation: h.joined.GetIncarnation(),
		Nonce: "holder", WantsMore: true,
	}
	for {
		reply, err := m.Sync(f.t.Context(), h.sync)
		if err != nil {
			f.t.Fatal(err)
		}
		if reply.GetUnchanged() {
			return h
		}
		h.sync.Revision, h.sync.BaseVersion, h.sync.WantsMore = reply.GetRevision(), reply.GetBaseVersion(),
			len(reply.GetGrants()) == 0
	}
}

// TestTheLeaderGoes kills the leading master, stops it, and cuts it off from etcd. Each time another one leads within
// seconds, the trainer finds it by itself and reads on meanwhile, and the old one, when it is back, acknowledges
// nothing.
func TestTheLeaderGoes(t *testing.T) {
	t.Parallel()
	const rows, epochs = 40_000, 3
	e := etcds(t)
	tests := []struct {
		name       string
		harm, heal func(f *fleet, w []*rpctest.Wire) error
	}{
		{"killed", func(f *fleet, _ []*rpctest.Wire) error { return f.KillMaster() }, nil},
		{
			"stopped",
			func(f *fleet, _ []*rpctest.Wire) error { return f.MasterProcess().Signal(syscall.SIGSTOP) },
			func(f *fleet, _ []*rpctest.Wire) error { return f.MasterProcess().Signal(syscall.SIGCONT) },
		},
		{
			"cut off from etcd",
			func(_ *fleet, wires []*rpctest.Wire) error { each(wires, (*rpctest.Wire).Cut); return nil },
			func(_ *fleet, wires []*rpctest.Wire) error { each(wires, (*rpctest.Wire).Mend); return nil },
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var wires []*rpctest.Wire
			var wired []string
			for _, at := range e.Endpoints() {
				w := rpctest.NewWire(t, strings.TrimPrefix(at, "http://"))
				wires, wired = append(wires, w), append(wired, "http://"+w.Address)
			}
			prefix := "--etcd-prefix=" + test.name
			f := startFleet(t, wired, 2, prefix)
			_, second := f.addMaster("another", e.Endpoints())
			first, next := f.dial(f.first.Address), f.dial(second.Address)
			s := provenanceSpec(t, rows, epochs)
			job := f.join(s, 0, 2, t.Output(), f.first.Address, second.Address)
			seen := map[row]int{}
			for range 5 {
				take(t, job, seen)
			}
			idle := f.hold(first, 1, 2)

			if err := test.harm(f, wires); err != nil {
				t.Fatal(err)
			}
			t.Logf("without a leader for %v", f.leads(next))
			take(t, job, seen)
			if test.heal != nil {
				f.refuses(first, idle.sync, func() {
					if err := test.heal(f, wires); err != nil {
						t.Fatal(err)
					}
				})
			}
			idle.sync.Leave = true
			if _, err := next.Sync(t.Context(), idle.sync); err != nil {
				t.Fatal(err)
			}
			for take(t, job, seen) { //nolint:revive // to the end
			}
			closeJob(t, job)
			exactlyOnce(t, seen, rows*epochs)
		})
	}
}

func each[T any](all []T, f func(T)) {
	for _, x := range all {
		f(x)
	}
}

// refuses sends what a leader has acknowledged before, and that changes nothing, to that leader, which does not lead
// any more: some of it before it comes to its senses, so that it finds it when it does. None may be acknowledged.
func (f *fleet) refuses(ex pb.MasterClient, req *pb.SyncRequest, heal func()) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 30*time.Second)
	defer cancel()
	var calls sync.WaitGroup
	call := func() {
		reply, err := ex.Sync(ctx, req)
		if c := status.Code(err); c != codes.Unavailable && c != codes.DeadlineExceeded {
			f.t.Errorf("the deposed leader answers %v, %v", reply, err)
		}
	}
	for range 20 {
		calls.Go(call)
	}
	heal()
	for range 20 {
		call()
	}
	calls.Wait()
}

func exactlyOnce(t *testing.T, seen map[row]int, want int) {
	t.Helper()
	if len(seen) != want {
		t.Errorf("%d different rows, want %d", len(seen), want)
	}
	for r, n := range seen {
		if n != 1 {
			t.Fatalf("%+v was handed over %d times", r, n)
		}
	}
}
