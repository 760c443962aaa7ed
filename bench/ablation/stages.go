package main

import (
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/transform"
	"github.com/penstock-ml/penstock/worker/vector"
)

// transforms makes a window's slots of its sources.
type transforms interface {
	Run(sources []*vector.Vector) ([]*vector.Vector, error)
}

// stages are a program's transforms, each of which goes over all of its columns before the next one begins, to arrays of its own.
type stages []*transform.Chain

// Run makes the slots.
func (s stages) Run(slots []*vector.Vector) ([]*vector.Vector, error) {
	for _, c := range s {
		var err error
		if slots, err = c.Run(slots); err != nil {
			return nil, err
		}
	}
	return slots, nil
}

// newStages makes a chain of each transform, whose sources are all slots before. It names no outputs, so that no slot's memory is
// used again.
func newStages(p *pb.Program) (stages, error) {
	var out stages
	slots := p.GetSources()
	for steps := p.GetSteps(); len(steps) > 0; {
		n := 1
		for n < len(steps) && steps[n].GetAt() == steps[0].GetAt() {
			n++
		}
		c, err := transform.Compile(transform.Builtin(), &pb.Program{Sources: slots, Steps: steps[:n]})
		if err != nil {
			return nil, err
		}
		out = append(out, c)
		slots = slots[:len(slots):len(slots)]
		for _, s := range steps[:n] {
			slots = append(slots, &pb.Source{Name: s.GetName(), Type: s.GetType()})
		}
		steps = steps[n:]
	}
	return out, nil
}
