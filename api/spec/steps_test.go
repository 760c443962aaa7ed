package spec

import (
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
)

// TestStepsWithSeveralResults numbers the results of a step on, and keeps all of one of which a result is needed.
func TestStepsWithSeveralResults(t *testing.T) {
	r := &resolver{}
	result := func(name string, kind pb.Kind) *feature { return &feature{name: name, typ: Type{Kind: kind}} }
	source := &feature{name: "x", typ: Type{Kind: pb.Kind_INT64}, source: &pb.Source{Name: "x"}}
	r.sources = map[string]*feature{"x": source}
	add := func(op string, in []*feature, outs ...*feature) {
		st := &step{in: in, proto: &pb.Step{Op: op, At: op}}
		st.makes(outs...)
		r.steps = append(r.steps, st)
	}
	a, b := result("a", pb.Kind_INT32), result("b", pb.Kind_BINARY)
	c, d, e := result("c", pb.Kind_BOOL), result("d", pb.Kind_BOOL), result("e", pb.Kind_FLOAT64)
	add("two", []*feature{source}, a, b)
	add("dead", []*feature{source}, c, d)
	add("last", []*feature{b}, e)
	add("selects", nil)
	e.needed = true
	p := r.program(&pb.Spec{})
	const want = `0 x kind_unspecified
two two [0] outs 2  int32
last last [2] outs 1  float64
selects selects [] outs 0  kind_unspecified
`
	if got := show(p); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if e.slot != 3 {
		t.Errorf("the last result has slot %d", e.slot)
	}
	more := p.GetSteps()[0].GetMore()
	if len(more) != 1 || TypeFromProto(more[0]) != b.typ {
		t.Errorf("further results are %v", more)
	}
	if p.GetSteps()[1].GetMore() != nil || p.GetSteps()[2].GetType() != nil {
		t.Errorf("got %v", p)
	}
}
