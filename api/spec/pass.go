package spec

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/expr"
	"github.com/penstock-ml/penstock/api/pb"
)

// Pass is one reading of a dataset for statistics that a spec asks for.
type Pass struct {
	// Spec has the columns of Asked as its features, in layouts that keep all values as they are.
	Spec  *pb.Spec
	Asked []Asked
}

// Asked is a feature of a Pass, and what is asked of it.
type Asked struct {
	Column     string
	Type       Type   // lists of texts come packed, as PackOp has them
	Unsigned   bool   // its int64s are the bits of uint64s
	Present    string // a column of bools that says where it is not null; "": it shows itself
	Statistics []Statistic
	At         string // the first transform that asks
}

// NextPass returns what has to be read to fit what a spec asks for and Given.Fitted lacks: all statistics that depend
// on none that is missing. What depends on these takes another pass. It is empty if nothing is missing.
func NextPass(s *pb.Spec, given Given) (*Pass, error) {
	r := newResolver(s, given)
	r.pass = &pass{}
	r.session(s)
	r.transforms(s)
	r.filter(s.GetFilter())
	if len(s.GetFeatures()) > 0 { // else nobody has decided what becomes of them
		r.features(s)
	}
	if err := r.problems.err(); err != nil {
		return nil, err
	}
	pass := r.nextPass(s)
	return pass, r.problems.err()
}

// pass gathers what is asked of which features.
type pass struct {
	asked []*askedFeature
}

type askedFeature struct {
	*feature
	at         string
	statistics []Statistic
}

func (p *pass) ask(f *feature, at string, statistics []Statistic) {
	i := slices.IndexFunc(p.asked, func(a *askedFeature) bool { return a.feature == f })
	if i < 0 {
		i = len(p.asked)
		p.asked = append(p.asked, &askedFeature{feature: f, at: at})
	}
	for _, s := range statistics {
		known := func(o Statistic) bool { return o.String() == s.String() }
		if !slices.ContainsFunc(p.asked[i].statistics, known) {
			p.asked[i].statistics = append(p.asked[i].statistics, s)
		}
	}
}

// nextPass makes the spec of a pass: the dataset's rows, as the spec chooses them, and the steps that what is asked for
// needs. Each result has a name of its own there, since transforms may give several the same one, in turns.
func (r *resolver) nextPass(s *pb.Spec) *Pass {
	out := &Pass{Spec: &pb.Spec{
		Dataset: s.GetDataset(), Filter: s.GetFilter(), Seed: s.GetSeed(), OnError: s.GetOnError(),
		Code: s.GetCode(), Python: s.GetPython(), Fitted: s.GetFitted(),
		Epochs: 1, LastBatch: pb.LastBatch_UNEVEN, BatchSize: passBatch,
	}}
	for _, f := range r.pass.asked {
		f.needed = true
	}
	r.needInputs()
	names := map[*feature]string{}
	nameOf := func(f *feature) string {
		if f.source != nil {
			return f.name
		}
		return names[f]
	}
	for _, st := range r.steps {
		if !st.needed() || st.proto.GetOp() == LookupRowOp { // lookups of its columns have it, too
			continue
		}
		for _, f := range st.outs {
			names[f] = r.fresh(len(names))
		}
		out.Spec.Transforms = append(out.Spec.Transforms, st.again(nameOf))
	}
	for _, f := range r.pass.asked {
		asked := Asked{
			Column: nameOf(f.feature), Type: f.typ, Unsigned: f.meaning == "uint64", Statistics: f.statistics, At: f.at,
		}
		layout := passLayout(f.typ)
		if isTexts(f.typ) {
			out.Spec.Transforms = append(out.Spec.Transforms, packing(asked.Column))
		} else if layout == pb.Layout_LABEL || layout == pb.Layout_BYTES {
			asked.Present = r.fresh(len(names))
			names[&feature{}] = asked.Present
			out.Spec.Transforms = append(out.Spec.Transforms, &pb.Transform{
				Op: ExprOp, Out: asked.Present, Params: map[string]*pb.Value{
					ExprOp: {Kind: &pb.Value_Text{Text: expr.ColumnName(asked.Column) + " is not null"}},
				},
			})
			out.Spec.Features = append(out.Spec.Features, featureOf(pb.Layout_LABEL, asked.Present))
		}
		out.Spec.Features = append(out.Spec.Features, featureOf(layout, asked.Column))
		out.Asked = append(out.Asked, asked)
	}
	r.passDefaults(s, out.Spec)
	if !slices.ContainsFunc(out.Spec.Transforms, func(t *pb.Transform) bool { return t.GetPython() != nil }) {
		out.Spec.Code, out.Spec.Python = nil, "" // workers need not run functions
	}
	return out
}

// passDefaults has the columns that a pass reads be what sessions have where files lack them. For those that nothing is
// asked of this takes a feature.
func (r *resolver) passDefaults(s, pass *pb.Spec) {
	read := map[string]bool{}
	for _, f := range r.pass.asked {
		read[f.name] = read[f.name] || f.source != nil
	}
	for _, st := range r.steps {
		for _, f := range st.in {
			read[f.name] = read[f.name] || st.needed() && f.source != nil
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.sources)) {
		f := r.sources[name]
		if f == nil || f.source.GetDefault() == nil || !read[name] && !strings.Contains(s.GetFilter(), name) {
			continue
		}
		i := slices.IndexFunc(pass.Features, func(f *pb.Feature) bool { return f.GetName()[0] == name })
		if i < 0 {
			layout := passLayout(f.typ)
			if isTexts(f.typ) {
				pass.Transforms = append(pass.Transforms, packing(name))
			} else if layoutMistake(layout, f.typ) != "" {
				r.problems.add("features", "%s: a fit reads no %v with a default; leave it out, and use fill_null",
					name, f.typ)
				continue
			}
			i = len(pass.Features)
			pass.Features = append(pass.Features, featureOf(layout, name))
		}
		pass.Features[i].Default = f.source.GetDefault()
	}
}

// isTexts reports whether rows are lists of texts, which passes have packed.
func isTexts(t Type) bool { return t.List && t.Nested == 0 && t.Kind == pb.Kind_BINARY }

func packing(name string) *pb.Transform { return &pb.Transform{Op: PackOp, In: []string{name}} }

func featureOf(layout pb.Layout, name string) *pb.Feature {
	return &pb.Feature{Name: []string{name}, Layout: layout}
}

// passLayout is the layout that brings a feature's values as they are, and its nulls, if not LABEL or BYTES, which need
// another column for these.
func passLayout(t Type) pb.Layout {
	switch t.Kind {
	case pb.Kind_BOOL:
		return pb.Layout_DENSE
	case pb.Kind_BINARY:
		return pb.Layout_BYTES
	case pb.Kind_FLOAT64:
		return pb.Layout_LABEL
	}
	return pb.Layout_SPARSE
}

// passBatch is how many rows come at once.
const passBatch = 1 << 16

// fresh is a name that nothing bears.
func (r *resolver) fresh(n int) string {
	for name := fmt.Sprintf("fitted_%d", n); ; name = "_" + name {
		if old, err := r.find(name); old == nil && err == nil {
			return name
		}
	}
}

// again is a transform that adds the step under other names.
func (st *step) again(nameOf func(*feature) string) *pb.Transform {
	t := proto.CloneOf(st.transform)
	t.In, t.Out = nil, ""
	t.TrainingOnly = false // a pass trains, and its results have other names
	in := st.in
	if st.column != nil {
		in = st.in[0].by.in
		t.Params["columns"] = ListOf([]*pb.Value{{Kind: &pb.Value_Text{Text: st.column.GetName()}}})
	}
	if param := namesBy(t); param != "" {
		t.Params[param] = renamed(t.GetParams()[param], in, nameOf)
		in = nil
	}
	for _, f := range in {
		t.In = append(t.In, nameOf(f))
	}
	if t.GetPython() == nil && len(st.outs) == 1 {
		t.Out = nameOf(st.outs[0])
		return t
	}
	for i, f := range st.outs {
		if t.GetPython().GetCall() != "" {
			t.Outs[i].Marked = cmp.Or(t.Outs[i].Marked, t.Outs[i].Name)
		}
		t.Outs[i].Name = nameOf(f)
	}
	return t
}

// Passes is how many passes a spec's fit takes.
func Passes(s *pb.Spec, given Given) (int, error) {
	g := guesses{}
	if given.Fitted != nil {
		g.known = given.Fitted
	}
	given.Fitted = &g
	for n := 0; ; n++ {
		pass, err := NextPass(s, given)
		if err != nil || len(pass.Asked) == 0 {
			return n, err
		}
		for _, asked := range pass.Asked {
			g.guess(asked)
		}
	}
}

// guesses stand in for statistics: values that ops take.
type guesses struct {
	known  Fitted
	values map[string]*pb.Value
	tables map[string]*pb.Table
}

func (g *guesses) guess(asked Asked) {
	if g.values == nil {
		g.values, g.tables = map[string]*pb.Value{}, map[string]*pb.Table{}
	}
	for _, s := range asked.Statistics {
		v := &pb.Value{Kind: &pb.Value_Int{Int: 1}}
		switch {
		case s.Name == Vocabulary:
			g.tables[s.String()] = &pb.Table{Columns: []*pb.Source{{Name: s.Of, Type: asked.Type.Proto()}}, Keys: 1}
			continue
		case s.Name == Quantiles:
			v = ListOf([]*pb.Value{v})
		case s.Name == Min:
			v = &pb.Value{Kind: &pb.Value_Int{Int: 0}}
		case s.Name == MostFrequent && asked.Type.Kind == pb.Kind_BINARY:
			v = &pb.Value{Kind: &pb.Value_Text{}}
		case s.Name == MostFrequent && asked.Type.Kind == pb.Kind_BOOL:
			v = &pb.Value{Kind: &pb.Value_Bool{}}
		}
		g.values[s.String()] = v
	}
}

// Fitted implements Fitted.
func (g *guesses) Fitted(s Statistic) (*pb.Value, *pb.Table, error) {
	if g.known != nil {
		v, t, err := g.known.Fitted(s)
		if !errors.Is(err, ErrNotFitted) {
			return v, t, err
		}
	}
	v, t := g.values[s.String()], g.tables[s.String()]
	if v == nil && t == nil {
		return nil, nil, ErrNotFitted
	}
	return v, t, nil
}
