package offline

import (
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/master/plan"
)

// TestPlanTellsOfFunctions has a spec with a filter of Python's.
func TestPlanTellsOfFunctions(t *testing.T) {
	keep := &pb.Function{
		Name: "keep", Call: "features:keep", Kind: pb.FunctionKind_FILTER, Style: pb.Style_ROWS, Memory: 1 << 30,
		Threads: 2, TimeoutMs: 5000,
	}
	s := &pb.Spec{
		Transforms: []*pb.Transform{{Op: "log1p"}, {Op: "python", Python: keep}}, LastBatch: pb.LastBatch_DROP,
	}
	p := &pb.Program{Steps: []*pb.Step{
		{Op: "log1p", Outs: 1, At: "transforms[0]"},
		{Op: "log1p", Outs: 1, At: "transforms[0]"},
		{Op: "python", At: "transforms[1]", Python: keep},
	}}
	var out strings.Builder
	var left storage.LeftOut
	left.Empty.Add("s3://bucket/a.parquet")
	check(t, (&plannedSession{&plan.Description{}, "day >= 19723", opsOf(s, p), hintsOf(s, p), left, left.Words()}).WriteText(&out))
	for _, want := range []string{
		"log1p   transforms[0]  2",
		"python  transforms[1]  1      features:keep, filter by rows, 2 threads, 1.0 GiB a process, 5s a call, in default",
		"\nfilter: day >= 19723\n",
		"\nlisting: 1 empty file left out (s3://bucket/a.parquet)\n",
		"hint: rows are counted before they are read: for that keep (transforms[1]), and what makes the inputs, run " +
			"twice in the first epoch; last_batch: pad or uneven",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s\nlacks %s", &out, want)
		}
	}
	s.LastBatch = pb.LastBatch_LAST_BATCH_UNSPECIFIED
	if hints := hintsOf(s, p); len(hints) != 1 || !strings.HasPrefix(hints[0], "where several ranks read, ") {
		t.Error(hints)
	}
	if s.LastBatch = pb.LastBatch_PAD; hintsOf(s, p) != nil {
		t.Error("nothing is counted, and there is a hint")
	}
}
