package session

import (
	"fmt"
	"slices"

	"github.com/penstock-ml/penstock/api/position"
)

// owned is a set and who has it.
type owned struct {
	set   position.Set
	owner string
}

func ownedBy(rank uint32, set position.Set) owned {
	return owned{set: set, owner: fmt.Sprintf("rank %d", rank)}
}

type ownedInterval struct {
	position.Interval
	owner string
}

// sorted lists the intervals of sets in ascending order.
func sorted(sets []owned) []ownedInterval {
	var all []ownedInterval
	for _, o := range sets {
		for _, iv := range o.set {
			all = append(all, ownedInterval{iv, o.owner})
		}
	}
	slices.SortFunc(all, func(a, b ownedInterval) int { return a.From.Compare(b.From) })
	return all
}

// disjoint reports the first position that two sets share.
func disjoint(sets []owned) error {
	all := sorted(sets)
	for i := 1; i < len(all); i++ {
		if a, b := all[i-1], all[i]; b.From.Less(a.To) {
			return fmt.Errorf("%s and %s both have %v", a.owner, b.owner,
				position.Interval{From: b.From, To: earlier(a.To, b.To)})
		}
	}
	return nil
}

// Check verifies the invariants: above all those of the order.
func (s *State) Check() error {
	start := position.Position{Epoch: s.closed}
	if s.closed > s.id.Epochs || s.frontier.Less(start) || (position.Position{Epoch: s.id.Epochs}).Less(s.frontier) {
		return fmt.Errorf("session %s: %d epochs are closed of %d, and the frontier is %v",
			s.id.Session, s.closed, s.id.Epochs, s.frontier)
	}
	return s.policy().check()
}
