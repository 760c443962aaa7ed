package main

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/penstock-ml/penstock/worker/vector"
)

// TestSmall runs everything small: what the readers say is compared, and all of them are timed.
func TestSmall(t *testing.T) {
	o := options{rows: 700, rounds: 1, output: "json", dir: t.TempDir()}
	r, err := o.report(t.Context(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if r.Versions[duckDB] == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("CI needs a Python with pyarrow and duckdb")
		}
		t.Skip("pyarrow and DuckDB were left out: no Python has them")
	}
	if want := len(fileSpecs()) + 2; len(r.Files) != want {
		t.Errorf("%d files, want %d", len(r.Files), want)
	}
	for _, m := range r.Files {
		readers := []string{ours, pqArrow, pyArrow, duckDB}
		if m.File == "byte-stream-split" { // beyond pqarrow
			readers = slices.Delete(readers, 1, 2)
		}
		for _, reader := range readers {
			if m.rate(reader) <= 0 {
				t.Errorf("%s: no time of %s: %s", m.File, reader, m.Failed[reader])
			}
		}
		if m.Rows != 700 || len(m.LeftOut) > 0 {
			t.Errorf("%s: %d rows, left out %v", m.File, m.Rows, m.LeftOut)
		}
	}
	var table, object bytes.Buffer
	if err := r.table(&table); err != nil || strings.Count(table.String(), " 700 ") != len(r.Files) {
		t.Errorf("table: %v\n%s", err, &table)
	}
	if err := r.json(&object); err != nil || !json.Valid(object.Bytes()) {
		t.Errorf("json: %v\n%s", err, &object)
	}
}

// TestDifference changes one value, one null and one length, and finds each.
func TestDifference(t *testing.T) {
	sums := func(change func(v *vector.Vector)) map[string][]string {
		v := &vector.Vector{Rows: 2, Offsets: []int32{0, 1, 3}, I64: []int64{5, 6, 7}}
		v.Type.Kind, v.Type.List = 3, true
		change(v)
		d := newDigest()
		if err := d.vector(v); err != nil {
			t.Fatal(err)
		}
		return map[string][]string{"ids": d.sums()}
	}
	same := sums(func(*vector.Vector) {})
	for part, change := range map[string]func(v *vector.Vector){
		"":                 func(*vector.Vector) {},
		"nulls":            func(v *vector.Vector) { v.Valid = []uint64{2} },
		"lengths of lists": func(v *vector.Vector) { v.Offsets[1] = 2 },
		"nulls in lists":   func(v *vector.Vector) { v.ElemValid = []uint64{3} },
		"values":           func(v *vector.Vector) { v.I64[2]++ },
	} {
		diff := difference(same, sums(change))
		if part == "" && diff != "" || part != "" && diff != "column ids differs in its "+part {
			t.Errorf("%q, want a difference in %q", diff, part)
		}
	}
	if diff := difference(same, nil); diff == "" {
		t.Error("a missing column is no difference")
	}
}

func TestVerdict(t *testing.T) {
	file := func(columns, pqarrow float64) *measured {
		return &measured{File: "f", Rows: 1000, Seconds: map[string][]float64{ours: {9, columns}, pqArrow: {pqarrow, 99}}}
	}
	if err := (&report{Files: []*measured{file(1, 8), file(2, 4)}}).verdict(); err != nil {
		t.Error(err)
	}
	if err := (&report{Files: []*measured{file(1, 8), file(2, 3.9)}}).verdict(); err == nil || !strings.Contains(err.Error(), "3.95 times") {
		t.Error(err)
	}
	if err := (&report{}).verdict(); err == nil {
		t.Error("no file was compared, and there is no error")
	}
}

func TestChecks(t *testing.T) {
	for want, o := range map[string]options{
		"--rows":       {rows: 0, rounds: 1, output: "table"},
		"--rounds":     {rows: 1, rounds: 0, output: "table"},
		"--output":     {rows: 1, rounds: 1, output: "xml"},
		"no such file": {rows: 1, rounds: 1, output: "table", data: []string{"nowhere/*.parquet"}},
	} {
		if err := o.run(t.Context(), io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for _, kind := range []arrow.DataType{arrow.PrimitiveTypes.Uint32, arrow.FixedWidthTypes.Timestamp_us, arrow.ListOf(arrow.ListOf(arrow.PrimitiveTypes.Int64))} {
		if comparable(kind) {
			t.Errorf("%s is the same to all readers", kind)
		}
	}
}

func TestChosen(t *testing.T) {
	all := []input{{name: "strings, plain"}, {name: "delta"}, {name: "strings, dictionary"}}
	for _, c := range []struct {
		files []string
		want  string
	}{
		{nil, "strings, plain; delta; strings, dictionary"},
		{[]string{"delta", "strings*", "strings, plain"}, "delta; strings, plain; strings, dictionary"},
		{[]string{"delt"}, `no such file; there are "strings, plain", "delta", "strings, dictionary"`},
	} {
		in, err := (&options{files: c.files}).chosen(all)
		var names []string
		for _, f := range in {
			names = append(names, f.name)
		}
		got := strings.Join(names, "; ")
		if err != nil {
			got = err.Error()
		}
		if !strings.HasSuffix(got, c.want) {
			t.Errorf("%v: %s, want %s", c.files, got, c.want)
		}
	}
}

// The best of all rounds and ways counts, whichever way had it.
func TestFastest(t *testing.T) {
	m := &measured{Rows: 1_000_000, Seconds: map[string][]float64{}, How: map[string]string{}}
	for _, round := range []map[string]float64{{"sums": 3, "counts": 4}, {"sums": 5, "counts": 2}, {"sums": 2.5, "counts": 9}} {
		m.Seconds[duckDB] = append(m.Seconds[duckDB], m.fastest(duckDB, round))
	}
	if want := []float64{3, 2, 2.5}; !slices.Equal(m.Seconds[duckDB], want) || m.How[duckDB] != "counts" || m.rate(duckDB) != 0.5 {
		t.Errorf("%v by %s, want %v by counts", m.Seconds, m.How, want)
	}
}

// What needs no copy may not hide what does, and files below a target are named.
func TestMeans(t *testing.T) {
	file := func(name string, columns, pqarrow, duckdb float64) *measured {
		return &measured{File: name, Rows: 1000, Seconds: map[string][]float64{ours: {columns}, pqArrow: {pqarrow}, duckDB: {duckdb}}}
	}
	r := &report{Files: []*measured{file("a", 1, 3, 0.9), file("b", 1, 12, 2), file(shown, 1, 48, 9)}}
	means := r.means()
	if all, rest := means["all"][pqArrow], means[without][pqArrow]; math.Abs(all-12) > 1e-9 || math.Abs(rest-6) > 1e-9 {
		t.Errorf("means of %v and %v, want 12 and 6", all, rest)
	}
	below := r.below()
	if !slices.Equal(below[pqArrow], []string{"a (3.00)"}) || !slices.Equal(below[duckDB], []string{"a (0.90)"}) || len(below[pyArrow]) > 0 {
		t.Errorf("below: %v", below)
	}
	var table bytes.Buffer
	if err := r.table(&table); err != nil || !strings.Contains(table.String(), "less than 4 times as fast as pqarrow: a (3.00)\n") {
		t.Errorf("%v\n%s", err, &table)
	}
}
