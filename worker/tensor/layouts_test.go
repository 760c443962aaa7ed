package tensor

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// golden is what a tensor's rows are, for vectors without nulls (rows) and with (nulls; "" where these are an error).
type golden struct {
	layout      pb.Layout
	from        pb.Kind
	list        bool
	weights     pb.Kind
	to          pb.Kind
	rows, nulls string
}

const none = pb.Kind_KIND_UNSPECIFIED

var goldens = []golden{
	{pb.Layout_DENSE, pb.Kind_BOOL, false, none, pb.Kind_FLOAT32, "[1] [0] [0] [1]", "[1] [NaN] [0] [1]"},
	{pb.Layout_DENSE, pb.Kind_INT32, false, none, pb.Kind_FLOAT32, "[10] [11] [12] [13]", "[10] [NaN] [12] [13]"},
	{pb.Layout_DENSE, pb.Kind_INT64, false, none, pb.Kind_FLOAT32, "[20] [21] [22] [23]", "[20] [NaN] [22] [23]"},
	{
		pb.Layout_DENSE, pb.Kind_FLOAT32, false, none, pb.Kind_FLOAT32, "[0.5] [1.5] [2.5] [3.5]",
		"[0.5] [NaN] [2.5] [3.5]",
	},
	{
		pb.Layout_DENSE, pb.Kind_FLOAT64, false, none, pb.Kind_FLOAT32, "[-0.5] [-1.5] [-2.5] [-3.5]",
		"[-0.5] [NaN] [-2.5] [-3.5]",
	},
	{pb.Layout_LABEL, pb.Kind_BOOL, false, none, pb.Kind_BOOL, "true false false true", ""},
	{pb.Layout_LABEL, pb.Kind_INT32, false, none, pb.Kind_INT32, "10 11 12 13", ""},
	{pb.Layout_LABEL, pb.Kind_INT64, false, none, pb.Kind_INT64, "20 21 22 23", ""},
	{pb.Layout_LABEL, pb.Kind_FLOAT32, false, none, pb.Kind_FLOAT32, "0.5 1.5 2.5 3.5", "0.5 NaN 2.5 3.5"},
	{pb.Layout_LABEL, pb.Kind_FLOAT64, false, none, pb.Kind_FLOAT64, "-0.5 -1.5 -2.5 -3.5", "-0.5 NaN -2.5 -3.5"},
	{pb.Layout_SPARSE, pb.Kind_INT32, false, none, pb.Kind_INT64, "[10] [11] [12] [13]", "[10] [] [12] [13]"},
	{
		pb.Layout_SPARSE, pb.Kind_FLOAT64, false, none, pb.Kind_FLOAT32, "[-0.5] [-1.5] [-2.5] [-3.5]",
		"[-0.5] [] [-2.5] [-3.5]",
	},
	{pb.Layout_SPARSE, pb.Kind_INT32, true, none, pb.Kind_INT64, "[10 11] [] [] [12 13 14]", "[10 11] [] [] [12 14]"},
	{
		pb.Layout_SPARSE, pb.Kind_INT64, true, none, pb.Kind_INT64, "[20 21] [] [] [22 23 1099511627776]",
		"[20 21] [] [] [22 1099511627776]",
	},
	{
		pb.Layout_SPARSE, pb.Kind_FLOAT32, true, none, pb.Kind_FLOAT32, "[0.5 1.5] [] [] [2.5 3.5 4.5]",
		"[0.5 1.5] [] [] [2.5 4.5]",
	},
	{
		pb.Layout_SPARSE, pb.Kind_FLOAT64, true, none, pb.Kind_FLOAT32, "[-0.5 -1.5] [] [] [-2.5 -3.5 -4.5]",
		"[-0.5 -1.5] [] [] [-2.5 -4.5]",
	},
	{
		pb.Layout_SPARSE, pb.Kind_INT64, true, pb.Kind_FLOAT32, pb.Kind_INT64,
		"{[20 21] [0.5 1.5]} {[] []} {[] []} {[22 23 1099511627776] [2.5 3.5 4.5]}",
		"{[20 21] [0.5 1.5]} {[] []} {[] []} {[22 1099511627776] [2.5 4.5]}",
	},
	{
		pb.Layout_SPARSE, pb.Kind_INT32, true, pb.Kind_FLOAT64, pb.Kind_INT64,
		"{[10 11] [-0.5 -1.5]} {[] []} {[] []} {[12 13 14] [-2.5 -3.5 -4.5]}",
		"{[10 11] [-0.5 -1.5]} {[] []} {[] []} {[12 14] [-2.5 -4.5]}",
	},
	{
		pb.Layout_SPARSE, pb.Kind_INT64, false, pb.Kind_FLOAT32, pb.Kind_INT64,
		"{[20] [0.5]} {[21] [1.5]} {[22] [2.5]} {[23] [3.5]}", "{[20] [0.5]} {[] []} {[22] [2.5]} {[23] [3.5]}",
	},
	{pb.Layout_BYTES, pb.Kind_BINARY, false, none, pb.Kind_BINARY, `"aa" "bb" "cc" "dd"`, `"aa" "" "cc" "dd"`},
	{
		pb.Layout_BYTES, pb.Kind_BINARY, true, none, pb.Kind_BINARY, `["aa" "bb"] [] [] ["cc" "dd" "ee"]`,
		`["aa" "bb"] [] [] ["cc" "" "ee"]`,
	},
	{
		pb.Layout_IMAGE, pb.Kind_BINARY, false, none, pb.Kind_BINARY, "[97 97] [98 98] [99 99] [100 100]",
		"[97 97] [0 0] [99 99] [100 100]",
	},
}

// split cuts a golden text at the spaces between rows.
func split(text string) []string {
	if strings.HasPrefix(text, "{") {
		return strings.Split(strings.ReplaceAll(text, "} {", "}|{"), "|")
	}
	if strings.HasPrefix(text, "[") {
		return strings.Split(strings.ReplaceAll(text, "] [", "]|["), "|")
	}
	return strings.Split(text, " ")
}

func TestLayouts(t *testing.T) {
	for _, g := range goldens {
		for _, nulls := range []bool{false, true} {
			o := tensorOf(g.layout, g.to, 0)
			o.Type.List = g.layout == pb.Layout_BYTES && g.list
			vs := []*vector.Vector{vec(g.from, g.list, nulls)}
			if g.weights != none {
				weighted(o)
				vs = append(vs, vec(g.weights, g.list, false))
			}
			if g.layout == pb.Layout_IMAGE {
				withShape(o, 1, 2, 1)
			}
			text := g.rows
			if nulls {
				text = g.nulls
			}
			if text == "" {
				continue // TestBuildErrors
			}
			t.Run(fmt.Sprintf("%v of %v list=%v nulls=%v", g.layout, g.from, g.list, nulls), func(t *testing.T) {
				checkLayout(t, o, vs, split(text))
			})
		}
	}
}

// checkLayout builds all runs of output rows, in several orders.
func checkLayout(t *testing.T, o *pb.Output, vs []*vector.Vector, rows []string) {
	for _, order := range [][]int32{nil, {3, 1, 0}, {2}, {0, 1, 2, 3}} {
		chosen := rows
		if order != nil {
			chosen = nil
			for _, row := range order {
				chosen = append(chosen, rows[row])
			}
		}
		for from := range chosen {
			for to := from + 1; to <= len(chosen); to++ {
				want := "[" + strings.Join(chosen[from:to], " ") + "]"
				got, err := build(t, o, order, from, to, vs...)
				if err != nil {
					t.Fatal(err)
				}
				if got != want {
					t.Errorf("order %v, rows %d to %d: got %s, want %s", order, from, to, got, want)
				}
			}
		}
	}
}

// A null weight is NaN; a null id goes with its weight.
func TestNullWeights(t *testing.T) {
	weights := vec(pb.Kind_FLOAT32, true, false)
	weights.ElemValid = []uint64{0b10011}
	ids := vec(pb.Kind_INT64, true, true)
	checkLayout(t, weighted(tensorOf(pb.Layout_SPARSE, pb.Kind_INT64, 0)), []*vector.Vector{ids, weights},
		split("{[20 21] [0.5 1.5]} {[] []} {[] []} {[22 1099511627776] [NaN 4.5]}"))
}

// TestListsOfOne lays out lists of which some rows have one element each: of these, no offsets are written.
func TestListsOfOne(t *testing.T) {
	for _, c := range []struct {
		offsets []int32
		rows    string
	}{
		{[]int32{0, 1, 2, 3, 4}, "[20] [21] [22] [23]"},
		{[]int32{0, 0, 1, 2, 3}, "[] [20] [21] [22]"},
		{[]int32{0, 2, 3, 4, 5}, "[20 21] [22] [23] [1099511627776]"},
		{[]int32{0, 2, 2, 3, 4}, "[20 21] [] [22] [23]"},
		{[]int32{0, 1, 3, 3, 4}, "[20] [21 22] [] [23]"},
	} {
		v := vec(pb.Kind_INT64, true, false)
		v.Offsets = c.offsets
		checkLayout(t, tensorOf(pb.Layout_SPARSE, pb.Kind_INT64, 0), []*vector.Vector{v}, split(c.rows))
	}
}

// TestWeightsOfOne lays out ids of which each row has one, where a row that is left out has another number of weights.
func TestWeightsOfOne(t *testing.T) {
	for _, c := range []struct {
		offsets []int32 // of the weights
		nulls   []uint64
		order   []int32
		want    string
	}{
		{[]int32{0, 0, 1, 2, 3}, nil, []int32{1, 2, 3}, "[{[21] [0.5]} {[22] [1.5]} {[23] [2.5]}]"},
		{[]int32{0, 2, 3, 4, 5}, nil, []int32{3, 1}, "[{[23] [4.5]} {[21] [2.5]}]"},
		{[]int32{0, 1, 2, 3, 4}, []uint64{0b1011}, []int32{1, 2, 3}, "[{[21] [1.5]} {[22] [NaN]} {[23] [3.5]}]"},
	} {
		ids, weights := vec(pb.Kind_INT64, true, false), vec(pb.Kind_FLOAT32, true, false)
		ids.Offsets, weights.Offsets, weights.ElemValid = []int32{0, 1, 2, 3, 4}, c.offsets, c.nulls
		got, err := build(t, weighted(tensorOf(pb.Layout_SPARSE, pb.Kind_INT64, 0)), c.order, 0, len(c.order), ids,
			weights)
		if got != c.want || err != nil {
			t.Errorf("weights of %v, rows %v: %s, %v; want %s", c.offsets, c.order, got, err, c.want)
		}
	}
}

// TestSharedOffsets builds a batch of three lists of one: their offsets are in memory once, and counted once.
func TestSharedOffsets(t *testing.T) {
	lists := vec(pb.Kind_INT64, true, false)
	lists.Offsets = []int32{0, 1, 2, 3, 4}
	o := tensorOf(pb.Layout_SPARSE, pb.Kind_INT64, 0)
	scalar := tensorOf(pb.Layout_SPARSE, pb.Kind_INT64, 1)
	vs := []*vector.Vector{lists, vec(pb.Kind_INT64, false, false)}
	p := program(o, vs)
	p.Outputs = append(p.Outputs, scalar, o)
	b, err := NewBuilder(p, 1)
	if err != nil {
		t.Fatal(err)
	}
	w := &Window{Slots: vs, Rows: 4}
	for range 2 {
		batch, err := b.Take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Build(batch, w, b.Cut(w, 0, 3, math.MaxInt64)); err != nil {
			t.Fatal(err)
		}
		if want := int64(3*3*8 + 4*4); batch.Bytes != want {
			t.Errorf("%d bytes, want %d", batch.Bytes, want)
		}
		for i := range 3 {
			if &batch.Buffers[4*i+1][0] != &batch.Buffers[1][0] {
				t.Errorf("list %d has offsets of its own", i)
			}
		}
		batch.Release()
	}
}

// TestLongSharedOffsets does so with more lists than Counting keeps.
func TestLongSharedOffsets(t *testing.T) {
	const rows = vector.MaxCounted + 5
	v := &vector.Vector{
		Type: spec.Type{Kind: pb.Kind_INT64, List: true}, Rows: rows, I64: make([]int64, rows),
		Offsets: vector.Counting(rows),
	}
	vs := []*vector.Vector{v}
	o := tensorOf(pb.Layout_SPARSE, pb.Kind_INT64, 0)
	p := program(o, vs)
	p.Outputs = append(p.Outputs, o)
	b, err := NewBuilder(p, 1)
	if err != nil {
		t.Fatal(err)
	}
	w := &Window{Slots: vs, Rows: rows}
	batch, err := b.Take(t.Context())
	if err == nil {
		err = b.Build(batch, w, b.Cut(w, 0, rows, math.MaxInt64))
	}
	if err != nil {
		t.Fatal(err)
	}
	if want := int64(2*8*rows + 4*(rows+1)); batch.Bytes != want || &batch.Buffers[1][0] != &batch.Buffers[5][0] {
		t.Errorf("%d bytes, want %d and the same offsets", batch.Bytes, want)
	}
}

func TestDenseIsRowMajor(t *testing.T) {
	vs := []*vector.Vector{vec(pb.Kind_INT32, false, true), vec(pb.Kind_FLOAT64, false, false)}
	checkLayout(t, tensorOf(pb.Layout_DENSE, pb.Kind_FLOAT32, 0, 1, 0), vs,
		split("[10 -0.5 10] [NaN -1.5 NaN] [12 -2.5 12] [13 -3.5 13]"))
}

// TestPartsOfRows numbers the rows that were made of each row, in any order of output.
func TestPartsOfRows(t *testing.T) {
	v := vec(pb.Kind_INT64, false, false)
	p := program(withShape(tensorOf(pb.Layout_DENSE, pb.Kind_FLOAT32, 0)), []*vector.Vector{v})
	p.Provenance = true
	p.Steps = append(p.Steps, &pb.Step{Python: &pb.Function{Kind: pb.FunctionKind_FLAT_MAP}})
	b, err := NewBuilder(p, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		chosen, order []int32
		from          int
		want          string
	}{
		{nil, nil, 0, "[100 101 102 103] [0 0 0 0]"},
		{[]int32{1, 1, 1, 8}, nil, 0, "[101 101 101 108] [0 1 2 0]"},
		{[]int32{0, 4, 4, 4}, []int32{3, 0, 2, 1}, 1, "[100 104 104] [0 1 0]"},
	} {
		w := &Window{
			Slots: []*vector.Vector{v}, Rows: 4, Chosen: c.chosen, Order: c.order, File: &pb.File{}, FirstRow: 100,
		}
		batch, err := b.Take(t.Context())
		if err == nil {
			err = b.Build(batch, w, b.Cut(w, c.from, 4-c.from, math.MaxInt64))
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(batch.Record().Column(2), batch.Record().Column(3)); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
		if rows := int64(4 - c.from); batch.Bytes != rows*(4+4+8+4) {
			t.Errorf("%d bytes", batch.Bytes)
		}
		batch.Release()
	}
}

func TestProvenanceAndSchema(t *testing.T) {
	v := vec(pb.Kind_INT64, false, false)
	p := program(withShape(tensorOf(pb.Layout_DENSE, pb.Kind_FLOAT32, 0)), []*vector.Vector{v})
	p.Provenance = true
	b, err := NewBuilder(p, 1)
	if err != nil {
		t.Fatal(err)
	}
	w := &Window{Slots: []*vector.Vector{v}, Rows: 4, Order: []int32{3, 0}, File: &pb.File{Index: 7}, FirstRow: 100}
	batch, err := b.Take(t.Context())
	if err == nil {
		err = b.Build(batch, w, b.Cut(w, 0, 2, math.MaxInt64))
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(batch.Record().Column(1), batch.Record().Column(2)); got != "[7 7] [103 100]" {
		t.Errorf("got %s", got)
	}
	for i, want := range []string{"dense", "provenance", "provenance"} {
		f := b.Schema().Field(i)
		if got, _ := f.Metadata.GetValue("penstock.layout"); got != want || f.Nullable {
			t.Errorf("field %v", f)
		}
	}
	if batch.Bytes != 2*4+2*4+2*8 {
		t.Errorf("%d bytes", batch.Bytes)
	}
}
