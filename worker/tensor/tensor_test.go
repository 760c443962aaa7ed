package tensor

import (
	"fmt"
	"math"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// The vectors of these tests have 4 rows, of which row 1 is null; lists have 2, null, 0 and 3 elements, of which
// element 3 is null.
var (
	rowValid  = []uint64{0b1101}
	elemValid = []uint64{0b10111}
	offsets   = []int32{0, 2, 2, 2, 5}
)

func vec(kind pb.Kind, list, nulls bool) *vector.Vector {
	v := &vector.Vector{
		Type: spec.Type{Kind: kind, List: list}, Rows: 4,
		Bool: []bool{true, false, false, true, true},
		I32:  []int32{10, 11, 12, 13, 14}, I64: []int64{20, 21, 22, 23, 1 << 40},
		F32: []float32{0.5, 1.5, 2.5, 3.5, 4.5}, F64: []float64{-0.5, -1.5, -2.5, -3.5, -4.5},
		Data: []byte("aabbccddee"), Ends: []int32{0, 2, 4, 6, 8, 10},
	}
	if nulls {
		v.Valid = rowValid
	}
	if list {
		v.Offsets = offsets
		if nulls {
			v.ElemValid = elemValid
		}
	}
	return v
}

func tensorOf(layout pb.Layout, kind pb.Kind, slots ...uint32) *pb.Output {
	return &pb.Output{
		Name: "t", Layout: layout, Slots: slots, Columns: make([]string, len(slots)),
		Type: &pb.Type{Kind: kind},
	}
}

func weighted(o *pb.Output) *pb.Output {
	w := uint32(1)
	o.Weights = &w
	return o
}

func withShape(o *pb.Output, shape ...int32) *pb.Output {
	o.Shape = shape
	return o
}

func program(o *pb.Output, vs []*vector.Vector) *pb.Program {
	p := &pb.Program{Outputs: []*pb.Output{o}}
	for _, v := range vs {
		p.Sources = append(p.Sources, &pb.Source{Type: v.Type.Proto()})
	}
	return p
}

// build lays out rows [from, to) and writes the tensor as text; offsets and lengths of what Arrow prints are exact.
func build(t *testing.T, o *pb.Output, order []int32, from, to int, vs ...*vector.Vector) (string, error) {
	t.Helper()
	b, err := NewBuilder(program(o, vs), 1)
	if err != nil {
		return "", err
	}
	w := &Window{Slots: vs, Rows: 4, Order: order, File: &pb.File{Uri: "mem://f", Index: 7}, FirstRow: 100}
	var texts []string
	for range 2 { // the second time on used memory
		p := b.Cut(w, from, to-from, math.MaxInt64)
		batch, err := b.Take(t.Context())
		if err == nil {
			err = b.Build(batch, w, p)
		}
		if err != nil {
			return "", err
		}
		texts = append(texts, fmt.Sprint(batch.Record().Column(0)))
		if p.Bytes < batch.Bytes {
			t.Errorf("%d bytes were announced, %d came", p.Bytes, batch.Bytes)
		}
		batch.Release()
	}
	if texts[0] != texts[1] {
		t.Fatalf("first %s, then %s", texts[0], texts[1])
	}
	return texts[0], nil
}

// TestMemoryOfBatches: where each output has the long values in another batch, a batch holds about what the largest
// has; and where batches differ as they do, its memory stays.
func TestMemoryOfBatches(t *testing.T) {
	const outputs, long = 20, 1 << 20
	p := &pb.Program{}
	for i := range outputs {
		o := tensorOf(pb.Layout_BYTES, pb.Kind_BINARY, uint32(i))
		o.Name = fmt.Sprint(i)
		p.Sources, p.Outputs = append(p.Sources, &pb.Source{Type: &pb.Type{Kind: pb.Kind_BINARY}}), append(p.Outputs, o)
	}
	b, err := NewBuilder(p, 1)
	if err != nil {
		t.Fatal(err)
	}
	build := func(lengths func(output int) int32) *Batch {
		t.Helper()
		w := &Window{Rows: 2}
		for i := range outputs {
			n := lengths(i)
			w.Slots = append(w.Slots, &vector.Vector{
				Type: spec.Type{Kind: pb.Kind_BINARY}, Rows: 2,
				Data: make([]byte, n), Ends: []int32{0, n, n},
			})
		}
		batch, err := b.Take(t.Context())
		if err == nil {
			err = b.Build(batch, w, b.Cut(w, 0, 2, math.MaxInt64))
		}
		if err != nil {
			t.Fatal(err)
		}
		return batch
	}
	for n := range 2 * outputs {
		batch := build(func(output int) int32 {
			if output == n%outputs {
				return long
			}
			return 10
		})
		if held := batch.Held(); held > 2*long || batch.Bytes < long {
			t.Fatalf("batch %d of %d bytes keeps %d", n, batch.Bytes, held)
		}
		batch.Release()
	}
	var memory *byte
	for n := range 3 * outputs {
		batch := build(func(output int) int32 { return long/outputs - int32((output+n)%outputs*100) })
		if first := &batch.Buffers[2][0]; n == 0 {
			memory = first
		} else if n >= outputs && first != memory {
			t.Fatalf("batch %d is on other memory", n)
		} else {
			memory = first
		}
		batch.Release()
	}
}
