package spec

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
)

func TestServedProgram(t *testing.T) {
	const text = `
filter: label == 1 and country == 'de'
shuffle: true
provenance: true
features: [{label: [label, clicked]}, {dense: "int_*"}, {sparse: cat_0, weights: cat_0_scores}, {bytes: country}]
transforms:
  - {op: sample}
  - {op: clamp, in: int_0, training_only: true}
  - {op: log1p, in: "int_*"}
  - {op: clamp, in: clicked}
`
	trained := mustParse(t, head+text)
	s := proto.CloneOf(trained)
	s.Filter, s.Shuffle, s.Provenance = "", false, false
	s.Transforms = s.GetTransforms()[2:]
	want, err := Resolve(s, Given{Schema: newSchema(), Catalog: newCatalog()})
	if err != nil {
		t.Fatal(err)
	}
	given := Given{Schema: newSchema(), Catalog: newCatalog()}
	got, without, err := ResolveServed(trained, given, Served{})
	if err != nil || len(without) > 0 {
		t.Fatal(without, err)
	}
	for i, st := range want.GetSteps() { // of a spec in which they stand elsewhere
		st.At = got.GetSteps()[i].GetAt()
	}
	if !proto.Equal(got, want) {
		t.Errorf("found\n%s\nwant\n%s", show(got), show(want))
	}
	got, without, err = ResolveServed(trained, given, Served{Absent: []string{"clicked", "label"}})
	if err != nil || strings.Join(without, " ") != "label clicked" || len(got.GetOutputs()) != 3 {
		t.Errorf("%v left out, %v:\n%s", without, err, show(got))
	}
	got, _, err = ResolveServed(trained, given, Served{Outputs: []string{"country"}, Absent: []string{"int_0", "cat_0"}})
	if err != nil || len(got.GetSources()) != 1 || len(got.GetSteps()) != 0 {
		t.Errorf("%v:\n%s", err, show(got))
	}
}

// In training, files may lack a column that has a default, and so may rows.
func TestServedDefaults(t *testing.T) {
	s := mustParse(t, head+`features: [{dense: "int_*", default: 7}, {bytes: country}]`)
	given := Given{Schema: newSchema(), Catalog: newCatalog()}
	p, _, err := ResolveServed(s, given, Served{Absent: []string{"int_3"}})
	if err != nil || len(p.GetOutputs()[0].GetSlots()) != 13 {
		t.Errorf("%v:\n%s", err, show(p))
	}
	_, _, err = ResolveServed(s, given, Served{Absent: []string{"int_3", "country"}})
	compareProblems(t, err, []string{"features[1]: the rows have no column country; give it"})
}

func TestServedFunctions(t *testing.T) {
	call := func(kind pb.FunctionKind, only bool, in []string, outs ...*pb.Result) *pb.Transform {
		c := calling(in, outs...)
		c.Python.Kind, c.TrainingOnly = kind, only
		return c
	}
	drawing := call(pb.FunctionKind_MAP, false, []string{"price"}, result("price", pb.Kind_FLOAT32))
	drawing.Python.Rng = true
	kept := proto.CloneOf(drawing)
	kept.TrainingOnly = true
	price := []string{"price"}
	for name, c := range map[string]struct {
		call   *pb.Transform
		absent []string
		want   []string // problems
		steps  int
	}{
		"a map":               {call: call(pb.FunctionKind_MAP, false, price, result("price", pb.Kind_FLOAT32)), steps: 1},
		"one that draws":      {call: drawing, want: []string{"transforms[0]: the function tokenize draws at random"}},
		"but not in serving":  {call: kept},
		"a filter":            {call: call(pb.FunctionKind_FILTER, false, price), want: []string{"transforms[0]: the function tokenize is a filter, and each row"}},
		"not in serving":      {call: call(pb.FunctionKind_FILTER, true, price)},
		"one that makes rows": {call: call(pb.FunctionKind_FLAT_MAP, true, price, result("price", pb.Kind_FLOAT32))},
		"of another type": {
			call: call(pb.FunctionKind_MAP, true, price, result("price", pb.Kind_INT32)),
			want: []string{"transforms[0].training_only: price is float32, and becomes int32; when rows are served it is left out"},
		},
		"of another name": {
			call: call(pb.FunctionKind_MAP, true, []string{"title"}, result("price_2", pb.Kind_INT32)),
			want: []string{"transforms[0].training_only: price_2 is a feature of its own"},
		},
		"of what is not there": {
			call: call(pb.FunctionKind_MAP, false, []string{"price", "title"}, result("price", pb.Kind_FLOAT32)), absent: []string{"title"},
			want: []string{"features[0]: price is made of title, and the rows have no such column"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			given := Given{Schema: withText(), Catalog: newCatalog()}
			p, _, err := ResolveServed(specOf(t, "features: {dense: price}", c.call), given, Served{Absent: c.absent})
			if len(c.want) > 0 {
				compareProblems(t, err, c.want)
				return
			}
			if err != nil || len(p.GetSteps()) != c.steps || RowsOf(p) != SameRows {
				t.Errorf("%v:\n%s", err, show(p))
			}
		})
	}
}

// A mark that cannot be heeded is a mistake of a session's spec, too, and one that can changes nothing there.
func TestTrainingOnlyInSessions(t *testing.T) {
	given := Given{Schema: newSchema(), Catalog: newCatalog()}
	_, err := Resolve(mustParse(t, head+"features: {dense: x}\ntransforms: {op: log1p, in: int_0, out: x, training_only: true}"),
		given)
	compareProblems(t, err, []string{"transforms[0].training_only: x is a feature of its own"})
	const plain = head + "features: {dense: int_0}\ntransforms: {op: clamp, in: int_0%s}"
	var programs []*pb.Program
	for _, mark := range []string{"", ", training_only: true"} {
		s := mustParse(t, strings.ReplaceAll(plain, "%s", mark))
		p, err := Resolve(s, given)
		if err != nil {
			t.Fatal(err)
		}
		programs = append(programs, p)
		text, err := Format(s)
		if err != nil || strings.Contains(string(text), "training_only: true") != (mark != "") {
			t.Errorf("written as\n%s", text)
		}
	}
	if !proto.Equal(programs[0], programs[1]) || !slices.Contains(callNames(), "training_only") {
		t.Errorf("found\n%s\nwant\n%s", show(programs[1]), show(programs[0]))
	}
}

// What is made of a feature before a transform for training alone was fitted without that.
func TestServedFitsBesideTrainingOnly(t *testing.T) {
	s := mustParse(t, head+`
features: [{dense: [int_0, early]}]
transforms:
- {op: log1p, in: int_0, out: early}
- {op: clamp, in: int_0, max: 7, training_only: true}
- {op: scale_to_z_score, in: [early, int_0], of: fit}
`)
	given := Given{Schema: newSchema(), Catalog: fitCatalog()}
	pass, err := NextPass(s, given)
	if err != nil {
		t.Fatal(err)
	}
	known := fittedValues{}
	for _, asked := range pass.Asked {
		for _, statistic := range asked.Statistics {
			known[statistic.String()] = &pb.Value{Kind: &pb.Value_Float{Float: 1}}
		}
	}
	given.Fitted = known
	if _, _, err := ResolveServed(s, given, Served{}); err != nil {
		t.Error(err)
	}
}
