package observe

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/fleet"
)

// loads is a load whose workers report by a clock of its own.
type loads struct {
	*Observer
	now time.Time
}

func newLoads(names ...string) *loads {
	l := &loads{New(Utilisation), time.Unix(1000, 0)}
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

// says reports a worker with 3 streams of 8 that decoded so many rows, a nanosecond each.
func (l *loads) says(name string, rows int64) {
	l.Worker(l.now, &pb.WorkerReport{Name: name, Streams: 3, Slots: 8, Counters: &pb.WorkerCounters{Rows: rows, DecodeNs: rows, SendNs: 7}})
}

func (l *loads) want(t *testing.T, workers uint32, seconds float64, rows int64) {
	t.Helper()
	l.load = nil // each is asked for anew
	want := &pb.FleetLoad{Workers: workers, Streams: 3 * workers, Slots: 8 * workers, Seconds: seconds, Counters: &pb.WorkerCounters{Rows: rows, DecodeNs: rows}}
	if got := l.Load(l.now); !proto.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func (l *loads) pass(d time.Duration) { l.now = l.now.Add(d) }

func TestLoadComparesReports(t *testing.T) {
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
func TestLoadIsOfLately(t *testing.T) {
	l := newLoads("a")
	rows := int64(0)
	for i := range 60 {
		l.says("a", rows)
		if i >= 10 {
			got := l.Load(l.now)
			if got.GetSeconds() < 5 || got.GetSeconds() > 12 || float64(got.GetCounters().GetRows()) != 100*got.GetSeconds() {
				t.Fatalf("after %d s: %v", 2*i, got)
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
	if got := l.Load(l.now); float64(got.GetCounters().GetRows()) != 10*got.GetSeconds() {
		t.Errorf("%v, want 10 rows a second", got)
	}
}

func TestLoadOfAWorkerThatIsStartedAgain(t *testing.T) {
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

func TestLoadForgets(t *testing.T) {
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

// Each Sync asks for the sum; it is made once a second at most.
func TestLoadIsSummedNowAndThen(t *testing.T) {
	l := newLoads("a")
	l.says("a", 0)
	first := l.Load(l.now)
	l.pass(refresh - 1)
	l.says("a", 5)
	if l.Load(l.now) != first {
		t.Error("summed again at once")
	}
	l.pass(1)
	if got := l.Load(l.now); got.GetCounters().GetRows() != 5 {
		t.Errorf("%v", got)
	}
}
