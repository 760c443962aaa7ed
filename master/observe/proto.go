package observe

import (
	"cmp"
	"slices"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
)

// seriesOf is of how many sessions an Observation has the points, unless it is of one alone: of those with the most
// rows.
const seriesOf = 50

// Observation is what was measured, as of the newest Tick, of sessions that may be seen.
func (o *Observer) Observation(now time.Time, r *pb.ObserveRequest, to View) *pb.Observation {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := &pb.Observation{
		NowUnixMs: now.UnixMilli(),
		Verdict:   "too little was measured yet: this master has just begun to lead",
	}
	if o.fleet == nil {
		return out
	}
	out.Points = o.points(r.GetSinceUnixMs(), to)
	if to.All {
		out.Decision = o.decision // its reason names sessions
	}
	var shown []*session
	seen := *o.fleet
	seen.Sessions = nil
	for i := range o.fleet.Sessions {
		s := o.sessions[nameOf(o.fleet.Sessions[i].Namespace, o.fleet.Sessions[i].ID)]
		if (r.GetSession() == "" || r.GetSession() == s.ID) &&
			(to.sees(s.Namespace) || to.All && r.GetSession() == "") {
			shown = append(shown, s)
			seen.Sessions = append(seen.Sessions, s.now)
			out.Sessions = append(out.Sessions, s.proto(now))
		}
	}
	cause := together(&seen) // of others' sessions it says nothing
	out.Verdict, out.Bottleneck = cause.Verdict, cause.Bottleneck
	slices.SortFunc(shown, func(a, b *session) int { return cmp.Compare(b.now.Rate, a.now.Rate) })
	points := map[name][]*pb.FleetPoint{}
	for _, s := range shown[:min(len(shown), seriesOf)] {
		points[nameOf(s.Namespace, s.ID)] = s.series.proto(r.GetSinceUnixMs())
	}
	for _, s := range out.GetSessions() {
		s.Points = points[nameOf(s.GetNamespace(), s.GetSession())]
	}
	if r.GetWorkers() {
		for _, w := range o.workers {
			out.Workers = append(out.Workers, w.proto(now, to))
		}
		slices.SortFunc(out.GetWorkers(),
			func(a, b *pb.WorkerLoad) int { return cmp.Compare(a.GetName(), b.GetName()) })
	}
	return out
}

// View is who is shown something: those of one namespace, or All.
type View struct {
	All       bool
	Namespace string
}

// sees reports whether what belongs to a namespace is this one's.
func (v View) sees(namespace string) bool { return nameOf(namespace, "") == nameOf(v.Namespace, "") }

// points are the fleet's, of which those of one namespace see what its own sessions come to: of the others nothing can
// be reckoned from it.
func (o *Observer) points(since int64, to View) []*pb.FleetPoint {
	if to.All {
		return o.series.proto(since)
	}
	if s := o.namespaces[nameOf(to.Namespace, "").namespace]; s != nil {
		return s.proto(since)
	}
	out := o.series.proto(since)
	for i, p := range out {
		out[i] = &pb.FleetPoint{
			UnixMs: p.GetUnixMs(), Workers: p.GetWorkers(), Wanted: p.GetWanted(),
			Busy: p.GetBusy(),
		}
	}
	return out
}

// proto is a session as it is shown, but for its points, progress and state.
func (s *session) proto(now time.Time) *pb.SessionLoad {
	n := &s.now
	return &pb.SessionLoad{
		Session: s.ID, Namespace: s.Namespace, WorldSize: uint32(s.World), Share: s.Share, Demand: n.Demand,
		Rate: n.Rate, Stall: n.Stall, Cost: n.Cost,
		Needed: n.Needed, Granted: n.Granted, Bottleneck: n.Bottleneck, Stage: n.Stage, Verdict: n.Verdict,
		Trainers: s.trainersProto(now), Stages: stagesProto(n.Stages), State: n.State,
		BytesSent: n.BytesSent, BytesLent: n.Lent, BytesLinked: n.Linked,
	}
}
