package transform

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/lookup"
	"github.com/penstock-ml/penstock/worker/vector"
)

// Compile prepares a Program's steps, of which some may call functions; nil: there are none. Tables are the Program's,
// of which those may be nil that no step looks values up in. Its errors name the step; they wrap ErrUnknownOp where r
// lacks the op or the version that the Program asks for. Close the chain.
func Compile(r *Registry, p *pb.Program, functions Functions, tables ...*lookup.Table) (*Chain, error) {
	c := &Chain{}
	if err := c.compile(r, p, functions, tables); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// compiler makes the steps of a chain, one after the other.
type compiler struct {
	*Chain
	ops       *Registry
	functions Functions
	tables    []*lookup.Table
	kernels   map[string]bound // see bindStep
	types     []spec.Type      // of the slots so far
	swells    []bool           // for each of them, see step
	behind    bool             // a barrier
	grows     bool             // that may make rows
}

func (c *Chain) compile(r *Registry, p *pb.Program, functions Functions, tables []*lookup.Table) error {
	with := compiler{Chain: c, ops: r, functions: functions, tables: tables, kernels: make(map[string]bound)}
	for _, s := range p.GetSources() {
		with.add(spec.TypeFromProto(s.GetType()), false)
		c.names = append(c.names, s.GetName())
	}
	c.sources = slices.Clone(with.types)
	for _, s := range p.GetSteps() {
		add, label := with.addOp, s.GetAt()
		if s.GetOp() == python {
			add, label = with.addFunction, functionLabel(s)
		}
		if err := add(s); err != nil {
			return fmt.Errorf("%s: %w", label, err)
		}
	}
	for _, b := range with.kernels {
		if k, ok := b.kernel.(Tabled); ok {
			c.tables += k.Table()
		}
	}
	c.slots = make([]*vector.Vector, len(with.types))
	c.order = depthFirst(len(c.sources), c.steps)
	c.findDarkrooms(p.GetOutputs())
	c.cutStages(with.types, p.GetOutputs())
	c.dead = outlive(len(c.sources), c.steps, c.order, p.GetOutputs())
	c.findEarly(p)
	return nil
}

// add adds a slot.
func (c *compiler) add(t spec.Type, swells bool) {
	c.types, c.swells = append(c.types, t), append(c.swells, swells)
}

// addOp adds a step that runs a kernel, or that selects rows.
func (c *compiler) addOp(s *pb.Step) error {
	b, err := c.bindStep(s)
	if err != nil {
		return err
	}
	if b.selector != nil {
		if c.behind {
			return fmt.Errorf("%s chooses rows of files, and stands behind a function that chooses or makes rows: "+
				"put it before", s.GetOp())
		}
		return c.addSelector(b.selector, s)
	}
	borrower, borrows := b.kernel.(Borrower)
	_, sizer := b.kernel.(Sizer)
	made := step{
		borrows: borrows,
		shares:  borrows && borrower.Borrows(),
		kernel:  b.kernel,
		op:      s.GetOp(),
		label:   fmt.Sprintf("%s (%s making %s)", s.GetAt(), s.GetOp(), s.GetName()),
		from:    s.GetIn(),
		in:      make([]*vector.Vector, len(s.GetIn())),
		slot:    len(c.types),
		outs:    1,
		typ:     b.out,
		swells:  sizer || c.grows || slices.ContainsFunc(s.GetIn(), func(slot uint32) bool { return c.swells[slot] }),
	}
	made.scratcher, _ = b.kernel.(Scratcher)
	if b.guest {
		made.guest = newGuest(len(s.GetIn()), borrows)
	}
	c.steps = append(c.steps, made)
	c.add(b.out, made.swells)
	return nil
}

// addSelector adds a step that chooses rows, by sources if it has inputs.
func (c *compiler) addSelector(s Selector, step *pb.Step) error {
	for _, slot := range step.GetIn() {
		if int(slot) >= len(c.sources) {
			return fmt.Errorf("%s looks at slot %d, and may look at the %d sources alone", step.GetOp(), slot,
				len(c.sources))
		}
	}
	if s, ok := s.(*sampler); ok && s.where != nil {
		c.Keep(s.where.Bytes())
	}
	c.selectors = append(c.selectors, selecting{
		selector: s, from: step.GetIn(), in: make([]*vector.Vector, len(step.GetIn())),
	})
	return nil
}

// bindStep binds a step. Those that are alike share a stateless kernel, or what does not change of one, of which
// kernels has those that there are: many columns go through the same op in turns, and find its tables in the caches.
func (c *compiler) bindStep(s *pb.Step) (bound, error) {
	op, err := c.ops.version(s.GetOp(), s.GetVersion())
	if err != nil {
		return bound{}, err
	}
	in := make([]spec.Type, len(s.GetIn()))
	for i, slot := range s.GetIn() {
		if int(slot) >= len(c.types) {
			return bound{}, fmt.Errorf("%s reads slot %d, but only %d come before it", s.GetOp(), slot, len(c.types))
		}
		in[i] = c.types[slot]
	}
	table, err := c.tableOf(op, s)
	if err != nil {
		return bound{}, err
	}
	alike, err := proto.MarshalOptions{Deterministic: true}.Marshal(&pb.Step{
		Op: s.GetOp(), Version: s.GetVersion(),
		Params: s.GetParams(), Table: s.Table,
	})
	if err != nil {
		return bound{}, err
	}
	alike = fmt.Append(alike, in)
	b, found := c.kernels[string(alike)]
	if !found {
		if b, err = op.join(s.GetParams(), in, table); err != nil {
			return bound{}, err
		}
		switch b.kernel.(type) {
		case stateless, repeatable:
			c.kernels[string(alike)] = b
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

// tableOf is the table of a step; nil if its op looks nothing up.
func (c *compiler) tableOf(op *Op, s *pb.Step) (*lookup.Table, error) {
	switch at := s.GetTable(); {
	case op.resolved:
		return nil, fmt.Errorf("%s is no step of a program", op.Name)
	case op.newLookup == nil:
		return nil, nil
	case s.Table == nil || int(at) >= len(c.tables) || c.tables[at] == nil:
		return nil, fmt.Errorf("%s looks values up in table %d, which there is not", op.Name, at)
	default:
		return c.tables[at], nil
	}
}
