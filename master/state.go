package master

import (
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/master/session"
)

// idleAfter is for how long the trainers of a session must have asked for nothing until it is idle. Most evaluations,
// checkpoints and compilations of a model take less.
const idleAfter = time.Minute

// facts are what the state of a session follows from.
type facts struct {
	failed, finished bool
	joined           bool      // a trainer has, in this generation
	present          bool      // a trainer is: it has not left, and its lease runs
	asked            time.Time // when a trainer last joined, took rows or waited for some
}

// state is the one definition of the states of sessions. All that shows states shows this one.
func (f facts) state(now time.Time) pb.SessionState {
	switch {
	case f.failed:
		return pb.SessionState_FAILED
	case f.finished:
		return pb.SessionState_FINISHED
	case !f.joined:
		return pb.SessionState_WAITING
	case !f.present:
		return pb.SessionState_ABANDONED
	case now.Sub(f.asked) >= idleAfter:
		return pb.SessionState_IDLE
	}
	return pb.SessionState_RUNNING
}

// isOver tells the states in which nothing is read any more, unless the session is restored.
func isOver(s pb.SessionState) bool {
	return s == pb.SessionState_FINISHED || s == pb.SessionState_FAILED
}

// standing is the state of a session, and since when.
type standing struct {
	state pb.SessionState
	since time.Time
}

// stand is the session's standing at a time, which other goroutines may read from then on.
func (r *runner) stand(now time.Time) standing {
	f := facts{
		failed: r.state.Failure() != "", finished: r.state.Finished(),
		joined: r.state.Joined(), present: len(r.state.Present()) > 0, asked: r.asked,
	}
	last, next := r.standing.Load(), standing{f.state(now), now}
	switch {
	case last != nil && last.state == next.state:
		return *last
	case next.state == pb.SessionState_IDLE:
		next.since = r.asked
	case last == nil && next.state != pb.SessionState_RUNNING: // another master led when it began
		next.since = r.silence.recorded
	}
	r.standing.Store(&next)
	return next
}

// asks reports whether a trainer took rows or waited for some between two reports.
func asks(before, after session.Counters) bool {
	return before.Batches != after.Batches || before.Rows != after.Rows || before.StallNS != after.StallNS
}
