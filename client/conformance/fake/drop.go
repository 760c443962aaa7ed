package fake

import (
	"github.com/penstock-ml/penstock/api/position"
)

// drop is a master's part in sessions of order fast whose ranks get equally many full batches.
type drop struct{ *Master }

// rowsToCome are those of an epoch that were granted, or are returned, after the steps that this master began with.
func (m drop) rowsToCome(epoch uint32) (rows int, handed uint64, final bool) {
	granted := min(max(0, m.Next-int(epoch)*len(m.Data.Shards)), len(m.Data.Shards))
	set := position.Set{{From: m.Data.Start(epoch, 0), To: m.Data.Start(epoch, granted)}}
	if m.begun != nil && epoch == m.begun.GetEpoch() {
		set, handed = set.Subtract(m.base), m.begun.GetHanded()
	}
	return m.Data.rowsIn(set), handed, granted == len(m.Data.Shards)
}

// capped is the part of what could be granted that a rank needs.
func (m drop) capped(r *Member, got position.Set) position.Set {
	need, final := m.need(r)
	if !final {
		return got
	}
	return got.Subtract(m.Data.tail(m.open(got), max(0, need-m.Data.rowsIn(m.open(r.Held)))))
}

// recall asks ranks for what they do not need, where nothing is free.
func (m drop) recall() {
	if m.Data.rowsIn(m.open(m.Returned)) == 0 {
		for _, r := range m.Ranks {
			m.Release = m.Release.Union(m.surplus(r))
		}
	}
}

// surplus is what a rank holds of the open epoch beyond the steps that it has still to make.
func (m drop) surplus(r *Member) position.Set {
	need, final := m.need(r)
	if !final {
		return nil
	}
	return m.Data.tail(m.open(r.Held), need)
}

// need is how many rows of the open epoch a rank has still to get.
func (m drop) need(r *Member) (rows int, final bool) {
	steps, final := m.countedSteps(m.Closed)
	switch {
	case r.steps.GetEpoch() > m.Closed || r.steps.GetHanded() > steps:
		return 0, final
	case r.steps.GetEpoch() == m.Closed:
		steps -= r.steps.GetHanded()
	}
	return int(steps) * int(m.global()) / int(m.World), final
}

// open is the part of a set in the open epoch.
func (m drop) open(set position.Set) position.Set {
	return set.Intersect(
		position.Set{{From: position.Position{Epoch: m.Closed}, To: position.Position{Epoch: m.Closed + 1}}})
}
