package parquet

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/penstock-ml/penstock/internal/simd"
)

// FuzzExpand compares the ways to spread values among nulls with doing it one by one, from elsewhere and in place. What
// lies around stays as it is.
func FuzzExpand(f *testing.F) {
	for seed := range uint64(4) {
		f.Add(seed, uint8(seed), uint16(100*seed), uint8(50*seed))
	}
	f.Fuzz(func(t *testing.T, seed uint64, from uint8, n uint16, nulls uint8) {
		checkExpand[uint32](t, seed, int(from), int(n)&1023, int(nulls))
		checkExpand[uint64](t, seed, int(from), int(n)&1023, int(nulls))
	})
}

func TestExpand(t *testing.T) {
	for n := range 200 {
		for _, nulls := range []int{0, 1, 13, 128, 255} {
			checkExpand[uint32](t, uint64(n), n%70, n, nulls)
			checkExpand[uint64](t, uint64(n), n%70, n, nulls)
		}
	}
}

func checkExpand[T word](t *testing.T, seed uint64, from, n, nulls int) {
	t.Helper()
	const fill, around = 5, 7
	r := rand.New(rand.NewPCG(seed, 1))
	valid := make([]uint64, (from+n+63)>>6)
	want := slices.Repeat([]T{around}, from+n+1)
	var src []T
	for i := from; i < from+n; i++ {
		want[i] = fill
		if r.IntN(256) >= nulls {
			valid[i>>6] |= 1 << (i & 63)
			want[i] = T(r.Uint64())
			src = append(src, want[i])
		}
	}
	src = slices.Clip(src)
	expanders(func(simd string) {
		elsewhere := slices.Repeat([]T{around}, from+n+1)
		inPlace := slices.Clone(elsewhere)
		copy(inPlace[from:], src)
		expand(elsewhere, src, valid, from, from+n, fill)
		expand(inPlace, inPlace[from:][:len(src)], valid, from, from+n, fill)
		for name, got := range map[string][]T{"elsewhere": elsewhere, "in place": inPlace} {
			if !slices.Equal(got, want) {
				t.Fatalf("%s, %s, positions %d to %d, seed %d: got %v, want %v", simd, name, from, from+n, seed,
					got, want)
			}
		}
	})
	if left := expandPlain(make([]T, from+n), src, valid, from, from+n, fill); left != 0 {
		t.Fatalf("positions %d to %d, seed %d: %d left", from, from+n, seed, left)
	}
}

// expanders runs f with the loops of each level that this CPU has.
func expanders(f func(simd string)) { simd.Each(&simdLevel, f, simd.AVX512, simd.AVX2) }

// BenchmarkExpand spreads the values of columns with one null in twenty, a window of few rows at a time.
func BenchmarkExpand(b *testing.B) {
	const rows = 400
	valid := make([]uint64, (rows+63)>>6)
	r := rand.New(rand.NewPCG(1, 2))
	src := make([]uint32, 0, rows)
	for i := range rows {
		if r.IntN(20) > 0 {
			valid[i>>6] |= 1 << (i & 63)
			src = append(src, uint32(i))
		}
	}
	dst := make([]uint32, rows)
	run := func(name string, by func()) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				by()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/value")
		})
	}
	expanders(func(simd string) { run(simd, func() { expand(dst, src, valid, 0, rows, 0) }) })
	run("copy", func() { copy(dst, src) })
}
