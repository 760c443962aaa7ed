package convert

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestShuffle: all rows are there, once, in an order that the seed decides and nothing else does: neither memory, nor a
// run that was stopped. In folders they are shuffled, too.
func TestShuffle(t *testing.T) {
	const rows = 5000
	var text strings.Builder
	text.WriteString("n,day\n")
	for i := range rows {
		fmt.Fprintf(&text, "%d,d%d\n", i, i%2)
	}
	in := []string{write(t, "a.csv", text.String())}
	order := func(o Options, seed int64) []string {
		t.Helper()
		o.Inputs, o.Shuffle, o.Verify = in, &seed, true
		got := table(t, run(t, o).Files...)[1:]
		if sorted := slices.Sorted(slices.Values(got)); len(slices.Compact(sorted)) != rows {
			t.Fatalf("%+v: %d rows, not all different", o, len(got))
		}
		return got
	}
	one := order(Options{}, 1)
	if slices.Equal(one, order(Options{}, 2)) {
		t.Error("two seeds make one order")
	}
	stopped := Options{Inputs: in, Output: filepath.Join(t.TempDir(), "out"), FileRows: 700, Shuffle: new(int64(1))}
	_ = stopAfter(t, stopped, 2000)
	if got := table(t, run(t, stopped).Files...)[1:]; !slices.Equal(got, one) {
		t.Error("a run that goes on makes another order")
	}
	near := 0
	for i := range one[1:] {
		var a, b int
		_, _ = fmt.Sscanf(one[i], "%d|", &a)
		_, _ = fmt.Sscanf(one[i+1], "%d|", &b)
		if max(a-b, b-a) < rows/100 {
			near++
		}
	}
	if near > rows/20 { // a fiftieth is to be expected
		t.Errorf("%d of %d rows lie beside one that was near", near, rows)
	}
	parts := order(Options{PartitionBy: []string{"day"}}, 1)
	if ascends := func(a, b string) int { return len(a) - len(b) }; slices.IsSortedFunc(parts[:rows/2], ascends) {
		t.Error("rows of a partition are not shuffled")
	}
}

// TestFileBytes: files end at the first row group with which they have so many bytes.
func TestFileBytes(t *testing.T) {
	var text strings.Builder
	text.WriteString("n\n")
	for i := range 10_000 {
		fmt.Fprintf(&text, "%d\n", i*i*7919%1_000_003)
	}
	in := []string{write(t, "a.csv", text.String())}
	all := run(t, Options{Inputs: in, RowGroupRows: 1000})
	r := run(t, Options{Inputs: in, RowGroupRows: 1000, FileBytes: all.Bytes / 4, Verify: true})
	if n := len(r.Files); n < 3 || n > 5 {
		t.Errorf("%d files of a quarter of the bytes each", n)
	}
	if len(groupsOf(t, r.Files[0])) < 2 {
		t.Error("files end before they have their bytes")
	}
}
