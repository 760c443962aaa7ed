package spec

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
)

func mustParse(t testing.TB, text string) *pb.Spec {
	t.Helper()
	s, err := Parse([]byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return s
}

func TestParse(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"yaml", `
dataset:
  uri: s3://bucket/dir/
  partitions: day >= '2026-01-01'
filter: label == 1 # comment
features:
- {name: int_*, layout: dense, default: -1}
- dense: [a, "b"]
- label: label
- sparse: "*_ids"
  weights: scores
- image: photo
  shape: [224, 224, 3]
transforms:
- {op: bucketize, in: a, borders: [0, 1.5, 1e3, .inf], out: b, deep: [[1], [x, true]]}
batch_size: 4_096
last_batch: drop
seed: -5
shuffle: true
epochs: 3
`, `
dataset { uri: "s3://bucket/dir/" partitions: "day >= '2026-01-01'" }
filter: "label == 1"
features { name: "int_*" layout: DENSE default { int: -1 } }
features { name: "a" name: "b" layout: DENSE }
features { name: "label" layout: LABEL }
features { name: "*_ids" layout: SPARSE weights: "scores" }
features { name: "photo" layout: IMAGE shape: 224 shape: 224 shape: 3 }
transforms { op: "bucketize" in: "a" out: "b"
  params { key: "borders" value { floats { values: 0 values: 1.5 values: 1000 values: inf } } }
  params { key: "deep" value { list {
    values { ints { values: 1 } } values { list { values { text: "x" } values { bool: true } } } } } } }
batch_size: 4096 last_batch: DROP seed: -5 shuffle: true epochs: 3`},
		{"json", `{
	"dataset": {"uri": ["a", "b"]},
	"features": {"label": "y"},
	"transforms": [{"op": "x", "in": ["y"], "params": {"in": 1, "k": "v"}}],
	"batch_size": 10, "filter": null}`, `
dataset { uri: "a" uri: "b" } features { name: "y" layout: LABEL } batch_size: 10
transforms { op: "x" in: "y" params { key: "in" value { int: 1 } } params { key: "k" value { text: "v" } } }`},
		{"anchors", "dataset: {uri: &u [a, b]}\nfeatures:\n- dense: *u\n", `
dataset { uri: "a" uri: "b" } features { name: "a" name: "b" layout: DENSE }`},
		{"flow yaml", "{dataset: {uri: a}, batch_size: 010}", `dataset { uri: "a" } batch_size: 10`},
		{"empty", "{}", ``},
		{"block text", "filter: |\n  a == 1\n  and b == 2\n", `filter: "a == 1\nand b == 2\n"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var want pb.Spec
			if err := prototext.Unmarshal([]byte(c.want), &want); err != nil {
				t.Fatal(err)
			}
			if got := mustParse(t, c.text); !proto.Equal(got, &want) {
				t.Errorf("got %v\nwant %v", got, &want)
			}
		})
	}
}

// Some editors begin a file with a byte order mark.
func TestParseWithAByteOrderMark(t *testing.T) {
	for _, text := range []string{"batch_size: 7", `{"batch_size": 7}`, "# a comment\nbatch_size: 7"} {
		if s, err := Parse([]byte("\xef\xbb\xbf" + text)); err != nil || s.GetBatchSize() != 7 {
			t.Errorf("%q: %v, %v", text, s, err)
		}
	}
}

func TestParseReportsAllMistakes(t *testing.T) {
	_, err := Parse([]byte(`
dataset: {uri: [1], storag: x}
filter: [a]
features:
- {name: a, layout: dens}
- {dense: a, sparse: b}
- {dense: a, layout: dense}
- just_a_name
- {image: i, shape: [big]}
transforms: [{op: 5, in: x, salt: , deep: {a: 1, b: 2}, max: 99999999999999999999}, {op: python, python: {name: f}, outs: [{name: a}]}, {op: pack_texts, in: x}]
code: {python: "3.12"}
batch_size: many
last_batch: 1
epochs: -1
shuffle: "yes"
batchsize: 5
`))
	want := []string{
		`dataset.uri[0]: found 1 (line 2); want text; in quotes it is: "1"`,
		`dataset.storag: unknown field (line 2); nearest: storage; known here: uri, storage, partitions`,
		`filter[0]: found a list`,
		`features[0].layout: found "dens" (line 5); want one of dense, sparse, label, bytes, image, tensor, padded; nearest: dense`,
		`features[1]: found dense and sparse together; give each layout an entry of its own`,
		`features[2]: dense: says both name and layout already`,
		`features[3]: found "just_a_name" (line 8); want a mapping with name, layout, weights, shape, default`,
		`features[4].shape[0]: found "big" (line 9); want an integer`,
		`transforms[0].op: found 5 (line 10); want text`,
		`transforms[0].salt: found nothing (line 10); want a number`,
		`transforms[0].deep: found a mapping (line 10); want a number`,
		`transforms[0].max: found 99999999999999999999 (line 10); want an integer of 64 bits`,
		`transforms[1].python: unknown field (line 10); known of a call of a function: op, call, in, out, args, kind, most, by, threads, memory, timeout`,
		`transforms[1].outs: unknown field (line 10); nearest: out; known of`,
		`transforms[1].call: found nothing (line 10); want the function by its name, such as mypkg.features:tokenize`,
		"transforms[2].op: no op pack_texts; `penstock ops` lists them",
		`code: unknown field (line 11); known here: dataset, filter, features, transforms, batch_size, last_batch, seed, shuffle, epochs, provenance, order, lanes, global_batch_size, on_error, python`,
		`batch_size: found "many" (line 12); want an integer`,
		`last_batch: found 1 (line 13); want one of uneven, drop, pad`,
		`epochs: found -1 (line 14); want an integer from 0 to 4294967295`,
		`shuffle: found "yes" (line 15); want true or false`,
		`batchsize: unknown field (line 16); nearest: batch_size`,
	}
	want[2] = `filter: found a list (line 3); want text`
	compareProblems(t, err, want)
}

// compareProblems checks that each problem begins as wanted.
func compareProblems(t *testing.T, err error, want []string) {
	t.Helper()
	var problems Problems
	if !errors.As(err, &problems) {
		t.Fatalf("got %v", err)
	}
	for i := range max(len(problems), len(want)) {
		switch {
		case i >= len(problems):
			t.Errorf("missing: %s", want[i])
		case i >= len(want):
			t.Errorf("unexpected: %s", problems[i])
		case !strings.HasPrefix(problems[i].String(), want[i]):
			t.Errorf("got  %s\nwant %s", problems[i], want[i])
		}
	}
}

func TestParseOfTextThatIsNoSpec(t *testing.T) {
	bomb := "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 8 {
		bomb += strings.NewReplacer("NEW", string(rune('b'+i)), "OLD", string(rune('a'+i))).
			Replace("NEW: &NEW [*OLD, *OLD, *OLD, *OLD, *OLD, *OLD, *OLD, *OLD, *OLD, *OLD]\n")
	}
	for _, c := range []struct{ text, want string }{
		{"", "the spec is empty"},
		{"# nothing", "the spec is empty"},
		{"dataset: [", "line 1: "},
		{"{\"a\": \n [1,", "line 2: "},
		{"a: 1\na: 2", "line 2: mapping key \"a\" already defined"},
		{`{"seed": 1, "seed": 2}`, "seed: stands here twice (line 1)"},
		{"seed: 1\n---\nseed: 2", "line 3: a second document"},
		{"features:\n- dense: *_log", "line 2: *_log is a YAML alias without an anchor"},
		{"- a", "found a list (line 1); want a mapping"},
		{"filter: !!binary aGk=", "line 1: YAML of type Tag"},
		{"filter: \"\xff\"", "the spec is not UTF-8"},
		{"\xff\xfes\x00e\x00", "the spec is UTF-16; save it as UTF-8"},
		{"\xef\xbb\xbf", "the spec is empty"},
		{strings.Repeat("[", 100000), "line 1: the spec nests deeper"},
		{strings.Repeat(`{"a":`, 100000), "the spec nests deeper"},
		{strings.Repeat("- ", 100000) + "a", "line 1: the spec nests deeper"},
		{strings.Repeat("&a ", 100000) + "a", "line 1: an anchor of an anchor"},
		{strings.Repeat("&a\n", 100000) + "a", "line 2: an anchor of an anchor"},
		{"[" + strings.Repeat("&a\n", 100000) + "a]", "line 2: an anchor of an anchor"},
		{strings.Repeat("!\n", 100000) + "a", "line 1: YAML of type Tag"},
		{"[" + strings.Repeat("!\n", 100000) + "a]", "line 1: YAML of type Tag"},
		{strings.Repeat("&a\n!b\n", 100000) + "a", "line 2: YAML of type Tag"},
		{strings.Repeat("a: 1\n", 100000), "line 32769: mappings of more than 32768 keys; put long ones into braces"},
		{strings.Repeat("-\n"+strings.Repeat(" a: 1\n", 20000), 3), "line 56548: mappings of more than 32768 keys"},
		{strings.Repeat("? a\n: 1\n", 100000), "mappings of more than 32768 keys"},
		{"- [" + strings.Repeat("{a},", 2000) + "]", "line 1: more than 1024 values are left out; write null"},
		{"- [" + strings.Repeat("{a: [1, {b}]},", 2000) + "]", "line 1: more than 1024 values are left out"},
		{"- [" + strings.Repeat("{a: 1, b:},", 2000) + "]", "line 1: more than 1024 values are left out"},
		{"- [" + strings.Repeat("? a,", 2000) + "]", "line 1: more than 1024 values are left out"},
		{strings.Repeat("-\n", 2000), "line 1026: more than 1024 values are left out"},
		{strings.Repeat("- a:\n", 2000), "line 1026: more than 1024 values are left out"},
		{strings.Repeat("-\n  a: # none\n  b: 1\n", 2000), "line 3075: more than 1024 values are left out"},
		{strings.Repeat("0\n---\n", 100000), "line 8: a second document"},
		{strings.Repeat("...\n", 100000), "line 4: a second document"},
		{strings.Repeat(" ", maxBytes+1), "the limit is"},
		{"transforms: {op: x, p: &a [&b [&c [1]]], q: " + strings.Repeat("[", 30) + "*a" + strings.Repeat("]", 30) +
			"}", "line 1: the spec nests deeper"},
		{bomb + "transforms: {op: x, p: *i}", "aliases make it longer"},
		{"dataset: {uri: [&a " + strings.Repeat("a", maxBytes/4) + ", *a, *a, *a, *a]}", "aliases make it longer"},
		{
			"transforms: {op: x, params: {p: &a " + strings.Repeat("a", maxBytes/4) + ", q: [*a, *a, *a, *a]}}",
			"aliases make it longer",
		},
		{strings.Repeat("k", maxKey+1) + ": 1", "found a key of 257 bytes (line 1); want at most 256"},
		{"features: [" + strings.Repeat("7, ", 2*maxProblems) + "7]", "features[98]: found 7 (line 1); want a mapping"},
		{"features: [" + strings.Repeat("7, ", 2*maxProblems) + "7]", "\nthere are more mistakes; mend these first"},
	} {
		_, err := Parse([]byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60q: got %.200v\nwant %s", c.text, err, c.want)
		}
	}
}

// anySpec draws a spec; its texts are as odd as YAML can bear.
func anySpec(t *rapid.T) *pb.Spec {
	texts := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
		"int_*", "true", "No", "~", "", "1", "1e3", "-", "a: b", "#x", "s3://b/", "\u2028\x00\x7f\u0085", "'", "\"\\",
		"a\nb\n", " a ", "*x",
		"0x1", ".inf", "<<", "é", "\ufeff", "[", "{}", "|", "null", "op", "in", "params",
	}))
	var value func(depth int) *rapid.Generator[*pb.Value]
	value = func(depth int) *rapid.Generator[*pb.Value] {
		return rapid.Custom(func(t *rapid.T) *pb.Value {
			switch rapid.IntRange(0, 3+min(depth, 1)).Draw(t, "kind") {
			case 0:
				return &pb.Value{Kind: &pb.Value_Int{Int: rapid.Int64().Draw(t, "int")}}
			case 1:
				return &pb.Value{Kind: &pb.Value_Float{Float: rapid.Float64().Draw(t, "float")}}
			case 2:
				return &pb.Value{Kind: &pb.Value_Text{Text: texts.Draw(t, "text")}}
			case 3:
				return &pb.Value{Kind: &pb.Value_Bool{Bool: rapid.Bool().Draw(t, "bool")}}
			}
			list := rapid.SliceOfN(value(depth-1), 0, 3).Draw(t, "list")
			return ListOf(list)
		})
	}
	s := &pb.Spec{
		Filter: texts.Draw(t, "filter"), BatchSize: rapid.Int64().Draw(t, "batch"), Seed: rapid.Int64().Draw(t, "seed"),
		LastBatch: pb.LastBatch(rapid.IntRange(0, 3).Draw(t, "last")), Shuffle: rapid.Bool().Draw(t, "shuffle"),
		Epochs: rapid.Uint32().Draw(t, "epochs"), Provenance: rapid.Bool().Draw(t, "provenance"),
	}
	s.Order, s.Lanes, s.GlobalBatchSize = pb.Order(rapid.IntRange(0, 2).Draw(t, "order")), rapid.Uint32().Draw(t,
		"lanes"), rapid.Int64().Draw(t, "global")
	if rapid.Bool().Draw(t, "on error") {
		s.OnError = &pb.OnError{
			Skip: rapid.Uint32Max(1).Draw(t, "skip"), SkipRows: rapid.Uint32Max(1).Draw(t, "skip rows"),
		}
	}
	lists := rapid.SliceOfN(texts, 0, 3)
	if rapid.Bool().Draw(t, "dataset") {
		s.Dataset = &pb.Dataset{
			Uri: lists.Draw(t, "uri"), Storage: texts.Draw(t, "storage"),
			Partitions: texts.Draw(t, "partitions"),
		}
	}
	for range rapid.IntRange(0, 3).Draw(t, "features") {
		f := &pb.Feature{
			Name: lists.Draw(t, "name"), Layout: pb.Layout(rapid.IntRange(0, 5).Draw(t, "layout")),
			Weights: texts.Draw(t, "weights"),
			Shape:   rapid.SliceOfN(rapid.Int32(), 0, 3).Draw(t, "shape"),
		}
		if rapid.Bool().Draw(t, "default") {
			f.Default = value(2).Draw(t, "value")
		}
		s.Features = append(s.Features, f)
	}
	for range rapid.IntRange(0, 3).Draw(t, "transforms") {
		s.Transforms = append(s.Transforms, &pb.Transform{
			Op: texts.Draw(t, "op"), In: lists.Draw(t, "in"), Out: texts.Draw(t, "out"),
			Params: rapid.MapOfN(texts, value(2), 0, 3).Draw(t, "params"),
		})
	}
	return s
}

func TestFormatParsesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anySpec(t)
		text, err := Format(s)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Parse(text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if !proto.Equal(s, got) {
			t.Fatalf("%s\nis read as %v\nwant %v", text, got, s)
		}
	})
}

func TestFormat(t *testing.T) {
	s := mustParse(t, `{"dataset": {"uri": "s3://b/"}, "features": [{"name": ["int_*", "x y"], "layout": "dense"}, {"name": "a"}, {}],
		"transforms": [{"op": "clamp", "in": "a", "max": 1.0, "min": 0}, {"op": "o", "params": {"op": "no"}}], "last_batch": "uneven"}`)
	got, err := Format(s)
	if err != nil {
		t.Fatal(err)
	}
	want := `dataset:
  uri: "s3://b/"
features:
  - dense: [int_*, "x y"]
  - name: a
  - {}
transforms:
  - op: clamp
    in: a
    max: 1.0
    min: 0
  - op: o
    params:
      op: "no"
last_batch: uneven
`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, s := range []*pb.Spec{
		{Filter: "\xff"},
		{LastBatch: 9},
		{Transforms: []*pb.Transform{{Params: map[string]*pb.Value{"a": {}}}}},
		{Transforms: []*pb.Transform{{Op: "python", Python: &pb.Function{Name: "f"}}}},
		{Transforms: []*pb.Transform{{Op: "python", Outs: []*pb.Result{{Name: "a"}}}}},
		{Code: &pb.Code{Python: "3.12"}},
	} {
		if text, err := Format(s); err == nil {
			t.Errorf("%v was written as %s", s, text)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"dataset: {uri: a}\nfeatures:\n- dense: int_*\ntransforms: [{op: x, in: [a], p: [1, 2.5, true, " +
			"x]}]\nbatch_size: 4\n",
		`{"dataset": {"uri": ["a"]}, "features": [{"name": "a", "layout": "label", "default": 1e3}]}`,
		"a: &x [1]\nb: *x\nc: !!str 5\n<<: *x\n? q\n: r\n", "filter: |\n  a\n - b", "\"\\x85\": '", "- - - a",
		"transforms: [{op: python, call: 'm:f', in: a, out: {b: list<int32>, c: tensor<2x3xint8>}, args: {d: [1, e]}, timeout: 1.5}]",
		"{a: [b, {c: d}]}", "\t", "a: \"\\",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse(data)
		if err != nil {
			return
		}
		text, err := Format(s)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if !equalSpecs(s, again) {
			t.Fatalf("%q is %v; written as %q it is %v", data, s, text, again)
		}
	})
}

// equalSpecs takes NaNs for equal.
func equalSpecs(a, b *pb.Spec) bool {
	x, errX := proto.MarshalOptions{Deterministic: true}.Marshal(a)
	y, errY := proto.MarshalOptions{Deterministic: true}.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}
