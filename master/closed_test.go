package master_test

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/master"
)

// leaveAll has ranks leave, and waits until their session is closed.
func leaveAll(t *testing.T, m *node, session string, ranks ...*trainer) {
	t.Helper()
	for _, r := range ranks {
		req := r.request()
		req.Leave = true
		check(t, r.send(req))
	}
	eventually(t, "the session is closed", func() bool { return getSession(t, m, session).GetClosedUnix() > 0 })
}

func getSession(t *testing.T, m *node, id string) *pb.Session {
	t.Helper()
	s, err := m.GetSession(t.Context(), &pb.GetSessionRequest{Session: id})
	check(t, err)
	return s
}

// noon reads a session of lanes to its end, with a checkpoint after its ninth step, and returns the batches after
// that.
func noon(t *testing.T, m *node, dir string) []string {
	t.Helper()
	openSession(t, m, "run", laneSpec(dir, pb.LastBatch_UNEVEN), 1)
	ranks := joinAll(t, m, "run", 1)
	train(t, ranks, 5)
	check(t, ranks[0].sync())
	take(t, m)
	train(t, ranks, 4)
	check(t, ranks[0].sync())
	ranks[0].part = &pb.CheckpointPart{Id: ranks[0].last.GetCheckpoint().GetId(), State: ranks[0].state()}
	check(t, ranks[0].sync())
	ranks[0].part = nil
	rest := train(t, ranks, 0x7fffffff)
	leaveAll(t, m, "run", ranks[0].trainer)
	return rest
}

// TestAClosedSession holds that a session that all have left is kept as a summary, that whoever leads next answers from
// it, and that it can be put back to its checkpoint.
func TestAClosedSession(t *testing.T) {
	e := etcd(t, "")
	first := start(t, settings{endpoints: e.Endpoints()})
	dir := dataset(t, 7)
	want := noon(t, first, dir)
	before := getSession(t, first, "run")
	first.stop()
	m := start(t, settings{endpoints: e.Endpoints()})

	s := getSession(t, m, "run")
	ranksKept := s.GetProgress().GetRanks()
	if s.GetState() != pb.SessionState_FINISHED || s.GetFiles() != 7 || s.GetGeneration() != before.GetGeneration() ||
		s.GetSpec() == nil ||
		len(ranksKept) != 1 || ranksKept[0].GetCounters().GetBatches() != 28 {
		t.Errorf("the session is %v; want it finished, with the 28 batches of its rank", s)
	}
	list, err := m.ListSessions(t.Context(), &pb.ListSessionsRequest{})
	check(t, err)
	if all := list.GetSessions(); len(all) != 1 || all[0].GetId() != "run" ||
		all[0].GetClosedUnix() != s.GetClosedUnix() || list.GetMoreClosed() {
		t.Errorf("listed: %v", list)
	}
	opened := openSession(t, m, "run", laneSpec(dir, pb.LastBatch_UNEVEN), 1)
	if opened.GetClosedUnix() == 0 {
		t.Error("opening it again begins another one")
	}
	if _, err := m.Open(t.Context(), &pb.OpenRequest{
		Session: "run", Spec: newSpec(dir),
		WorldSize: 1,
	}); status.Code(err) != codes.AlreadyExists {
		t.Errorf("opened with another spec: %v", err)
	}
	seen, err := m.Observe(t.Context(), &pb.ObserveRequest{Session: "run"})
	if err != nil || !strings.Contains(seen.GetVerdict(), "has finished") {
		t.Errorf("observed: %v, %v", seen, err)
	}
	late := newTrainer(t, m, "run", 0, 1).mustJoin("late")
	check(t, late.sync())
	if !late.finished() || late.joined.GetClosedEpochs() != 2 || len(late.grants) > 0 {
		t.Errorf("who comes late is told %v, then %v", late.joined, late.last)
	}
	leaveAll(t, m, "run", late)
	points, err := m.ListCheckpoints(t.Context(), &pb.ListCheckpointsRequest{Session: "run"})
	if err != nil || len(points.GetCheckpoints()) != 1 || points.GetCheckpoints()[0].GetName() != "noon" {
		t.Errorf("checkpoints: %v, %v", points, err)
	}
	_, err = m.CreateCheckpoint(t.Context(), &pb.CreateCheckpointRequest{Session: "run", Name: "more", Nonce: "x"})
	if status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a checkpoint is taken of it: %v", err)
	}

	check(t, restore(t, m, "noon"))
	ranks := joinAll(t, m, "run", 1)
	if rest := train(t, ranks, 0x7fffffff); !slices.Equal(rest, want) {
		t.Error("after the checkpoint, other batches come")
	}
	leaveAll(t, m, "run", ranks[0].trainer)
	_, err = m.DeleteCheckpoint(t.Context(), &pb.DeleteCheckpointRequest{Session: "run", Name: "noon"})
	check(t, err)
	if err := restore(t, m, "noon"); status.Code(err) != codes.NotFound {
		t.Errorf("restored to a checkpoint that was deleted: %v", err)
	}
	_, err = m.DeleteSession(t.Context(), &pb.DeleteSessionRequest{Session: "run"})
	check(t, err)
	if _, err := m.GetSession(t.Context(), &pb.GetSessionRequest{Session: "run"}); status.Code(err) != codes.NotFound {
		t.Errorf("it was deleted, and is there: %v", err)
	}
}

func restore(t *testing.T, m *node, checkpoint string) error {
	t.Helper()
	ctx, cancel := timely(t)
	defer cancel()
	_, err := m.RestoreSession(ctx, &pb.RestoreSessionRequest{Session: "run", Name: checkpoint, Nonce: rand.Text()})
	return err
}

// TestAClosedSessionOfAnotherDataset holds that a closed session whose files have changed is not restored, and that the
// error names them.
func TestAClosedSessionOfAnotherDataset(t *testing.T) {
	m := single(t)
	dir := dataset(t, 7)
	noon(t, m, dir)
	more := filepath.Join(dir, "zz-new.parquet")
	writeFile(t, more)
	err := restore(t, m, "noon")
	if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "zz-new.parquet") {
		t.Errorf("restored, though there is a new file: %v", err)
	}
	check(t, os.Remove(more))
	check(t, restore(t, m, "noon"))
	if s := getSession(t, m, "run"); s.GetState() != pb.SessionState_WAITING || s.GetGeneration() < 3 {
		t.Errorf("restored: %v", s)
	}
}

// TestAJobRestoresAClosedSession holds that ranks that bring their own states open a closed session again, together.
func TestAJobRestoresAClosedSession(t *testing.T) {
	m := single(t)
	openSession(t, m, "run", newSpec(dataset(t, 3)), 2)
	var ranks []*trainer
	var states []*pb.State
	for i := range uint32(2) {
		r := newTrainer(t, m, "run", i, 2).mustJoin(fmt.Sprint("start ", i))
		ranks = append(ranks, r)
		check(t, r.sync())
	}
	for _, r := range ranks {
		states = append(states, r.state())
		states[r.rank].Members = []uint32{0, 1}
	}
	for _, r := range ranks {
		r.work(func() bool {
			ranks[1-r.rank].consume(1 << 20)
			check(t, ranks[1-r.rank].sync())
			return r.finished()
		})
	}
	leaveAll(t, m, "run", ranks...)
	eventually(t, "both are restored", func() bool {
		done := true
		for i, r := range ranks {
			check(t, r.restore(fmt.Sprint("again ", i), true, states[i]))
			done = done && r.joined.GetKind() == pb.JoinKind_RESTORED
		}
		return done
	})
	if s := getSession(t, m, "run"); s.GetState() != pb.SessionState_RUNNING || s.GetClosedUnix() != 0 {
		t.Errorf("the session is %v", s)
	}
}

// TestClosedSessionsExpire holds that a closed session goes with its checkpoints when it has been kept for long enough.
func TestClosedSessionsExpire(t *testing.T) {
	e := etcd(t, "")
	first := start(t, settings{endpoints: e.Endpoints()})
	dir := dataset(t, 7)
	noon(t, first, dir)
	first.stop()
	m := start(t, settings{endpoints: e.Endpoints(), Config: master.Config{
		Lease:      200 * time.Millisecond,
		SessionTTL: 400 * time.Millisecond,
	}})
	eventually(t, "the session has gone", func() bool {
		_, err := m.GetSession(t.Context(), &pb.GetSessionRequest{Session: "run"})
		return status.Code(err) == codes.NotFound
	})
	m.stop()
	m = start(t, settings{endpoints: e.Endpoints()})
	openSession(t, m, "run", laneSpec(dir, pb.LastBatch_UNEVEN), 1)
	points, err := m.ListCheckpoints(t.Context(), &pb.ListCheckpointsRequest{Session: "run"})
	if err != nil || len(points.GetCheckpoints()) != 0 {
		t.Errorf("a new session has checkpoints of the old one: %v, %v", points, err)
	}
}

// asleep waits until a session sleeps, and returns what it looks like.
func asleep(t *testing.T, m *node, id string) *pb.Session {
	t.Helper()
	eventually(t, "it sleeps", func() bool { return m.master.Loaded() == 0 })
	s := getSession(t, m, id)
	if s.GetState() != pb.SessionState_ABANDONED || s.GetClosedUnix() != 0 || m.master.Loaded() > 0 {
		t.Errorf("it is %v, closed at %d, and %d are loaded", s.GetState(), s.GetClosedUnix(), m.master.Loaded())
	}
	return s
}

// TestASleepingSession holds that a session that all have left within an epoch is loaded by nobody until somebody comes
// back, and that it goes on then where it was, whoever leads.
func TestASleepingSession(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	e := etcd(t, "")
	cfg := master.Config{Lease: 200 * time.Millisecond, CloseAfter: time.Nanosecond}
	m, at := startHTTP(t, e.Endpoints(), cfg)
	_, err := m.Open(t.Context(), &pb.OpenRequest{
		Session: "run", Spec: newSpec(dataset(t, 3)), WorldSize: 1,
		Defaults: 1,
	})
	check(t, err)
	first := newTrainer(t, m, "run", 0, 1).mustJoin("a")
	first.untilGranted()
	first.consume(1)
	check(t, first.sync()) // then it is killed
	if s := asleep(t, m, "run"); s.GetGeneration() != 1 ||
		s.GetProgress().GetRowsDelivered() != int64(first.counters.Rows) {
		t.Errorf("asleep, it looks like %v", s)
	}
	if n := series(t, at); n > 0 {
		t.Errorf("it has %d series", n)
	}
	if _, err := m.ListCheckpoints(t.Context(), &pb.ListCheckpointsRequest{Session: "run"}); err != nil {
		t.Errorf("its checkpoints: %v", err)
	}
	asleep(t, m, "run")
	m.stop()

	m = start(t, settings{endpoints: e.Endpoints(), Config: cfg})
	if n := m.master.Loaded(); n > 0 {
		t.Errorf("the next leader loads %d sessions", n)
	}
	reply, err := m.ListSessions(t.Context(), &pb.ListSessionsRequest{})
	check(t, err)
	if list := reply.GetSessions(); len(list) != 1 || list[0].GetState() != pb.SessionState_ABANDONED {
		t.Errorf("listed: %v", list)
	}
	second := newTrainer(t, m, "run", 0, 1).mustJoin("b")
	if k := second.joined.GetKind(); k != pb.JoinKind_REJOIN {
		t.Errorf("who comes back joins as %v", k)
	}
	second.work(func() bool { return second.last.GetClosedEpochs() > 0 })
	once(t, 3, 1, first, second)
	asleep(t, m, "run")
	_, err = m.DeleteSession(t.Context(), &pb.DeleteSessionRequest{Session: "run"})
	check(t, err)
	if _, err := m.GetSession(t.Context(), &pb.GetSessionRequest{Session: "run"}); status.Code(err) != codes.NotFound {
		t.Errorf("it was deleted, and is there: %v", err)
	}
}

// TestASleepingSessionInOrder holds that a session of lanes gives the same batches, whether it has slept or not.
func TestASleepingSessionInOrder(t *testing.T) {
	m := start(t, settings{endpoints: etcd(t, "").Endpoints(), Config: master.Config{
		Lease:      200 * time.Millisecond,
		CloseAfter: time.Nanosecond,
	}})
	s := laneSpec(dataset(t, 7), pb.LastBatch_UNEVEN)
	openSession(t, m, "whole", s, 1)
	ranks := joinAll(t, m, "whole", 1)
	want := train(t, ranks, 0x7fffffff)
	leaveAll(t, m, "whole", ranks[0].trainer)
	openSession(t, m, "run", s, 1)
	var got []string
	for _, steps := range []int{3, 4, 0x7fffffff} {
		r := newLaneTrainer(t, m, "run", 0, 1)
		r.mustJoin(fmt.Sprint("start ", steps))
		ranks = []*laneTrainer{r.begin()}
		got = append(got, train(t, ranks, steps)...)
		check(t, ranks[0].sync())
		if !ranks[0].finished() {
			asleep(t, m, "run")
		}
	}
	if !slices.Equal(got, want) {
		t.Error("other batches come")
	}
}

// series counts the metrics of sessions.
func series(t *testing.T, at string) (n int) {
	t.Helper()
	_, body := httpGet(t, at+"/metrics", "")
	for line := range strings.Lines(body) {
		if strings.Contains(line, `session="`) {
			n++
		}
	}
	return n
}

// TestSeriesOfSessionsGo holds that sessions that are over leave no metrics.
func TestSeriesOfSessionsGo(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	m, at := startHTTP(t, etcd(t, "").Endpoints(), master.Config{})
	dir := dataset(t, 1)
	var ranks []*trainer
	for i := range 5 {
		id := fmt.Sprint("run-", i)
		openSession(t, m, id, newSpec(dir), 1)
		ranks = append(ranks, newTrainer(t, m, id, 0, 1).mustJoin("start"))
	}
	eventually(t, "each has series", func() bool { return series(t, at) >= 5*len(ranks) })
	for _, r := range ranks {
		r.work(r.finished)
	}
	eventually(t, "they have gone, though no trainer has left", func() bool { return series(t, at) == 0 })
	for _, r := range ranks {
		leaveAll(t, m, r.session, r)
	}
	if n := series(t, at); n > 0 {
		t.Errorf("closed sessions have %d series", n)
	}
}
