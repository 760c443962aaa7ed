package session

import (
	"errors"

	"github.com/penstock-ml/penstock/api/position"
)

// fence returns the rank if the caller is its present start. The counts tell who is older; that the caller is not of a
// session that was deleted, or lost with its etcd, and opened anew, only the nonce tells.
func (c *Sync) fence(s *State) (*rank, error) {
	r, generation, incarnation := c.Rank, c.Generation, c.Incarnation
	k := s.rank(r)
	current := uint64(0)
	if k != nil {
		current = k.incarnation
	}
	switch {
	case generation < s.generation:
		return nil, &FencedError{Rank: r, Generation: s.generation, Incarnation: current, From: s.from}
	case generation == s.generation && incarnation < current:
		return nil, &FencedError{Rank: r, Generation: s.generation, Incarnation: current}
	case generation > s.generation:
		return nil, invalid("rank %d reports generation %d, but the session is at %d: %s",
			r, generation, s.generation, older)
	case k == nil:
		return nil, invalid("rank %d has not joined: call Join first", r)
	case incarnation > current:
		return nil, invalid("rank %d reports incarnation %d, but is at %d: %s", r, incarnation, current, older)
	case c.Nonce != k.nonce:
		return nil, &FencedError{Rank: r, Generation: s.generation, Incarnation: current}
	}
	return k, nil
}

func (c Sync) apply(s *State, ch *Changes) (Reply, error) {
	k, err := c.fence(s)
	if err != nil {
		return Reply{}, err
	}
	news, reclaimed, err := c.news(s, k)
	if err == nil {
		err = c.admitSteps(s)
	}
	if err == nil {
		err = checkpointing{s}.admitPart(c, k)
	}
	if err != nil {
		return Reply{}, c.blame(s, k, err)
	}
	if k.departed { // a late call; all that it can say is known
		return s.answer(&c, k), nil
	}
	if counters := k.counters.max(c.Counters); counters != k.counters || k.expired {
		k.counters, k.expired, k.atRisk = counters, false, 0 // all that it handed over is known, and was free still
		k.revoked = k.revokedSince(position.Position{Epoch: s.closed})
		ch.rank(c.Rank)
	}
	if len(news) > 0 {
		s.consume(k, news, reclaimed, ch)
		ch.rank(c.Rank)
	}
	s.leaveOut(c, k, ch)
	if k.heard != s.joins {
		k.heard = s.joins
		ch.rank(c.Rank)
	}
	left := c.leavePasses(s, k, ch)
	s.policy().advance(c.Rank, k, c.Steps, c.Idle, ch)
	if left {
		s.countLeftOut(ch)
	}
	quarantine{s}.refused(c, k, ch)
	checkpointing{s}.takePart(c, k, ch)
	if c.Revision >= k.asked {
		s.release(c.Rank, k, c.Released, ch)
	}
	if c.Leave {
		s.leave(c.Rank, k, ch)
	}
	s.closeEpochs(ch)
	checkpointing{s}.settle(ch)
	if c.Leave {
		return s.answer(&c, k), nil
	}
	drained := s.policy().grant(c, k, ch)
	r := s.answer(&c, k)
	r.Drained = drained
	return r, nil
}

// news is what a Sync newly reports as consumed, and the part of it that an ended lease had taken back. It must lie
// in what the rank holds, or else still be free.
func (c *Sync) news(s *State, k *rank) (news, reclaimed position.Set, err error) {
	open := position.Position{Epoch: s.closed}
	// others ended the epoch with it
	if k.expired && len(c.Consumed.Intersect(k.revoked).Intersect(position.Set{{To: open}})) > 0 {
		return nil, nil, &FencedError{Rank: c.Rank, Generation: s.generation, Incarnation: k.incarnation, Expired: true}
	}
	news = from(c.Consumed.Subtract(k.consumed), open)
	if len(news) == 0 {
		return nil, nil, nil
	}
	news = s.blocks.canonicalSet(news).Subtract(k.consumed)
	if k.departed {
		news = news.Subtract(s.base)
	}
	outside := news.Subtract(k.held)
	if len(outside) == 0 {
		return news, nil, nil
	}
	if foreign := outside.Subtract(k.revoked); len(foreign) > 0 {
		return nil, nil, invalid(
			"rank %d reports %v as consumed, which it does not hold: the trainer or its client is broken",
			c.Rank, foreign[0])
	}
	if !s.returned.Covers(outside) {
		return nil, nil, &FencedError{Rank: c.Rank, Generation: s.generation, Incarnation: k.incarnation, Expired: true}
	}
	return news, outside, nil
}

// older says why a trainer may know more than etcd, and what to do.
const older = "the state in etcd is older than the job, as when a backup was put back: restore the job from a " +
	"checkpoint, " +
	"or delete the session and begin it anew"

// blame names the cause of a refusal: the trainer was told of what does not lie in etcd, or it is broken, as the
// refusal says.
func (c *Sync) blame(s *State, k *rank, err error) error {
	if !errors.Is(err, ErrInvalid) || c.Revision <= s.revision(k) && c.BaseVersion <= s.baseVersion {
		return err
	}
	return invalid("rank %d has answers up to revision %d and %d, and the session is at %d and %d: %s",
		c.Rank, c.Revision, c.BaseVersion, s.revision(k), s.baseVersion, older)
}

func (s *State) consume(k *rank, news, reclaimed position.Set, ch *Changes) {
	if len(reclaimed) > 0 {
		s.returned = s.returned.Subtract(reclaimed)
		ch.Head = true
	}
	k.consumed = k.consumed.Union(news)
	k.held, k.revoked = k.held.Subtract(news), k.revoked.Subtract(news)
	k.releasing = k.releasing.Intersect(k.held)
	s.policy().consumed(news)
}

// release takes back what was asked for and the rank agreed to.
func (s *State) release(r uint32, k *rank, released position.Set, ch *Changes) {
	if !k.answered && len(k.releasing) > 0 {
		k.answered = true
		ch.rank(r)
	}
	given := s.blocks.canonicalSet(released).Intersect(k.releasing)
	if len(given) == 0 {
		return
	}
	k.held = k.held.Subtract(given)
	k.releasing = k.releasing.Subtract(given)
	k.revision++
	s.returned = s.returned.Union(given)
	ch.Head = true
	ch.rank(r)
}

// giveBack returns all that a rank holds.
func (s *State) giveBack(k *rank, ch *Changes) {
	if len(k.held) == 0 {
		return
	}
	s.returned = s.returned.Union(k.held)
	k.held, k.releasing = nil, nil
	k.revision++
	ch.Head = true
}

// leave ends a rank. What it consumed moves to base, so that it is in the State of those who stay.
func (s *State) leave(r uint32, k *rank, ch *Changes) {
	checkpointing{s}.partLeaves(r, k, ch)
	s.giveBack(k, ch)
	s.base = s.base.Union(k.consumed)
	s.badRows.base = s.badRows.base.Plus(k.skips)
	k.consumed, k.skips, k.revoked = nil, nil, nil
	k.departed = true
	s.baseVersion++
	ch.Head = true
	ch.rank(r)
}

// revision numbers what a rank is told to hold. It changes when an epoch closes, too: a trainer forgets then what it
// consumed of it, and must not take older grants for work to do.
func (s *State) revision(k *rank) uint64 { return k.revision + uint64(s.closed) + s.policy().changes() }

// answer is the complete desired state of a rank.
func (s *State) answer(c *Sync, k *rank) Reply {
	r := s.common(Reply{
		Generation: s.generation, Incarnation: k.incarnation,
		Revision: s.revision(k), Release: k.releasing, Order: checkpointing{s}.order(k),
	}, c.BaseVersion)
	r.Unchanged = c.Revision == r.Revision
	return s.policy().answer(c.Rank, k, c.Steps, r)
}

func (c Expire) apply(s *State, ch *Changes) (Reply, error) {
	k := s.rank(c.Rank)
	if k == nil || k.incarnation != c.Incarnation || !k.present() {
		return Reply{}, nil
	}
	k.revoked = k.revoked.Union(k.held)
	k.expired, k.atRisk = true, c.Unreported
	ch.rank(c.Rank)
	s.giveBack(k, ch)
	return Reply{}, nil
}

// ask asks a rank to give back a part of what it holds.
func (s *State) ask(r uint32, k *rank, asked position.Set, ch *Changes) {
	if asked.Equal(k.releasing) {
		return
	}
	k.releasing, k.answered = asked, false
	k.revision++
	k.asked = s.revision(k)
	ch.rank(r)
}
