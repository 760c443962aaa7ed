package excluded

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/worker/excluded/excludedtest"
)

// A vector chooses those of any rows that it does not have.
func TestVectorsChoose(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		base := rapid.SampledFrom([]int64{0, 60_000, 1<<32 - 100, 5<<32 - 50}).Draw(rt, "base")
		var all []int64
		for row := base; row < base+300; row++ {
			if rapid.Bool().Draw(rt, "deleted") {
				all = append(all, row)
			}
		}
		rows, err := parseVector(excludedtest.Vector(t, all...))
		if err != nil || rows.Len() != int64(len(all)) {
			rt.Fatal(rows, err)
		}
		first, n := base+rapid.Int64Range(-base, 310).Draw(rt, "first"), rapid.IntRange(1, 400).Draw(rt, "rows")
		bitmap := make([]uint64, (n+63)/64)
		left, want := Set{rows, rows}.Choose(bitmap, first, n), n
		for i := range n {
			_, deleted := slices.BinarySearch(all, first+int64(i))
			if chosen := bitmap[i/64]>>(i%64)&1 == 1; chosen == deleted {
				rt.Fatalf("row %d: chosen %v", first+int64(i), chosen)
			}
			if deleted {
				want--
			}
		}
		if left != want {
			rt.Fatalf("%d rows are left, want %d", left, want)
		}
	})
}

// Whatever the bytes are, a vector is refused, or one of which all agrees.
func FuzzVector(f *testing.F) {
	f.Add(excludedtest.Framed(excludedtest.Vector(f, 1, 5, 70_000, 5<<32)))
	f.Add(excludedtest.Framed(excludedtest.Vector(f)))
	long := make([]int64, 0, 10_000)
	for row := range int64(20_000) {
		if row%2 == 0 {
			long = append(long, row)
		}
	}
	f.Add(excludedtest.Framed(excludedtest.Vector(f, long...)))
	f.Fuzz(func(t *testing.T, data []byte) {
		vector, err := unframe(data)
		if err != nil {
			if vector = data; len(data) > frameBytes { // to look behind the checksum
				vector = data[4 : len(data)-4]
			}
		}
		rows, err := parseVector(vector)
		if err != nil || rows.Len() > 1<<20 { // few bytes have billions, which take long to look at one by one
			return
		}
		last, count := int64(-1), int64(0)
		for _, p := range rows.parts {
			for it := p.low.Iterator(); it.HasNext(); count++ {
				row := uint64(p.high)<<32 | uint64(it.Next())
				if row > math.MaxInt64 {
					return // no file has as many rows
				}
				if int64(row) <= last {
					t.Fatalf("row %d follows %d", row, last)
				}
				last = int64(row)
			}
		}
		if end, ok := rows.last(); count != rows.Len() || ok && int64(end) != last || ok != (count > 0) {
			t.Fatalf("%d rows of %d, the last %d of %d", count, rows.Len(), last, end)
		}
		if most := int64(len(vector)) + mostBeside(int64(len(vector)), last+1); rows.Size() > most {
			t.Fatalf("%d bytes, and %d were expected at most", rows.Size(), most)
		}
	})
}
