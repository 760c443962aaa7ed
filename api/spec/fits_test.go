package spec

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
)

// fittedValues are statistics by their names.
type fittedValues map[string]*pb.Value

func (f fittedValues) Fitted(s Statistic) (*pb.Value, *pb.Table, error) {
	if v := f[s.String()]; v != nil {
		return v, nil, nil
	}
	return nil, nil, ErrNotFitted
}

const chained = head + `
features: [{dense: [int_0, int_1, int_2_bucket, ratio]}, {sparse: cat_0}]
filter: label == 1
transforms:
- {op: fill_null, in: "int_[0-2]", value: {fit: median}}
- {op: sample, rate: 0.5}
- {op: log1p, in: [int_0, int_2]}
- {op: scale_to_z_score, in: "int_[0-2]", of: fit}
- {op: bucketize, in: int_2, out: "{}_bucket", borders: {quantiles: 10}}
- {op: clamp, in: cat_0, min: {quantile: 0.25}}
- {op: clamp, in: int_1, min: {quantile: 0.25}, max: 7}
- {op: log1p, in: int_4}
- {op: expr, expr: "int_4 / (int_3 + int_4)", out: ratio}
- {op: scale_to_z_score, in: ratio, of: fit}
`

// A fit goes level by level, and asks in each pass for what has no other before it.
func TestPassesOfAFit(t *testing.T) {
	s := mustParse(t, chained)
	known := fittedValues{}
	want := [][]string{
		{
			"median(int_0)", "median(int_1)", "median(int_2)", "quantile(cat_0, 0.25)",
			"mean(expr(expr=\"`log1p.2(int_4)` / (int_3 + `log1p.2(int_4)`)\"))",
			"std(expr(expr=\"`log1p.2(int_4)` / (int_3 + `log1p.2(int_4)`)\"))",
		},
		{
			"mean(log1p.2(fill_null(int_0, value=median(int_0))))", "std(log1p.2(fill_null(int_0, value=median(int_0))))",
			"mean(fill_null(int_1, value=median(int_1)))", "std(fill_null(int_1, value=median(int_1)))",
			"mean(log1p.2(fill_null(int_2, value=median(int_2))))", "std(log1p.2(fill_null(int_2, value=median(int_2))))",
		},
		{
			"quantiles(scale_to_z_score(log1p.2(fill_null(int_2, value=median(int_2))), " +
				"mean=mean(log1p.2(fill_null(int_2, value=median(int_2)))), " +
				"std=std(log1p.2(fill_null(int_2, value=median(int_2))))), 10)",
			"quantile(scale_to_z_score(fill_null(int_1, value=median(int_1)), " +
				"mean=mean(fill_null(int_1, value=median(int_1))), std=std(fill_null(int_1, value=median(int_1)))), 0.25)",
		},
		nil,
	}
	for level, names := range want {
		given := Given{Schema: newSchema(), Catalog: fitCatalog(), Fitted: known}
		pass, err := NextPass(s, given)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, asked := range pass.Asked {
			for _, st := range asked.Statistics {
				got = append(got, st.String())
			}
		}
		if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(names))) {
			t.Fatalf("pass %d asks for\n%s\nwant\n%s", level, strings.Join(got, "\n"), strings.Join(names, "\n"))
		}
		if len(names) > 0 {
			checkPass(t, pass, given)
		}
		for _, name := range names {
			known[name] = &pb.Value{Kind: &pb.Value_Float{Float: 0.5}}
		}
	}
	if _, err := Resolve(s, Given{Schema: newSchema(), Catalog: fitCatalog(), Fitted: known}); err != nil {
		t.Error(err)
	}
}

// checkPass reads a pass's spec as a master does, and finds that its columns are made as the spec makes them.
func checkPass(t *testing.T, pass *Pass, given Given) {
	t.Helper()
	text, err := Format(pass.Spec)
	if err != nil {
		t.Fatal(err)
	}
	if again := mustParse(t, string(text)); !proto.Equal(again, pass.Spec) {
		t.Errorf("written as\n%s", text)
	}
	if pass.Spec.GetFilter() != "label == 1" || len(pass.Spec.GetDataset().GetUri()) != 1 {
		t.Errorf("reads other rows:\n%s", text)
	}
	r := newResolver(pass.Spec, given)
	r.transforms(pass.Spec)
	if err := r.problems.err(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, asked := range pass.Asked {
		f, err := r.find(asked.Column)
		if f == nil || err != nil || r.formula(f) != asked.Statistics[0].Of || f.typ != asked.Type {
			t.Errorf("%s is %+v: %v; want %s", asked.Column, f, err, asked.Statistics[0].Of)
		}
	}
}

// A pass calls functions by name under other names for their results, as they stand in marks, and has no interpreter
// named where it calls none.
func TestPassesCallFunctionsByName(t *testing.T) {
	s := mustParse(t, head+`
features: [{dense: [int_0, made]}]
python: torch
transforms:
- {op: fill_null, in: int_0, value: {fit: median}}
- {op: python, call: "m:f", in: int_0, out: {int_0: float32, made: float32}, args: {by: 3}}
- {op: scale_to_z_score, in: made, of: fit}
`)
	known := fittedValues{}
	first, err := NextPass(s, Given{Schema: newSchema(), Catalog: fitCatalog(), Fitted: known})
	if err != nil || len(first.Spec.GetTransforms()) != 0 || first.Spec.GetPython() != "" {
		t.Fatalf("first %v: %v", first, err)
	}
	known["median(int_0)"] = &pb.Value{Kind: &pb.Value_Float{Float: 0.5}}
	pass, err := NextPass(s, Given{Schema: newSchema(), Catalog: fitCatalog(), Fitted: known})
	if err != nil || len(pass.Spec.GetTransforms()) != 2 || pass.Spec.GetPython() != "torch" {
		t.Fatalf("second %v: %v", pass, err)
	}
	outs := pass.Spec.GetTransforms()[1].GetOuts()
	if outs[0].GetName() == "int_0" || outs[1].GetName() != pass.Asked[0].Column {
		t.Errorf("it makes %v, and asks of %s", outs, pass.Asked[0].Column)
	}
	has := &pb.CallsReply{
		Identity:  &pb.Code{Functions: []*pb.NamedDigest{{Name: "m:f", Digest: []byte("digest")}}},
		Functions: []*pb.MarkedFunction{{Function: &pb.Function{Call: "m:f"}, Results: s.GetTransforms()[1].GetOuts()}},
	}
	pinned, err := Pin(pass.Spec, has)
	if err != nil {
		t.Fatal(err)
	}
	marks := has.Functions[0]
	marks.Results = []*pb.Result{{Name: "other", Type: outs[0].GetType()}}
	if _, err := Pin(pass.Spec, has); err == nil || !strings.Contains(err.Error(), "found {int_0: ") {
		t.Errorf("it names what nobody gave: %v", err)
	}
	if got := CalledCode(pinned); len(got) != 1 || string(got["m:f(by=3)"]) != "digest" {
		t.Errorf("it calls %q", got)
	}
}

// What a function makes of a feature that is not fitted yet waits for that, and which rows there are cannot.
func TestFunctionsWaitForFits(t *testing.T) {
	text := head + `
features: {dense: int_0}
transforms:
- {op: fill_null, in: int_0, value: {fit: median}}
- {op: python, call: "m:f", in: int_0, out: {int_0: float32}}
`
	for behind, want := range map[string]string{
		"": "", "- {op: scale_to_z_score, in: int_0, of: fit}": "",
		"- {op: python, call: \"m:g\", in: int_0, kind: filter}": "transforms[2]: g decides which rows there are by int_0",
	} {
		s := mustParse(t, text+behind)
		given := Given{Schema: newSchema(), Catalog: fitCatalog()}
		_, err := NextPass(s, given)
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", behind, err, want)
		}
		if _, err := Resolve(s, given); err == nil || !strings.Contains(err.Error(), "median(int_0) is not fitted") {
			t.Errorf("%s: %v", behind, err)
		}
	}
}

// fitCatalog has scaling, too.
func fitCatalog() fakeCatalog {
	c := newCatalog()
	c["scale_to_z_score"] = fakeOp{true, func(params map[string]*pb.Value, in []Type) (Signature, error) {
		return Signature{Version: 1, Out: in[0], Params: params}, nil
	}}
	c["fill_null"] = c["scale_to_z_score"]
	return c
}

func TestFitsThatMakeNoSense(t *testing.T) {
	for transform, want := range map[string]string{
		"{op: log1p, in: int_0, of: fit}":                      "",
		"{op: scale_to_z_score, in: int_0, of: data}":          "transforms[0]: of: want fit, found data (int_0)",
		"{op: scale_to_z_score, in: int_0, of: fit, mean: 3}":  "transforms[0]: mean: of: fit asks for mean, too; leave one of them out (int_0)",
		"{op: scale_to_z_score, in: int_0, mean: {fit: meen}}": `transforms[0].mean: no statistic "meen"; nearest: mean`,
		"{op: clamp, in: country, min: {fit: mean}}":           "transforms[0]: min: want numbers for the mean, found binary; cast makes them (country)",
		"{op: clamp, in: int_0, min: {quantile: 1.5}}":         "transforms[0]: min: want {quantile: 0.01}, of numbers and from 0 to 1, found {quantile: 1.5} of float32",
		"{op: bucketize, in: int_0, borders: {quantiles: 1}}":  "transforms[0]: borders: want {quantiles: 100}, of numbers and from 2 to 65536, found {quantiles: 1}",
		"{op: clamp, in: int_0, min: {mean: 3}}":               "transforms[0]: min: want {fit: mean}, found {mean: 3} (int_0)",
		"{op: map_id, in: int_0, vocabulary: fit}":             "transforms[0]: vocabulary: want ints or texts for a vocabulary, found float32; cast makes them (int_0)",
		"{op: ngram, in: [cat_0], out: x, n: {fit: max}}":      "transforms[0]: n: ngram takes several features at once, and is not fitted to one; want a value",
		"{op: clamp, in: cat_0, min: {fit: vocabulary}}":       "transforms[0]: min: a vocabulary is no value; map_id takes one",
		"{op: clamp, in: int_0, min: {fit: min}}":              "transforms[0]: min(int_0) is not fitted; compute it with `penstock fit`",
	} {
		c := fitCatalog()
		c["map_id"] = c["clamp"]
		s, err := Parse([]byte(head + "features: {dense: int_3}\ntransforms: [" + transform + "]"))
		if err == nil {
			_, err = Resolve(s, Given{Schema: newSchema(), Catalog: c})
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s: %v, want %s", transform, err, want)
		}
	}
}

// A transform for training alone may be needed for a fit, whose passes give its result another name.
func TestPassOfTrainingOnly(t *testing.T) {
	s := mustParse(t, head+`
features: [{dense: int_0}]
transforms:
- {op: clamp, in: int_0, max: 7, training_only: true}
- {op: scale_to_z_score, in: int_0, of: fit}
`)
	given := Given{Schema: newSchema(), Catalog: fitCatalog()}
	pass, err := NextPass(s, given)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Resolve(pass.Spec, given); err != nil {
		t.Error(err)
	}
}

// Columns that some files lack are in a pass what they are in training, whether they are asked of or made something of.
func TestPassHasDefaults(t *testing.T) {
	s := mustParse(t, head+`
filter: label < 7
features: [{dense: [int_0, int_1], default: 10}, {label: label, default: 1}]
transforms:
- {op: log1p, in: int_1}
- {op: scale_to_z_score, in: "int_[01]", of: fit}
`)
	given := Given{Schema: newSchema(), Catalog: fitCatalog()}
	pass, err := NextPass(s, given)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Resolve(pass.Spec, given)
	if err != nil {
		t.Fatal(err)
	}
	defaults := map[string]string{}
	for _, source := range p.GetSources() {
		defaults[source.GetName()] = valueText(source.GetDefault())
	}
	if defaults["int_0"] != "10.0" || defaults["int_1"] != "10.0" || defaults["label"] != "1" {
		t.Errorf("found %v in\n%s", defaults, show(p))
	}
}

// Lists of texts, which no layout brings, are packed, whether something is asked of them or they have a default alone.
func TestPassPacksLists(t *testing.T) {
	c := fitCatalog()
	c[PackOp] = fakeOp{true, func(_ map[string]*pb.Value, in []Type) (Signature, error) {
		return Signature{Version: 1, Out: Type{Kind: in[0].Kind}}, nil
	}}
	given := Given{Schema: newSchema(), Catalog: c}
	for _, transforms := range []string{
		"{op: fill_null, in: words, value: {fit: most_frequent}}",
		"{op: sigrid_hash, in: words, max: 10}, {op: clamp, in: words, min: {quantile: 0.25}}",
	} {
		s := mustParse(t, head+"features: [{sparse: words, default: [a]}]\ntransforms: ["+transforms+"]\n")
		pass, err := NextPass(s, given)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Resolve(pass.Spec, given)
		if err != nil {
			t.Fatal(err)
		}
		text := show(p)
		last := p.GetSteps()[len(p.GetSteps())-1]
		if asked := pass.Asked[0]; asked.Present != "" || last.GetOp() != PackOp {
			t.Errorf("%+v is asked of\n%s", asked, text)
		}
		i := slices.IndexFunc(p.GetSources(), func(s *pb.Source) bool { return s.GetName() == "words" })
		if got := valueText(p.GetSources()[i].GetDefault()); got != "[a]" {
			t.Errorf("the default is %s in\n%s", got, text)
		}
	}
}
