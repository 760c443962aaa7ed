package observe

import (
	"fmt"
	"testing"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/fleet"
)

// loads is an observer whose workers report by a clock of its own.
type loads struct {
	*Observer
	now time.Time
}

func newLoads(names ...string) *loads {
	l := &loads{New(0.8), time.Unix(1000, 0)}
	l.join(names...)
	return l
}

func (l *loads) join(names ...string) {
	var members []fleet.Member
	for _, n := range names {
		members = append(members, fleet.Member{Name: n})
	}
	l.Follow(l.now, members)
}

// says reports a worker that decoded so many rows, a nanosecond each.
func (l *loads) says(name string, rows int64) {
	l.Worker(l.now, &pb.WorkerReport{
		Name: name, Streams: 3, Slots: 8,
		Counters: &pb.WorkerCounters{Rows: rows, DecodeNs: rows, SendNs: 7},
	})
}

// sum is how many workers reported lately, the seconds that their reports span, and how many rows their counters grew
// by in them.
func (l *loads) sum() (workers int, seconds float64, rows int64) {
	for _, w := range l.workers {
		if w.reports.fresh(l.now) {
			workers, seconds, rows = workers+1, seconds+w.reports.seconds(), rows+w.grown().rows
		}
	}
	return workers, seconds, rows
}

func (l *loads) want(t *testing.T, workers int, seconds float64, rows int64) {
	t.Helper()
	if w, s, r := l.sum(); w != workers || s != seconds || r != rows {
		t.Errorf("%d workers, %g s, %d rows; want %d, %g and %d", w, s, r, workers, seconds, rows)
	}
}

func (l *loads) pass(d time.Duration) { l.now = l.now.Add(d) }

func TestReportsAreCompared(t *testing.T) {
	l := newLoads("a", "b")
	l.want(t, 0, 0, 0)
	l.says("a", 1000) // before this master saw it
	l.want(t, 1, 0, 0)
	l.pass(2 * time.Second)
	l.says("a", 1100)
	l.says("b", 50)
	l.want(t, 2, 2, 100)
	l.pass(2 * time.Second)
	l.says("b", 80)
	l.says("b", 80) // retried
	l.want(t, 2, 4, 130)
}

// A minute at 100 rows a second, and then a minute at 10: what is long past does not count any more.
func TestReportsAreOfLately(t *testing.T) {
	l := newLoads("a")
	rows := int64(0)
	for i := range 60 {
		l.says("a", rows)
		if i >= 10 {
			if _, seconds, grown := l.sum(); seconds < 5 || seconds > 12 || float64(grown) != 100*seconds {
				t.Fatalf("after %d s: %d rows in %g s", 2*i, grown, seconds)
			}
		}
		l.pass(2 * time.Second)
		rows += 200
	}
	for range 8 {
		l.pass(2 * time.Second)
		rows += 20
		l.says("a", rows)
	}
	if _, seconds, grown := l.sum(); float64(grown) != 10*seconds {
		t.Errorf("%d rows in %g s, want 10 a second", grown, seconds)
	}
}

func TestAWorkerThatIsStartedAgain(t *testing.T) {
	l := newLoads("a")
	l.says("a", 1000)
	l.pass(2 * time.Second)
	l.says("a", 1200)
	l.pass(2 * time.Second)
	l.says("a", 30) // since its new start
	l.want(t, 1, 0, 0)
	l.pass(2 * time.Second)
	l.says("a", 90)
	l.want(t, 1, 2, 60)
}

func TestForgetsWorkers(t *testing.T) {
	l := newLoads("a", "silent")
	l.says("a", 0)
	l.says("silent", 0)
	l.says("stranger", 0)
	l.want(t, 2, 0, 0)
	for i := range 6 {
		l.pass(2 * time.Second)
		l.says("a", int64(i))
	}
	l.want(t, 1, 6, 3)
	l.says("silent", 9) // after a time that is no good for a comparison
	l.want(t, 2, 6, 3)
	l.join("silent", "b")
	l.want(t, 1, 0, 0)
	for i := range 1000 {
		l.says(fmt.Sprint("stranger ", i), 0)
	}
	if len(l.workers) != 2 {
		t.Errorf("%d workers are kept of a fleet of 2", len(l.workers))
	}
}
