package transform

import (
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/vector"
)

// earlyProgram fills a and takes its logarithm; hashes b; hashes c, which is shown as it is, too; and fills d for two steps.
func earlyProgram() *pb.Program {
	number, ids := scalar(pb.Kind_FLOAT32).Proto(), list(pb.Kind_INT64).Proto()
	hash := values{"max": 100}.proto()
	fill := values{"value": 2}.proto()
	return &pb.Program{
		Sources: []*pb.Source{{Name: "a", Type: number}, {Name: "b", Type: ids}, {Name: "c", Type: ids}, {Name: "d", Type: number}},
		Steps: []*pb.Step{
			{Op: "fill_null", Version: 1, Params: fill, In: []uint32{0}, Outs: 1, Type: number},
			{Op: "log1p", Version: 1, In: []uint32{4}, Outs: 1, Type: number},
			{Op: "sigrid_hash", Version: 1, Params: hash, In: []uint32{1}, Outs: 1, Type: ids},
			{Op: "sigrid_hash", Version: 1, Params: hash, In: []uint32{2}, Outs: 1, Type: ids},
			{Op: "fill_null", Version: 1, Params: fill, In: []uint32{3}, Outs: 1, Type: number},
			{Op: "fill_null", Version: 1, Params: fill, In: []uint32{3}, Outs: 1, Type: number},
		},
		Outputs: []*pb.Output{
			{Layout: pb.Layout_DENSE, Slots: []uint32{5, 8, 9}},
			{Layout: pb.Layout_SPARSE, Slots: []uint32{6}},
			{Layout: pb.Layout_SPARSE, Slots: []uint32{7}},
			{Layout: pb.Layout_SPARSE, Slots: []uint32{2}},
		},
	}
}

// Only the first step of a source that nothing else reads may be taken by whoever makes it, and is then left out, window by window: the
// results are the same.
func TestEarly(t *testing.T) {
	program := earlyProgram()
	c, err := Compile(Builtin(), program)
	if err != nil {
		t.Fatal(err)
	}
	for source, want := range []bool{true, true, false, false} {
		if e, ok := c.Early(source); ok != want || (e.Fill != nil) != (source == 0) || (e.Change != nil) != (source == 1) {
			t.Errorf("source %d: %v, %v", source, e, ok)
		}
	}
	sources := func() []*vector.Vector {
		number := vectorOf(scalar(pb.Kind_FLOAT32), []any{float32(1), nil})
		ids := vectorOf(list(pb.Kind_INT64), []any{[]any{int64(1), nil}, nil})
		other := *number
		return []*vector.Vector{number, ids, ids, &other}
	}
	late, err := Compile(Builtin(), program)
	if err != nil {
		t.Fatal(err)
	}
	for window := range 6 {
		want, err := late.Run(sources())
		if err != nil {
			t.Fatal(err)
		}
		in := sources()
		if window%2 == 0 {
			in[0], in[1] = vectorOf(in[0].Type, []any{float32(1), float32(2)}), vectorOf(in[1].Type, []any{[]any{bucketOf(1), nil}, nil})
			in[0].Early, in[1].Early = true, true
		}
		got, err := c.Run(in)
		if err != nil {
			t.Fatal(err)
		}
		for slot := 5; slot < len(got); slot++ { // 4 is read by a step alone
			if !same(rowsOf(got[slot]), rowsOf(want[slot])) {
				t.Errorf("window %d, slot %d: got %v, want %v", window, slot, rowsOf(got[slot]), rowsOf(want[slot]))
			}
		}
	}
	if n := len(c.spares.of[pb.Kind_FLOAT32]); n > 3 {
		t.Errorf("%d pieces of memory are spare after windows of three steps", n)
	}
}

func bucketOf(id int64) int64 {
	out := []int64{0}
	hashInts(out, []int64{id}, &hashParams{0, newModulus(100)})
	return out[0]
}
