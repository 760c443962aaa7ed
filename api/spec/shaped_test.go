package spec

import (
	"slices"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
)

// shaped has columns of each kind that tensors take.
func shaped() Schema {
	column := func(name string, t Type, own pb.Kind, shape ...int32) Column {
		return Column{Name: name, Path: []string{name}, Type: t, Own: own, Shape: shape}
	}
	list := func(k pb.Kind, nested uint32) Type { return Type{Kind: k, List: true, Nested: nested} }
	return Schema{Columns: []Column{
		column("tiny", Type{Kind: pb.Kind_INT32}, pb.Kind_INT8),
		column("half", list(pb.Kind_FLOAT32, 0), pb.Kind_FLOAT16, 768),
		column("ids", list(pb.Kind_INT64, 0), pb.Kind_UINT32),
		column("matrix", list(pb.Kind_FLOAT64, 1), 0, 2, 3),
		column("loose", list(pb.Kind_FLOAT32, 2), 0),
		column("flag", Type{Kind: pb.Kind_BOOL}, 0),
		column("raw", Type{Kind: pb.Kind_BINARY}, 0),
		column("words", list(pb.Kind_BINARY, 0), 0),
		{Name: "counts", Path: []string{"counts"}, Type: Type{Kind: pb.Kind_INT32}, Own: pb.Kind_UINT8, Key: pb.Kind_INT64},
	}}
}

// TestTensorsAndPadded has the programs of layouts that have a shape. A column that ops see in another kind is read
// twice.
func TestTensorsAndPadded(t *testing.T) {
	const text = `
filter: tiny > 3
features:
- {tensor: [tiny, half, flag, counts.42]}
- {tensor: matrix, default: 1}
- {tensor: loose, shape: [4, 5, 6]}
- {tensor: raw, dtype: bfloat16, shape: [2, 2], default: 0.5}
- {dense: tiny_as_number}
- {padded: ids, length: 200, default: 7}
- {sparse: ids_again, nulls: keep}
transforms:
- {op: log1p, in: tiny, out: tiny_as_number}
- {op: ngram, in: ids, out: ids_again}
`
	p, err := Resolve(mustParse(t, head+text), Given{Schema: shaped(), Catalog: newCatalog()})
	if err != nil {
		t.Fatal(err)
	}
	const want = `0 tiny int32
1 tiny int8
2 half list<float16>
3 ids list<int64> default [7]
4 ids list<uint32> default [7]
5 matrix list<list<float64>>
6 loose list<list<list<float32>>>
7 flag bool
8 raw binary
9 counts.42 uint8 key 42 of [counts]
transforms[0] log1p [0] outs 1 tiny_as_number float32
transforms[1] ngram [3] outs 1 ids_again list<int64>
TENSOR tiny [1] int8
TENSOR half [2] float16 shape [768]
TENSOR flag [7] bool
TENSOR counts.42 [9] uint8
TENSOR matrix [5] float64 shape [2 3]
TENSOR loose [6] float32 shape [4 5 6]
TENSOR raw [8] bfloat16 shape [2 2]
DENSE dense [10] float32 of tiny_as_number
PADDED ids [4] uint32 shape [200]
SPARSE ids_again [11] int64
`
	if got := show(p); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	of := func(name string) *pb.Output {
		i := slices.IndexFunc(p.GetOutputs(), func(o *pb.Output) bool { return o.GetName() == name })
		return p.GetOutputs()[i]
	}
	if fill := of("matrix").GetFill(); fill.GetFloat() != 1 {
		t.Errorf("a default of 1 became %v", fill)
	}
	if fill := of("half").GetFill(); fill != nil {
		t.Errorf("without a default there is %v", fill)
	}
	if o := of("ids"); !o.GetLeft() || o.GetFirst() || !o.GetNulls() || o.GetFill().Kind == nil {
		t.Errorf("padded by default is %v", o)
	}
	if o := of("ids_again"); !o.GetNulls() || o.GetFill().Kind == nil {
		t.Errorf("null elements that are kept: %v", o)
	}
}

// TestMistakesOfTensorsAndPadded has one mistake a line, and the message that comes of it.
func TestMistakesOfTensorsAndPadded(t *testing.T) {
	for text, want := range map[string]string{
		"{tensor: ids}":                                                     "features[0]: ids: list<uint32>; say by `shape:` what shape",
		"{tensor: loose, shape: [4, 5]}":                                    "shape [4 5] has 2 dimensions; want 3",
		"{tensor: tiny, shape: [2]}":                                        "shape [2] has other than the one value of each row",
		"{tensor: ids, shape: [0]}":                                         "shape [0]: want numbers above 0",
		"{tensor: ids, shape: [65536, 65536]}":                              "less than 2 GiB in each row",
		"{tensor: raw, shape: [2]}":                                         "raw: binary; say by `dtype:` what its bytes are",
		"{tensor: raw, dtype: int8}":                                        "raw: binary; say by `shape:`",
		"{tensor: tiny, dtype: float32}":                                    "tiny: int8; `dtype:` is for byte strings",
		"{tensor: tiny, default: 128}":                                      "tiny: int8; `default:` is 128, which is no int8",
		"{tensor: half, default: 1e5}":                                      "`default:` is 100000.0, which is no float16",
		"{tensor: tiny, default: [1]}":                                      "`default:` is [1], which is no int8",
		"{tensor: words}":                                                   "words: list<binary>; tensor takes numbers and bools",
		"{tensor: tiny, length: 3}":                                         "features[0].length: layout tensor has no length; only padded",
		"{tensor: tiny, value: 3}":                                          "features[0].value: layout tensor has no value; only padded and sparse",
		"{padded: ids}":                                                     "ids: list<uint32>; say by `length:` how many values",
		"{padded: ids, length: -1}":                                         "`length:` is -1",
		"{padded: ids, length: 2, value: -1}":                               "`value:` is -1, which is no uint32",
		"{padded: matrix, length: 2}":                                       "matrix: list<list<float64>>; only layout tensor takes lists of lists",
		"{padded: tiny, length: 2}":                                         "tiny: int8; padded takes lists of numbers or bools",
		"{padded: words, length: 2}":                                        "words: list<binary>; padded takes lists of numbers or bools",
		"{padded: ids, length: 2, shape: [2]}":                              "features[0].shape: layout padded has no shape; only image and tensor",
		"{sparse: ids, value: 3}":                                           "ids: list<int64>; `value:` is what nulls become with `nulls: keep`",
		"{sparse: ids, nulls: keep, value: 1.5}":                            "`value:` is 1.5, which is no int64",
		"{dense: matrix}":                                                   "matrix: list<list<float64>>; only layout tensor takes lists of lists",
		"{tensor: 'loo*', shape: [1, 1, 1]}":                                "no feature matches loo*; lists of lists must be named one by one",
		"{padded: ids, length: 2, default: -1}":                             "ids: list<uint32>, but the default is -1",
		"[{padded: ids, length: 2, default: 1}, {sparse: ids, default: 2}]": "ids: has another default at features[0]",
		"{label: flag}, filter: loose is null":                              "filter: loose is list<list<list<float32>>>; no filter takes lists of",
	} {
		_, err := Resolve(mustParse(t, "{dataset: {uri: s3://b/d/}, batch_size: 8, features: "+text+"}"), Given{Schema: shaped(), Catalog: newCatalog()})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\ngot  %v\nwant %s", text, err, want)
		}
	}
}

func TestLayoutsOfColumns(t *testing.T) {
	for name, want := range map[string]string{
		"tiny": "dense sparse label tensor", "half": "sparse tensor padded", "matrix": "tensor",
		"flag": "dense label tensor", "raw": "bytes image tensor", "words": "bytes",
	} {
		c, _ := shaped().Find(name)
		if got := strings.Join(Layouts(c), " "); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}

// Of two sources of one name filters mean the one whose values they know, in whatever order they come.
func TestSourcesByName(t *testing.T) {
	source := func(t Type) *pb.Source { return &pb.Source{Name: "x", Type: t.Proto()} }
	small, wide := source(Type{Kind: pb.Kind_INT8}), source(Type{Kind: pb.Kind_INT32})
	nested := source(Type{Kind: pb.Kind_INT64, List: true, Nested: 1})
	for i, sources := range [][]*pb.Source{{wide, small}, {small, wide}, {nested, small}} {
		at, ok := SourcesByName(sources)["x"]
		if want := i < 2; ok != want || ok && sources[at] != wide {
			t.Errorf("%v: source %d, %v", sources, at, ok)
		}
	}
}
