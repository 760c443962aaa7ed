package master_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/master"
	"github.com/penstock-ml/penstock/master/plan"
	"github.com/penstock-ml/penstock/master/store"
	"github.com/penstock-ml/penstock/master/store/storetest"
)

// A session that this release cannot run is told apart from one that does not exist, does not keep others from
// running, and can be deleted.
func TestADamagedSession(t *testing.T) {
	e := etcd(t, "")
	st, err := store.Open(t.Context(), store.Config{Endpoints: e.Endpoints()})
	check(t, err)
	lead, err := st.Campaign(t.Context(), "elsewhere")
	check(t, err)
	_, err = st.Create(t.Context(), lead, &pb.SessionMeta{
		Session: &pb.Session{Id: "future", WorldSize: 1}, PlannerVersion: plan.Version + 1,
	}, nil)
	check(t, err)
	check(t, lead.Resign(t.Context()))
	check(t, st.Close())

	m := start(t, settings{endpoints: e.Endpoints()})
	dir := dataset(t, 1)
	openSession(t, m, "run", newSpec(dir), 1)
	_, err = m.Open(t.Context(), &pb.OpenRequest{Session: "future", Spec: newSpec(dir)})
	if status.Code(err) != codes.FailedPrecondition ||
		!strings.Contains(err.Error(), fmt.Sprintf("version %d of the planner", plan.Version+1)) {
		t.Errorf("open: %v", err)
	}
	list, err := m.ListSessions(t.Context(), &pb.ListSessionsRequest{})
	check(t, err)
	if s := list.GetSessions(); len(s) != 2 || s[0].GetState() != pb.SessionState_FAILED ||
		!strings.Contains(s[0].GetFailure(), "planner") {
		t.Errorf("list: %v", s)
	}
	_, err = m.DeleteSession(t.Context(), &pb.DeleteSessionRequest{Session: "future"})
	check(t, err)
	openSession(t, m, "future", newSpec(dir), 1)
}

// An etcd that has too much to do refuses a request: that is no damage of the session that was to be read.
func TestARefusalIsNoDamage(t *testing.T) {
	e := etcd(t, "127.0.0.1:0")
	proxy, err := storetest.NewProxy(t.Context(), e.Endpoints()[0])
	check(t, err)
	t.Cleanup(func() { check(t, proxy.Close()) })
	first := start(t, settings{endpoints: e.Endpoints()})
	openSession(t, first, "run", newSpec(dataset(t, 1)), 1)
	second := start(t, settings{endpoints: []string{proxy.Endpoint}})
	var refused atomic.Bool
	proxy.OnTxn(func(forward func() error) error { // the first is that of a load
		if refused.CompareAndSwap(false, true) {
			return status.Error(codes.ResourceExhausted, "etcdserver: too many requests")
		}
		return forward()
	})
	first.stop()
	eventually(t, "the second master has the session", func() bool {
		_, err := second.GetSession(t.Context(), &pb.GetSessionRequest{Session: "run"})
		if err != nil && status.Code(err) != codes.Unavailable {
			t.Fatal(err)
		}
		return err == nil && refused.Load()
	})
}

// scrambled says of a file what is no text.
type scrambled struct{ storage.Storage }

func (s scrambled) ReadAt(ctx context.Context, profile string, file *pb.File, buf []byte, offset int64) error {
	if strings.Contains(file.GetUri(), "day=1") {
		return errors.New("column \xff is damaged")
	}
	return s.Storage.ReadAt(ctx, profile, file, buf, offset)
}

func TestASessionFailsWhateverTheFileSays(t *testing.T) {
	disk, err := storage.New(storage.Config{})
	check(t, err)
	m := start(t, settings{endpoints: etcd(t, "").Endpoints(), Config: master.Config{Storage: scrambled{disk}}})
	s := newSpec(dataset(t, 2))
	s.Shuffle = false
	openSession(t, m, "run", s, 1)
	if got := failure(t, m, "run"); !strings.Contains(got, "column \uFFFD is damaged; mend the file") {
		t.Errorf("the session fails with %q", got)
	}
}

// failure waits until a session fails, whether or not a trainer is there, and says why.
func failure(t *testing.T, m *node, id string) (why string) {
	t.Helper()
	eventually(t, "the session fails", func() bool {
		s, err := m.GetSession(t.Context(), &pb.GetSessionRequest{Session: id})
		check(t, err)
		why = s.GetFailure()
		return why != ""
	})
	return why
}

// flaky fails reads of footers for a while, as storage that is away does.
type flaky struct {
	storage.Storage
	left atomic.Int32
}

func (f *flaky) ReadAt(ctx context.Context, profile string, file *pb.File, buf []byte, offset int64) error {
	if strings.Contains(file.GetUri(), "day=1") && f.left.Add(-1) >= 0 {
		return context.DeadlineExceeded
	}
	return f.Storage.ReadAt(ctx, profile, file, buf, offset)
}

func TestStorageThatIsAwayIsWaitedFor(t *testing.T) {
	disk, err := storage.New(storage.Config{})
	check(t, err)
	f := &flaky{Storage: disk}
	f.left.Store(1)
	m := start(t, settings{endpoints: etcd(t, "").Endpoints(), Config: master.Config{Storage: f}})
	s := newSpec(dataset(t, 3))
	s.Shuffle = false
	openSession(t, m, "run", s, 1)
	r := newTrainer(t, m, "run", 0, 1).mustJoin("a")
	r.work(r.finished)
	once(t, 3, 1, r)
	if f.left.Load() >= 0 {
		t.Error("the storage was never away")
	}
}
