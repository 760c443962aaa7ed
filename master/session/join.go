package session

import (
	"github.com/penstock-ml/penstock/api/pb"
)

func (c Join) apply(s *State, ch *Changes) (Reply, error) {
	if c.Nonce == "" {
		return Reply{}, invalid("join of rank %d without a nonce", c.Rank)
	}
	if k := s.rank(c.Rank); k != nil && k.nonce == c.Nonce {
		return s.welcome(k), nil
	}
	if c.World == 0 || c.World > maxWorld || c.Rank >= c.World {
		return Reply{}, invalid("join as rank %d of %d: the world size is between 1 and %d, and ranks count from 0",
			c.Rank, c.World, maxWorld)
	}
	if c.Restoring || len(c.Restore) > 0 {
		return c.restoreWith(s, ch)
	}
	if c.World != s.world {
		return Reply{}, invalid(
			"rank %d joins with world size %d, but the session has %d: another one needs a collective restore",
			c.Rank, c.World, s.world)
	}
	if s.failure != "" {
		return Reply{}, failed(s.failure)
	}
	return s.welcome(c.start(s, ch)), nil
}

// start makes the caller the present start of its rank. An earlier one is dead, and with it the rows it had buffered.
func (c Join) start(s *State, ch *Changes) *rank {
	ch.rank(c.Rank)
	s.restore.forget(c.Rank)
	k := s.ranks[c.Rank]
	if k == nil {
		k = &rank{
			incarnation: 1, revision: 1, nonce: c.Nonce, kind: pb.JoinKind_FRESH, steps: s.begun,
			begunStep: s.from.Step,
		}
		s.ranks[c.Rank] = k
		s.absent--
		s.begin(k, ch)
		s.baseVersion++
		ch.Head = true
		return k
	}
	if k.present() {
		k.mayRepeat += c.Unreported
	}
	k.mayRepeat, k.atRisk = k.mayRepeat+k.atRisk, 0
	s.giveBack(k, ch)
	k.kind = pb.JoinKind_REJOIN
	if k.departed {
		k.kind = pb.JoinKind_FRESH
		s.baseVersion++
		ch.Head = true
	}
	k.begunStep, k.part = k.step(), nil // its loop may come to the step again, having got other rows
	k.incarnation++
	k.revision++
	k.nonce, k.departed, k.expired, k.revoked, k.asked = c.Nonce, false, false, nil, 0
	k.earlier, k.counters = k.total(), Counters{}
	s.begin(k, ch)
	return k
}

func (s *State) welcome(k *rank) Reply {
	r := Reply{
		Kind: k.kind, Generation: s.generation, Incarnation: k.incarnation,
		Consumed: k.consumed, Skips: k.skips, Begun: k.begun, Earlier: k.earlier,
	}
	r.Starts = s.policy().starts(k)
	return s.common(r, 0)
}
