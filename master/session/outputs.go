package session

import (
	"fmt"
	"sort"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
	"github.com/penstock-ml/penstock/api/spec"
)

// Outputs are the output rows of a block, by shard, by window of the shard: counted when it is planned, or else the
// windows' rows. There may be fewer or more of these then: what is shared out by them is cut between windows.
type Outputs [][]uint32

// OutputsOf takes a block's outputs together.
func OutputsOf(b *pb.Block) Outputs {
	out := make(Outputs, len(b.GetShards()))
	for i, s := range b.GetShards() {
		for _, g := range s.GetExtents() {
			if len(g.GetOutputs()) > 0 {
				out[i] = append(out[i], g.GetOutputs()...)
				continue
			}
			out[i] = append(out[i], WindowRows(g)...)
		}
	}
	return out
}

// WindowRows lists the source rows of each window of a row group.
func WindowRows(g *pb.Extent) []uint32 {
	var out []uint32
	window := max(1, g.GetWindowRows())
	for left := g.GetRows(); left > 0; left -= window {
		out = append(out, uint32(min(left, window)))
	}
	return out
}

// MostOutputs lists how many output rows the windows of a row group have, or have at most if that was not counted.
func MostOutputs(g *pb.Extent, p *pb.Program) []uint32 {
	if len(g.GetOutputs()) > 0 {
		return g.GetOutputs()
	}
	out := WindowRows(g)
	for i, rows := range out {
		out[i] = spec.MostRows(p, rows)
	}
	return out
}

// counts are a block's outputs and their sums. They never change. None, nil, are of a block of which they are not
// known.
type counts struct {
	outputs Outputs
	starts  []uint64 // by shard, and of the block's end: output rows of the block before it
}

// countsOf are a block's counts.
func (s *State) countsOf(o Outputs) *counts {
	if s.policy().countsOutputs() || len(o) > 0 {
		return newCounts(o)
	}
	return nil
}

func newCounts(o Outputs) *counts {
	c := &counts{outputs: o, starts: make([]uint64, len(o)+1)}
	sum, ends := uint64(0), c.starts[1:]
	for i, windows := range o {
		for _, n := range windows {
			sum += uint64(n)
		}
		ends[i] = sum
	}
	return c
}

// rows of the block.
func (c *counts) rows() uint64 {
	if c == nil {
		return 0
	}
	return c.starts[len(c.outputs)]
}

// before is how many output rows of the block lie before p, a position of the block.
func (c *counts) before(p position.Position) uint64 {
	if c == nil || int64(p.Shard) >= int64(len(c.outputs)) {
		return c.rows()
	}
	n := c.starts[p.Shard]
	if p.Window == 0 && p.K == 0 {
		return n
	}
	for i, rows := range c.outputs[p.Shard] {
		switch {
		case uint32(i) < p.Window:
			n += uint64(rows)
		case uint32(i) == p.Window:
			n += min(p.K, uint64(rows))
		}
	}
	return n
}

// at is the position of output row n of the block: inside the window that has it. Behind the last row there is none.
func (c *counts) at(n uint64) (p position.Position, ok bool) {
	if n >= c.rows() {
		return position.Position{}, false
	}
	shard := sort.Search(len(c.outputs), func(i int) bool { return c.starts[i+1] > n })
	p.Shard, p.K = uint32(shard), n-c.starts[shard]
	for p.K >= uint64(c.outputs[shard][p.Window]) {
		p.K -= uint64(c.outputs[shard][p.Window])
		p.Window++
	}
	return p, true
}

// before is how many output rows of the block lie before p, which may lie outside of it.
func (b block) before(p position.Position) uint64 {
	switch {
	case b.has(p):
		return b.counts.before(p)
	case p.Less(b.start()):
		return 0
	}
	return b.counts.rows()
}

func (b block) has(p position.Position) bool { return p.Epoch == b.epoch && p.Block == b.index }

// at is the position of output row n of the block, or its end.
func (b block) at(n uint64) position.Position {
	p, ok := b.counts.at(n)
	if !ok {
		return b.end()
	}
	p.Epoch, p.Block = b.epoch, b.index
	return p
}

// checkOutputs finds what in a block's outputs does not fit the block.
func (b block) checkOutputs() error {
	if b.counts != nil && len(b.counts.outputs) != int(b.shards) {
		return fmt.Errorf("block %d of epoch %d has %d shards, and the outputs of %d are counted",
			b.index, b.epoch, b.shards, len(b.counts.outputs))
	}
	return nil
}
