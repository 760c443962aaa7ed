package reference

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/api/expr"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// program is a spec with its names resolved to slots, each of which is a source or the result of a step.
type program struct {
	sources []source
	types   []spec.Type // of each slot
	steps   []step
	filter  predicate // nil lets all rows pass
	outputs []output  // in the order of hashing
}

// source is a column, or one key of a map column.
type source struct {
	name     string
	slot     int
	column   column
	key      string
	fallback *cell // for files that lack the column; null
}

// step applies an op.
type step struct {
	at  string // "transforms[3]"
	in  []int
	out int // slot; of an op that selects rows, -1
	op  operation
}

// output is one tensor.
type output struct {
	field   Field
	slots   []int
	weights int // slot, or -1
	// fill is the one value that stands for nulls, and in padded tensors for padding; nil if there is none.
	fill *cell
	keep bool // padded and sparse: null elements stay
	// padded: the first values of longer lists stay, not the last
	first bool
}

// resolver builds a program.
type resolver struct {
	program
	columns     map[string]column
	filterSlots []int
	names       map[string]int // what a name means at this point of the spec
	defaults    map[string]*pb.Value
}

func resolve(s *pb.Spec, columns map[string]column, sides map[int]*side) (*program, error) {
	r := &resolver{columns: columns, names: map[string]int{}, defaults: map[string]*pb.Value{}}
	for _, f := range s.GetFeatures() {
		if f.GetDefault() == nil || f.GetLayout() == pb.Layout_TENSOR { // whose default is that of its nulls alone
			continue
		}
		for _, pattern := range f.GetName() {
			for _, name := range expand(pattern, r.known()) {
				r.defaults[name] = f.GetDefault()
			}
		}
	}
	if err := r.resolveFilter(s.GetFilter()); err != nil {
		return nil, fmt.Errorf("filter: %w", err)
	}
	for i, t := range s.GetTransforms() {
		if err := r.transform(fmt.Sprintf("transforms[%d]", i), t, sides[i]); err != nil {
			return nil, fmt.Errorf("transforms[%d]: %w", i, err)
		}
	}
	for i, f := range s.GetFeatures() {
		if err := r.feature(f); err != nil {
			return nil, fmt.Errorf("features[%d]: %w", i, err)
		}
	}
	if len(r.outputs) == 0 {
		return nil, errors.New("no features")
	}
	r.prune()
	slices.SortFunc(r.outputs, func(a, b output) int { return strings.Compare(a.field.Name, b.field.Name) })
	return &r.program, nil
}

// prune leaves out the steps and sources that no output needs.
func (r *resolver) prune() {
	needed := make([]bool, len(r.types))
	for _, o := range r.outputs {
		for _, slot := range o.slots {
			needed[slot] = true
		}
		if o.weights >= 0 {
			needed[o.weights] = true
		}
	}
	for _, slot := range r.filterSlots {
		needed[slot] = true
	}
	var steps []step
	for _, s := range slices.Backward(r.steps) {
		if s.out >= 0 && !needed[s.out] {
			continue
		}
		for _, slot := range s.in {
			needed[slot] = true
		}
		steps = append(steps, s)
	}
	slices.Reverse(steps)
	r.steps = steps
	r.sources = slices.DeleteFunc(r.sources, func(s source) bool { return !needed[s.slot] })
}

// known lists all names that a glob may stand for.
func (r *resolver) known() []string {
	var out []string
	for name, c := range r.columns {
		if !c.isMap && c.supported() && !c.key {
			out = append(out, name)
		}
	}
	for name := range r.names {
		if _, isColumn := r.columns[name]; !isColumn {
			out = append(out, name)
		}
	}
	return out
}

// expandAll expands names and globs, each name once.
func (r *resolver) expandAll(patterns []string) ([]string, error) {
	var out []string
	for _, p := range patterns {
		names := expand(p, r.known())
		if len(names) == 0 {
			return nil, fmt.Errorf("no feature matches %s", p)
		}
		for _, n := range names {
			if !slices.Contains(out, n) {
				out = append(out, n)
			}
		}
	}
	return out, nil
}

// slot returns what a name stands for, making a source of it where it is a column not used so far.
func (r *resolver) slot(name string) (int, error) {
	if slot, ok := r.names[name]; ok {
		return slot, nil
	}
	return r.source(name)
}

func (r *resolver) source(name string) (int, error) {
	src := source{name: name, fallback: &cell{null: true}}
	var ok bool
	if src.column, ok = r.columns[name]; !ok {
		if src.column, src.key, ok = r.mapKey(name); !ok {
			return 0, fmt.Errorf("no feature %s", name)
		}
	}
	if !src.column.supported() || src.column.isMap != (src.key != "") {
		return 0, fmt.Errorf("%s cannot be a feature", name)
	}
	if d := r.defaults[name]; d != nil {
		var err error
		if src.fallback, err = constant(d, src.column.typ); err != nil {
			return 0, fmt.Errorf("default of %s: %w", name, err)
		}
	}
	src.slot = r.add(src.column.typ)
	r.sources = append(r.sources, src)
	r.names[name] = src.slot
	return src.slot, nil
}

// columnSlot is the slot of a column of the files, whatever else bears its name by now.
func (r *resolver) columnSlot(name string) (int, error) {
	for _, s := range r.sources {
		if s.name == name {
			return s.slot, nil
		}
	}
	meant, hidden := r.names[name]
	slot, err := r.source(name)
	if hidden {
		r.names[name] = meant
	}
	return slot, err
}

// mapKey splits a name into a map column, with the longest name that there is, and one of its keys.
func (r *resolver) mapKey(name string) (column, string, bool) {
	for i := len(name) - 1; i > 0; i-- {
		if name[i] != '.' {
			continue
		}
		if c := r.columns[name[:i]]; c.isMap {
			return c, name[i+1:], true
		}
		for _, field := range []string{".key", ".value"} {
			key, ok := strings.CutSuffix(name[i+1:], field)
			if c := r.columns[name[:i]+".*"+field]; ok && c.isMap {
				return c, key, true
			}
		}
	}
	return column{}, "", false
}

func (r *resolver) add(t spec.Type) int {
	r.types = append(r.types, t)
	return len(r.types) - 1
}

// transform adds the steps of one; of tables only lookups have one.
func (r *resolver) transform(at string, t *pb.Transform, table *side) error {
	if text := expressionOf(t); text != "" {
		n, err := expr.Parse(text)
		if err != nil {
			return err
		}
		return r.apply(at, ops()[t.GetOp()], t, n.Columns(), t.GetOut())
	}
	names, err := r.expandAll(t.GetIn())
	if err != nil {
		return err
	}
	if table != nil {
		return r.lookup(at, t, names, table)
	}
	op, ok := ops()[t.GetOp()]
	if !ok {
		return fmt.Errorf("no op %s", t.GetOp())
	}
	if !op.maps {
		return r.apply(at, op, t, names, t.GetOut())
	}
	for _, name := range names {
		out := strings.ReplaceAll(t.GetOut(), "{}", name)
		if out == "" {
			out = name
		}
		if err := r.apply(at, op, t, []string{name}, out); err != nil {
			return err
		}
	}
	return nil
}

func (r *resolver) apply(at string, op opMaker, t *pb.Transform, in []string, out string) error {
	s := step{at: at, out: -1}
	var types []spec.Type
	look := r.slot
	if t.GetOp() == "sample" { // which looks at columns of the files
		look = r.columnSlot
	}
	for _, name := range in {
		slot, err := look(name)
		if err != nil {
			return err
		}
		s.in = append(s.in, slot)
		if t := r.types[slot]; t.Nested > 0 {
			return fmt.Errorf("%s is %v, which no op takes", name, t)
		}
		types = append(types, r.types[slot])
	}
	var err error
	if s.op, err = op.make(parameters(t.GetParams()), types); err != nil {
		return fmt.Errorf("%s: %w", t.GetOp(), err)
	}
	if s.op.run != nil {
		s.out = r.add(s.op.out)
		r.names[out] = s.out
	}
	r.steps = append(r.steps, s)
	return nil
}

func (r *resolver) feature(f *pb.Feature) error {
	names, err := r.expandAll(f.GetName())
	if err != nil {
		return err
	}
	for _, name := range names {
		slot, err := r.slot(name)
		if err != nil {
			return err
		}
		if err := r.output(f, name, slot); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// denseName is the name of the one dense block.
const denseName = "dense"

func (r *resolver) output(f *pb.Feature, name string, slot int) error {
	t := r.types[slot]
	o := output{field: Field{Name: name, Layout: f.GetLayout(), Kind: t.Kind}, slots: []int{slot}, weights: -1}
	if !takes(f.GetLayout(), t) {
		return fmt.Errorf("%v cannot be %v", t, f.GetLayout())
	}
	switch f.GetLayout() {
	case pb.Layout_DENSE:
		return r.dense(name, slot)
	case pb.Layout_SPARSE:
		if err := r.sparse(&o, f, t); err != nil {
			return err
		}
	case pb.Layout_TENSOR:
		if err := r.tensor(&o, f, slot); err != nil {
			return err
		}
	case pb.Layout_PADDED:
		if err := r.padded(&o, f, slot); err != nil {
			return err
		}
	case pb.Layout_IMAGE:
		o.field.Shape = f.GetShape()
	case pb.Layout_LABEL, pb.Layout_BYTES:
	default:
		return fmt.Errorf("unknown layout %v", f.GetLayout())
	}
	r.outputs = append(r.outputs, o)
	return nil
}

// takes reports whether a layout takes a type, as to its lists.
func takes(l pb.Layout, t spec.Type) bool {
	switch l {
	case pb.Layout_TENSOR:
		return true
	case pb.Layout_PADDED:
		return t.List && t.Nested == 0
	case pb.Layout_SPARSE:
		return t.Nested == 0
	}
	return !t.List
}

// sparse completes an output of layout sparse.
func (r *resolver) sparse(o *output, f *pb.Feature, t spec.Type) (err error) {
	o.field.Kind = pb.Kind_INT64
	none := zero(o.field.Kind)
	if holdingOf(t.Kind) == storedFloats {
		o.field.Kind = pb.Kind_FLOAT32
		none = &pb.Value{Kind: &pb.Value_Float{Float: math.NaN()}}
	}
	if o.keep = f.GetNulls() == pb.Nulls_KEEP; o.keep {
		if f.GetValue().GetKind() != nil {
			none = f.GetValue()
		}
		if err := o.setFill(none); err != nil {
			return err
		}
	}
	if f.GetWeights() == "" {
		return nil
	}
	if o.weights, err = r.slot(f.GetWeights()); err != nil {
		return fmt.Errorf("weights: %w", err)
	}
	if w := r.types[o.weights]; w.Nested > 0 {
		return fmt.Errorf("weights are %v", w)
	}
	o.field.Weighted = true
	return nil
}

// dense adds a column to the dense block, unless it is there already.
func (r *resolver) dense(name string, slot int) error {
	at := slices.IndexFunc(r.outputs, func(o output) bool { return o.field.Layout == pb.Layout_DENSE })
	if at < 0 {
		at = len(r.outputs)
		r.outputs = append(r.outputs,
			output{field: Field{Name: denseName, Layout: pb.Layout_DENSE, Kind: pb.Kind_FLOAT32}, weights: -1})
	}
	o := &r.outputs[at]
	if slices.Contains(o.slots, slot) {
		return nil
	}
	o.field.Columns, o.slots = append(o.field.Columns, name), append(o.slots, slot)
	return nil
}
