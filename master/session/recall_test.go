package session

import "github.com/penstock-ml/penstock/api/position"

// Recall asks a rank to give back the part of Set that it holds. Dropping asks so for what a rank does not need, this
// for any part.
type Recall struct {
	Rank uint32
	Set  position.Set
}

func (c Recall) apply(s *State, ch *Changes) (Reply, error) {
	k := s.rank(c.Rank)
	switch {
	case k == nil:
		return Reply{}, invalid("recall from rank %d, which has not joined", c.Rank)
	case s.id.Lanes > 0:
		return Reply{}, invalid("recall from rank %d: in deterministic order, rows stay with their lanes", c.Rank)
	}
	s.ask(c.Rank, k, k.releasing.Union(s.blocks.canonicalSet(c.Set).Intersect(k.held)), ch)
	return Reply{}, nil
}
