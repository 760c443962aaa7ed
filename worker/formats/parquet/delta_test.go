package parquet

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// checkAdd compares the ways to add up deltas, in miniblocks that end where there is nothing more to load.
func checkAdd[T word](t *testing.T, packed []byte, at, width int, last, least int64) {
	t.Helper()
	n := len(packed)*8/width - at
	if n < 0 {
		return
	}
	d := delta{packed: slices.Clip(packed), at: at, size: at + n, width: width, last: last, least: least}
	fast, slow := d, d
	got, want := make([]T, n+1), make([]T, n+1)
	got[n], want[n] = 77, 77
	addNarrow(&fast, got[:n])
	addSlow(&slow, want[:n], at)
	if !slices.Equal(got, want) || T(fast.last) != T(slow.last) {
		t.Fatalf("%d deltas of %d bits from number %d on, the least %d, behind %d:\n%v, last %d\nwant\n%v, last %d",
			n, width, at, least, last, got, fast.last, want, slow.last)
	}
	deltas := make([]uint32, n)
	unpackBits(deltas, packed, at, width)
	for i, delta := range deltas {
		if last += least + int64(delta); T(last) != want[i] {
			t.Fatalf("sum %d of deltas of %d bits from number %d on is %d, want %d", i, width, at, want[i], T(last))
		}
	}
}

func TestAddDeltas(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	eachPacked(r, func(packed []byte, at, width int) {
		checkAdd[uint32](t, packed, at, width, r.Int64(), -r.Int64())
		checkAdd[uint64](t, packed, at, width, -r.Int64(), r.Int64())
	})
}

// FuzzAddDeltas compares the ways to add up deltas.
func FuzzAddDeltas(f *testing.F) {
	f.Add([]byte("some bytes, of which there are more than in two of the groups"), uint8(3), uint8(7), int64(1<<62),
		int64(-5))
	f.Add([]byte("more bytes, so that the widest numbers are unpacked by the vector unit"), uint8(0), uint8(24),
		int64(-1), int64(1)<<61)
	f.Fuzz(func(t *testing.T, packed []byte, at, width uint8, last, least int64) {
		checkAdd[uint32](t, packed, int(at), int(width)%32+1, last, least)
		checkAdd[uint64](t, packed, int(at), int(width)%32+1, last, least)
	})
}

// BenchmarkAddDeltas adds up deltas of miniblocks, by the vector unit, if there is one, and in plain Go.
func BenchmarkAddDeltas(b *testing.B) {
	const n, width = 32, 10
	packed, out := make([]byte, 1<<10), make([]uint64, n)
	for i := range packed {
		packed[i] = byte(i * 77)
	}
	for name, add := range map[string]func(d *delta){
		"best":  func(d *delta) { addNarrow(d, out) },
		"plain": func(d *delta) { addSlow(d, out, 0) },
	} {
		b.Run(name, func(b *testing.B) {
			d := delta{packed: packed, size: n, width: width, least: -500}
			for b.Loop() {
				add(&d)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/value")
		})
	}
}
