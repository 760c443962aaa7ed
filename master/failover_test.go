package master_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/internal/rpc/rpctest"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/master"
)

func TestTheNextMasterGoesOn(t *testing.T) {
	e := etcd(t, "")
	first := start(t, settings{endpoints: e.Endpoints()})
	openSession(t, first, "run", newSpec(dataset(t, 4)), 1)
	openSession(t, first, "idle", newSpec(dataset(t, 1)), 1)
	r := newTrainer(t, first, "run", 0, 1).mustJoin("a")
	eventually(t, "some was consumed", func() bool { check(t, r.sync()); return r.consume(2) == 2 })
	check(t, r.sync())
	second := start(t, settings{endpoints: e.Endpoints()})
	if leader := namedLeader(second, t); leader != first.address {
		t.Errorf("who waits names %q as the leader, want %q", leader, first.address)
	}
	first.stop()
	r.master = second
	r.work(r.finished)
	once(t, 4, 1, r)
	list, err := second.ListSessions(t.Context(), &pb.ListSessionsRequest{})
	check(t, err)
	if len(list.GetSessions()) != 2 {
		t.Errorf("the second master has %v", list)
	}
}

// namedLeader asks a master that does not lead.
func namedLeader(m *node, t *testing.T) string {
	t.Helper()
	ctx, cancel := timely(t)
	defer cancel()
	_, err := m.ListSessions(ctx, &pb.ListSessionsRequest{})
	if status.Code(err) != codes.Unavailable {
		t.Fatalf("a master that does not lead answers %v", err)
	}
	return rpc.Leader(err)
}

// A leader that is cut off from etcd loses its lease behind its back. It must not acknowledge anything from then on,
// also not when it reaches etcd again.
func TestADeposedLeaderDoesNotAcknowledge(t *testing.T) {
	e := etcd(t, "127.0.0.1:0")
	wire := rpctest.NewWire(t, strings.TrimPrefix(e.Endpoints()[0], "http://"))
	first := start(t, settings{endpoints: []string{"http://" + wire.Address}, call: time.Second, ttl: time.Second})
	openSession(t, first, "run", newSpec(dataset(t, 4)), 1)
	r := newTrainer(t, first, "run", 0, 1).mustJoin("a")
	eventually(t, "some was consumed", func() bool { check(t, r.sync()); return r.consume(2) == 2 })
	// From now on a Sync changes nothing: also such a one must not be answered without asking etcd.
	eventually(t, "all is granted", func() bool {
		check(t, r.sync())
		return r.last.GetUnchanged() &&
			r.last.GetDrained()
	})
	second := start(t, settings{endpoints: e.Endpoints()})

	wire.Cut()
	stale := r.request()
	if err := r.sync(); status.Code(err) != codes.Unavailable && status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("without etcd the leader answers %v", err)
	}
	next := newTrainer(t, second, "run", 0, 1)
	eventually(t, "the second leads", func() bool { return next.join("b") == nil })
	wire.Mend()
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if reply, err := first.Sync(ctx, stale); err == nil {
			t.Fatalf("the deposed leader acknowledges: %v", reply)
		} else if c := status.Code(err); c != codes.Unavailable && c != codes.DeadlineExceeded {
			t.Fatalf("the deposed leader says more than that it does not lead: %v", err)
		}
		if list, err := first.ListSessions(ctx, &pb.ListSessionsRequest{}); err == nil {
			t.Fatalf("the deposed leader lists %v", list)
		}
		cancel()
	}
	eventually(t, "the first one names the second", func() bool { return namedLeader(first, t) == second.address })
	next.work(next.finished)
	once(t, 4, 1, r, next)
}

// hanging does not answer reads of a file until it is mended, whatever becomes of who asked, as a file system whose
// server is away.
type hanging struct {
	storage.Storage
	mended chan struct{}
	reads  atomic.Int32 // that hang, or did
}

func (h *hanging) ReadAt(ctx context.Context, profile string, file *pb.File, buf []byte, offset int64) error {
	if strings.Contains(file.GetUri(), "day=1") {
		h.reads.Add(1)
		<-h.mended
	}
	return h.Storage.ReadAt(ctx, profile, file, buf, offset)
}

// A storage that hangs keeps nobody from leading: neither the next master when the leader is stopped, nor one that lost
// the leadership from standing again.
func TestAHangingStorage(t *testing.T) {
	e := etcd(t, "127.0.0.1:0")
	wire := rpctest.NewWire(t, strings.TrimPrefix(e.Endpoints()[0], "http://"))
	disk, err := storage.New(storage.Config{})
	check(t, err)
	h := &hanging{Storage: disk, mended: make(chan struct{})}
	cfg := master.Config{Storage: h}
	first := start(t, settings{
		endpoints: []string{"http://" + wire.Address}, call: time.Second, ttl: time.Second,
		Config: cfg,
	})
	second := start(t, settings{endpoints: e.Endpoints(), Config: cfg})
	mend := sync.OnceFunc(func() { close(h.mended) })
	t.Cleanup(mend)
	s := newSpec(dataset(t, 3))
	s.Shuffle = false
	openSession(t, first, "run", s, 1)
	a := newTrainer(t, first, "run", 0, 1).mustJoin("a")
	a.work(func() bool { return h.reads.Load() >= 1 })

	wire.Cut()
	b := newTrainer(t, second, "run", 0, 1)
	eventually(t, "the second leads", func() bool { return b.join("b") == nil })
	b.work(func() bool { return h.reads.Load() >= 2 })
	wire.Mend()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		second.stop()
	}()
	c := newTrainer(t, first, "run", 0, 1)
	eventually(t, "the first leads again", func() bool { return c.join("c") == nil })
	mend()
	<-stopped
	c.work(c.finished)
	once(t, 3, 1, a, b, c)
}

// A leader that etcd does not answer for a while says so, and goes on with the same term.
func TestAnOutageOfEtcd(t *testing.T) {
	e := etcd(t, "127.0.0.1:0")
	wire := rpctest.NewWire(t, strings.TrimPrefix(e.Endpoints()[0], "http://"))
	m := start(t, settings{
		endpoints: []string{"http://" + wire.Address}, call: 300 * time.Millisecond,
		ttl: time.Minute,
	})
	dir := dataset(t, 4)
	openSession(t, m, "run", newSpec(dir), 1)
	openSession(t, m, "doomed", newSpec(dir), 1)
	r := newTrainer(t, m, "run", 0, 1).mustJoin("a")
	eventually(t, "some was consumed", func() bool { check(t, r.sync()); return r.consume(2) == 2 })
	wire.Cut()
	for range 3 { // the first may be under way in etcd; the others meet a session that is being loaded again
		if err := r.sync(); status.Code(err) != codes.Unavailable {
			t.Errorf("during the outage a Sync gets %v", err)
		}
		_, err := m.DeleteSession(t.Context(), &pb.DeleteSessionRequest{Session: "doomed"})
		if status.Code(err) != codes.Unavailable {
			t.Errorf("during the outage a deletion gets %v", err)
		}
	}
	list, err := m.ListSessions(t.Context(), &pb.ListSessionsRequest{})
	check(t, err)
	for _, s := range list.GetSessions() {
		if s.GetState() != pb.SessionState_SESSION_STATE_UNSPECIFIED {
			t.Errorf("during the outage %s is shown as %v", s.GetId(), s.GetState())
		}
	}
	wire.Mend()
	r.work(r.finished)
	once(t, 4, 1, r)
	eventually(t, "the other one is deleted", func() bool {
		_, err := m.DeleteSession(t.Context(), &pb.DeleteSessionRequest{Session: "doomed"})
		return err == nil || status.Code(err) == codes.NotFound
	})
}
