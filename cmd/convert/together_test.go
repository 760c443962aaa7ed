package convert

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/penstock-ml/penstock/internal/storage/storagetest"
)

// TestKilledTogether kills a process that flattens, sorts, partitions and orders columns at once, which is this test in
// another process. What goes on makes the files that one run makes, here and in a store.
func TestKilledTogether(t *testing.T) {
	const variable = "PENSTOCK_TEST_KILLED_TOGETHER"
	o := Options{
		FileRows: 600, Flatten: flatten("m", "s"), RestBelow: 0.01, PartitionBy: []string{"day"}, SortBy: []string{"x:desc"},
		Order: inReverse(), Store: lake(t), together: 4,
	}
	if given := os.Getenv(variable); given != "" {
		in, out, _ := strings.Cut(given, ",")
		o.Inputs, o.Output = []string{in}, out
		if strings.HasPrefix(out, "s3:") {
			o.OutProfile = "lake"
		}
		o.Progress = func(p Progress) {
			if !p.Counting && p.Rows > 5_000 {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
		}
		_, err := Run(t.Context(), o)
		t.Fatal(err)
	}
	m := storagetest.StartMinIO(t)
	m.Setenv(t)
	m.MakeBucket(t, "outputs")
	o.Store = lake(t)
	var rows []string
	for i := range 7_200 {
		rows = append(rows, fmt.Sprintf(`{"x": %d, "day": "d%d", "m": [{"key": "%d", "value": %d}, {"key": "r%d", "value": 1}],
			"s": {"a": %d, "b": null}}`, i*7%7_200, i%2, i%5, i, i%360, i))
	}
	number := arrow.PrimitiveTypes.Int64
	in := parquetFile(t, "["+strings.Join(rows, ",")+"]", nullable("x", number), nullable("day", arrow.BinaryTypes.String),
		nullable("m", arrow.MapOf(arrow.BinaryTypes.String, number)),
		nullable("s", arrow.StructOf(nullable("a", number), nullable("b", number))))
	o.Inputs, o.Verify = []string{in}, true
	dir := t.TempDir()
	o.Output = filepath.Join(dir, "whole")
	whole, err := Run(t.Context(), o)
	if err != nil || len(whole.Files) != 12 || len(whole.Columns) != 9 {
		t.Fatalf("%+v, %v", whole, err)
	}
	for _, to := range []string{filepath.Join(dir, "out"), "s3://outputs/derived/out"} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledTogether$")
		cmd.Env = append(os.Environ(), variable+"="+in+","+to)
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(err.Error(), "killed") {
			t.Fatalf("it was not killed: %v: %s", err, out)
		}
		if o.Output = to; strings.HasPrefix(to, "s3:") {
			o.OutProfile = "lake"
		}
		o.Order = &Order{From: "reverse"} // whose functions are not called
		r, err := Run(t.Context(), o)
		if err != nil || !r.Verified || r.Rows != 7_200 || !slices.Equal(r.Columns, whole.Columns) ||
			!strings.Contains(strings.Join(r.Notes, " "), "went on behind day=") {
			t.Fatalf("%+v, %v", r, err)
		}
		c, err := Compare(t.Context(), Options{Store: o.Store, Inputs: whole.Files},
			Options{Store: o.Store, Inputs: r.Files, Profile: o.OutProfile})
		if err != nil || c.Different != 0 || c.Rows != 7_200 || len(r.Files) != 12 {
			t.Errorf("%+v, %v", c, err)
		}
	}
}
