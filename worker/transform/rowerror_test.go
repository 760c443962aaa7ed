package transform

import (
	"errors"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/images"
	"github.com/penstock-ml/penstock/worker/vector"
)

// All rows that fail in a step are found at once, by their numbers in the file.
func TestRowsThatFailAreGathered(t *testing.T) {
	ids, scores := list(pb.Kind_INT64), list(pb.Kind_FLOAT32)
	for op, inputs := range map[string][]uint32{"sort_by_score": {0, 1}, "score_sum": {0, 0, 1}} {
		p := &pb.Program{Sources: []*pb.Source{{Name: "ids", Type: ids.Proto()}, {Name: "scores", Type: scores.Proto()}}}
		out := spec.Type{Kind: pb.Kind_FLOAT32}
		if op == "sort_by_score" {
			out = ids
		}
		p.Steps = []*pb.Step{{Op: op, Version: 1, In: inputs, Name: "made", At: "transforms[0]", Type: out.Proto(), Outs: 1}}
		chain, err := Compile(Builtin(), p, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer chain.Close()
		chain.Place(Rows{First: 100, N: 4}, images.Room{})
		_, err = chain.Run(t.Context(), []*vector.Vector{
			{Type: ids, Rows: 4, Offsets: []int32{0, 1, 3, 4, 5}, I64: []int64{1, 2, 3, 4, 5}},
			{Type: scores, Rows: 4, Offsets: []int32{0, 1, 2, 3, 5}, F32: []float32{1, 2, 3, 4, 5}},
		})
		rows := OwnRows(err)
		if len(rows) != 2 || rows[0].Row != 101 || rows[1].Row != 103 ||
			!errors.As(err, new(*RowError)) || rows[1].Error() != "transforms[0] ("+op+" making made): row 103 has 1 ids "+
			"and 2 scores; they must be as many: see that both features stem from one list" {
			t.Errorf("%s: %v, %v", op, err, rows)
		}
	}
}
