package observe

import (
	"cmp"
	"slices"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
)

// seriesOf is of how many sessions an Observation has the points, unless it is of one alone: of those with the most rows.
const seriesOf = 50

// Observation is what was measured, as of the newest Tick, of sessions that may be seen.
func (o *Observer) Observation(now time.Time, r *pb.ObserveRequest, visible func(Running) bool) *pb.Observation {
	o.mu.Lock()
	defer o.mu.Unlock()
	out := &pb.Observation{NowUnixMs: now.UnixMilli(), Verdict: "too little was measured yet: this master has just begun to lead"}
	if o.fleet == nil {
		return out
	}
	out.Points, out.Decision = o.series.proto(r.GetSinceUnixMs()), o.decision
	var shown []*session
	seen := *o.fleet
	seen.Sessions = nil
	for i := range o.fleet.Sessions {
		s := o.sessions[nameOf(o.fleet.Sessions[i].Namespace, o.fleet.Sessions[i].ID)]
		if (r.GetSession() == "" || r.GetSession() == s.ID) && visible(s.Running) {
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
			out.Workers = append(out.Workers, w.proto(now))
		}
		slices.SortFunc(out.GetWorkers(), func(a, b *pb.WorkerLoad) int { return cmp.Compare(a.GetName(), b.GetName()) })
	}
	return out
}

// proto is a session as it is shown, but for its points, progress and state.
func (s *session) proto(now time.Time) *pb.SessionLoad {
	n := &s.now
	return &pb.SessionLoad{
		Session: s.ID, Namespace: s.Namespace, Share: s.Share, Demand: n.Demand, Rate: n.Rate, Stall: n.Stall, Cost: n.Cost,
		Needed: n.Needed, Granted: n.Granted, Bottleneck: n.Bottleneck, Stage: n.Stage, Verdict: n.Verdict,
		Trainers: s.trainersProto(now), Stages: stagesProto(n.Stages), State: pb.SessionState_RUNNING,
	}
}
