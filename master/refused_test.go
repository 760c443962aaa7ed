package master_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// refuse reports that no worker reads the first grant that the trainer holds, and returns the grant's ticket.
func (r *trainer) refuse(cause pb.RefusalCause) *pb.Ticket {
	r.t.Helper()
	eventually(r.t, "something is granted", func() bool { check(r.t, r.sync()); return len(r.grants) > 0 })
	bad := r.open(r.grants[0])
	req := r.request()
	req.Refused = []*pb.RefusedStream{
		{At: r.grants[0].GetInterval().GetFrom(), Cause: cause, Words: "worker w at h: column x: checksum"},
		{At: &pb.Position{Block: 1 << 20}, Cause: cause},
		{At: &pb.Position{Shard: 1 << 20}, Cause: cause}, // nobody's
	}
	check(r.t, r.send(req))
	return bad
}

// TestRefusedStreams: what no worker can read is left out, as the session and its next leader say; one row group more
// fails it.
func TestRefusedStreams(t *testing.T) {
	e := etcd(t, "")
	first := start(t, settings{endpoints: e.Endpoints()})
	s := newSpec(dataset(t, 3))
	s.OnError = &pb.OnError{Skip: 1}
	openSession(t, first, "run", s, 1)
	r := newTrainer(t, first, "run", 0, 1).mustJoin("a")
	bad := r.refuse(pb.RefusalCause_UNREADABLE)
	if got := r.last.GetSkipped(); len(got) != 1 || got[0].GetFile() != bad.GetFile().GetUri() ||
		got[0].GetRowGroup() != bad.GetExtents()[0].GetIndex() ||
		got[0].GetFirstRow() != bad.GetExtents()[0].GetFirstRow() ||
		got[0].GetRows() != rows || !strings.Contains(got[0].GetCause(), "column x") ||
		r.last.GetSkippedRowGroups() != 1 {
		t.Fatalf("skipped %v, want row group %v of %v", got, bad.GetExtents()[0], bad.GetFile())
	}
	for _, g := range r.grants {
		if len(position.NewSet(position.IntervalFromProto(g.GetInterval())).Intersect(
			position.SetFromProto(r.last.GetSkipped()[0].GetIntervals()))) > 0 {
			t.Errorf("%v is granted still", g.GetInterval())
		}
	}
	awaitEvent(t, first, pb.EventKind_DATA, "run", "10 rows are left out of epoch 1: extent ")
	second := start(t, settings{endpoints: e.Endpoints()})
	first.stop()
	r.master = second
	eventually(t, "the second leads", func() bool { return r.sync() == nil })
	view, err := second.GetSession(t.Context(), &pb.GetSessionRequest{Session: "run"})
	check(t, err)
	if len(view.GetSkipped()) != 1 || view.GetSkippedRowGroups() != 1 || view.GetState() != pb.SessionState_RUNNING {
		t.Errorf("the second leader shows %v", view.GetSkipped())
	}
	worse := r.refuse(pb.RefusalCause_UNREADABLE)
	if f := r.last.GetFailure(); !strings.Contains(f, worse.GetFile().GetUri()) ||
		!strings.Contains(f, "on_error lets 1 extents") || !r.last.GetBadData() {
		t.Errorf("failure %q", f)
	}
	awaitEvent(t, second, pb.EventKind_SESSION, "run", "failed: ")
	if told := eventsOf(t, second, &pb.ListEventsRequest{Session: "run"}); len(told) != 3 {
		t.Errorf("besides that it was opened, lost rows and failed, events tell: %v", told)
	}
}

// TestFilesThatWereOverwritten fail the session when their blocks are planned, and say so.
func TestFilesThatWereOverwritten(t *testing.T) {
	m := start(t, settings{endpoints: etcd(t, "").Endpoints()})
	dir := dataset(t, 8)
	s := newSpec(dir)
	s.OnError = &pb.OnError{Skip: 200}
	openSession(t, m, "run", s, 1)
	for _, path := range []string{"day=0", "day=1", "day=2", "day=3", "day=4", "day=5", "day=6", "day=7"} {
		check(t, os.WriteFile(filepath.Join(dir, path, "part.parquet"), []byte("other rows"), 0o600))
	}
	r := newTrainer(t, m, "run", 0, 1)
	if r.join("a") == nil { // else it failed before
		r.work(func() bool { return r.last.GetFailure() != "" })
	}
	view, err := m.GetSession(t.Context(), &pb.GetSessionRequest{Session: "run"})
	check(t, err)
	for _, words := range []string{"part.parquet", "has changed since it was listed", "begin a new session"} {
		if !strings.Contains(view.GetFailure(), words) || !view.GetBadData() {
			t.Errorf("failure %q of bad data %v; want %q", view.GetFailure(), view.GetBadData(), words)
		}
	}
}
