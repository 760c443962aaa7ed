package parquet

import (
	"encoding/binary"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	footer "github.com/penstock-ml/penstock/internal/formats/parquet"
	"github.com/penstock-ml/penstock/worker/formats/decode"
	"github.com/penstock-ml/penstock/worker/formats/formattest/rowtest"
)

// entry is a repetition and a definition level. A value is the entry's number.
type entry struct{ rep, def int }

// nestedShape is that of lists of optional lists of ... optional integers, or of required ones.
func nestedShape(levels int, required bool) shape {
	s := shape{
		physical: footer.Int64, maxRep: levels, maxDef: 2*levels + 1, read: pb.Kind_INT64, kind: pb.Kind_INT64,
		logical: footer.Logical{RowNullDef: 1, ListDef: 2},
	}
	for i := range levels - 1 {
		s.logical.Nested[i] = footer.ListLevel{NullDef: uint8(2*i + 3), ElementDef: uint8(2*i + 4)}
	}
	if required {
		s.maxDef--
	}
	return s
}

// goesOn reports whether an entry may stand behind another one: a list goes on behind one of its elements, with another.
func goesOn(before, e entry) bool { return e.rep == 0 || before.def >= 2*e.rep && e.def >= 2*e.rep }

// randomEntries are of so many rows. Some that cannot be are among them if damaged is set.
func randomEntries(r *rand.Rand, s shape, rows int, damaged bool) (out []entry) {
	for n := 0; ; {
		e := entry{r.IntN(s.maxRep + 1), r.IntN(s.maxDef + 1)}
		if r.IntN(3) > 0 {
			e.def = s.maxDef
		}
		switch {
		case len(out) == 0:
			e.rep = 0
		case damaged && r.IntN(60) == 0:
		case !goesOn(out[len(out)-1], e):
			continue
		}
		if e.rep == 0 {
			if n++; n > rows {
				return out
			}
		}
		out = append(out, e)
	}
}

// assemble makes rows of entries, one value after another.
func assemble(s shape, entries []entry) (rows []any) {
	for i := 0; i < len(entries); {
		end := i + 1
		for end < len(entries) && entries[end].rep > 0 {
			end++
		}
		rows = append(rows, assembleList(s, entries, i, end, 1))
		i = end
	}
	return rows
}

// assembleList is the list of a level, the outermost being 1, that entries i to end make.
func assembleList(s shape, entries []entry, i, end, level int) any {
	switch def := entries[i].def; {
	case level > s.maxRep && def < s.maxDef, level <= s.maxRep && def < 2*level-1:
		return nil
	case level > s.maxRep:
		return int64(i)
	case def < 2*level:
		return []any{}
	}
	list := []any{}
	for i < end {
		next := i + 1
		for next < end && entries[next].rep > level {
			next++
		}
		list = append(list, assembleList(s, entries, i, next, level+1))
		i = next
	}
	return list
}

// nestedPage is a page of version 2 of entries, the first of which is number n of its chunk.
func nestedPage(s shape, entries []entry, n int) []byte {
	var rep, def, values []byte
	for i, e := range entries {
		rep, def = append(rep, 1<<1, byte(e.rep)), append(def, 1<<1, byte(e.def)) // runs of one
		if e.def == s.maxDef {
			values = binary.LittleEndian.AppendUint64(values, uint64(n+i))
		}
	}
	size := len(rep) + len(def) + len(values)
	head := headerV2(&header{
		uncompressed: size, stored: size, values: len(entries), encoding: encodingPlain,
		repLength: len(rep), defLength: len(def),
	})
	return slices.Concat(head, rep, def, values)
}

// TestNestedLists: levels of lists become these lists, wherever pages and windows are cut and however many rows are
// skipped; levels that cannot be are an error.
func TestNestedLists(t *testing.T) {
	mem := decode.NewAllowance(testMemory)
	for seed := range uint64(600) {
		r := rand.New(rand.NewPCG(seed, 21))
		s := nestedShape(oneOf(r, 2, 2, 3, 8), r.IntN(2) == 0)
		damaged := r.IntN(3) == 0
		rows := oneOf(r, 1, 5, 60, 700)
		entries := randomEntries(r, s, rows, damaged)
		var chunk []byte
		for from := 0; from < len(entries); {
			to := min(len(entries), from+1+r.IntN(oneOf(r, 3, 100, 5000)))
			chunk = append(chunk, nestedPage(s, entries[from:to], from)...)
			from = to
		}
		c, err := newColumn(s, &codecs{}, mem)
		if err != nil {
			t.Fatal(err)
		}
		chunkOf := &footer.Chunk{Length: int64(len(chunk)), Values: int64(len(entries))}
		source := decode.Whole(chunk)
		wrong := damaged && !slices.Equal(entries, sound(entries))
		for _, skips := range []bool{false, true} {
			if err := c.reset("f", 0, int64(rows), chunkOf, &source); err != nil {
				t.Fatal(err)
			}
			err := checkNested(t, r, c, rows, assemble(s, entries), skips)
			if (err != nil) != wrong && !skips || err != nil && !wrong {
				t.Fatalf("seed %d, damaged %v, with skips %v: %v", seed, wrong, skips, err)
			}
		}
	}
}

// sound leaves out what does not go on.
func sound(entries []entry) (out []entry) {
	for i, e := range entries {
		if i == 0 || goesOn(entries[i-1], e) {
			out = append(out, e)
		}
	}
	return out
}

// checkNested decodes a column in windows of any size, some of which are skipped.
func checkNested(t *testing.T, r *rand.Rand, c *column, rows int, want []any, skips bool) error {
	for at := 0; at < rows; {
		n := min(rows-at, 1+r.IntN(oneOf(r, 3, 40, 700)))
		if skips && r.IntN(2) == 0 {
			if err := c.skip(n); err != nil {
				return err
			}
			at += n
			continue
		}
		if err := c.next(n); err != nil {
			return err
		}
		v, err := c.Read(n)
		if err != nil {
			return err
		}
		if got := rowtest.Of(v); !reflect.DeepEqual(got, want[at:at+n]) {
			t.Fatalf("rows from %d on: %v, want %v", at, got, want[at:at+n])
		}
		at += n
	}
	return nil
}
