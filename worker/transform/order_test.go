package transform

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/vector"
)

func TestStepsFollowTheirColumn(t *testing.T) {
	steps := []step{
		{slot: 2, outs: 1, from: []uint32{0}},
		{slot: 3, outs: 1, from: []uint32{1}},
		{slot: 4, outs: 1, from: []uint32{2}},
		{slot: 5, outs: 1, from: []uint32{3, 2}},
		{slot: 6, outs: 1},
		{slot: 7, outs: 1, from: []uint32{2, 2}},
	}
	if got, want := depthFirst(2, steps), []int{4, 0, 2, 5, 1, 3}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	steps = []step{
		{slot: 1, outs: 3, from: []uint32{0}},
		{slot: 4, outs: 1, from: []uint32{3}},
		{slot: 5, outs: 1, from: []uint32{1, 3}},
		{slot: 6, outs: 1, from: []uint32{4}},
	}
	if got, want := depthFirst(1, steps), []int{0, 1, 3, 2}; !slices.Equal(got, want) {
		t.Errorf("of a step that makes three slots: got %v, want %v", got, want)
	}
}

// TestSpareMemoryChangesNothing runs random programs of steps that borrow memory, that share their inputs' values
// always or where there are no nulls, and that do neither, over windows with and without nulls: outputs are the same as
// in a chain where every slot is one, and no memory is ever spare.
func TestSpareMemoryChangesNothing(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		all := randomProgram(t, r)
		few := &pb.Program{Sources: all.Sources, Steps: all.Steps}
		for range 1 + r.IntN(3) {
			few.Outputs = append(few.Outputs,
				&pb.Output{Slots: []uint32{uint32(r.IntN(len(all.Sources) + len(all.Steps)))}})
		}
		want, err := Compile(Builtin(), all, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Compile(Builtin(), few, nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 4 {
			window := randomWindow(r, len(all.Sources))
			wanted, err := want.Run(t.Context(), window)
			if err != nil {
				t.Fatal(err)
			}
			gotten, err := got.Run(t.Context(), window)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range few.Outputs {
				slot := o.Slots[0]
				if a, b := hashOf(gotten[slot]), hashOf(wanted[slot]); a != b {
					t.Fatalf("seed %d: slot %d of %v: got %v, want %v", seed, slot, all.Steps, rowsOf(gotten[slot]),
						rowsOf(wanted[slot]))
				}
			}
		}
	}
}

// randomProgram has scalars of float32 only.
func randomProgram(t *testing.T, r *rand.Rand) *pb.Program {
	float := scalar(pb.Kind_FLOAT32)
	p := &pb.Program{}
	for range 1 + r.IntN(3) {
		p.Sources = append(p.Sources, &pb.Source{Name: "x", Type: float.Proto()})
	}
	for i := range r.IntN(20) {
		ops := []struct {
			name   string
			params values
		}{
			{"fill_null", values{"value": float64(i)}},
			{"clamp", values{"min": 2, "max": 60}},
			{"normalize", values{"mean": 1, "std": 1.5}},
			{"cast", values{"to": "float32"}},
			{"log1p", nil},
		}
		op := ops[r.IntN(len(ops))]
		s := &pb.Step{
			Op: op.name, Version: 1, Params: op.params.proto(),
			In: []uint32{uint32(r.IntN(len(p.Sources) + i))}, Outs: 1, Type: float.Proto(),
		}
		p.Steps = append(p.Steps, s)
	}
	return p
}

func randomWindow(r *rand.Rand, columns int) []*vector.Vector {
	n, window := r.IntN(100), make([]*vector.Vector, columns)
	for c := range window {
		rows, nulls := make([]any, n), r.IntN(2) == 0
		for i := range rows {
			if !nulls || r.IntN(4) > 0 {
				rows[i] = 100 * r.Float32()
			}
		}
		window[c] = vectorOf(scalar(pb.Kind_FLOAT32), rows)
	}
	return window
}

// TestValuesAreSpareAfterTheirLastReader sees the memory of a column's steps go round.
func TestValuesAreSpareAfterTheirLastReader(t *testing.T) {
	float := scalar(pb.Kind_FLOAT32).Proto()
	p := &pb.Program{Sources: []*pb.Source{{Name: "x", Type: float}}}
	for i := range 6 {
		p.Steps = append(p.Steps, &pb.Step{Op: "log1p", Version: 1, In: []uint32{uint32(i)}, Outs: 1, Type: float})
	}
	p.Outputs = []*pb.Output{{Slots: []uint32{6}}}
	chain, err := Compile(Builtin(), p, nil)
	if err != nil {
		t.Fatal(err)
	}
	in := vectorOf(scalar(pb.Kind_FLOAT32), []any{float32(1), float32(2)})
	for range 3 {
		slots, err := chain.Run(t.Context(), []*vector.Vector{in})
		if err != nil {
			t.Fatal(err)
		}
		if len(slots[6].F32) != 2 || slots[5].F32 != nil {
			t.Errorf("the output has %v, the slot before it %v", slots[6].F32, slots[5].F32)
		}
	}
	if n := len(chain.spares.of[pb.Kind_FLOAT32]); n != 2 {
		t.Errorf("%d memories are spare; the steps before the output take turns with two", n)
	}
}
