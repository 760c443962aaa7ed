package transform

import (
	"math"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// earlier is a Kernel that whoever makes its input may run in its place.
type earlier interface {
	Kernel
	early(input spec.Type) vector.Early
}

// findEarly marks the steps that take a source which nothing else reads, the sources whose values behind that step, if
// there is one, are read by nothing but outputs that take narrow ones, and those that only dense outputs read.
func (c *Chain) findEarly(p *pb.Program) {
	readers, takers, stackers := make([]int, len(c.slots)), make([]int, len(c.slots)), make([]int, len(c.slots))
	for i := range c.steps {
		for _, slot := range c.steps[i].from {
			readers[slot]++
		}
	}
	for _, slot := range c.SelectsBy() {
		readers[slot]++
	}
	for _, o := range p.GetOutputs() {
		for _, slot := range o.GetSlots() {
			readers[slot]++
			switch o.GetLayout() {
			case pb.Layout_SPARSE, pb.Layout_LABEL, pb.Layout_TENSOR, pb.Layout_PADDED:
				takers[slot]++
			case pb.Layout_DENSE:
				stackers[slot]++
			}
		}
		if o.Weights != nil {
			readers[o.GetWeights()]++
		}
	}
	only := func(by []int, slot int) bool { return readers[slot] > 0 && readers[slot] == by[slot] }
	narrow := func(slot int, t spec.Type) bool { return t.Kind == pb.Kind_INT64 && only(takers, slot) }
	c.early, c.narrow, c.stacked = make([]int, len(c.sources)), make([]bool, len(c.sources)), make([]bool,
		len(c.sources))
	for i, t := range c.sources {
		c.early[i], c.narrow[i], c.stacked[i] = -1, narrow(i, t), only(stackers, i)
	}
	for i := range c.steps {
		s := &c.steps[i]
		if _, can := s.kernel.(earlier); can && len(s.from) == 1 && int(s.from[0]) < len(c.sources) &&
			readers[s.from[0]] == 1 {
			s.early, c.early[s.from[0]] = true, i
			c.narrow[s.from[0]] = narrow(s.slot, s.typ)
		}
	}
}

// Early returns what the maker of a source's values may do on the way, if there is anything. Run leaves the step out
// where the source's vector says that it was taken.
func (c *Chain) Early(source int) (vector.Early, bool) {
	at, e := c.early[source], vector.Early{}
	if at >= 0 {
		e = c.steps[at].kernel.(earlier).early(c.sources[source])
	}
	if c.stacked[source] {
		e.Fill = nan(c.sources[source].Kind)
	}
	e.Narrow = c.narrow[source]
	return e, e.Fill != nil || e.Change != nil || e.Narrow
}

// nan is what dense outputs show of null; nil: of a kind that has none.
func nan(kind pb.Kind) *vector.Vector {
	v := &vector.Vector{Type: spec.Type{Kind: kind}, Rows: 1}
	switch kind {
	case pb.Kind_FLOAT32:
		v.F32 = []float32{float32(math.NaN())}
	case pb.Kind_FLOAT64:
		v.F64 = []float64{math.NaN()}
	default:
		return nil
	}
	return v
}

// mayBeNarrow reports whether all readers of a source's vector take its values as U32.
func (c *Chain) mayBeNarrow(source int, v *vector.Vector) bool {
	return c.narrow[source] && (c.early[source] < 0 || v.Early)
}
