package master

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/dustin/go-humanize"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/master/autoscale"
	"github.com/penstock-ml/penstock/master/observe"
	"github.com/penstock-ml/penstock/master/place"
	"github.com/penstock-ml/penstock/master/store"
)

const (
	// measureEvery is how often the leader measures.
	measureEvery = time.Second
	// lookTimeout is how long what is observed of a session waits for how far it is.
	lookTimeout = time.Second
)

// observe measures again and again.
func (t *term) observe() error {
	ticker := time.NewTicker(measureEvery)
	defer ticker.Stop()
	for {
		t.master.observed.Tick(time.Now(), t.running())
		t.divide()
		t.emitRefusals()
		select {
		case <-ticker.C:
		case <-t.ctx.Done():
			return nil
		}
	}
}

// divide sets how many streams the trainers of each session keep open: those that the session's part of the workers
// comes to.
func (t *term) divide() {
	f, ok := t.master.observed.Fleet()
	if !ok {
		return
	}
	var claims []place.Claim
	var sessions []*observe.Session
	for i := range f.Sessions {
		s := &f.Sessions[i]
		if s.Trainers == 0 || !s.Reads() { // its streams wait, as many as there are
			continue
		}
		need := s.Needed
		if need == 0 { // unknown
			need = math.Inf(1)
		}
		claims = append(claims, place.Claim{Weight: s.Share.Weight, Need: need, Min: s.Share.Min, Max: s.Share.Max})
		sessions = append(sessions, s)
	}
	places := t.master.places.get()
	for i, part := range place.Divide(float64(places.Workers), claims) {
		// else it has just been deleted
		if r, err := t.find(store.NameOf(sessions[i].Namespace, sessions[i].ID)); err == nil {
			r.streams.Store(places.StreamsOf(part, max(sessions[i].World, 1), r.streams.Load()))
		}
	}
}

// running lists the sessions that are not over.
func (t *term) running() []observe.Running {
	var out []observe.Running
	for _, r := range t.all() {
		if s := r.meta.GetSession(); !r.over.Load() {
			now := r.standing.Load()
			one := observe.Running{
				ID: s.GetId(), Namespace: s.GetNamespace(), World: int(r.world.Load()), Share: s.GetShare(),
				State: now.state, Since: now.since,
			}
			if why := r.unplanned.Load(); why != nil {
				one.Unplanned = *why
			}
			out = append(out, one)
		}
	}
	return out
}

// progress fills in how far sessions are. What cannot be told in time is left out.
func (t *term) progress(ctx context.Context, loads []*pb.SessionLoad) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	var group errgroup.Group
	group.SetLimit(loadsAtOnce)
	for _, l := range loads {
		group.Go(func() error {
			r, err := t.find(store.NameOf(l.GetNamespace(), l.GetSession()))
			if err != nil {
				return nil //nolint:nilerr // it has just been deleted
			}
			if s, err := viewFrom(ctx, r); err == nil {
				l.Progress, l.PaddedBatch = s.GetProgress(), observe.PaddedBatch(s) // its state is that of the verdict
			}
			return nil
		})
	}
	return group.Wait()
}

// withProgress fills in how far a session is.
func withProgress(out *pb.Observation, s *pb.Session) {
	if len(out.GetSessions()) == 0 {
		unmeasured(s, out)
	}
	for _, l := range out.GetSessions() {
		l.Progress, l.PaddedBatch = s.GetProgress(), observe.PaddedBatch(s) // its state is that of the verdict
	}
}

// unmeasured fills in a session of which nothing is measured: it is over, or has just begun.
func unmeasured(s *pb.Session, out *pb.Observation) {
	out.Bottleneck, out.Verdict = pb.Bottleneck_NONE, "session "+s.GetId()+" "
	switch s.GetState() {
	case pb.SessionState_FINISHED:
		out.Verdict += fmt.Sprintf("has finished: %s rows were handed over",
			humanize.Comma(s.GetProgress().GetRowsDelivered()))
	case pb.SessionState_FAILED:
		out.Verdict += "has failed: " + s.GetFailure()
	case pb.SessionState_RUNNING:
		out.Bottleneck = pb.Bottleneck_BOTTLENECK_UNSPECIFIED
		out.Verdict += "was not measured yet: that takes a few seconds of reading"
	default:
		out.Verdict = observe.Unread(s.GetState(), time.Unix(s.GetStateSinceUnix(), 0), time.Now(),
			int(s.GetWorldSize()))
	}
	out.Sessions = []*pb.SessionLoad{{
		Session: s.GetId(), Namespace: s.GetNamespace(), WorldSize: s.GetWorldSize(), State: s.GetState(),
		Progress: s.GetProgress(), Share: s.GetShare(),
		Bottleneck: out.GetBottleneck(), Verdict: out.GetVerdict(),
	}}
}

// sampleOf is what the scaler is told of a fleet that should have so many workers.
func sampleOf(f *observe.Fleet, wanted int) autoscale.Sample {
	out := autoscale.Sample{At: f.At, Workers: f.Workers, Wanted: wanted, Silent: f.Silent, Busy: f.Busy}
	for i := range f.Sessions {
		s := &f.Sessions[i]
		to := autoscale.Session{
			ID: store.NameOf(s.Namespace, s.ID).String(), Trainers: s.Trainers, Demand: s.Demand, Rate: s.Rate,
			Stall: s.Stall, Cost: s.Cost, Storage: s.Storage,
			Stale: s.Stale, Weight: s.Share.Weight, MinWorkers: int(s.Share.Min),
		}
		if !s.Reads() {
			to.Trainers = 0 // that want something
		}
		if len(s.Stages) > 0 {
			to.Stage = s.Stages[0].Name
		}
		if !math.IsInf(s.Share.Max, 1) {
			to.MaxWorkers = int(s.Share.Max)
		}
		out.Sessions = append(out.Sessions, to)
	}
	return out
}
