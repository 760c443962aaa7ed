package spec

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/natural"
	"github.com/penstock-ml/penstock/api/pb"
)

// Served says of which rows ResolveServed makes tensors, and which of them.
type Served struct {
	Outputs []string // names of tensors; none: all
	Absent  []string // columns of the schema that the rows do not have
}

// ResolveServed turns a spec into the program that makes of rows at hand what sessions make of the dataset's. Each row
// gives one: the program has no filter, and neither ops that choose rows nor such as are for training alone. A label
// whose columns the rows do not have is left out, and returned; any other tensor is one of the Problems, as are ops
// that draw at random.
func ResolveServed(s *pb.Spec, given Given, of Served) (p *pb.Program, without []string, err error) {
	r := newResolver(s, given)
	v := &serving{
		absent: map[string]bool{}, lacks: map[string]*feature{}, wanted: map[string]bool{}, training: map[string]bool{},
	}
	r.serving = v
	for _, name := range of.Absent {
		v.absent[name] = true
	}
	for _, name := range of.Outputs {
		v.wanted[name] = false
	}
	for i, t := range s.GetTransforms() {
		v.training[fmt.Sprintf("transforms[%d]", i)] = t.GetTrainingOnly()
	}
	r.checkCode(s.GetCode())
	r.defaulted(s)
	r.transforms(s)
	served := r.served(s)
	if len(served.GetFeatures()) > 0 {
		r.features(served)
	}
	r.checkPinned()
	if err := r.problems.err(); err != nil {
		return nil, nil, err
	}
	r.steps = slices.DeleteFunc(r.steps, func(st *step) bool { return v.skips(st.proto) })
	p = r.program(served)
	r.checkPins(s, p)
	r.repeats(p)
	return p, v.without, r.problems.err()
}

// serving is what a resolver knows of rows that are not the dataset's.
type serving struct {
	absent  map[string]bool     // columns
	lacks   map[string]*feature // that stand for what is not there
	wanted  map[string]bool     // tensors, by name, and whether they were found; empty: all are
	names   []string            // of all tensors
	without []string            // labels that are left out

	training map[string]bool // transforms that are for training alone, by where they stand
}

// lacking is the feature of a column that is not there.
func (v *serving) lacking(name string) *feature {
	if v.lacks[name] == nil {
		v.lacks[name] = &feature{name: name, lacks: name}
	}
	return v.lacks[name]
}

// wants reports whether a tensor is to be made.
func (v *serving) wants(name string) bool {
	if !slices.Contains(v.names, name) {
		v.names = append(v.names, name)
	}
	if len(v.wanted) == 0 {
		return true
	}
	_, wanted := v.wanted[name]
	if wanted {
		v.wanted[name] = true
	}
	return wanted
}

// skips reports whether a step is left out.
func (v *serving) skips(st *pb.Step) bool {
	return v.training[st.GetAt()] || st.GetOp() != FunctionOp && RowsOfStep(st) != SameRows
}

// defaulted has columns be there for which the spec has a default: in training, files may lack them, too.
func (r *resolver) defaulted(s *pb.Spec) {
	for _, f := range s.GetFeatures() {
		if f.GetDefault().GetKind() == nil || f.GetLayout() == pb.Layout_TENSOR {
			continue
		}
		for _, pattern := range f.GetName() {
			g, err := newGlob(pattern)
			maps.DeleteFunc(r.serving.absent, func(name string, _ bool) bool {
				return name == pattern || err == nil && g.match(name)
			})
		}
	}
}

// served is what of a spec is asked for: its features by their names, those that are wanted and there.
func (r *resolver) served(s *pb.Spec) *pb.Spec {
	out := &pb.Spec{Seed: s.GetSeed()}
	for i, f := range s.GetFeatures() {
		path := fmt.Sprintf("features[%d]", i)
		left := proto.CloneOf(f)
		left.Name = nil
		for _, feat := range r.expand(path, f.GetName()) {
			if r.gives(path, f, feat) {
				left.Name = append(left.Name, feat.name)
			}
		}
		if len(left.GetName()) > 0 {
			r.weighted(path, f.GetWeights())
		}
		out.Features = append(out.Features, left)
	}
	out.Features = slices.DeleteFunc(out.Features, func(f *pb.Feature) bool { return len(f.GetName()) == 0 })
	for _, name := range slices.Sorted(maps.Keys(r.serving.wanted)) {
		if !r.serving.wanted[name] {
			r.problems.add("outputs", "no tensor %s%s; there are %s", name,
				hint(natural.Nearest(name, slices.Values(r.serving.names))), few(r.serving.names))
		}
	}
	if len(r.problems) == 0 && len(out.GetFeatures()) == 0 {
		r.problems.add("features", "the rows have the columns of none; give them at least those of one: %s",
			few(r.serving.without))
	}
	return out
}

// gives reports whether a feature becomes a tensor, or one of the dense one's columns.
func (r *resolver) gives(path string, f *pb.Feature, feat *feature) bool {
	name := feat.name
	if f.GetLayout() == pb.Layout_DENSE {
		name = denseName
	}
	switch {
	case !r.serving.wants(name):
		return false
	case feat.lacks == "":
		return true
	case f.GetLayout() == pb.Layout_LABEL && len(r.serving.wanted) == 0:
		r.serving.without = append(r.serving.without, feat.name)
	case feat.lacks == feat.name:
		r.problems.add(path, "the rows have no column %s; give it, with nulls if need be, or leave its tensor out of "+
			"the outputs that you ask for", feat.lacks)
	default:
		r.problems.add(path, "%s is made of %s, and the rows have no such column; give it, with nulls if need be, or "+
			"leave the tensor out of the outputs that you ask for", feat.name, feat.lacks)
	}
	return false
}

// untyped refuses a glob that stands for columns of nulls alone, too: it would mean fewer features than in training.
func (r *resolver) untyped(g glob) error {
	for _, c := range r.index.columns {
		if r.serving != nil && c.Untyped && g.match(c.Name) {
			return fmt.Errorf("%s stands for %s, of which the rows have only nulls, and so no type; give the schema "+
				"of the training's data", g.pattern, c.Name)
		}
	}
	return nil
}

// weighted refuses values whose weights are not there.
func (r *resolver) weighted(path, weights string) {
	if weights == "" {
		return
	}
	if w, err := r.find(weights); err == nil && w.lacks != "" {
		r.problems.add(path+".weights", "the rows have no column %s; give it", w.lacks)
	}
}

// lack has what a function makes be unknown if one of its inputs is not there.
func (c *call) lack(in, outs []*feature) bool {
	i := slices.IndexFunc(in, func(f *feature) bool { return f.lacks != "" })
	if i < 0 {
		return false
	}
	for _, out := range outs {
		out.typ, out.lacks = Type{}, in[i].lacks
	}
	return true
}

// keeps reports whether a transform's result stands for its name from then on, in place of an input if it replaces
// one. When rows are served, that of a transform for training alone does not: the input takes its place, and must be
// like it.
func (r *resolver) keeps(path string, t *pb.Transform, result, in *feature) bool {
	if !t.GetTrainingOnly() {
		return true
	}
	const rule = "; when rows are served it is left out, so its result has to replace an input and to be of the same " +
		"type: leave training_only out"
	switch {
	case in == nil || in.name != result.name:
		r.problems.add(path+".training_only", "%s is a feature of its own"+rule, result.name)
	case !in.unknown() && !result.unknown() && in.typ != result.typ:
		r.problems.add(path+".training_only", "%s, and becomes %v"+rule, typed(in), result.typ)
	case r.serving != nil && !in.unknown() && !result.unknown():
		for _, st := range r.steps { // what was made of the input before was made of it alone
			for _, out := range st.outs {
				r.formula(out)
			}
		}
		in.formula = r.formula(result) // what is fitted behind it was so in training
	}
	return r.serving == nil
}

// repeats refuses what gives a row other values, or other rows, than the row alone decides.
func (r *resolver) repeats(p *pb.Program) {
	for _, st := range p.GetSteps() {
		what := "op " + st.GetOp()
		if f := st.GetPython(); f != nil {
			what = "the function " + f.GetName()
		}
		const marked = ": mark it by training_only: true if models are served without it"
		switch {
		case RowsOfStep(st) != SameRows:
			kind := strings.ToLower(st.GetPython().GetKind().String())
			r.problems.add(st.GetAt(), "%s is a %s, and each row that is served gives one"+marked, what, kind)
		case draws(st):
			r.problems.add(st.GetAt(), "%s draws at random, and a served row has the same values each time"+marked,
				what)
		}
	}
}
