package workload

import (
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/spec"
)

func TestSpecsParse(t *testing.T) {
	for _, w := range All() {
		if err := w.Validate(); err != nil {
			t.Error(err)
		}
		text := w.Spec("file:///data")
		if len(text) > 1<<20 {
			t.Errorf("%s: the spec has %d bytes; masters take 1 MiB", w.Name, len(text))
		}
		s, err := spec.Parse([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", w.Name, err)
		}
		r := w.Recipe()
		buckets := 0
		for _, op := range s.Transforms {
			if op.Op == "bucketize" {
				got := op.Params["borders"].GetFloats().GetValues()
				if len(got) != len(r.Borders) || float32(got[3]) != r.Borders[3] {
					t.Errorf("%s: borders of the spec are not the recipe's", w.Name)
				}
				buckets++
			}
		}
		if buckets != w.Generated || len(r.Dense) != w.Dense || len(r.Sparse) != w.Sparse {
			t.Errorf("%s: %d generated features, %d dense, %d sparse", w.Name, buckets, len(r.Dense), len(r.Sparse))
		}
	}
}

func TestMakes(t *testing.T) {
	w, err := Named("rm1")
	if err != nil {
		t.Fatal(err)
	}
	w.Rows, w.FileRows, w.Length = 1000, 600, 3
	files, err := w.Make(t.Context(), t.TempDir(), nil)
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
}

// TestLongLists: lists have the length on average that was asked for, as far as 1,024 quantiles tell.
func TestLongLists(t *testing.T) {
	for length := range longest {
		length++
		if mean := meanLength(longer(length)); mean < length*9/10 || mean > length*11/10 {
			t.Errorf("lists of %d ids instead of %d", mean, length)
		}
	}
}

func TestErrors(t *testing.T) {
	if _, err := Named("rm9"); err == nil {
		t.Error("rm9: no error")
	}
	for _, tt := range []struct {
		name   string
		change func(*Workload)
		want   string
	}{
		{"rm1", func(w *Workload) { w.Rows = 0 }, "rows is 0"},
		{"rm1", func(w *Workload) { w.Generated = w.Dense + 1 }, "generated is 14"},
		{"rm1", func(w *Workload) { w.Transform = false }, "13 features are generated, but transform is false"},
		{"rm1", func(w *Workload) { w.Length = 201 }, "length is 201"},
		{"rm1", func(w *Workload) { w.Borders = 200_000 }, "the spec has"},
		{
			"rm2", func(w *Workload) { w.Generated, w.Borders = 504, 4096 },
			"504 generated features of 4096 borders each",
		},
		{"jpeg", func(w *Workload) { w.Transform = false }, "photographs are decoded"},
		{"jpeg", func(w *Workload) { w.Height = 0 }, "height is 0"},
	} {
		w, _ := Named(tt.name)
		tt.change(&w)
		if _, err := w.Make(t.Context(), t.TempDir(), nil); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v; want %q", tt.name, err, tt.want)
		}
	}
}

// TestLargeSpecsAreMade: what Validate lets through has room for a long URI.
func TestLargeSpecsAreMade(t *testing.T) {
	w, _ := Named("rm2")
	w.Generated, w.Borders = 1, 90_000
	if err := w.Validate(); err != nil {
		t.Fatal(err)
	}
	if text := w.Spec("file:///" + strings.Repeat("d", 4000)); len(text) > 1<<20 {
		t.Errorf("the spec has %d bytes", len(text))
	}
}
