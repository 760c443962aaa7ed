package transform

import (
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// earlier is a Kernel that whoever makes its input may run in its place.
type earlier interface {
	Kernel
	early(input spec.Type) vector.Early
}

// findEarly marks the steps that take a source which nothing else reads.
func (c *Chain) findEarly(p *pb.Program) {
	readers := make([]int, len(c.slots))
	for i := range c.steps {
		for _, slot := range c.steps[i].from {
			readers[slot]++
		}
	}
	for _, o := range p.GetOutputs() {
		for _, slot := range o.GetSlots() {
			readers[slot]++
		}
		if o.Weights != nil {
			readers[o.GetWeights()]++
		}
	}
	c.early = make([]int, len(c.sources))
	for i := range c.early {
		c.early[i] = -1
	}
	for i := range c.steps {
		s := &c.steps[i]
		if _, can := s.kernel.(earlier); can && len(s.from) == 1 && int(s.from[0]) < len(c.sources) && readers[s.from[0]] == 1 {
			s.early, c.early[s.from[0]] = true, i
		}
	}
}

// Early returns the step that the maker of a source's values may take on the way, if there is one. Run leaves it out where
// the source's vector says that it was taken.
func (c *Chain) Early(source int) (vector.Early, bool) {
	at := c.early[source]
	if at < 0 {
		return vector.Early{}, false
	}
	return c.steps[at].kernel.(earlier).early(c.sources[source]), true
}
