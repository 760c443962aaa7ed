package observe

import (
	"cmp"
	"slices"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/fleet"
)

// worker is one of the fleet.
type worker struct {
	member  fleet.Member
	since   time.Time // when it came into sight
	reports recent[report]
}

// Worker is one of the fleet, as those who choose among workers see it.
type Worker struct {
	Name     string
	Streams  int
	Since    time.Time // when it came into sight
	Draining bool
}

// Workers are all of the fleet.
func (o *Observer) Workers() []Worker {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := make([]Worker, 0, len(o.workers))
	for name, w := range o.workers {
		out = append(out, Worker{
			Name: name, Streams: w.reports.newest.streams, Since: w.since,
			Draining: w.member.Draining,
		})
	}
	return out
}

// Since is when a worker came into sight; the zero time if it is not.
func (o *Observer) Since(name string) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	if w := o.workers[name]; w != nil {
		return w.since
	}
	return time.Time{}
}

// report is what a worker says of itself.
type report struct {
	streams, slots int
	cpus           float64
	memory, limit  int64
	counts         counts
	sessions       map[name]counts
	refusals       map[name]string // why it refuses streams
}

// sessionsKept bounds the sessions of one worker's report.
const sessionsKept = 256

// refusalBytes bounds what is kept of why a worker refuses streams.
const refusalBytes = 2 << 10

func reportOf(r *pb.WorkerReport) report {
	out := report{
		streams: int(r.GetStreams()), slots: int(r.GetSlots()), cpus: r.GetCpus(), memory: r.GetMemoryBytes(),
		limit:  r.GetMemoryLimit(),
		counts: countsOf(r.GetCounters()), sessions: make(map[name]counts, len(r.GetSessions())),
	}
	for _, s := range r.GetSessions()[:min(len(r.GetSessions()), sessionsKept)] {
		id := nameOf(s.GetNamespace(), s.GetSession())
		out.sessions[id] = countsOf(s.GetCounters())
		if words := s.GetRefusal(); words != "" {
			if out.refusals == nil {
				out.refusals = map[name]string{}
			}
			out.refusals[id] = words[:min(len(words), refusalBytes)]
		}
	}
	return out
}

// take takes a report. Counters of a worker that was started again fall.
func (w *worker) take(now time.Time, said report) {
	w.reports.add(now, said, func(before, after report) bool { return !after.counts.minus(before.counts).fell() })
}

func (w *worker) grown() counts { return w.reports.newest.counts.minus(w.reports.base.counts) }

// grownBySession is how much the counters of each session grew.
func (w *worker) grownBySession() map[name]counts {
	out := make(map[name]counts, len(w.reports.newest.sessions))
	for id, after := range w.reports.newest.sessions {
		g := after.minus(w.reports.base.sessions[id])
		if g.fell() { // the worker had forgotten it
			g = after
		}
		out[id] = g
	}
	return out
}

// measured reports whether there is something to compare.
func (w *worker) measured(now time.Time) bool {
	return w.reports.fresh(now) && w.reports.seconds() > 0
}

// busy is the share of its time for which it was: of its processors', or of its slots', whichever is more.
func (w *worker) busy(grown counts) float64 {
	dt, said := w.reports.seconds(), &w.reports.newest
	cpus := said.cpus
	if cpus <= 0 {
		cpus = 1
	}
	cpu := float64(grown.cpu) / 1e9 / (cpus * dt)
	slots := grown.active() / (float64(max(said.slots, 1)) * dt)
	return min(1, max(cpu, slots))
}

// proto is the worker as it is shown: to those of one namespace, with what it does for that.
func (w *worker) proto(now time.Time, to View) *pb.WorkerLoad {
	said := &w.reports.newest
	out := &pb.WorkerLoad{
		Name: w.member.Name, Address: w.member.Address, Zone: w.member.Zone, Slots: uint32(w.member.Slots),
		Draining: w.member.Draining,
	}
	if !w.measured(now) {
		return out
	}
	g, dt := w.grown(), w.reports.seconds()
	out.Streams, out.Busy, out.MemoryBytes, out.MemoryLimit = uint32(said.streams), w.busy(g), said.memory, said.limit
	var shown []counts // of what it does
	if to.All {
		shown = append(shown, g)
	}
	for id, c := range w.grownBySession() {
		switch {
		case to.All:
		case to.sees(id.namespace):
			shown = append(shown, c)
		default:
			continue
		}
		if c.open > 0 {
			out.Sessions = append(out.Sessions, id.id)
		}
	}
	stages := map[string]float64{}
	for _, c := range shown {
		c.stages(stages, 1/dt)
		out.Rate += float64(c.rows) / dt
		out.BytesRead += float64(c.bytesRead) / dt
		out.BytesSent += float64(c.bytesSent) / dt
	}
	out.Stages = stagesProto(sorted(stages))
	slices.Sort(out.Sessions)
	return out
}

// sorted lists stages, the longest first.
func sorted(seconds map[string]float64) []Stage {
	out := make([]Stage, 0, len(seconds))
	for name, s := range seconds {
		out = append(out, Stage{name, s})
	}
	slices.SortFunc(out,
		func(a, b Stage) int { return cmp.Or(cmp.Compare(b.Seconds, a.Seconds), cmp.Compare(a.Name, b.Name)) })
	return out
}

func stagesProto(stages []Stage) []*pb.StageTime {
	out := make([]*pb.StageTime, len(stages))
	for i, s := range stages {
		out[i] = &pb.StageTime{Stage: s.Name, Seconds: s.Seconds}
	}
	return out
}
