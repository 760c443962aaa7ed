package convert

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/penstock-ml/penstock/api/pb"
)

// Whatever is not as in the inputs is found where rows are sorted or partitioned, and maps and structs are columns or
// not. What is right is not taken for wrong.
func TestVerifyFlattenedArranged(t *testing.T) {
	store := newStore(t)
	rows := func(changed ...string) string {
		fields := append(features(), nullable("day", arrow.BinaryTypes.String))
		text := featureRows(changed...)
		for i, day := range []string{`"b"`, `"a"`, `null`} {
			label := `{"label": ` + string(rune('1'+i))
			text = strings.Replace(text, label, label+`, "day": `+day, 1)
		}
		return parquetFile(t, text, fields...)
	}
	base := rows()
	changed := make([]string, 0, len(featureChanges()))
	for _, tt := range featureChanges() {
		changed = append(changed, rows(tt[0], tt[1]))
	}
	for name, f := range map[string][]Flattening{
		"as it is":    nil,
		"all":         flatten("scores", "ids", "ranked", "s", "s.m", "l"),
		"one key":     {{Columns: []string{"scores"}, Keys: []string{"2"}}, {Columns: []string{"ranked"}, Keys: []string{"j"}}},
		"the structs": flatten("s", "l"),
	} {
		for _, o := range []Options{
			{SortBy: []string{"label:desc"}},
			{PartitionBy: []string{"day"}},
			{Shuffle: new(int64(7))},
			{Shuffle: new(int64(7)), PartitionBy: []string{"day"}},
			{PartitionBy: []string{"day", "label"}, FileRows: 1},
			{PartitionBy: []string{"day"}, SortBy: []string{"label:desc"}, FileRows: 1, Order: inReverse()},
		} {
			o.Store, o.Inputs, o.Flatten, o.Verify = store, []string{base}, f, true
			o.Output = filepath.Join(t.TempDir(), "out")
			r, err := Run(t.Context(), o)
			if err != nil || !r.Verified || r.Rows != 3 {
				t.Errorf("%s, by %v and %v: %+v, %v", name, o.PartitionBy, o.SortBy, r, err)
				continue
			}
			for i, in := range changed {
				o.Inputs = []string{in}
				found := must(find(t.Context(), o))
				if err := verify(t.Context(), o, &found, r.Files); err == nil ||
					!strings.Contains(err.Error(), "are not the 3 rows") {
					t.Errorf("%s, by %v and %v, %v: %v", name, o.PartitionBy, o.SortBy, featureChanges()[i], err)
				}
			}
		}
	}
}

// inReverse is the order of columns from the last to the first.
func inReverse() *Order {
	return &Order{From: "reverse", Of: func(_ context.Context, columns []string, _ func() ([]byte, error)) ([]int, error) {
		order := make([]int, len(columns))
		for i := range order {
			order[i] = len(columns) - 1 - i
		}
		return order, nil
	}}
}

// TestWorkOf: an unfinished conversion to Parquet is the same, whether its format was said or not, and as of when there
// was no other. One to a format whose layout changed is another.
func TestWorkOf(t *testing.T) {
	in := &inputs{}
	plain, said := workOf(Options{}, in), workOf(Options{To: "parquet"}, in)
	how := &pb.Format{Name: "jsonl", Columns: map[string]string{"a": "int8", "b": "int16", "c": "bool"}}
	read := workOf(Options{Format: how}, in)
	for range 10 {
		if workOf(Options{Format: how}, in) != read {
			t.Fatal("the digest changes by itself")
		}
	}
	if plain != said || read == plain || workOf(Options{To: "mds"}, in) == plain {
		t.Error(plain, said, read)
	}
	for to, want := range map[string]int{"": 1, "parquet": 1, "arrow": 1, "mds": 1, "jsonl": 2, "tar": 2} {
		if got := workVersion(to); got != want {
			t.Errorf("conversions to %q are of version %d, not %d", to, got, want)
		}
	}
}
