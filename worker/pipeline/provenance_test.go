package pipeline

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v15/arrow/array"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
	"github.com/penstock-ml/penstock/worker/transform"
)

// TestProvenanceOfRowsThatAreMade names each row of a stream: by its row of the file, and its number among those that
// were made of it and that a function chose, in any order.
func TestProvenanceOfRowsThatAreMade(t *testing.T) {
	var store pipelinetest.Store
	ticket := shard(t, &store, 100, 30, 70)
	ticket.Code = &pb.StoredCode{Sha256: []byte("code")}
	python := &fakePython{functions: map[string]func(context.Context, *transform.Call) error{
		"repeats": repeats,
		"odd": func(_ context.Context, c *transform.Call) error { // places, of any number of windows
			c.Parents = []int32{}
			for i := range c.N {
				if i%2 == 1 {
					c.Parents = append(c.Parents, int32(i))
				}
			}
			return nil
		},
	}}
	program := pipelinetest.Program()
	program.Provenance, program.Shuffle = true, true
	part := call(program, "repeats", []uint32{pipelinetest.Label}, &pb.Type{Kind: pb.Kind_INT64})
	program.Steps[0].Python.Kind, program.Steps[0].Python.Most = pb.FunctionKind_FLAT_MAP, 2
	program.Outputs = []*pb.Output{
		{Name: "part", Layout: pb.Layout_LABEL, Slots: []uint32{part}, Type: &pb.Type{Kind: pb.Kind_INT64}},
	}
	p := withPython(newPipeline(&store, 500), python)
	defer p.Close()
	read := func() (made []int64, rows []string) {
		s, err := p.Open(t.Context(), ticket, program, Cursor{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		err = s.Run(t.Context(), func(_ context.Context, b Batch) error {
			defer b.Release()
			for i := range int(b.Meta.GetRows()) {
				column := func(name string) int { return b.Record().Schema().FieldIndices(name)[0] }
				made = append(made, b.Record().Column(column("part")).(*array.Int64).Value(i))
				rows = append(rows, fmt.Sprint(b.Record().Column(column("_row")).(*array.Int64).Value(i), " ",
					b.Record().Column(column("_part")).(*array.Int32).Value(i)))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return made, rows
	}
	var want []string
	for row := range int64(100) {
		for part := range becomes(row) {
			want = append(want, fmt.Sprint(row, " ", part))
		}
	}
	made, rows := read()
	for i, row := range rows {
		var source, part int64
		if _, err := fmt.Sscan(row, &source, &part); err != nil || part != made[i] {
			t.Fatalf("row %s is the one that was made as %d: %v", row, made[i], err)
		}
	}
	if slices.IsSorted(rows) {
		t.Error("they are not shuffled")
	}
	slices.Sort(rows)
	slices.Sort(want)
	if !slices.Equal(rows, want) {
		t.Errorf("got %v, want %v", rows, want)
	}
	program.Steps = append(program.Steps, &pb.Step{
		Op: "python", Version: 1, In: []uint32{pipelinetest.Label}, At: "transforms[1]",
		Python: &pb.Function{Name: "odd", Kind: pb.FunctionKind_FILTER},
	})
	_, rows = read()
	slices.Sort(rows)
	if chosen := len(slices.Compact(slices.Clone(rows))); chosen != len(rows) || chosen < len(want)/2-2 ||
		!subset(rows, want) {
		t.Errorf("%d names of %d rows: %v", chosen, len(rows), rows)
	}
}

func subset(some, all []string) bool {
	return !slices.ContainsFunc(some, func(s string) bool { return !slices.Contains(all, s) })
}
