package demo

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/client"
)

// deliveries are the records of all rows of two files, as written by the demo.
func deliveries(w *written, files []file) (out []record) {
	h := newHasher()
	for i, f := range files {
		for row := range f.rows {
			if !f.has(row) {
				continue
			}
			h.begin(int32(i), row)
			w.add(h, int(f.first+row))
			out = append(out, record{file: int32(i), row: row, checksum: h.sum()})
		}
	}
	return out
}

// TestRecount plants each fault, in a ledger.
func TestRecount(t *testing.T) {
	files := []file{{uri: "file:///a", rows: 1000}, {uri: "file:///b", rows: 500, first: 1000}}
	files[1].kept = slices.Repeat([]uint64{^uint64(0) &^ (1 << 7)}, 8) // of a table that has deleted row 7 and others
	for _, c := range []struct {
		name  string
		plant func([]record) []record
		want  count // its faults
	}{
		{"none", func(r []record) []record { slices.Reverse(r); return r }, count{}},
		{"missing", func(r []record) []record { return r[7:] }, count{missing: 7}},
		{"doubled", func(r []record) []record { return append(r, r[3], r[1200]) }, count{doubled: 2}},
		{"altered", func(r []record) []record { r[4].checksum++; return r }, count{altered: 1}},
		{"another row's values", func(r []record) []record { r[0].row, r[1].row = 1, 0; return r }, count{altered: 2}},
		{"unexpected", func(r []record) []record {
			return append(r, record{file: 1, row: 500}, record{file: 1, row: 7}, record{file: 2}, record{file: -1, row: -1})
		}, count{unexpected: 4}},
	} {
		for _, w := range []*written{newWritten(), nil} {
			path := filepath.Join(t.TempDir(), "ledger")
			l, err := createLedger(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range c.plant(deliveries(w, files)) {
				if err := l.add(r); err != nil {
					t.Fatal(err)
				}
			}
			if err := l.close(); err != nil {
				t.Fatal(err)
			}
			again := newRecount(files, w)
			if err := readLedger(path, again.take); err != nil {
				t.Fatal(err)
			}
			got := again.finish()
			faults := count{
				missing: got.missing, doubled: got.doubled, altered: got.altered,
				unexpected: got.unexpected,
			}
			if !reflect.DeepEqual(faults, c.want) {
				t.Errorf("%s: %+v", c.name, got)
			}
			if got.ok() != (c.name == "none") || got.ok() != (len(got.examples) == 0) || got.expected != 1492 {
				t.Errorf("%s: %+v", c.name, got)
			}
		}
	}
}

// TestDeliveredValuesAreThoseWritten hashes a batch that holds what the generator makes, and one with a value less.
func TestDeliveredValuesAreThoseWritten(t *testing.T) {
	w := newWritten()
	names := w.names()
	if want := "label int_10 int_11 int_12 cat_20 cat_21 cat_22 cat_23 cat_24 cat_25"; strings.Join(names,
		" ") != want {
		t.Fatalf("%v are left as they are", names)
	}
	const rows = 100
	files := []file{{rows: rows}}
	b := &client.Batch{
		Rows: rows, Valid: rows, Labels: []client.Label{{Name: "label"}},
		DenseNames: []string{"int_12", "int_11", "int_10"}, Dense: make([]float32, 3*rows),
	}
	for i := range rows {
		b.Files, b.RowIDs = append(b.Files, 0), append(b.RowIDs, int64(i))
	}
	for _, i := range w.kept {
		name := w.columns[i].Name
		s := client.Sparse{Name: name, Offsets: []int32{0}}
		for row := range rows {
			switch at := slices.Index(b.DenseNames, name); {
			case name == "label":
				b.Labels[0].I32 = append(b.Labels[0].I32, w.generator.Label(i, row))
			case at >= 0:
				b.Dense[row*3+at], _ = w.generator.Number(i, row)
			default:
				s.Values, _ = w.generator.AppendIDs(s.Values, i, row)
				s.Offsets = append(s.Offsets, int32(len(s.Values)))
			}
		}
		if strings.HasPrefix(name, "cat") {
			b.Sparse = append(b.Sparse, s)
		}
	}
	for _, c := range []struct {
		alter   func()
		altered int64
	}{
		{func() {}, 0},
		{func() { b.Dense[5]++ }, 1},
		{func() { b.Labels[0].I32[7] ^= 1 }, 2},
		{func() { b.Sparse[5].Values[len(b.Sparse[5].Values)-1]++ }, 3},
	} {
		c.alter()
		again := newRecount(files, w)
		err := newDelivered(names).each(b, func(r record) error { again.take(r); return nil })
		if err != nil {
			t.Fatal(err)
		}
		if got := again.finish(); got.altered != c.altered || got.delivered != rows {
			t.Errorf("%+v, want %d altered", got, c.altered)
		}
	}
	if err := newDelivered([]string{"nowhere"}).each(b, nil); err == nil {
		t.Error("a column that is not there")
	}
}
