package transform

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// Compile prepares a Program's steps. Its errors name the step; they wrap ErrUnknownOp where r lacks the op or the
// version that the Program asks for.
func Compile(r *Registry, p *pb.Program) (*Chain, error) {
	c := &Chain{}
	types := make([]spec.Type, 0, len(p.GetSources())+len(p.GetSteps()))
	for _, s := range p.GetSources() {
		types = append(types, spec.TypeFromProto(s.GetType()))
		c.names = append(c.names, s.GetName())
	}
	c.sources = types[:len(types):len(types)]
	kernels := make(map[string]bound)
	swells := make([]bool, len(types), cap(types)) // for each slot
	for _, s := range p.GetSteps() {
		b, err := bindStep(r, s, types, kernels)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.GetAt(), err)
		}
		if b.selector != nil {
			c.selectors = append(c.selectors, b.selector)
			continue
		}
		borrower, borrows := b.kernel.(Borrower)
		c.steps = append(c.steps, step{
			borrows: borrows,
			shares:  borrows && borrower.Borrows(),
			kernel:  b.kernel,
			op:      s.GetOp(),
			label:   fmt.Sprintf("%s (%s making %s)", s.GetAt(), s.GetOp(), s.GetName()),
			from:    s.GetIn(),
			in:      make([]*vector.Vector, len(s.GetIn())),
			slot:    len(types),
			typ:     b.out,
		})
		made := &c.steps[len(c.steps)-1]
		_, sizer := b.kernel.(Sizer)
		made.swells = sizer || slices.ContainsFunc(s.GetIn(), func(slot uint32) bool { return swells[slot] })
		types, swells = append(types, b.out), append(swells, made.swells)
		made.scratcher, _ = b.kernel.(Scratcher)
		if b.guest {
			made.guest = newGuest(len(s.GetIn()), borrows)
		}
	}
	for _, b := range kernels {
		if k, ok := b.kernel.(Tabled); ok {
			c.tables += k.Table()
		}
	}
	c.slots = make([]*vector.Vector, len(types))
	c.order = depthFirst(len(c.sources), c.steps)
	c.dead = outlive(len(c.sources), c.steps, c.order, p.GetOutputs())
	c.findEarly(p)
	return c, nil
}

// bindStep binds a step. Those that are alike share a stateless kernel, or what does not change of one, of which
// kernels has those that there are: many columns go through the same op in turns, and find its tables in the caches.
func bindStep(r *Registry, s *pb.Step, types []spec.Type, kernels map[string]bound) (bound, error) {
	op, err := r.version(s.GetOp(), s.GetVersion())
	if err != nil {
		return bound{}, err
	}
	in := make([]spec.Type, len(s.GetIn()))
	for i, slot := range s.GetIn() {
		if int(slot) >= len(types) {
			return bound{}, fmt.Errorf("%s reads slot %d, but only %d come before it", s.GetOp(), slot, len(types))
		}
		in[i] = types[slot]
	}
	alike, err := proto.MarshalOptions{Deterministic: true}.Marshal(&pb.Step{
		Op: s.GetOp(), Version: s.GetVersion(),
		Params: s.GetParams(),
	})
	if err != nil {
		return bound{}, err
	}
	alike = fmt.Append(alike, in)
	b, found := kernels[string(alike)]
	if !found {
		if b, err = op.bind(s.GetParams(), in); err != nil {
			return bound{}, err
		}
		switch b.kernel.(type) {
		case stateless, repeatable:
			kernels[string(alike)] = b
		}
	} else if k, ok := b.kernel.(repeatable); ok {
		b.kernel = k.again()
	}
	outs := uint32(1)
	if b.selector != nil {
		outs = 0
	}
	if s.GetOuts() != outs {
		return bound{}, fmt.Errorf("%s makes %d features, but the program counts %d", s.GetOp(), outs, s.GetOuts())
	}
	if want := spec.TypeFromProto(s.GetType()); outs == 1 && want != b.out {
		return bound{}, fmt.Errorf("%s makes %v of its inputs, but the program says %v", s.GetOp(), b.out, want)
	}
	return b, nil
}
