package lookup

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// cell is a value of a key or a time: an int64, a string, or nil for null.
type cell any

// vectorOf makes a vector of cells.
func vectorOf(kind pb.Kind, cells []cell) *vector.Vector {
	v := &vector.Vector{Type: spec.Type{Kind: kind}, Rows: len(cells), Ends: []int32{0}}
	v.Valid = make([]uint64, vector.Words(len(cells)))
	for i, c := range cells {
		if c != nil {
			v.Valid[i>>6] |= 1 << (i & 63)
		}
		n, _ := c.(int64)
		text, _ := c.(string)
		switch kind {
		case pb.Kind_INT32:
			v.I32 = append(v.I32, int32(n))
		case pb.Kind_INT64:
			v.I64 = append(v.I64, n)
		case pb.Kind_BINARY:
			v.Data = append(v.Data, text...)
			v.Ends = append(v.Ends, int32(len(v.Data)))
		}
	}
	return v
}

// given is a table as a test draws it.
type given struct {
	about  *pb.Table
	kinds  []pb.Kind
	rows   [][]cell // by column
	starts []int64  // of the pieces
}

func (g *given) key(columns [][]cell, row int) string {
	var parts []string
	for _, c := range columns[:g.about.GetKeys()] {
		if c[row] == nil {
			return ""
		}
		parts = append(parts, fmt.Sprintf("%q", fmt.Sprint(c[row])))
	}
	return strings.Join(parts, ",")
}

func drawCell(t *rapid.T, kind pb.Kind, wide bool) cell {
	if rapid.IntRange(0, 9).Draw(t, "null") == 0 {
		return nil
	}
	if kind == pb.Kind_BINARY {
		return rapid.SampledFrom([]string{"", "a", "b", "ab", "é", "a\x00b", "longer than that"}).Draw(t, "text")
	}
	n := rapid.Int64Range(-20, 20).Draw(t, "int")
	if wide {
		n *= 1 << 26
	}
	if wide && kind == pb.Kind_INT64 && rapid.IntRange(0, 9).Draw(t, "extreme") == 0 {
		return rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64}).Draw(t, "which")
	}
	return n
}

func draw(t *rapid.T, asOf bool) *given {
	g := &given{about: &pb.Table{AsOf: asOf, First: true}}
	kinds := rapid.SliceOfN(rapid.SampledFrom([]pb.Kind{pb.Kind_INT32, pb.Kind_INT64, pb.Kind_BINARY}), 1, 3)
	g.kinds = kinds.Draw(t, "keys")
	g.about.Keys = uint32(len(g.kinds))
	if asOf {
		g.kinds = append(g.kinds, pb.Kind_INT64)
	}
	wide, rows := rapid.Bool().Draw(t, "wide"), rapid.IntRange(0, 60).Draw(t, "rows")
	for i, kind := range g.kinds {
		g.about.Columns = append(g.about.Columns, &pb.Source{
			Name: fmt.Sprint("c", i), Type: &pb.Type{Kind: kind},
		})
		column := make([]cell, rows)
		for row := range column {
			column[row] = drawCell(t, kind, wide)
		}
		g.rows = append(g.rows, column)
	}
	return g
}

// build makes the table of pieces of a few rows, and checks that no memory is given back that was not taken.
func (g *given) build(t *rapid.T) (*Table, error) {
	held := int64(0)
	b := NewBuilder(g.about, func(bytes int64) error {
		if held += bytes; held < 0 {
			t.Fatalf("%d bytes more were given back than taken", -held)
		}
		return nil
	})
	for from := 0; from < len(g.rows[0]); {
		to := min(len(g.rows[0]), from+rapid.IntRange(1, 20).Draw(t, "piece"))
		var columns []*vector.Vector
		for i, kind := range g.kinds {
			columns = append(columns, vectorOf(kind, g.rows[i][from:to]))
		}
		if err := b.Add(int64(from), columns); err != nil {
			t.Fatal(err)
		}
		from = to
	}
	table, err := b.Table()
	g.starts = b.starts
	return table, err
}

// row is where in the file a row is that was found.
func (g *given) row(found int32) int64 {
	if found == Absent {
		return -1
	}
	piece, at := Place(found)
	return g.starts[piece] + int64(at)
}

// probes are keys, most of which the table has, and times.
func (g *given) probes(t *rapid.T) [][]cell {
	n := rapid.IntRange(1, 40).Draw(t, "probes")
	columns := make([][]cell, len(g.kinds))
	for range n {
		from := -1
		if len(g.rows[0]) > 0 && rapid.IntRange(0, 3).Draw(t, "present") > 0 {
			from = rapid.IntRange(0, len(g.rows[0])-1).Draw(t, "of")
		}
		for i, kind := range g.kinds {
			if from >= 0 && i < int(g.about.GetKeys()) {
				columns[i] = append(columns[i], g.rows[i][from])
			} else {
				columns[i] = append(columns[i], drawCell(t, kind, rapid.Bool().Draw(t, "wide")))
			}
		}
	}
	return columns
}

// TestFind compares with a map, and newest rows with a look at all of them.
func TestFind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := draw(t, rapid.Bool().Draw(t, "as of"))
		table, err := g.build(t)
		if err != nil {
			t.Fatal(err)
		}
		probes := g.probes(t)
		var keys []*vector.Vector
		for i := range g.about.GetKeys() {
			kind := g.kinds[i]
			if kind == pb.Kind_INT32 { // ids of other widths are the same ids
				kind = pb.Kind_INT64
			}
			keys = append(keys, vectorOf(kind, probes[i]))
		}
		n := len(probes[0])
		found, from, until := make([]int32, n), make([]int64, n), make([]int64, n)
		table.Find(found, keys)
		if table.AsOf() {
			for i, c := range probes[len(probes)-1] {
				until[i], _ = c.(int64)
				from[i] = cmp.Or(until[i]-rapid.Int64Range(-1, 30).Draw(t, "age"), math.MinInt64)
			}
			table.At(found, from, until)
		}
		for i := range n {
			key := g.key(probes, i)
			if key == "" {
				continue
			}
			if got, want := g.row(found[i]), g.find(key, from[i], until[i]); got != want {
				t.Fatalf("%s from %d to %d is row %d, want %d, of %v", key, from[i], until[i], got, want, g.rows)
			}
		}
	})
}

// find looks at all rows.
func (g *given) find(key string, from, until int64) int64 {
	found, newest := int64(-1), int64(0)
	for row := range g.rows[0] {
		if g.key(g.rows, row) != key {
			continue
		}
		if !g.about.GetAsOf() {
			return int64(row)
		}
		when, ok := g.rows[len(g.rows)-1][row].(int64)
		if ok && from <= when && when <= until && (found < 0 || when >= newest) {
			found, newest = int64(row), when
		}
	}
	return found
}

// TestDuplicates: two rows of one key are an error that names both, unless one of their keys is null.
func TestDuplicates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := draw(t, false)
		g.about.First = false
		_, err := g.build(t)
		seen := map[string]bool{}
		twice := slices.ContainsFunc(slices.Collect(func(yield func(string) bool) {
			for row := range g.rows[0] {
				if !yield(g.key(g.rows, row)) {
					return
				}
			}
		}), func(key string) bool {
			had := key != "" && seen[key]
			seen[key] = true
			return had
		})
		if (err != nil) != twice || err != nil && !strings.Contains(err.Error(), "and again in row") {
			t.Fatalf("%v of %v", err, g.rows)
		}
	})
}
