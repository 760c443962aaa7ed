// Package observe makes of what workers and trainers report what the fleet does, what its trainers could take, and why
// they wait. Workers' reports and trainers' Syncs come in; autoscale, the streams that each trainer opens, the Observe
// call and the dashboard read what comes out.
//
// It compares cumulative counters over windows of 5 to 10 seconds: a report that is lost, late or repeated does no
// harm. How many workers a session needs, and what holds its trainers up, is what most windows of the newest minute
// say. It knows the clock only by the times that it is told. An Observer may be used by many goroutines at once. A new
// leader begins anew, but for the workers, who report to every master.
package observe

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/fleet"
	"github.com/penstock-ml/penstock/internal/identity"
)

const (
	// window is the time over which counters are compared: between half of it and all of it. What has been silent for
	// longer does not count.
	window = 10 * time.Second
	// tick is about the time from one Tick to the next.
	tick = time.Second
	// gone is how long a trainer must have been silent to be forgotten.
	gone = 2 * time.Minute
	// costLasts is for how long, about, the busy time of rows that were sent counts in the cost of a row.
	costLasts = 20 * time.Second
)

// Observer takes reports.
type Observer struct {
	utilisation float64

	mu       sync.Mutex
	workers  map[string]*worker // of the fleet; nil until it is known
	sessions map[name]*session  // that trainers Sync for
	fleet    *Fleet             // as of the newest Tick; it never changes. nil: none in this term
	series   series
	decision *pb.Decision
	// Of the sessions of each namespace that has some; "" is the default one.
	namespaces map[string]*series
}

// New returns an observer of a fleet whose workers should be busy for a share of their time.
func New(utilisation float64) *Observer {
	return &Observer{utilisation: utilisation, sessions: map[name]*session{}}
}

// Begin forgets all that was measured of trainers: a term of leadership begins.
func (o *Observer) Begin() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sessions, o.fleet, o.series, o.decision = map[name]*session{}, nil, series{}, nil
	o.namespaces = nil
}

// Follow forgets the workers that are not in the fleet, and takes reports of those that are.
func (o *Observer) Follow(now time.Time, workers []fleet.Member) {
	o.mu.Lock()
	defer o.mu.Unlock()
	next := make(map[string]*worker, len(workers))
	for _, m := range workers {
		w := o.workers[m.Name]
		if w == nil || w.member.Draining && !m.Draining { // it was started again: who drains does so to its end
			w = &worker{since: now}
		}
		w.member = m
		next[m.Name] = w
	}
	o.workers = next
}

// Worker takes what a worker of the fleet says.
func (o *Observer) Worker(now time.Time, r *pb.WorkerReport) {
	said := reportOf(r)
	o.mu.Lock()
	defer o.mu.Unlock()
	if w := o.workers[r.GetName()]; w != nil { // else the next one comes soon
		w.take(now, said)
	}
}

// Trainer takes a Sync that was acknowledged.
func (o *Observer) Trainer(now time.Time, namespace string, r *pb.SyncRequest) {
	o.mu.Lock()
	defer o.mu.Unlock()
	id := nameOf(namespace, r.GetSession())
	s := o.sessions[id]
	if s == nil {
		s = &session{trainers: map[uint32]*trainer{}}
		o.sessions[id] = s
	}
	s.take(now, r)
}

// Decided takes the scaler's newest decision.
func (o *Observer) Decided(d *pb.Decision) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.decision = d
}

// name tells sessions apart: ids are unique within a namespace.
type name struct{ namespace, id string }

func nameOf(namespace, id string) name {
	if namespace == identity.DefaultNamespace {
		namespace = ""
	}
	return name{namespace, id}
}

func byName(a, b name) int {
	return cmp.Or(cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.id, b.id))
}

// Running is a session that is not over.
type Running struct {
	ID, Namespace string
	World         int // trainers
	Share         *pb.Share
	State         pb.SessionState
	Since         time.Time // of the state
	Unplanned     string    // why what comes next cannot be planned for now, if it cannot
}

// hasTrainers reports whether any trainer is there.
func (r *Running) hasTrainers() bool {
	return r.State != pb.SessionState_WAITING && r.State != pb.SessionState_ABANDONED
}

// Tick measures, once in a second or so. Sessions that do not run are forgotten.
func (o *Observer) Tick(now time.Time, running []Running) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.tick(now, running)
}

// CatchUp is a Tick where sessions have begun or ended since the newest one, so that who looks sees those that there
// are.
func (o *Observer) CatchUp(now time.Time, running []Running) {
	o.mu.Lock()
	defer o.mu.Unlock()
	unmeasured := func(r Running) bool {
		s := o.sessions[nameOf(r.Namespace, r.ID)]
		return s == nil || s.now.ID == ""
	}
	if o.fleet != nil && (len(running) != len(o.fleet.Sessions) || slices.ContainsFunc(running, unmeasured)) {
		o.tick(now, running)
	}
}

// tick is Tick. o.mu must be held.
func (o *Observer) tick(now time.Time, running []Running) {
	next := make(map[name]*session, len(running))
	for _, r := range running {
		id := nameOf(r.Namespace, r.ID)
		s := o.sessions[id]
		if s == nil {
			s = &session{trainers: map[uint32]*trainer{}}
		}
		s.Running = r
		if !r.hasTrainers() {
			clear(s.trainers)
		}
		next[id] = s
	}
	o.sessions = next
	o.fleet = o.measure(now)
	o.record(now)
}

// Fleet is what the newest Tick measured; false before the first one of a term. It is not to be changed.
func (o *Observer) Fleet() (Fleet, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.fleet == nil {
		return Fleet{}, false
	}
	return *o.fleet, true
}

// Cause is what holds a session's trainers up, as of the newest Tick; nil: too little was measured, or nothing is read.
func (o *Observer) Cause(namespace, session string) *pb.Cause {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.sessions[nameOf(namespace, session)]
	if s == nil || s.now.Bottleneck <= pb.Bottleneck_NONE {
		return nil
	}
	return &pb.Cause{Bottleneck: s.now.Bottleneck, Stage: s.now.Stage, Words: s.now.Why}
}
