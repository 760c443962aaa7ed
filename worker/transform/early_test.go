package transform

import (
	"fmt"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/vector"
)

// earlyProgram fills a and takes its logarithm; hashes b; hashes c, which is shown as it is, too; and fills d for two
// steps.
func earlyProgram() *pb.Program {
	number, ids := scalar(pb.Kind_FLOAT32).Proto(), list(pb.Kind_INT64).Proto()
	hash := values{"max": 100}.proto()
	fill := values{"value": 2}.proto()
	return &pb.Program{
		Sources: []*pb.Source{
			{Name: "a", Type: number},
			{Name: "b", Type: ids},
			{Name: "c", Type: ids},
			{Name: "d", Type: number},
		},
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

// Only the first step of a source that nothing else reads may be taken by whoever makes it, and is then left out,
// window by window: the results are the same.
func TestEarly(t *testing.T) {
	program := earlyProgram()
	c, err := Compile(Builtin(), program, nil)
	if err != nil {
		t.Fatal(err)
	}
	for source, want := range []bool{true, true, false, false} {
		if e, ok := c.Early(source); ok != want || (e.Fill != nil) != (source == 0) ||
			(e.Change != nil) != (source == 1) || e.Narrow != (source == 1) {
			t.Errorf("source %d: %v, %v", source, e, ok)
		}
	}
	sources := func() []*vector.Vector {
		number := vectorOf(scalar(pb.Kind_FLOAT32), []any{float32(1), nil})
		ids := vectorOf(list(pb.Kind_INT64), []any{[]any{int64(1), nil}, nil})
		other := *number
		return []*vector.Vector{number, ids, ids, &other}
	}
	late, err := Compile(Builtin(), program, nil)
	if err != nil {
		t.Fatal(err)
	}
	for window := range 6 {
		want, err := late.Run(t.Context(), sources())
		if err != nil {
			t.Fatal(err)
		}
		in := sources()
		if window%2 == 0 {
			in[0], in[1] = vectorOf(in[0].Type, []any{float32(1), float32(2)}), vectorOf(in[1].Type,
				[]any{[]any{bucketOf(1), nil}, nil})
			in[0].Early, in[1].Early = true, true
		}
		got, err := c.Run(t.Context(), in)
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

// Only vectors whose values nothing reads but outputs that know them may be narrow, and those that did not go through
// the step before such outputs may not.
func TestNarrowReaders(t *testing.T) {
	id, hash := scalar(pb.Kind_INT64).Proto(), values{"max": 100}.proto()
	program := &pb.Program{
		Sources: []*pb.Source{
			{Name: "shown", Type: id},
			{Name: "hashed", Type: id},
			{Name: "both", Type: id},
			{Name: "dense", Type: id},
			{Name: "unread", Type: id},
		},
		Steps: []*pb.Step{
			{Op: "sigrid_hash", Version: 1, Params: hash, In: []uint32{1}, Outs: 1, Type: id},
			{Op: "sigrid_hash", Version: 1, Params: hash, In: []uint32{2}, Outs: 1, Type: id},
		},
		Outputs: []*pb.Output{
			{Layout: pb.Layout_LABEL, Slots: []uint32{0}},
			{Layout: pb.Layout_SPARSE, Slots: []uint32{0}},
			{Layout: pb.Layout_SPARSE, Slots: []uint32{5}},
			{Layout: pb.Layout_SPARSE, Slots: []uint32{6}},
			{Layout: pb.Layout_SPARSE, Slots: []uint32{2}},
			{Layout: pb.Layout_DENSE, Slots: []uint32{3}},
			{Layout: pb.Layout_SPARSE, Slots: []uint32{3}},
		},
	}
	c, err := Compile(Builtin(), program, nil)
	if err != nil {
		t.Fatal(err)
	}
	run := func(narrow int, early bool) ([]*vector.Vector, error) {
		var sources []*vector.Vector
		for range program.GetSources() {
			sources = append(sources, vectorOf(scalar(pb.Kind_INT64), []any{int64(7)}))
		}
		v := sources[narrow]
		v.I64, v.U32, v.Early = nil, []uint32{7}, early
		return c.Run(t.Context(), sources)
	}
	for source, want := range []bool{true, true, false, false, false} {
		if e, _ := c.Early(source); e.Narrow != want {
			t.Errorf("source %d may be narrow: %v", source, e.Narrow)
		}
		if slots, err := run(source, true); (err == nil) != want {
			t.Errorf("source %d: %v", source, err)
		} else if want && slots[[]int{0, 5}[source]].U32 == nil {
			t.Errorf("source %d: those who read it do not get narrow values", source)
		}
	}
	if _, err := run(1, false); err == nil {
		t.Error("a narrow vector whose values were not hashed came to the hash")
	}
	slots, err := run(0, false) // whose second source is wide again
	if err != nil || slots[5].U32 != nil || len(slots[5].I64) != 1 {
		t.Errorf("hashes of a wide source: %v of 32 bits, %v of 64; %v", slots[5].U32, slots[5].I64, err)
	}
}

// Nulls become NaN early only where nothing but dense outputs reads floats.
func TestNullsOfDense(t *testing.T) {
	float, double, id := scalar(pb.Kind_FLOAT32).Proto(), scalar(pb.Kind_FLOAT64).Proto(), scalar(pb.Kind_INT64).Proto()
	weight := uint32(4)
	program := &pb.Program{
		Sources: []*pb.Source{
			{Name: "float", Type: float},
			{Name: "double", Type: double},
			{Name: "id", Type: id},
			{Name: "listed", Type: float},
			{Name: "weight", Type: float},
			{Name: "clamped", Type: float},
		},
		Steps: []*pb.Step{{
			Op: "clamp", Version: 1, Params: values{"min": 0, "max": 1}.proto(), In: []uint32{5},
			Outs: 1, Type: float,
		}},
		Outputs: []*pb.Output{
			{Layout: pb.Layout_DENSE, Slots: []uint32{0, 1, 2, 3, 4, 5, 6}},
			{Layout: pb.Layout_DENSE, Slots: []uint32{0}},
			{Layout: pb.Layout_SPARSE, Slots: []uint32{3}},
			{Layout: pb.Layout_SPARSE, Slots: []uint32{2}, Weights: &weight},
		},
	}
	c, err := Compile(Builtin(), program, nil)
	if err != nil {
		t.Fatal(err)
	}
	for source, want := range []bool{true, true, false, false, false, false} {
		e, ok := c.Early(source)
		if ok != want || (e.Fill != nil) != want {
			t.Errorf("source %d: %v, %v", source, e, ok)
		}
		if want && fmt.Sprint(rowsOf(e.Fill)) != "[NaN]" {
			t.Errorf("source %d: nulls become %v", source, rowsOf(e.Fill))
		}
	}
}
