package session

import (
	"math"

	"github.com/penstock-ml/penstock/api/position"
)

// stripCells is how finely a strip tells of an epoch.
const stripCells = 128

// strip draws the open epoch as cells that stand for equal parts of its blocks: how much of each was handed over or
// left out, and how much trainers hold. It is nil while nothing of the epoch is planned. Work follows what is in
// flight: all before the frontier is done, but for what is held or returned. A shard that is held in part counts as
// held.
func (s *State) strip() (done, held []byte) {
	e := s.blocks.epoch(s.closed)
	if e == nil || e.blocks == 0 {
		return nil, nil
	}
	var doneShare, heldShare [stripCells]float64
	add := func(cells *[stripCells]float64, from, to position.Position, sign float64) {
		a, b := s.blocks.along(e, from)*stripCells, s.blocks.along(e, to)*stripCells
		for i := int(a); i < stripCells && float64(i) < b; i++ {
			cells[i] += sign * (min(b, float64(i+1)) - max(a, float64(i)))
		}
	}
	add(&doneShare, position.Position{Epoch: s.closed}, s.frontier, 1)
	for _, iv := range s.returned {
		add(&doneShare, iv.From, iv.To, -1)
	}
	for _, k := range s.ranks {
		if k == nil {
			continue
		}
		for _, iv := range k.held {
			add(&doneShare, iv.From, iv.To, -1)
			add(&heldShare, iv.From, iv.To, 1)
		}
	}
	return bytesOf(doneShare), bytesOf(heldShare)
}

// along is where in its epoch the shard of a place begins, 0 to 1; places of earlier and later epochs are at its ends.
func (all *plannedBlocks) along(e *epochPlan, p position.Position) float64 {
	switch {
	case p.Epoch < e.epoch:
		return 0
	case p.Epoch > e.epoch || p.Block >= e.blocks:
		return 1
	}
	at := float64(p.Block)
	if b, ok := all.find(p); ok && b.shards > 0 {
		at += min(1, float64(p.Shard)/float64(b.shards))
	}
	return at / float64(e.blocks)
}

func bytesOf(shares [stripCells]float64) []byte {
	out := make([]byte, stripCells)
	for i, x := range shares {
		out[i] = byte(math.Round(255 * min(1, max(0, x))))
	}
	return out
}
