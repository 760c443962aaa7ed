package tensor

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

func TestBuildErrors(t *testing.T) {
	short := vec(pb.Kind_FLOAT32, true, false)
	short.Offsets = []int32{0, 2, 2, 3, 5}
	nested := &vector.Vector{
		Type: spec.Type{Kind: pb.Kind_INT64, List: true, Nested: 1}, Rows: 4, I64: make([]int64, 24),
		Offsets: []int32{0, 2, 4, 6, 8}, Nested: []vector.Level{{Offsets: []int32{0, 3, 6, 9, 12, 15, 18, 21, 24}}},
	}
	later := tensorOf(pb.Layout_LABEL, pb.Kind_INT64, 0)
	later.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 1000, protowire.VarintType), 1))
	for _, tc := range []struct {
		name string
		out  *pb.Output
		vs   []*vector.Vector
		says string
	}{
		{
			"null label", tensorOf(pb.Layout_LABEL, pb.Kind_INT64, 0),
			[]*vector.Vector{vec(pb.Kind_INT64, false, true)},
			"mem://f row 101 is null",
		},
		{
			"null bool label", tensorOf(pb.Layout_LABEL, pb.Kind_BOOL, 0),
			[]*vector.Vector{vec(pb.Kind_BOOL, false, true)},
			"mem://f row 101 is null",
		},
		{
			"weights", weighted(tensorOf(pb.Layout_SPARSE, pb.Kind_INT64, 0)),
			[]*vector.Vector{vec(pb.Kind_INT64, true, false), short},
			"mem://f row 102 has 0 ids and 1 weights",
		},
		{
			"scalar weights", weighted(tensorOf(pb.Layout_SPARSE, pb.Kind_INT64, 0)),
			[]*vector.Vector{vec(pb.Kind_INT64, true, false), vec(pb.Kind_FLOAT32, false, false)},
			"the ids are list<int64>, but their weights are float32",
		},
		{
			"image", withShape(tensorOf(pb.Layout_IMAGE, pb.Kind_BINARY, 0), 3, 1, 1),
			[]*vector.Vector{vec(pb.Kind_BINARY, false, false)},
			"mem://f row 100: it has 2 bytes; shape [3 1 1] takes 3",
		},
		{
			"dense list", tensorOf(pb.Layout_DENSE, pb.Kind_FLOAT32, 0),
			[]*vector.Vector{vec(pb.Kind_INT64, true, false)},
			"is list<int64>; want a scalar",
		},
		{
			"dense of what no op computes with", tensorOf(pb.Layout_DENSE, pb.Kind_FLOAT32, 0),
			[]*vector.Vector{{Type: spec.Type{Kind: pb.Kind_INT8}, Rows: 4, Small: make([]byte, 4)}},
			"is int8; want a number or bool that ops compute with",
		},
		{
			"sparse of lists of lists", tensorOf(pb.Layout_SPARSE, pb.Kind_INT64, 0),
			[]*vector.Vector{nested},
			"is list<list<int64>>; want numbers that ops compute with",
		},
		{
			"padded lists of lists", withShape(tensorOf(pb.Layout_PADDED, pb.Kind_INT64, 0), 2),
			[]*vector.Vector{nested},
			"is list<list<int64>>; want list<int64>",
		},
		{
			"tensor of fewer levels", withShape(tensorOf(pb.Layout_TENSOR, pb.Kind_INT64, 0), 6),
			[]*vector.Vector{nested},
			"is list<list<int64>>; want shape [6]",
		},
		{
			"tensor of another kind", tensorOf(pb.Layout_TENSOR, pb.Kind_INT8, 0),
			[]*vector.Vector{vec(pb.Kind_INT32, false, false)},
			"is int32; want int8",
		},
		{
			"tensor of short lists", withShape(tensorOf(pb.Layout_TENSOR, pb.Kind_FLOAT32, 0), 2),
			[]*vector.Vector{vec(pb.Kind_FLOAT32, true, false)},
			"mem://f row 101 has 0 values where shape [2] takes 2",
		},
		{
			"tensor of null lists", withShape(tensorOf(pb.Layout_TENSOR, pb.Kind_FLOAT32, 0), 2),
			[]*vector.Vector{vec(pb.Kind_FLOAT32, true, true)},
			"mem://f row 101 is null, in the file or since that lacks the column; give the tensor a default",
		},
		{
			"tensor of short byte strings", withShape(tensorOf(pb.Layout_TENSOR, pb.Kind_FLOAT16, 0), 2),
			[]*vector.Vector{vec(pb.Kind_BINARY, false, false)},
			"mem://f row 100 has 2 bytes; shape [2] of float16 takes 4",
		},
		{
			"dense text", tensorOf(pb.Layout_DENSE, pb.Kind_FLOAT32, 0),
			[]*vector.Vector{vec(pb.Kind_BINARY, false, false)},
			"want a number or bool",
		},
		{
			"sparse text", tensorOf(pb.Layout_SPARSE, pb.Kind_INT64, 0),
			[]*vector.Vector{vec(pb.Kind_BINARY, false, false)},
			"want int32 or int64",
		},
		{
			"unknown layout", tensorOf(99, pb.Kind_INT64, 0),
			[]*vector.Vector{vec(pb.Kind_INT64, false, false)},
			"older than the master",
		},
		{
			"unknown field", later, []*vector.Vector{vec(pb.Kind_INT64, false, false)}, "older than the master",
		},
		{
			"no such slot", tensorOf(pb.Layout_LABEL, pb.Kind_INT64, 4),
			[]*vector.Vector{vec(pb.Kind_INT64, false, false)},
			"slot 4 of 1",
		},
		{
			"huge image", withShape(tensorOf(pb.Layout_IMAGE, pb.Kind_BINARY, 0), 1<<30, 2, 1),
			[]*vector.Vector{vec(pb.Kind_BINARY, false, false)},
			"shape",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := build(t, tc.out, nil, 0, 4, tc.vs...)
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v, want %q", err, tc.says)
			}
		})
	}
}

// Rows that are not chosen may be null.
func TestNullLabelsThatAreLeftOut(t *testing.T) {
	if _, err := build(t, tensorOf(pb.Layout_LABEL, pb.Kind_INT64, 0), []int32{3, 0}, 0, 2,
		vec(pb.Kind_INT64, false, true)); err != nil {
		t.Error(err)
	}
}

func TestTakeWaitsForARelease(t *testing.T) {
	v := vec(pb.Kind_INT64, false, false)
	b, err := NewBuilder(program(tensorOf(pb.Layout_LABEL, pb.Kind_INT64, 0), []*vector.Vector{v}), 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Take(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why")
	cancel(why)
	if _, err := b.Take(ctx); !errors.Is(err, why) {
		t.Errorf("got %v, want the cause of the context's end", err)
	}
}

func TestCutBoundsBytes(t *testing.T) {
	v := vec(pb.Kind_BINARY, false, false)
	v.Data, v.Ends = make([]byte, 1006), []int32{0, 2, 4, 1004, 1006}
	b, err := NewBuilder(program(tensorOf(pb.Layout_BYTES, pb.Kind_BINARY, 0), []*vector.Vector{v}), 1)
	if err != nil {
		t.Fatal(err)
	}
	w := &Window{Slots: []*vector.Vector{v}, Rows: 4}
	var cuts []int
	for from := 0; from < 4; {
		p := b.Cut(w, from, 4, 100)
		if p.Bytes > 100 && p.To != from+1 {
			t.Errorf("rows %d to %d take %d bytes", from, p.To, p.Bytes)
		}
		cuts, from = append(cuts, p.To), p.To
	}
	if len(cuts) < 3 || cuts[len(cuts)-1] != 4 {
		t.Errorf("cut at %v", cuts)
	}
	if n := b.RowsFor(w, 1<<62); n != 4 {
		t.Errorf("%d rows, want all", n)
	}
	if n := b.RowsFor(w, 1); n != 1 {
		t.Errorf("%d rows, want 1", n)
	}
	// The rows that are chosen count, not the window's.
	w.Order = []int32{0, 1, 3}
	if n := b.RowsFor(w, 22); n != 3 {
		t.Errorf("%d rows, want 3", n)
	}
	if n := b.RowsFor(&Window{Slots: w.Slots, Rows: 4, Order: []int32{}}, 10); n != 1 {
		t.Errorf("%d rows of none, want 1", n)
	}
}
