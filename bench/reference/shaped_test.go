package reference

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/api/tensors"
)

// shapedCase is a column, a feature of it, and what workers say and send of that; or, without a wire, an error.
type shapedCase struct {
	typ     arrow.DataType
	rows    string // JSON of the column
	feature *pb.Feature
	output  *pb.Output // without its name, layout and shape, if that is the feature's
	wire    string     // JSON of the rows of the batch's column
	err     string
}

func tensorOf(shape ...int32) *pb.Feature { return &pb.Feature{Layout: pb.Layout_TENSOR, Shape: shape} }

func kindOf(k pb.Kind) *pb.Output { return &pb.Output{Type: &pb.Type{Kind: k}} }

func with[T any](x T, change func(x T)) T {
	change(x)
	return x
}

func listOfLists(t arrow.DataType) arrow.DataType { return arrow.ListOf(arrow.ListOf(t)) }

func tensorCases() map[string]shapedCase {
	orElse := func(v any) func(f *pb.Feature) { return func(f *pb.Feature) { f.Default = value(v) } }
	raw := func(k pb.Kind, shape ...int32) *pb.Feature {
		return with(tensorOf(shape...), func(f *pb.Feature) { f.Dtype = k })
	}
	i8, u8, bytes := arrow.PrimitiveTypes.Int8, arrow.PrimitiveTypes.Uint8, arrow.BinaryTypes.Binary
	return map[string]shapedCase{
		"scalars":     {typ: i8, rows: `[-1, 127]`, feature: tensorOf(), output: kindOf(pb.Kind_INT8), wire: `[-1, 127]`},
		"a dimension": {typ: u8, rows: `[200]`, feature: tensorOf(1), output: kindOf(pb.Kind_UINT8), wire: `[[200]]`},
		"bools": {
			typ: arrow.FixedWidthTypes.Boolean, rows: `[true, null]`, feature: with(tensorOf(), orElse(true)),
			output: kindOf(pb.Kind_BOOL), wire: `[1, 1]`,
		},
		"half floats": {
			typ: arrow.ListOf(arrow.FixedWidthTypes.Float16), rows: `[[0.5, null], null]`,
			feature: with(tensorOf(2), orElse(0.1)), output: kindOf(pb.Kind_FLOAT16), wire: `[[0.5, 0.1], [0.1, 0.1]]`,
		},
		"lists": {
			typ: arrow.ListOf(arrow.PrimitiveTypes.Uint16), rows: `[[1, 2, 3, 4], [5, 6, 7, 65535]]`, feature: tensorOf(2, 2),
			output: kindOf(pb.Kind_UINT16), wire: `[[1, 2, 3, 4], [5, 6, 7, 65535]]`,
		},
		"lists of lists": {
			typ: listOfLists(arrow.PrimitiveTypes.Uint32), rows: `[[[1, 2], [3, 4294967295]], [null, [7, null]], null]`,
			feature: with(tensorOf(2, 2), orElse(9)), output: kindOf(pb.Kind_UINT32),
			wire: `[[1, 2, 3, 4294967295], [9, 9, 7, 9], [9, 9, 9, 9]]`,
		},
		"doubles": {
			typ: arrow.PrimitiveTypes.Float64, rows: `[0.1]`, feature: tensorOf(), output: kindOf(pb.Kind_FLOAT64),
			wire: `[0.1]`,
		},
		"bytes of bfloat16": { // 1, -2
			typ: bytes, rows: `["gD8AwA==", null]`, feature: with(raw(pb.Kind_BFLOAT16, 2), orElse(1)),
			output: kindOf(pb.Kind_BFLOAT16), wire: `[[16256, 49152], [16256, 16256]]`,
		},
		"bytes of int32": {
			typ: bytes, rows: `["/////wEAAAA="]`, feature: raw(pb.Kind_INT32, 2, 1), output: kindOf(pb.Kind_INT32),
			wire: `[[-1, 1]]`,
		},
		"too few bytes": {typ: bytes, rows: `["gD8A"]`, feature: raw(pb.Kind_BFLOAT16, 2), err: "3 bytes; shape [2]"},
		"no dtype":      {typ: bytes, rows: `["gD8A"]`, feature: tensorOf(3), err: "of dtype"},
		"another dtype": {typ: i8, rows: `[1]`, feature: raw(pb.Kind_INT16), err: "dtype INT16"},
		"no shape":      {typ: arrow.ListOf(i8), rows: `[[1]]`, feature: tensorOf(), err: "without a shape"},
		"few dimensions": {
			typ: listOfLists(i8), rows: `[[[1]]]`, feature: tensorOf(1), err: "shape [1] of list<list<int32>>",
		},
		"a null scalar":  {typ: i8, rows: `[1, null]`, feature: tensorOf(), err: "row 1: x: null"},
		"a null element": {typ: arrow.ListOf(i8), rows: `[[null]]`, feature: tensorOf(1), err: "row 0: x: null"},
		"a null list":    {typ: listOfLists(i8), rows: `[[null]]`, feature: tensorOf(1, 1), err: "row 0: x: null"},
		"another length": {
			typ: arrow.ListOf(i8), rows: `[[1, 2], [1]]`, feature: with(tensorOf(2), orElse(0)),
			err: "row 1: x: 1 values at level 0; shape [2] takes 2",
		},
		"another length below": {
			typ: listOfLists(i8), rows: `[[[1, 2], []]]`, feature: tensorOf(2, 2),
			err: "0 values at level 1; shape [2 2] takes 2",
		},
		"a default that does not fit": {typ: i8, rows: `[1]`, feature: with(tensorOf(), orElse(200)), err: "does not fit"},
		"a text list":                 {typ: arrow.ListOf(bytes), rows: `[[""]]`, feature: raw(pb.Kind_INT8, 1), err: "of dtype"},
	}
}

func paddedCases() map[string]shapedCase {
	padded := func(length int32, change func(f *pb.Feature)) *pb.Feature {
		return with(&pb.Feature{Layout: pb.Layout_PADDED, Length: length}, change)
	}
	out := func(k pb.Kind, length int32, fill any, left bool) *pb.Output {
		return &pb.Output{Type: &pb.Type{Kind: k}, Shape: []int32{length}, Fill: value(fill), Left: left}
	}
	const rows = `[[1, 2, 3, 4], [5, null], null, []]`
	i8 := arrow.ListOf(arrow.PrimitiveTypes.Int8)
	return map[string]shapedCase{
		"padded, as it is by default": {
			typ: i8, rows: rows, feature: padded(3, func(*pb.Feature) {}), output: out(pb.Kind_INT8, 3, 0, true),
			wire: `[{"values": [2, 3, 4], "length": 3}, {"values": [0, 5, 0], "length": 2},
				{"values": [0, 0, 0], "length": 0}, {"values": [0, 0, 0], "length": 0}]`,
		},
		"padded on the right, of the first, without nulls": {
			typ: i8, rows: rows, output: out(pb.Kind_INT8, 3, -1, false),
			feature: padded(3, func(f *pb.Feature) {
				f.Side, f.Truncate, f.Nulls, f.Value = pb.Side_RIGHT, pb.Truncate_FIRST, pb.Nulls_OMIT, value(-1)
			}),
			wire: `[{"values": [1, 2, 3], "length": 3}, {"values": [5, -1, -1], "length": 1},
				{"values": [-1, -1, -1], "length": 0}, {"values": [-1, -1, -1], "length": 0}]`,
		},
		"padded bools": {
			typ: arrow.ListOf(arrow.FixedWidthTypes.Boolean), rows: `[[true, true, true], [true]]`,
			feature: padded(2, func(*pb.Feature) {}), output: out(pb.Kind_BOOL, 2, false, true),
			wire: `[{"values": [1, 1], "length": 2}, {"values": [0, 1], "length": 1}]`,
		},
		"padded half floats": {
			typ: arrow.ListOf(arrow.FixedWidthTypes.Float16), rows: `[[2], []]`, output: out(pb.Kind_FLOAT16, 2, 0.1, true),
			feature: padded(2, func(f *pb.Feature) { f.Value = value(0.1) }),
			wire:    `[{"values": [0.1, 2], "length": 1}, {"values": [0.1, 0.1], "length": 0}]`,
		},
		"sparse with nulls": {
			typ: i8, rows: rows, output: kindOf(pb.Kind_INT64), wire: `[[1, 2, 3, 4], [5, 7], [], []]`,
			feature: &pb.Feature{Layout: pb.Layout_SPARSE, Nulls: pb.Nulls_KEEP, Value: value(7)},
		},
		"sparse floats with nulls": {
			typ: arrow.ListOf(arrow.PrimitiveTypes.Float32), rows: `[[1, null]]`,
			output: kindOf(pb.Kind_FLOAT32), wire: `[[1, "NaN"]]`,
			feature: &pb.Feature{Layout: pb.Layout_SPARSE, Nulls: pb.Nulls_KEEP},
		},
		"a padded scalar":       {typ: arrow.PrimitiveTypes.Int8, rows: `[1]`, feature: padded(1, func(*pb.Feature) {}), err: "cannot be PADDED"},
		"padded without length": {typ: i8, rows: rows, feature: padded(0, func(*pb.Feature) {}), err: "of length 0"},
		"a padded list of lists": {
			typ: listOfLists(arrow.PrimitiveTypes.Int8), rows: `[[[1]]]`, feature: padded(1, func(*pb.Feature) {}),
			err: "cannot be PADDED",
		},
		"a sparse list of lists": {
			typ: listOfLists(arrow.PrimitiveTypes.Int8), rows: `[[[1]]]`, feature: &pb.Feature{Layout: pb.Layout_SPARSE},
			err: "cannot be SPARSE",
		},
	}
}

// What is expected of a file equals what a batch of those values is read as.
func TestTensorsAndPadded(t *testing.T) {
	for _, cases := range []map[string]shapedCase{tensorCases(), paddedCases()} {
		for name, tt := range cases {
			t.Run(name, func(t *testing.T) { tt.check(t) })
		}
	}
}

func (tt shapedCase) check(t *testing.T) {
	store := memoryStore{"mem://a": parquetOf(t, rowsOf(t, tt.rows), field("x", tt.typ))}
	tt.feature.Name = []string{"x"}
	in, err := New(t.Context(), &pb.Spec{Features: []*pb.Feature{tt.feature}}, store)
	var e *Expected
	if err == nil {
		e, err = in.Expected(t.Context(), 0, nil)
	}
	if tt.err != "" {
		if err == nil || !strings.Contains(err.Error(), tt.err) {
			t.Fatalf("got %v; want %s", err, tt.err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	tt.output.Name, tt.output.Layout = "x", tt.feature.GetLayout()
	if tt.output.Shape == nil {
		tt.output.Shape = tt.feature.GetShape()
	}
	schema, err := tensors.Schema(&pb.Program{Outputs: []*pb.Output{tt.output}, Provenance: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewRecords(schema); err != nil {
		t.Error(err)
	}
	rec := recordOf(t, schema, tt.wire)
	var want []uint64
	for r := range e.All() {
		want = append(want, r.Hash)
	}
	if got := hashes(t, rec); !slices.Equal(got, want) {
		t.Errorf("got %x; want %x", got, want)
	}
	if got := hashes(t, rec.NewSlice(rec.NumRows()-1, rec.NumRows())); got[0] != want[len(want)-1] {
		t.Error("the slice of a batch is another")
	}
}

// rowsOf makes rows of an array of values.
func rowsOf(t *testing.T, values string) string {
	t.Helper()
	var all []json.RawMessage
	if err := json.Unmarshal([]byte(values), &all); err != nil {
		t.Fatal(err)
	}
	var rows []map[string]json.RawMessage
	for _, v := range all {
		rows = append(rows, map[string]json.RawMessage{"x": v})
	}
	b, err := json.Marshal(rows)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// recordOf makes a batch whose one tensor is given as JSON.
func recordOf(t *testing.T, schema *arrow.Schema, values string) arrow.Record {
	t.Helper()
	col, _, err := array.FromJSON(memory.DefaultAllocator, schema.Field(0).Type, strings.NewReader(values))
	if err != nil {
		t.Fatal(err)
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(schema.Fields()[1:], nil))
	for i := range col.Len() {
		b.Field(0).(*array.Int32Builder).Append(0)
		b.Field(1).(*array.Int64Builder).Append(int64(i))
	}
	place := b.NewRecord()
	fields := schema.Fields()
	fields[0].Type = col.DataType() // which says of all elements that they may be null
	return array.NewRecord(arrow.NewSchema(fields, nil), []arrow.Array{col, place.Column(0), place.Column(1)}, int64(col.Len()))
}

// Of the values of a kind of floats there is none nearer to a number, and at the same distance none that ends in 0.
func TestNearest(t *testing.T) {
	for k, value := range map[pb.Kind]func(uint16) float64{pb.Kind_FLOAT16: float16, pb.Kind_BFLOAT16: bfloat16} {
		infinity := map[pb.Kind]uint16{pb.Kind_FLOAT16: 0x7c00, pb.Kind_BFLOAT16: 0x7f80}[k]
		rapid.Check(t, func(t *rapid.T) {
			bits := rapid.Uint16Range(0, infinity-2).Draw(t, "bits")
			low, high := value(bits), value(bits+1)
			sign := rapid.SampledFrom([]float64{1, -1}).Draw(t, "sign")
			middle := low + (high-low)/2
			even := low
			if bits&1 != 0 {
				even = high
			}
			for x, want := range map[float64]float64{
				low: low, high: high, middle: even, math.Nextafter(middle, 0): low,
				math.Nextafter(middle, math.Inf(1)): high,
			} {
				if got := nearest(sign*x, k); got != sign*want {
					t.Fatalf("%v of %v: got %v; want %v", k, sign*x, got, sign*want)
				}
			}
		})
		if got := nearest(2*value(infinity-1), k); !math.IsInf(got, 1) {
			t.Errorf("%v: twice the greatest is %v", k, got)
		}
	}
}

// Files of int8 and int16, with shapes and without, go together as what ops see; those that lack the column have nulls.
func TestTensorsOfFilesThatDiffer(t *testing.T) {
	store := memoryStore{
		"mem://a": parquetOf(t, `[{"x": 1}]`, field("x", arrow.PrimitiveTypes.Int8)),
		"mem://b": parquetOf(t, `[{"x": 300}]`, field("x", arrow.PrimitiveTypes.Int16)),
		"mem://c": parquetOf(t, `[{"y": 0}]`, field("y", arrow.PrimitiveTypes.Int8)),
	}
	f := with(tensorOf(), func(f *pb.Feature) { f.Name, f.Default = []string{"x"}, value(5) })
	e := expected(t, &pb.Spec{Features: []*pb.Feature{f}}, store)
	fields := []Field{{Name: "x", Layout: pb.Layout_TENSOR, Kind: pb.Kind_INT32}}
	want := []int64{1, 300, 5}
	for r := range e.All() {
		if r.Hash != rowHash(fields, func(h *Hasher) { h.Int(want[r.File]) }) {
			t.Errorf("file %d is other than %d", r.File, want[r.File])
		}
	}
	one := union{}
	for _, shape := range [][]int32{{2}, {3}, {2}} {
		if err := one.add("", []column{{name: "x", typ: list(spec.Type{Kind: pb.Kind_INT64}), shape: shape}}); err != nil {
			t.Fatal(err)
		}
	}
	if got := one["x"].shape; got != nil {
		t.Errorf("columns of shapes [2] and [3] have shape %v", got)
	}
}

// Only tensors take lists of lists.
func TestListsOfListsHaveOneUse(t *testing.T) {
	store := memoryStore{"mem://a": parquetOf(t, `[{"x": [[1]], "ids": [1]}]`,
		field("x", listOfLists(arrow.PrimitiveTypes.Int64)), field("ids", arrow.ListOf(arrow.PrimitiveTypes.Int64)))}
	features := []*pb.Feature{feature(pb.Layout_SPARSE, "ids")}
	for name, s := range map[string]*pb.Spec{
		"an op": {
			Features:   features,
			Transforms: []*pb.Transform{{Op: "first_x", In: []string{"x"}, Out: "y", Params: params("x", 1)}},
		},
		"a filter": {Features: features, Filter: "x is not null"},
		"weights":  {Features: []*pb.Feature{{Name: []string{"ids"}, Layout: pb.Layout_SPARSE, Weights: "x"}}},
	} {
		if _, err := New(t.Context(), s, store); err == nil || !strings.Contains(err.Error(), "list<list<int64>>") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// Levels of a damaged file that go on with a list that is not there are an error.
func TestListsThatGoOnWithNothing(t *testing.T) {
	whole := leaf{kind: pb.Kind_INT64, rowDef: 1, elementDef: 2, inner: []inner{{3, 4}}, valueDef: 5}
	for levels, ok := range map[string]bool{
		"04 24 14 24": true, "01": true, "00": true, "03 13 14": true, "02 12 14": true,
		"01 24": false, "02 24": false, "03 24": false, "04 12 24": false, "04 23": false, "04 11": false, "04 34": false,
		"01 14": false,
	} {
		r := &leafReader{leaf: whole}
		for word := range strings.FieldsSeq(levels) {
			r.entries = append(r.entries, entry{rep: word[0] - '0', def: word[1] - '0'})
		}
		r.to = len(r.entries)
		if err := lists(r)(&cell{}); (err == nil) != ok {
			t.Errorf("%s: got %v", levels, err)
		}
	}
}
