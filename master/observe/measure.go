package observe

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// work is what workers did for a session, or for all: per second.
type work struct {
	busy, rows, open, blocked, granted float64
	read, sent, crossZone              float64            // bytes
	lent, linked                       float64            // of sent
	used                               float64            // busy shares of the workers, weighed with open
	stages                             map[string]float64 // seconds of streams
}

// measure compares the newest reports with those before. o.mu must be held.
func (o *Observer) measure(now time.Time) *Fleet {
	f := &Fleet{At: now}
	all, bySession := o.work(now, f)
	f.Stages = sorted(all.stages)
	refusals := o.refusals(now)
	for _, id := range slices.SortedFunc(maps.Keys(o.sessions), byName) {
		s, w := o.sessions[id], bySession[id]
		if w == nil {
			w = &work{}
		}
		s.spent(now, w.busy, w.rows)
		s.now = o.session(s, w, all, s.told(now), f)
		s.now.refusedBy(refusals[id], f.Workers)
		f.Sessions = append(f.Sessions, s.now)
	}
	f.Cause = together(f)
	return f
}

// work sums over workers what they did, and fills in what a fleet says of them.
func (o *Observer) work(now time.Time, f *Fleet) (all *work, bySession map[name]*work) {
	all, bySession = &work{stages: map[string]float64{}}, map[name]*work{}
	for _, w := range o.workers {
		draining := w.member.Draining
		switch fresh := w.reports.fresh(now); {
		case !fresh && !draining && now.Sub(w.since) > window:
			f.Silent++
		case fresh && draining:
			f.Draining++
		case fresh:
			f.Workers++
			f.Slots += w.reports.newest.slots
		}
		if !w.measured(now) {
			continue
		}
		g, dt := w.grown(), w.reports.seconds()
		busy := w.busy(g)
		if !draining {
			f.Measured++
			f.Busy += busy
		}
		f.Rate += float64(g.rows) / dt
		f.BytesRead += float64(g.bytesRead) / dt
		f.BytesSent += float64(g.bytesSent) / dt
		f.CrossZone += float64(g.crossZone) / dt
		g.stages(all.stages, 1/dt)
		w.divide(busy, bySession)
	}
	for _, one := range bySession {
		all.open, all.blocked = all.open+one.open, all.blocked+one.blocked
	}
	f.Busy /= float64(max(1, f.Measured))
	return all, bySession
}

// divide adds what a worker did to the sessions that it did it for. Its busy time is theirs in proportion to the time
// in which their streams were open and their trainers would have taken more.
func (w *worker) divide(busy float64, bySession map[name]*work) {
	dt, slots := w.reports.seconds(), float64(max(1, w.reports.newest.slots))
	grown := w.grownBySession()
	active := 0.0
	for _, g := range grown {
		active += g.active()
	}
	for id, g := range grown {
		sum := bySession[id]
		if sum == nil {
			sum = &work{stages: map[string]float64{}}
			bySession[id] = sum
		}
		open := float64(g.open) / 1e9 / dt
		if active > 0 {
			sum.busy += busy * g.active() / active
		}
		sum.rows += float64(g.rows) / dt
		sum.open += open
		sum.read += float64(g.bytesRead) / dt
		sum.sent += float64(g.bytesSent) / dt
		sum.crossZone += float64(g.crossZone) / dt
		sum.lent += float64(g.lent) / dt
		sum.linked += float64(g.linked) / dt
		sum.blocked += float64(g.blocked) / 1e9 / dt
		sum.granted += open / slots
		sum.used += busy * open
		g.stages(sum.stages, 1/dt)
	}
}

// session is what is known of one, of whose work and of all sessions' the fleet reports.
func (o *Observer) session(s *session, w, all *work, t trained, f *Fleet) Session {
	out := Session{
		ID: s.ID, Namespace: s.Namespace, State: s.State, Share: shareOf(s.Share), World: s.World, Trainers: t.present,
		Stale:  2*t.silent > t.present,
		Demand: s.demand(), Rate: t.rate, Cost: s.cost(), Granted: w.granted, Open: w.open, Stages: sorted(w.stages),
		BytesRead: w.read, BytesSent: w.sent, CrossZone: w.crossZone, Lent: w.lent, Linked: w.linked,
	}
	out.Needed = out.Demand * out.Cost / o.utilisation
	if t.measured > 0 {
		out.Stall = t.stall / float64(t.measured)
	}
	if w.open > 0 {
		out.Blocked = min(1, w.blocked/w.open)
	}
	if active := w.open - w.blocked; active > 0 {
		out.Storage = min(1, w.stages["storage"]/active)
	}
	if why := Unread(s.State, s.Since, f.At, s.World); why != "" {
		s.minute = minute{}
		out.Demand, out.Needed = 0, 0 // what its trainers could take when they read says nothing of now
		out.Cause = unread(why)
		return out
	}
	if t.silent > 0 && t.silent == t.present { // that is certain, too
		s.minute = minute{}
		out.Cause = silent(t.silent)
		return out
	}
	if s.Unplanned != "" && out.Stall >= waits { // that is certain, too
		s.minute = minute{}
		out.Cause = unplanned(&out, s.Unplanned)
		return out
	}
	if f.Workers == 0 { // that is certain
		s.minute = minute{}
	}
	s.minute.measured(&out)
	out.Cause = s.minute.cause(judge(&out, &evidence{
		measured: t.measured, batches: s.batches(), workers: f.Workers, reporting: f.Measured, slots: f.Slots,
		client: t.client / float64(max(1, t.measured)), buffered: t.buffered / float64(max(1, t.measured)),
		used: w.used / cmp.Or(w.open, 1), stages: w.stages,
		others: all.open - w.open, held: all.blocked - w.blocked,
	}))
	return out
}

// batches is whether any trainer has handed over more than one batch since it was first heard of.
func (s *session) batches() bool {
	for _, t := range s.trainers {
		if t.reports.newest.counters.GetBatches() > 1 {
			return true
		}
	}
	return false
}
