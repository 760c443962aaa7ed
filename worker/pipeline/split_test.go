package pipeline

import (
	"fmt"
	"maps"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
)

// The parts of a split have each row of a file once, the same ones in each epoch and however it is read.
func TestSplitsHaveEachRowOnce(t *testing.T) {
	const rows = 400
	var store pipelinetest.Store
	f := store.Put("mem://f.parquet", pipelinetest.Parquet(t, 5, 150, 1, rows-151))
	rapid.Check(t, func(rt *rapid.T) {
		key := rapid.SampledFrom([]string{"row()", "label", "price", "score", "text"}).Draw(rt, "key")
		seed, share := rapid.Int64().Draw(rt, "seed"), rapid.IntRange(0, 100).Draw(rt, "share")
		part := func(op string) map[int64]int {
			program := pipelinetest.Program()
			program.Filter = fmt.Sprintf("hash(%s, %d) %% 100 %s %d", key, seed, op, share)
			program.Seed, program.Shuffle = rapid.Int64().Draw(rt, "spec seed"), rapid.Bool().Draw(rt, "shuffle")
			ticket := pipelinetest.Ticket(t, &store, f, rapid.Int64Range(1, 100).Draw(rt, "window"))
			ticket.Epoch = rapid.Uint32Range(0, 2).Draw(rt, "epoch")
			found, _, err := collect(t.Context(), newPipeline(&store, 2000), ticket, program, Cursor{})
			if err != nil {
				rt.Fatal(err)
			}
			times := map[int64]int{}
			for _, r := range found {
				times[r.source]++
			}
			return times
		}
		train, rest := part("<"), part(">=")
		if again := part("<"); !maps.Equal(train, again) {
			rt.Fatalf("%d rows, and another time %d", len(train), len(again))
		}
		for row := range int64(rows) {
			if train[row]+rest[row] != 1 {
				rt.Fatalf("row %d comes %d times in one part, and %d times in the other", row, train[row], rest[row])
			}
		}
		if len(train)+len(rest) != rows {
			rt.Fatalf("%d and %d rows of %d", len(train), len(rest), rows)
		}
	})
}
