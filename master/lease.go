package master

import (
	"errors"
	"slices"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/master/session"
	"github.com/penstock-ml/penstock/master/store"
)

// acknowledge starts the caller's lease anew.
func (r *runner) acknowledge(c session.Command, a answer) {
	switch c := c.(type) {
	case session.Sync:
		r.silence.hear()
		if c.Leave {
			delete(r.lastSeen, c.Rank)
			return
		}
		if asks(r.lastSeen[c.Rank].counters, c.Counters) {
			r.asked = r.silence.heard
		}
		r.lastSeen[c.Rank] = seen{c.Generation, c.Incarnation, r.silence.heard, c.Counters}
	case session.Join:
		r.silence.hear()
		r.asked = r.silence.heard
		if a.Kind != pb.JoinKind_JOIN_KIND_UNSPECIFIED {
			r.lastSeen[c.Rank] = seen{generation: a.Generation, incarnation: a.Incarnation, at: r.silence.heard}
		}
	}
}

// replaces completes a Join with what an earlier start of the rank holds, whom it declares dead.
func (r *runner) replaces(j session.Join) session.Join {
	i := slices.IndexFunc(r.state.Present(), func(m session.Member) bool { return m.Rank == j.Rank })
	if i >= 0 {
		j.Unreported = r.unreported(j.Rank)
	}
	return j
}

// unreported bounds the rows that a rank may have handed over since its last Sync: those of what it holds.
func (r *runner) unreported(rank uint32) int64 {
	held := r.state.Held(rank)
	pieces, _ := r.state.Pieces(rank)
	for _, p := range pieces {
		held = append(held, p.Interval)
	}
	return r.tickets.rows(held)
}

// logReplaced tells what a Join that put a start in the place of another one may cost.
func (r *runner) logReplaced(j session.Join, reply session.Reply, changes session.Changes) {
	if reply.Kind == pb.JoinKind_REJOIN && j.Unreported > 0 && !changes.Empty() {
		r.logger.Warn(
			"a trainer was started again; rows that its earlier start handed over since its last Sync come again",
			"rank", j.Rank, "incarnation", reply.Incarnation, "rows_at_most", j.Unreported)
	}
}

// logZombie tells what a trainer reports that is refused, because others have its shards since its lease ended.
func (r *runner) logZombie(c session.Sync, err error) {
	var fenced *session.FencedError
	if errors.As(err, &fenced) && fenced.Expired {
		r.logger.Warn(
			"a trainer reports after its lease, when others have its shards: what it handed over since its last "+
				"Sync comes twice",
			"rank", c.Rank, "incarnation", c.Incarnation, "rows", r.state.Unrecorded(c.Rank, c.Counters))
	}
}

// lapse ends what has lasted too long by now: leases, and the session itself.
func (r *runner) lapse(now time.Time) error {
	if err := r.expire(now); err != nil {
		return err
	}
	standing := r.stand(now)
	switch {
	case r.past(now):
		return r.close(now)
	case r.deserted(standing.state, now):
		return r.sleep(now)
	}
	return r.abandon(now)
}

// extend has leases end later, by as long as this master could hear of nobody.
func (r *runner) extend(by time.Duration) {
	for rank, last := range r.lastSeen {
		last.at = last.at.Add(by)
		r.lastSeen[rank] = last
	}
}

// expire takes back what ranks hold whose lease ended a good while ago by this clock. Ranks that this master has
// never heard of start their lease now.
func (r *runner) expire(now time.Time) error {
	var changes session.Changes
	var expired []uint32
	var atRisk int64
	generation := r.state.Generation()
	for _, p := range r.state.Present() {
		last, ok := r.lastSeen[p.Rank]
		if !ok || last.generation != generation || last.incarnation != p.Incarnation {
			r.lastSeen[p.Rank] = seen{generation: generation, incarnation: p.Incarnation, at: now}
			continue
		}
		if now.Sub(last.at) < r.term.master.cfg.Lease*5/4 {
			continue
		}
		if len(expired) == r.together {
			break // a transaction holds no more: the others' turn is next time
		}
		unreported := r.unreported(p.Rank)
		r.logger.Warn(
			"a trainer's lease ended; others get its shards, and rows that it handed over since its last "+
				"Sync with them",
			"rank", p.Rank, "incarnation", p.Incarnation, "rows_at_most", unreported)
		_, changed, err := r.change(session.Expire{Rank: p.Rank, Incarnation: p.Incarnation, Unreported: unreported})
		if err != nil {
			return err
		}
		changes = changes.Merge(changed)
		expired, atRisk = append(expired, p.Rank), atRisk+unreported
	}
	if changes.Empty() && len(r.tickets.idle(r.state)) == 0 {
		return nil
	}
	err := r.commit(store.Writes{}, changes)
	switch {
	case err == nil:
		r.emitExpired(expired, atRisk)
	// ranks' keys may be long: fewer, when their leases have ended again
	case errors.Is(err, store.ErrTooLarge) && len(expired) > 1:
		r.together = len(expired) / 2
	}
	return err
}
