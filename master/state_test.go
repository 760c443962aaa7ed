package master

import (
	"testing"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/master/session"
)

func TestStates(t *testing.T) {
	now := time.Unix(1000, 0)
	reads := facts{joined: true, present: true, asked: now.Add(-idleAfter + 1)}
	for _, c := range []struct {
		change func(*facts)
		want   pb.SessionState
	}{
		{func(*facts) {}, pb.SessionState_RUNNING},
		{func(f *facts) { *f = facts{} }, pb.SessionState_WAITING},
		{func(f *facts) { f.asked = now.Add(-idleAfter) }, pb.SessionState_IDLE},
		{func(f *facts) { f.present = false }, pb.SessionState_ABANDONED},
		{func(f *facts) { f.present, f.finished = false, true }, pb.SessionState_FINISHED},
		{func(f *facts) { f.finished = true }, pb.SessionState_FINISHED},
		{func(f *facts) { f.failed, f.finished = true, true }, pb.SessionState_FAILED},
		{func(f *facts) { *f = facts{failed: true} }, pb.SessionState_FAILED},
	} {
		f := reads
		if c.change(&f); f.state(now) != c.want {
			t.Errorf("%+v is %v, want %v", f, f.state(now), c.want)
		}
	}
}

// TestCloses holds that a session that finished is closed when its trainers have left, and one that failed when alerts have seen it.
func TestCloses(t *testing.T) {
	const short, long, lease = closeAfter, closeAfter + 1, time.Minute
	for _, c := range []struct {
		failed, left  bool
		silent, lease time.Duration
		want          bool
	}{
		{false, true, 0, lease, true},
		{false, false, short, lease, false},
		{false, false, long, lease, true},
		{false, false, long, closeAfter, false},
		{true, true, short, lease, false},
		{true, true, long, lease, true},
		{true, false, long, lease, true},
	} {
		if closes(c.failed, c.left, c.silent, c.lease) != c.want {
			t.Errorf("%+v", c)
		}
	}
}

// Trainers ask for something when they take rows, or a batch of padding, or wait for rows.
func TestAsks(t *testing.T) {
	before := session.Counters{Rows: 5, Batches: 1, StallNS: 9, ComputeNS: 7}
	for after, want := range map[session.Counters]bool{
		before: false,
		{Rows: 5, Batches: 1, StallNS: 9, ComputeNS: 99, Failovers: 1}: false,
		{Rows: 6, Batches: 1, StallNS: 9}:                              true,
		{Rows: 5, Batches: 2, StallNS: 9}:                              true,
		{Rows: 5, Batches: 1, StallNS: 10}:                             true,
		{}:                                                             true, // of another start
	} {
		if asks(before, after) != want {
			t.Errorf("%+v: %v", after, !want)
		}
	}
}
