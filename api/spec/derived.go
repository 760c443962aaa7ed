package spec

import (
	"fmt"
	"slices"

	"github.com/penstock-ml/penstock/api/expr"
	"github.com/penstock-ml/penstock/api/pb"
)

// ExprOp is the op that computes a feature by an expression, and the parameter that has the expression.
const ExprOp = "expr"

// SampleWhere is the parameter of sample that says which rows draw.
const SampleWhere = "where"

// namesBy is the parameter whose expression names the inputs of a transform, which has no `in` then; "": there is none.
func namesBy(t *pb.Transform) (param string) {
	switch _, given := t.GetParams()[SampleWhere]; {
	case t.GetOp() == ExprOp:
		return ExprOp
	case t.GetOp() == sampleOp && given:
		return SampleWhere
	}
	return ""
}

// derive adds the step of a transform whose inputs are named by an expression.
func (a *application) derive(param string) {
	if len(a.transform.GetIn()) > 0 {
		a.problems.add(a.path+".in", "found %s; the names in `%s` are the inputs of %s: leave out `in`",
			few(a.transform.GetIn()), param, a.transform.GetOp())
	}
	in, complete := a.named(param)
	if out := a.transform.GetOut(); param == ExprOp && complete {
		if i := slices.IndexFunc(in, func(f *feature) bool { return f.name == out }); i >= 0 {
			a.replaces = in[i]
		}
	}
	a.together(in, complete)
}

// named are the features that an expression names, in order. Those that choose rows look at columns of the files.
func (a *application) named(param string) (in []*feature, complete bool) {
	path, text := a.path+"."+param, a.transform.GetParams()[param].GetText()
	if text == "" {
		return nil, true // the catalog says what is missing
	}
	n, err := expr.Parse(text)
	if err != nil {
		a.problems.add(path, "%v", err)
		return nil, false
	}
	complete = true
	for _, name := range n.Columns() {
		f, err := a.scalar(name, param == SampleWhere)
		if err != nil {
			a.problems.add(path, "%v", err)
			complete = false
			continue
		}
		in = append(in, f)
	}
	if complete {
		complete = a.timed(param, n, in)
	}
	return in, complete
}

// renamed is an expression that names its inputs otherwise.
func renamed(text *pb.Value, in []*feature, nameOf func(*feature) string) *pb.Value {
	n, err := expr.Parse(text.GetText())
	if err != nil { // which is a mistake that has been reported
		return text
	}
	names := map[string]string{}
	for i, name := range n.Columns() {
		names[name] = nameOf(in[i])
	}
	other := n.Renamed(func(name string) string { return names[name] })
	return &pb.Value{Kind: &pb.Value_Text{Text: other.String()}}
}

// scalar finds what a name in an expression stands for.
func (a *application) scalar(name string, columns bool) (*feature, error) {
	look, what := a.find, "feature"
	if columns {
		look, what = a.source, "column"
	}
	f, err := look(name)
	switch d := a.derived[name]; {
	case err != nil:
		return nil, err
	case f == nil && d != nil:
		return nil, fmt.Errorf("%s is made by %s; rows are chosen by the dataset's columns only", name, d.at)
	case f == nil:
		return nil, fmt.Errorf("no %s %s%s; text goes in quotes", what, name, a.suggestColumn(name, a.names()))
	case !f.unknown() && (f.typ.List || !f.typ.Computes() || f.typ.Kind == pb.Kind_PICTURE):
		return nil, fmt.Errorf("%s; expressions take scalars of numbers, text and bools", typed(f))
	}
	return f, nil
}
