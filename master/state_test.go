package master

import (
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/api/ticket"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/master/session"
	"github.com/penstock-ml/penstock/master/store"
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

// TestCloses holds that a session that finished is closed when its trainers have left, and one that failed when alerts
// have seen it.
func TestCloses(t *testing.T) {
	const after, long = time.Minute, time.Minute + 1
	for _, c := range []struct {
		failed, left bool
		silent       time.Duration
		want         bool
	}{
		{false, true, 0, true},
		{false, false, after, false},
		{false, false, long, true},
		{true, true, after, false},
		{true, true, long, true},
		{true, false, long, true},
	} {
		if closes(c.failed, c.left, c.silent, after) != c.want {
			t.Errorf("%+v", c)
		}
	}
}

// TestCloseAfter holds that no session is closed within two leases, in which its trainers may yet come back.
func TestCloseAfter(t *testing.T) {
	for _, c := range []struct{ given, lease, want time.Duration }{
		{0, 0, 10 * time.Minute},
		{0, time.Hour, 2 * time.Hour},
		{time.Nanosecond, time.Second, 2 * time.Second},
		{time.Minute, time.Second, time.Minute},
	} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		m, err := New(Config{
			Listener: listener, Store: &store.Store{}, Storage: struct{ storage.Storage }{},
			Ops:    struct{ spec.Catalog }{},
			Signer: &ticket.Signer{}, Logger: slog.New(slog.DiscardHandler), Lease: c.lease, CloseAfter: c.given,
		})
		if err = errors.Join(err, listener.Close()); err != nil {
			t.Fatal(err)
		}
		if m.cfg.CloseAfter != c.want {
			t.Errorf("%+v: %v", c, m.cfg.CloseAfter)
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
