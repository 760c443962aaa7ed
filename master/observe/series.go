package observe

import (
	"cmp"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
)

const (
	fineEvery   = 2 * time.Second
	fineFor     = 5 * time.Minute
	coarseEvery = 30 * time.Second
	coarseFor   = time.Hour
)

// The numbers of a point.
const (
	vWorkers = iota
	vWanted
	vNeeded
	vDemand
	vCapacity
	vRate
	vStall
	vBusy
	vRead
	vSent
	vCrossZone
	values
)

// point is numbers at a time, or their means over a stretch that ends then.
type point struct {
	at int64 // Unix, in milliseconds
	v  [values]float32
}

// series is points every two seconds for some minutes, and coarser ones for an hour.
type series struct {
	fine, coarse ring
	sum          [values]float64 // of the points since the newest coarse one
	summed       int
	since        int64
}

// ring is the newest points, the oldest at start.
type ring struct {
	points []point
	start  int
}

func (r *ring) add(p point, keep int) {
	if len(r.points) < keep {
		r.points = append(r.points, p)
		return
	}
	r.points[r.start] = p
	r.start = (r.start + 1) % keep
}

// newest is when the newest point was; 0 if there is none.
func (r *ring) newest() int64 {
	if len(r.points) == 0 {
		return 0
	}
	return r.points[(r.start+len(r.points)-1)%len(r.points)].at
}

func (r *ring) each(f func(point)) {
	for i := range r.points {
		f(r.points[(r.start+i)%len(r.points)])
	}
}

// due reports whether it is time for a point.
func (s *series) due(now time.Time) bool {
	return now.UnixMilli()-s.fine.newest() >= fineEvery.Milliseconds()
}

func (s *series) add(now time.Time, v [values]float64) {
	p := point{at: now.UnixMilli()}
	for i := range v {
		p.v[i] = float32(v[i])
		s.sum[i] += v[i]
	}
	s.fine.add(p, int(fineFor/fineEvery))
	if s.summed++; s.since == 0 {
		s.since = p.at
	}
	if p.at-s.since < coarseEvery.Milliseconds() {
		return
	}
	mean := point{at: p.at}
	for i := range mean.v {
		mean.v[i] = float32(s.sum[i] / float64(s.summed))
	}
	s.coarse.add(mean, int(coarseFor/coarseEvery))
	s.sum, s.summed, s.since = [values]float64{}, 0, p.at
}

// proto is the points later than a time: coarse ones up to where the fine ones begin.
func (s *series) proto(since int64) (out []*pb.FleetPoint) {
	begin := int64(-1)
	s.fine.each(func(p point) {
		if begin < 0 {
			begin = p.at
		}
	})
	take := func(p point) {
		if p.at > since {
			out = append(out, p.proto())
		}
	}
	s.coarse.each(func(p point) {
		if p.at < begin {
			take(p)
		}
	})
	s.fine.each(take)
	return out
}

func (p point) proto() *pb.FleetPoint {
	v := func(i int) float64 { return float64(p.v[i]) }
	return &pb.FleetPoint{
		UnixMs: p.at, Workers: uint32(v(vWorkers) + 0.5), Wanted: uint32(v(vWanted) + 0.5), Needed: v(vNeeded),
		Demand:   v(vDemand),
		Capacity: v(vCapacity), Rate: v(vRate), Stall: v(vStall), Busy: v(vBusy),
		BytesRead: v(vRead), BytesSent: v(vSent), BytesCrossZone: v(vCrossZone),
	}
}

// record adds points to the fleet's series, and to those of each namespace and session. o.mu must be held.
func (o *Observer) record(now time.Time) {
	if !o.series.due(now) {
		return
	}
	o.series.add(now, o.values(o.fleet))
	parts, next := o.fleet.byNamespace(), map[string]*series{}
	for namespace, part := range parts {
		next[namespace] = cmp.Or(o.namespaces[namespace], &series{})
		next[namespace].add(now, o.values(part))
	}
	o.namespaces = next
	for _, s := range o.sessions {
		v := [values]float64{}
		v[vWorkers], v[vNeeded], v[vDemand], v[vRate], v[vStall] = s.now.Granted, s.now.Needed, s.now.Demand,
			s.now.Rate, s.now.Stall
		s.series.add(now, v)
	}
}

// values is a point of a fleet, or of a part of its sessions.
func (o *Observer) values(f *Fleet) (v [values]float64) {
	sum := f.sum()
	v[vWorkers], v[vWanted] = float64(f.Workers), float64(o.decision.GetTo())
	v[vNeeded], v[vDemand], v[vCapacity] = sum.Needed, sum.Demand, sum.capacity
	v[vRate], v[vStall], v[vBusy] = sum.Rate, sum.Stall, f.Busy
	v[vRead], v[vSent], v[vCrossZone] = f.BytesRead, f.BytesSent, f.CrossZone
	return v
}

// byNamespace is the same workers, with the sessions of each namespace and what is done for these.
func (f *Fleet) byNamespace() map[string]*Fleet {
	out := map[string]*Fleet{}
	for i := range f.Sessions {
		s := &f.Sessions[i]
		namespace := nameOf(s.Namespace, "").namespace
		part := out[namespace]
		if part == nil {
			part = &Fleet{At: f.At, Workers: f.Workers, Busy: f.Busy}
			out[namespace] = part
		}
		part.Sessions = append(part.Sessions, *s)
		part.BytesRead += s.BytesRead
		part.BytesSent += s.BytesSent
		part.CrossZone += s.CrossZone
	}
	return out
}

// total is of all sessions.
type total struct {
	Needed, Demand, Rate, Stall float64
	capacity                    float64 // rows/s that the workers could give to this mix of sessions
}

func (f *Fleet) sum() (t total) {
	trainers, rows, busy := 0.0, 0.0, 0.0
	for i := range f.Sessions {
		s := &f.Sessions[i]
		if s.Reads() {
			n := float64(s.Trainers)
			trainers += n
			t.Stall += s.Stall * n
		}
		t.Needed += s.Needed
		t.Demand += s.Demand
		t.Rate += s.Rate
		if s.Cost > 0 {
			mix := max(s.Demand, s.Rate)
			rows, busy = rows+mix, busy+mix*s.Cost
		}
	}
	if trainers > 0 {
		t.Stall /= trainers
	}
	if busy > 0 {
		t.capacity = float64(f.Workers) * rows / busy
	}
	return t
}
