package master

import (
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/master/session"
	"github.com/penstock-ml/penstock/master/store"
)

// acknowledge starts the caller's lease anew.
func (r *runner) acknowledge(c session.Command, a answer) {
	switch c := c.(type) {
	case session.Sync:
		if c.Leave {
			delete(r.lastSeen, c.Rank)
			return
		}
		r.lastSeen[c.Rank] = seen{c.Generation, c.Incarnation, time.Now()}
	case session.Join:
		if a.Kind != pb.JoinKind_JOIN_KIND_UNSPECIFIED {
			r.lastSeen[c.Rank] = seen{a.Generation, a.Incarnation, time.Now()}
		}
	}
}

// expire takes back what ranks hold whose lease ended a good while ago by this clock. Ranks that this master has
// never heard of start their lease now.
func (r *runner) expire(now time.Time) error {
	var changes session.Changes
	generation := r.state.Generation()
	for _, p := range r.state.Present() {
		last, ok := r.lastSeen[p.Rank]
		if !ok || last.generation != generation || last.incarnation != p.Incarnation {
			r.lastSeen[p.Rank] = seen{generation, p.Incarnation, now}
			continue
		}
		if now.Sub(last.at) < r.term.master.cfg.Lease*5/4 {
			continue
		}
		if len(changes.Ranks) == groupCommit {
			break // a transaction holds no more: the others' turn is next time
		}
		r.logger.Warn("a trainer's lease ended; others get its shards", "rank", p.Rank, "incarnation", p.Incarnation)
		_, changed, err := r.state.Apply(session.Expire(p))
		if err != nil {
			return err
		}
		changes = changes.Merge(changed)
	}
	if changes.Empty() && len(r.tickets.idle(r.state)) == 0 {
		return nil
	}
	return r.commit(store.Writes{}, changes)
}
