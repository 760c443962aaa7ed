package session

import (
	"fmt"
	"slices"

	"github.com/penstock-ml/penstock/api/position"
)

// check verifies that base, consumed, held, returned and never-granted positions partition the epochs that are not
// closed.
func (s fast) check() error {
	start := position.Position{Epoch: s.closed}
	planned := make([]position.Interval, len(s.blocks.list))
	for i, b := range s.blocks.list {
		planned[i] = position.Interval{From: b.start(), To: b.end()}
	}
	sets := []owned{{from(s.base, start), "base"}, {s.returned, "returned"}}
	for i, k := range s.ranks {
		if k == nil {
			continue
		}
		sets = append(sets, ownedBy(uint32(i), k.held), ownedBy(uint32(i), from(k.consumed, start)))
		if err := s.checkRank(uint32(i), k, position.NewSet(planned...)); err != nil {
			return fmt.Errorf("session %s: %w", s.id.Session, err)
		}
	}
	if err := disjoint(sets); err != nil {
		return fmt.Errorf("session %s: granted twice: %w", s.id.Session, err)
	}
	if i := slices.IndexFunc(s.steps, func(e EpochSteps) bool { return e.Epoch >= s.closed }); i >= 0 {
		return fmt.Errorf("session %s: epoch %d has ended with %d steps, and is not closed",
			s.id.Session, s.steps[i].Epoch, s.steps[i].Steps)
	}
	if err := quarantine(s).checkSkipped(); err != nil {
		return fmt.Errorf("session %s: %w", s.id.Session, err)
	}
	at := start
	for _, iv := range sorted(sets) {
		if iv.From != at {
			return fmt.Errorf("session %s: nobody has %v", s.id.Session, position.Interval{From: at, To: iv.From})
		}
		at = iv.To
	}
	if at != s.frontier {
		return fmt.Errorf("session %s: the parts end at %v, and the frontier is %v", s.id.Session, at, s.frontier)
	}
	return nil
}

func (s fast) checkRank(r uint32, k *rank, planned position.Set) error {
	switch {
	case !planned.Covers(k.held):
		return fmt.Errorf("rank %d holds positions of blocks that are not in memory", r)
	case !s.blocks.canonicalSet(k.held).Equal(k.held):
		return fmt.Errorf("rank %d holds positions after the last shard of a block: %v, not %v",
			r, k.held, s.blocks.canonicalSet(k.held))
	case !k.held.Covers(k.releasing):
		return fmt.Errorf("rank %d is asked to release what it does not hold", r)
	case k.steps.Epoch > s.closed+s.policy().ahead(), k.steps.Handed > k.steps.Ready:
		return fmt.Errorf("rank %d is at %+v, and the open epoch is %d", r, k.steps, s.closed)
	case !k.present() && len(k.held) > 0:
		return fmt.Errorf("rank %d has departed or its lease has ended, but it holds positions", r)
	}
	return nil
}
