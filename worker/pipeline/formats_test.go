package pipeline

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
)

// TestFormatsMakeTheSameRows: a stream has the same rows whichever format its file is of, from every cursor, filtered
// and shuffled, with memory for all of an extent or for pieces of it, and behind streams of files of other formats.
func TestFormatsMakeTheSameRows(t *testing.T) {
	groups := []int{300, 1, 170}
	var parquet, arrow pipelinetest.Store
	of := pipelinetest.Ticket(t, &parquet, parquet.Put("mem://f", pipelinetest.Parquet(t, 5, groups...)), 64)
	twin := pipelinetest.Ticket(t, &arrow, arrow.Put("mem://f", pipelinetest.Arrow(t, 5, groups...)), 64)
	pipelines := map[*pipelinetest.Store]*Pipeline{}
	for _, store := range []*pipelinetest.Store{&parquet, &arrow} {
		pipelines[store] = newPipeline(store, 500)
	}
	rapid.Check(t, func(rt *rapid.T) {
		program := pipelinetest.Program()
		program.Filter = rapid.SampledFrom([]string{
			"", "label == 1", "price > 0.5 or text == 'bb'",
			"label > 7",
		}).Draw(rt, "filter")
		program.Shuffle, program.Seed = rapid.Bool().Draw(rt, "shuffle"), 3
		of.ProgramDigest = []byte(fmt.Sprint(program.Filter, program.Shuffle))
		twin.ProgramDigest = of.ProgramDigest
		at := Cursor{Window: rapid.Uint32Range(0, 9).Draw(rt, "window"), K: rapid.Uint64Range(0, 70).Draw(rt, "k")}
		want, ends, wanted := collect(t.Context(), pipelines[&parquet], of, program, at)
		rows, lasts, err := collect(t.Context(), pipelines[&arrow], twin, program, at)
		if short, ok := errors.AsType[*ShortError](wanted); ok {
			if same, ok := errors.AsType[*ShortError](err); !ok || *same != *short {
				rt.Fatalf("from %v: %v, want %v", at, err, wanted)
			}
			return
		}
		if wanted != nil || err != nil {
			rt.Fatal(wanted, err)
		}
		if !reflect.DeepEqual(rows, want) || !reflect.DeepEqual(lasts, ends) {
			rt.Fatalf("from %v: %d rows in windows that end at %v, want %d that end at %v",
				at, len(rows), lasts, len(want), ends)
		}
	})
}
