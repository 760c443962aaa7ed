package master_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/fleet"
	"github.com/penstock-ml/penstock/master"
	"github.com/penstock-ml/penstock/master/autoscale"
)

// actuator is told what to keep, and keeps it in mind.
type actuator struct {
	onScale func(workers int, drain []string)

	mu     sync.Mutex
	kept   int
	err    error
	calls  int
	drains []string
}

func (a *actuator) Wanted(context.Context) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.kept, nil
}

func (a *actuator) Scale(_ context.Context, workers int, drain []string) error {
	a.onScale(workers, drain)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls++
	if a.err != nil {
		return a.err
	}
	a.kept, a.drains = workers, drain
	return nil
}

func (a *actuator) now() (kept, calls int, drains []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.kept, a.calls, a.drains
}

func (a *actuator) fail(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = err
}

func scaling(a *actuator, minWorkers, maxWorkers int) master.Scaling {
	return master.Scaling{Actuator: a, Config: autoscale.Config{
		MinWorkers: minWorkers, MaxWorkers: maxWorkers, StartUp: time.Minute,
		UpAfter: 2 * time.Second, DownAfter: 3 * time.Second, TrimAfter: 4 * time.Second,
	}}
}

// A decision is an event before it is obeyed. An actuator that fails is asked again, and told of once.
func TestScalingIsRecordedFirst(t *testing.T) {
	var m *node
	up := make(chan struct{})
	a := &actuator{err: errors.New("the API is away")}
	recorded := false
	a.onScale = func(workers int, _ []string) {
		<-up
		for _, e := range eventsOf(t, m, &pb.ListEventsRequest{}) {
			recorded = recorded || e.GetKind() == pb.EventKind_SCALE && e.GetDecision().GetTo() == uint32(workers)
		}
	}
	m = start(t, settings{endpoints: etcd(t, "").Endpoints(), Config: master.Config{Scaling: scaling(a, 2, 4)}})
	close(up)
	eventually(t, "it was asked again", func() bool { _, calls, _ := a.now(); return calls >= 3 })
	awaitEvent(t, m, pb.EventKind_SCALE, "",
		"the fleet is not scaled, and goes on as it is; trying on: the API is away")
	a.fail(nil)
	awaitEvent(t, m, pb.EventKind_SCALE, "", "the fleet is scaled again")
	if kept, _, drains := a.now(); kept != 2 || len(drains) > 0 || !recorded {
		t.Errorf("it keeps %d workers, drains %v, and was recorded before: %t", kept, drains, recorded)
	}
	told := map[string]int{}
	for _, e := range eventsOf(t, m, &pb.ListEventsRequest{}) {
		if e.GetKind() == pb.EventKind_SCALE {
			told[e.GetWords()]++
		}
	}
	if len(told) != 3 {
		t.Errorf("events tell %v", told)
	}
	for words, n := range told {
		if n != 1 || words == "" {
			t.Errorf("%d events tell %q", n, words)
		}
	}
}

// Who is to end is told to drain, and has drained when the actuator is told.
func TestScalingDownDrainsFirst(t *testing.T) { scaleDown(t, 3) }

// One that is wanted and never came ends first, without a drain. The others must not drain in its place.
func TestScalingDownSparesThoseThatCame(t *testing.T) { scaleDown(t, 4) }

// observed reports whether the leader has a worker in sight that does not drain, or that may.
func observed(t *testing.T, m *node, worker string, draining bool) bool {
	o, err := m.Observe(t.Context(), &pb.ObserveRequest{Workers: true})
	check(t, err)
	return slices.ContainsFunc(o.GetWorkers(), func(w *pb.WorkerLoad) bool {
		return w.GetName() == worker &&
			(draining || !w.GetDraining())
	})
}

// scaleDown takes three workers to one.
func scaleDown(t *testing.T, kept int) {
	t.Helper()
	a := &actuator{kept: kept}
	var m *node
	var draining []string // when the actuator was told
	a.onScale = func(int, []string) {
		f, err := m.GetFleet(t.Context(), &pb.GetFleetRequest{})
		check(t, err)
		for _, w := range f.GetMembers() {
			if w.GetDraining() {
				draining = append(draining, w.GetName())
			}
		}
	}
	m = start(t, settings{endpoints: etcd(t, "").Endpoints(), Config: master.Config{Scaling: scaling(a, 1, 4)}})
	workers := map[string]*fleet.Fleet{}
	for name, address := range map[string]string{"a": "h:1", "b": "h:2", "c": "h:3"} {
		workers[name] = addWorker(t, m, fleet.Member{Name: name, Address: address, Slots: 4})
	}
	streams := map[string]uint32{"a": 2, "b": 5, "c": 1}
	counter := int64(0)
	eventually(t, "there is one left", func() bool {
		counter++
		for name, w := range workers {
			orders, err := m.SyncWorker(t.Context(), &pb.WorkerReport{
				Name: name, Slots: 4, Cpus: 1, Streams: streams[name], Counters: &pb.WorkerCounters{
					OpenNs: counter,
					CpuNs:  counter,
				},
			})
			check(t, err)
			if orders.GetDrain() {
				check(t, w.Update(func(m *fleet.Member) { m.Draining = true }))
			}
		}
		kept, _, _ := a.now()
		return kept == 1
	})
	_, _, drains := a.now()
	slices.Sort(drains)
	slices.Sort(draining)
	if !slices.Equal(drains, []string{"a", "c"}) || !slices.Equal(draining, drains) {
		t.Errorf("those with the fewest streams should end: %v, which drain: %v", drains, draining)
	}
	check(t, workers["a"].Close())
	eventually(t, "a has gone", func() bool { return !observed(t, m, "a", true) })
	addWorker(t, m, fleet.Member{Name: "a", Address: "h:1", Slots: 4})
	check(t, workers["c"].Update(func(m *fleet.Member) { m.Draining = false })) // as if it had never been away
	for _, again := range []string{"a", "c"} {
		eventually(t, again+" is back", func() bool { return observed(t, m, again, false) })
		if orders, err := m.SyncWorker(t.Context(), &pb.WorkerReport{Name: again, Slots: 4}); err != nil ||
			orders.GetDrain() {
			t.Errorf("worker %s drained, was started again, and is told %v, %v", again, orders, err)
		}
	}
	if e := awaitEvent(t, m, pb.EventKind_SCALE, "",
		fmt.Sprintf("%d workers to 1", kept)); int(e.GetDecision().GetFrom()) != kept || e.GetDecision().GetTo() != 1 ||
		!strings.Contains(e.GetWords(), ": ") {
		t.Errorf("the event is %v", e)
	}
}
