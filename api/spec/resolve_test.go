package spec

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
)

// head makes the text of a spec complete.
const head = "dataset: {uri: s3://bucket/dir/}\nbatch_size: 4096\n"

func resolve(t testing.TB, text string) *pb.Program {
	t.Helper()
	p, err := Resolve(mustParse(t, head+text), Given{Schema: newSchema(), Catalog: newCatalog()})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return p
}

// show writes a program briefly: its sources, steps and outputs, a line each.
func show(p *pb.Program) string {
	var b strings.Builder
	for i, s := range p.GetSources() {
		fmt.Fprintf(&b, "%d %s %v", i, s.GetName(), TypeFromProto(s.GetType()))
		if s.Key != nil {
			fmt.Fprintf(&b, " key %s of %v", s.GetKey(), s.GetPath())
		}
		if s.Default != nil {
			fmt.Fprintf(&b, " default %s", shownValue(s.GetDefault()))
		}
		b.WriteByte('\n')
	}
	for _, s := range p.GetSteps() {
		fmt.Fprintf(&b, "%s %s %v outs %d %s %v\n", s.GetAt(), s.GetOp(), s.GetIn(), s.GetOuts(), s.GetName(),
			TypeFromProto(s.GetType()))
	}
	for _, o := range p.GetOutputs() {
		fmt.Fprintf(&b, "%s %s %v %v", o.GetLayout(), o.GetName(), o.GetSlots(), TypeFromProto(o.GetType()))
		if len(o.GetColumns()) > 0 {
			fmt.Fprintf(&b, " of %s", strings.Join(o.GetColumns(), " "))
		}
		if o.Weights != nil {
			fmt.Fprintf(&b, " weights %d", o.GetWeights())
		}
		if len(o.GetShape()) > 0 {
			fmt.Fprintf(&b, " shape %v", o.GetShape())
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func TestResolve(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"globs in natural order, each once, stacked over entries", `
features: [{dense: int_1*}, {label: label}, {dense: [int_11, int_2, "int_[01]", clicked]}]`, `
0 label int32
1 int_0 float32
2 int_1 float32
3 int_2 float32
4 int_10 float32
5 int_11 float32
6 int_12 float32
7 clicked bool
DENSE dense [2 4 5 6 3 1 7] float32 of int_1 int_10 int_11 int_12 int_2 int_0 clicked
LABEL label [0] int32
`},
		{"in place, derived and dead steps", `
features: [{dense: "int_[12]*_log"}, {dense: int_2}, {sparse: cross}, {sparse: cat_1}]
transforms:
- {op: fill_null, in: "int_?", value: 0}
- {op: log1p, in: [int_1, int_10], out: "{}_log"}
- {op: sigrid_hash, in: ["cat_[12]"], max: 10}
- {op: ngram, in: [cat_1, cat_2], out: cross}
- {op: ngram, in: cat_3, out: unused}
`, `
0 int_1 float32
1 int_2 float32
2 int_10 float32
3 cat_1 list<int64>
4 cat_2 list<int64>
transforms[0] fill_null [0] outs 1 int_1 float32
transforms[0] fill_null [1] outs 1 int_2 float32
transforms[1] log1p [5] outs 1 int_1_log float32
transforms[1] log1p [2] outs 1 int_10_log float32
transforms[2] sigrid_hash [3] outs 1 cat_1 list<int64>
transforms[2] sigrid_hash [4] outs 1 cat_2 list<int64>
transforms[3] ngram [9 10] outs 1 cross list<int64>
DENSE dense [7 8 6] float32 of int_1_log int_10_log int_2
SPARSE cross [11] int64
SPARSE cat_1 [9] int64
`},
		{"ops that select rows live, with their inputs", `
features: {label: label}
transforms: [{op: sample, rate: 0.1}, {op: log1p, in: int_3}, {op: keep_if, in: int_3}]
`, `
0 label int32
1 int_3 float32
transforms[0] sample [] outs 0  kind_unspecified
transforms[1] log1p [1] outs 1 int_3 float32
transforms[2] keep_if [2] outs 0 int_3 kind_unspecified
LABEL label [0] int32
`},
		{"expressions name their inputs, and may replace one", `
features: [{dense: [ratio, int_1]}]
transforms:
- {op: log1p, in: int_2}
- {op: expr, expr: "int_1 / (int_2 + user.age)", out: ratio}
- {op: expr, expr: "int_1 + 1", out: int_1}
- {op: sample, rate: 0.1, where: clicked and int_2 > 0}
`, `
0 int_1 float32
1 int_2 float32
2 clicked bool
3 user.age int64
transforms[0] log1p [1] outs 1 int_2 float32
transforms[1] expr [0 4 3] outs 1 ratio float64
transforms[2] expr [0] outs 1 int_1 float64
transforms[3] sample [2 1] outs 0  kind_unspecified
DENSE dense [5 6] float32 of ratio int_1
`},
		{"maps, structs and the filter's columns", `
filter: scores.9 > 0.5 and country in ('de') and int_5 is not null
features: [{dense: [scores.42, scores.7, user.age]}, {sparse: [scores.value, tags.a.b]}]
`, `
0 int_5 float32
1 country binary
2 user.age int64
3 scores.9 float32 key 9 of [scores]
4 scores.42 float32 key 42 of [scores]
5 scores.value list<float32>
6 scores.7 float64
7 tags.a.b int64 key a.b of [tags]
DENSE dense [4 6 2] float32 of scores.42 scores.7 user.age
SPARSE scores.value [5] float32
SPARSE tags.a.b [7] int64
`},
		{"weights, bytes and images", `
features: [{sparse: cat_0, weights: cat_0_scores}, {bytes: country}, {image: photo, shape: [2, 3, 3]}]
`, `
0 cat_0 list<int64>
1 country binary
2 photo binary
3 cat_0_scores list<float32>
SPARSE cat_0 [0] int64 weights 3
BYTES country [1] binary
IMAGE photo [2] binary shape [2 3 3]
`},
		{"defaults, of columns replaced in place too", `
features: [{dense: "int_[01]", default: 1}, {sparse: cat_0, default: 5}, {bytes: country, default: xx}, {label: clicked, default: false}]
transforms: [{op: log1p, in: int_0}]
`, `
0 int_0 float32 default 1.0
1 int_1 float32 default 1.0
2 cat_0 list<int64> default [5]
3 country binary default xx
4 clicked bool default false
transforms[0] log1p [0] outs 1 int_0 float32
DENSE dense [5 1] float32 of int_0 int_1
SPARSE cat_0 [2] int64
BYTES country [3] binary
LABEL clicked [4] bool
`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := show(resolve(t, c.text)); got != c.want[1:] {
				t.Errorf("got\n%swant%s", got, c.want)
			}
		})
	}
}

func TestResolvePinsWhatStepsMean(t *testing.T) {
	p := resolve(t, "filter: ' label = 1 '\nseed: 9\nshuffle: true\nprovenance: true\n"+
		"features: {sparse: cat_0}\ntransforms: {op: sigrid_hash, in: cat_0, max: 10}")
	step := p.GetSteps()[0]
	if step.GetVersion() != 3 || step.GetParams()["salt"] == nil || step.GetParams()["max"].GetInt() != 10 {
		t.Errorf("got %v", step)
	}
	if p.GetFilter() != "label = 1" || p.GetSeed() != 9 || !p.GetShuffle() || !p.GetProvenance() {
		t.Errorf("got %v", p)
	}
}

// TestResolveReportsEachMistake has one mistake a line, and the path and message that come of it.
func TestResolveReportsEachMistake(t *testing.T) {
	for text, want := range map[string]string{
		"features: []": "features: found none",
		"features: {name: label}": "features[0].layout: found nothing that is known; " +
			"want one of dense",
		"features: {layout: dense}":  "features[0]: no name",
		"features: {dense: ''}":      "features[0]: found an empty name",
		"features: {dense: int_20}":  "features[0]: no feature int_20; nearest: int_10",
		"features: {sparse: cat_27}": "features[0]: no feature cat_27; nearest: cat_17",
		"features: {dense: wrods}":   "features[0]: no feature wrods; nearest: words",
		"features: {dense: x_*}": "features[0]: no feature matches x_*; there are " +
			"cat_0, cat_0_scores, clicked, country, int_0, label, photo, scores.7 and 43 more; `penstock show URI` " +
			"lists all columns",
		"features: {dense: 'scores.4*'}": "features[0]: no feature matches scores.4*; keys of " +
			"maps must be named one by one",
		"features: {dense: 'int_['}": "features[0]: the glob int_[ is malformed",
		"features: {dense: events}": "features[0]: events cannot be a feature: it is a " +
			"list of lists",
		"features: {dense: events.f3}": "features[0]: events.f3 cannot be a feature: events " +
			"is a list of lists",
		"features: {dense: 'events.*'}": "features[0]: no feature matches events.*; events " +
			"cannot be a feature: it is a list of lists",
		"features: {dense: scores}": "features[0]: scores is a map with int64 keys; select " +
			"one of its keys, such as scores.42",
		"features: {dense: scores.x}":   `features[0]: scores.x: the keys of map scores are int64, and "x" is none`,
		"features: {dense: scores.042}": `features[0]: scores.042: the keys of map scores are int64, and "042" is none`,
		"features: {dense: 'cat_?'}": "features[0]: cat_0, cat_1, cat_2 and 7 more: " +
			"list<int64>; dense takes one number or bool a row",
		"features: {dense: country}": "features[0]: country: binary; dense takes numbers " +
			"and bools",
		"features: {sparse: country}": "features[0]: country: binary; sparse takes numbers; " +
			"make ids of text by an op such as sigrid_hash first",
		"features: {sparse: clicked}": "features[0]: clicked: bool; sparse takes integers " +
			"and floats",
		"features: {label: words}": "features[0]: words: list<binary>; a label is one " +
			"number or bool a row",
		"features: {label: country}": "features[0]: country: binary; a label is a number or bool",
		"features: {bytes: label}": "features[0]: label: int32; bytes takes one binary " +
			"value a row",
		"features: {image: words, shape: [1, 1, 1]}": "features[0]: words: list<binary>; image takes one " +
			"binary value a row",
		"features: {image: photo}": "features[0].shape: found []; want [height, width, channels] of raw pixels (photo), " +
			"or transforms that make pictures of encoded ones: decode_image, then resize",
		"features: {image: photo, shape: [1, 0, 3]}":         "features[0].shape: found [1 0 3]",
		"features: {image: photo, shape: [70000, 70000, 3]}": "features[0].shape: found [70000 70000 3]",
		"features: {bytes: photo, shape: [1, 1, 3]}":         "features[0].shape: layout bytes has no shape; only image and tensor",
		"features: {label: label, weights: int_1}": "features[0].weights: found int_1; only sparse " +
			"features have weights",
		"features: {sparse: cat_0, weights: cat_0_score}": "features[0].weights: no feature cat_0_score; " +
			"nearest: cat_0_scores",
		"features: {sparse: cat_0, weights: cat_1}": "features[0].weights: cat_1 is list<int64>; weights " +
			"are floats",
		"features: {sparse: cat_0, weights: int_1}": "features[0].weights: int_1 is float32, but cat_0 is " +
			"list<int64>; want a score for each id",
		"features: {sparse: cat_0, weights: events}": "features[0].weights: events cannot be a feature",
		"features: [{sparse: cat_0}, {sparse: cat_0}]": "features[1]: a tensor cat_0 comes from features[0] " +
			"already",
		"features: {dense: label, default: text}":       "features[0]: label: int32, but the default is text",
		"features: {dense: label, default: 3000000000}": "features[0]: label: int32, but the default is 3000000000",
		"features: {dense: int_1, default: 1e300}":      "features[0]: int_1: float32, but the default is 1.0e+300",
		"features: {sparse: cat_1, default: [1, x]}": "features[0]: cat_1: list<int64>, but the default is " +
			"[1, x]",
		"features: {dense: '*_l', default: 1}\ntransforms: {op: log1p, in: int_1, out: '{}_l'}": "features[0].default: int_1_l: made by transforms",
		"features: {dense: label, default: [1]}": "features[0]: " +
			"label: int32, but the default is [1]",
		"features: [{label: label, default: 1}, {dense: label, default: 2}]": "features[1]: " +
			"label: has another default at features[0]",
		ok + "transforms: {op: expr, expr: int_1 +, out: x}": "transforms[0].expr: column 8: found the end",
		ok + "transforms: {op: expr, expr: int_1 + int_x, out: x}": "transforms[0].expr: no feature int_x; nearest: int_0; " +
			"text goes in quotes",
		ok + "transforms: {op: expr, expr: int_1 + cat_1, out: x}": "transforms[0].expr: cat_1 is list<int64>; expressions " +
			"take scalars",
		ok + "transforms: {op: expr, expr: int_1 + 1}":                      "transforms[0].out: found nothing; want a name",
		ok + "transforms: {op: expr, expr: int_1 + 1, out: '{}_x'}":         "transforms[0].out: found {}_x; expr makes one",
		ok + "transforms: {op: expr, expr: int_1 + 1, out: int_2}":          "transforms[0].out: int_2 is a column of the",
		ok + "transforms: {op: expr, in: int_2, expr: int_1 + 1, out: x}":   "transforms[0].in: found int_2; the names in",
		ok + "transforms: {op: sample, in: int_2, rate: 1, where: int_1>1}": "transforms[0].in: found int_2; the names in",
		ok + "transforms: [{op: log1p, in: int_1, out: y}, {op: sample, rate: 1, where: y > 1}]": "transforms[1].where: y is " +
			"made by transforms[0]; rows are chosen by the dataset's columns only",
		ok + "filter: labl == 1":     "filter: no column labl; nearest: label",
		ok + "filter: whatever == 1": "filter: no column whatever; there are cat_0, ",
		ok + "filter: label ==":      "filter: column 9: found the end; want a column's name, a literal",
		ok + "filter: label == 'x'":  "filter: label is int32, but is compared with 'x'; want a number",
		ok + "filter: cat_1 is null": "filter: cat_1 is list<int64>; filters need scalar columns",
		ok + "filter: events == 1":   "filter: events cannot be a feature: it is a list of lists",
		ok +
			"filter: y == 1\ntransforms: {op: log1p, in: int_1, out: y}": "filter: y is " +
			"made by transforms[0]; filters see the dataset's columns only",
		ok +
			"transforms: {in: int_1}": "transforms[0].op: found nothing",
		ok +
			"transforms: {op: lgo1p, in: int_1}": "transforms[0].op: no op lgo1p; nearest: log1p",
		ok +
			"transforms: {op: whatever, in: int_1}": "transforms[0].op: no op whatever; `penstock ops` lists them",
		ok +
			"transforms: {op: log1p, in: whatever}": "transforms[0].in: no feature whatever; there are cat_0, ",
		ok +
			"transforms: {op: log1p}": "transforms[0].in: found nothing; want the features that log1p is applied to",
		ok +
			"transforms: {op: log1p, in: int_99}": "transforms[0].in: no feature int_99; nearest: int_9",
		ok +
			"transforms: {op: ngram, in: [cat_1, cat_27], out: x}": "transforms[0].in: no feature cat_27; nearest: " +
			"cat_17",
		ok +
			"transforms: {op: log1p, in: country}": "transforms[0]: want numbers, found binary (country)",
		ok +
			"transforms: {op: sigrid_hash, in: cat_*}": "transforms[0]: parameter max is missing (cat_0, " +
			"cat_0_scores, cat_1 and 24 more)",
		ok +
			"transforms: {op: ngram, in: int_1, out: x}": "transforms[0]: want lists, found [float32]",
		ok +
			"transforms: {op: ngram, in: [int_1, int_1], out: x}": "transforms[0]: want lists, found [float32] (in " +
			"names int_1 more than once, and a feature counts once: make another of it before",
		ok +
			"transforms: {op: ngram, in: [cat_1, cat_2, cat_1], out: x}": "transforms[0].in: in names cat_1 more " +
			"than once, and a feature counts once: make another of it before",
		ok +
			"transforms: {op: ngram, in: cat_1}": "transforms[0].out: found nothing; want a name for the result of ngram",
		ok +
			"transforms: {op: ngram, in: cat_1, out: '{}_n'}": "transforms[0].out: found {}_n; ngram makes one " +
			"result of all its inputs",
		ok +
			"transforms: {op: log1p, in: [int_1, int_2], out: x}": "transforms[0].out: found x for 2 results " +
			"(int_1, int_2); want {} in it",
		ok +
			"transforms: {op: log1p, in: int_1, out: label}": "transforms[0].out: label is a column of the dataset " +
			"already",
		ok +
			"transforms: {op: log1p, in: int_1, out: events}": "transforms[0].out: events is a column of the " +
			"dataset already",
		ok +
			"transforms: {op: log1p, in: int_1, out: 'x_*'}": "transforms[0].out: found x_*; want a name",
		ok +
			"transforms: [{op: log1p, in: int_1, out: x}, {op: log1p, in: int_2, out: x}]": "transforms[1].out: x " +
			"is made by transforms[0] already",
		ok +
			"transforms: {op: sample, out: x}": "transforms[0].out: found x, but sample selects rows",
		ok +
			"transforms: {op: keep_if, in: int_1, out: x}": "transforms[0]: selects rows and has no result; leave " +
			"out `out` (int_1)",
		"provenance: true\nfeatures: {sparse: _row}\ntransforms: {op: clamp, in: cat_1, out: _row}":   "features[0]: a tensor _row comes from provenance already",
		"features: [{dense: int_1}, {sparse: dense}]\ntransforms: {op: clamp, in: cat_1, out: dense}": "features[1]: a tensor dense comes from features[0] already",
	} {
		s, err := Parse([]byte(head + text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		_, err = Resolve(s, Given{Schema: newSchema(), Catalog: newCatalog()})
		var problems Problems
		if !errors.As(err, &problems) || len(problems) != 1 || !strings.HasPrefix(problems[0].String(), want) {
			t.Errorf("%s:\ngot  %v\nwant %s", text, err, want)
		}
	}
}

// ok is features without a mistake.
const ok = "features: {label: label}\n"

func TestResolveReportsAllMistakesAtOnce(t *testing.T) {
	s := mustParse(t, `
dataset: {partitions: "day >"}
filter: labl == 1 and country > 5 and cat_1 == 2
batch_size: 99999999
features:
- {dense: [int_*, country, nothing]}
- {sparse: words}
- {image: photo, shape: [32, 32]}
- {label: made_by_mistake}
transforms:
- {op: log2p, in: int_1, out: made_by_mistake}
- {op: log1p, in: [cat_27, country]}
- {op: ngram, in: [made_by_mistake, cat_1], out: also_unknown}
- {op: clamp, in: also_unknown}
- {op: ngram, in: cat_2, out: label}
`)
	_, err := Resolve(s, Given{Schema: newSchema(), Catalog: newCatalog()})
	compareProblems(t, err, []string{
		"dataset.uri: found nothing; want where the files lie",
		"dataset.partitions: column 6: found the end; want a column's name, a literal",
		"batch_size: found 99999999; want the rows of a batch, from 1 to 16777216",
		"transforms[0].op: no op log2p; nearest: log1p",
		"transforms[1].in: no feature cat_27; nearest: cat_17",
		"transforms[1]: want numbers, found binary (country)",
		"transforms[4].out: label is a column of the dataset already",
		"filter: no column labl; nearest: label",
		"filter: country is binary, but is compared with 5; want text in quotes",
		"filter: cat_1 is list<int64>; filters need scalar columns",
		"features[0]: no feature nothing",
		"features[1]: words: list<binary>; sparse takes numbers",
		"features[2].shape: found [32 32]; want [height, width, channels]",
	})
}

func TestGlobsSkipWhatCannotBeAFeature(t *testing.T) {
	schema := Schema{Columns: []Column{
		column("a/1", pb.Kind_INT32), {Name: "a/2", Unsupported: "odd"}, column("a*", pb.Kind_INT32), column("a*",
			pb.Kind_BINARY),
	}}
	key := column("a/1key", pb.Kind_INT32)
	key.Partition = true
	schema.Columns = append(append(schema.Columns, mapColumn("a/m", pb.Kind_INT32, pb.Kind_INT32)...), key)
	for pattern, want := range map[string]string{"a*": "a*", "a?1": "a/1", `a[*/]*1`: "a/1", "?*[1*]": "a*, a/1", "a/1*": "a/1", "a/1key": "a/1key"} {
		s := mustParse(t, head+"features: {dense: '"+pattern+"'}")
		p, err := Resolve(s, Given{Schema: schema, Catalog: newCatalog()})
		if err != nil {
			t.Errorf("%s: %v", pattern, err)
			continue
		}
		if got := strings.Join(p.GetOutputs()[0].GetColumns(), ", "); got != want {
			t.Errorf("%s: got %s, want %s", pattern, got, want)
		}
	}
}

func TestWideSchemasResolveQuickly(t *testing.T) {
	var schema Schema
	for i := range 10_000 {
		schema.Columns = append(schema.Columns, column(fmt.Sprintf("f_%d", 9_999-i), pb.Kind_FLOAT32))
	}
	s := mustParse(t, head+"features: {dense: f_*}\ntransforms: [{op: clamp, in: f_*}, {op: log1p, in: '*'}]")
	p, err := Resolve(s, Given{Schema: schema, Catalog: newCatalog()})
	if err != nil {
		t.Fatal(err)
	}
	if got := p.GetOutputs()[0].GetColumns(); len(got) != 10_000 || got[2] != "f_2" || len(p.GetSteps()) != 20_000 {
		t.Errorf("got %d columns, third %s, and %d steps", len(got), got[2], len(p.GetSteps()))
	}
}

func BenchmarkResolve(b *testing.B) {
	var schema Schema
	for i := range 10_000 {
		schema.Columns = append(schema.Columns, column(fmt.Sprintf("feature_%d", i), pb.Kind_FLOAT32))
	}
	for name, text := range map[string]string{
		"right": "features: {dense: feature_*}\ntransforms: [{op: clamp, in: feature_*}]",
		"wrong": "features: {dense: [" + strings.Repeat("feture_x, ", 200) + "]}",
	} {
		b.Run(name, func(b *testing.B) {
			s := mustParse(b, head+text)
			for b.Loop() {
				_, err := Resolve(s, Given{Schema: schema, Catalog: newCatalog()})
				if (err != nil) != (name == "wrong") {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestUnitsOfTimestamps(t *testing.T) {
	s := Signature{Params: map[string]*pb.Value{"unit": {Kind: &pb.Value_Text{Text: "s"}}}}
	for meaning, want := range map[string]string{
		"timestamp[us]": "it counts us, and unit is s; want unit: us",
		"timestamp[s]":  "", "time[us]": "", "": "",
	} {
		err := s.countsIn(&feature{meaning: meaning})
		if (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%q: got %v, want %q", meaning, err, want)
		}
	}
	if err := s.countsIn(&feature{}); err != nil {
		t.Errorf("of numbers: %v", err)
	}
	if err := (Signature{}).countsIn(&feature{meaning: "timestamp[us]"}); err != nil {
		t.Errorf("by an op without a unit: %v", err)
	}
}

func TestMeaningsStayWithValues(t *testing.T) {
	at := column("at", pb.Kind_INT64)
	at.Meaning = "timestamp[us]"
	schema := Schema{Columns: append(newSchema().Columns, at)}
	const hour = "{op: local_hour, in: x, unit: s}"
	for transforms, want := range map[string]string{
		"{op: local_hour, in: at, unit: s}": "transforms[0]: it counts us, " +
			"and unit is s; want unit: us (at)",
		"{op: clamp, in: at, out: x}, " +
			hour: "transforms[1]: it counts us, and unit is s; want unit: us (x)",
		"{op: fill_null, in: at, out: y}, {op: clamp, in: y, out: x}, " +
			hour: "transforms[2]: it counts us, and unit is s; want unit: us (x)",
		"{op: fill_null, in: at}, {op: local_hour, in: at, unit: us}": "",
		"{op: fill_null, in: at}, {op: local_hour, in: at, unit: ms}": "transforms[1]: it counts us, " +
			"and unit is ms; want unit: us (at)",
		"{op: bucketize, in: at, out: x}, " + hour:                                 "",
		"{op: fill_null, in: user.age, out: x}, " + hour:                           "",
		"{op: bucketize, in: at, out: y}, {op: fill_null, in: y, out: x}, " + hour: "",
	} {
		_, err := Resolve(mustParse(t, head+ok+"transforms: ["+transforms+"]"), Given{Schema: schema, Catalog: newCatalog()})
		if (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%s:\ngot  %v\nwant %s", transforms, err, want)
		}
	}
}
