package session

import (
	"slices"

	"github.com/penstock-ml/penstock/api/position"
)

// batch is the number of rows of a rank's batch.
func (s *State) batch() uint64 {
	if s.id.GlobalBatch > 0 {
		return s.id.GlobalBatch / uint64(s.world)
	}
	return s.id.BatchSize
}

// countLeft counts the rows that are left of each epoch.
func (s *State) countLeft() {
	if !s.policy().sharesOut() {
		return
	}
	sets := []position.Set{s.returned, {s.ungranted()}}
	for _, k := range s.ranks {
		if k != nil {
			sets = append(sets, k.held)
		}
	}
	for i := range s.blocks.epochs {
		e := &s.blocks.epochs[i]
		e.left = 0
		for _, set := range sets {
			e.left += s.blocks.rowsIn(within(set, e.epoch))
		}
	}
}

// countPlanned adds the rows that are left of a block that is planned now.
func (s *State) countPlanned(b block) {
	if s.policy().sharesOut() {
		all := position.Set{{From: b.start(), To: b.end()}}
		s.blocks.epoch(b.epoch).left += s.blocks.rowsIn(s.returned.Intersect(all)) + s.blocks.rowsIn(all.Intersect(position.Set{s.ungranted()}))
	}
}

// countConsumed takes what was consumed off what is left.
func (s *State) countConsumed(news position.Set) {
	if !s.policy().sharesOut() {
		return
	}
	for i := range s.blocks.epochs {
		s.blocks.epochs[i].left -= s.blocks.rowsIn(within(news, s.blocks.epochs[i].epoch))
	}
}

// within is the part of a set that lies in an epoch.
func within(s position.Set, epoch uint32) position.Set {
	all := position.Interval{From: position.Position{Epoch: epoch}, To: position.Position{Epoch: epoch + 1}}
	switch {
	case len(s) == 0 || !s[0].From.Less(all.To):
		return nil
	case !s[0].From.Less(all.From) && !all.To.Less(s[len(s)-1].To): // most often
		return slices.Clip(s)
	}
	return s.Intersect(position.Set{all})
}
