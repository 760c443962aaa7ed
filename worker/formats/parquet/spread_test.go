package parquet

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// checkSpread compares spread with placing values one by one; values on both sides of the positions stay as they are.
func checkSpread(t *testing.T, r *rand.Rand, from, n, nulls int) {
	t.Helper()
	const behind = 9
	valid, v := make([]uint64, (from+n+63)>>6), make([]uint8, from+n+behind)
	for i := range v {
		v[i] = uint8(i)
	}
	want, present := slices.Clone(v), 0
	for i := from; i < from+n; i++ {
		if r.IntN(100) >= nulls {
			valid[i>>6] |= 1 << (i & 63)
			want[i] = v[from+present]
			present++
		}
	}
	spread(v, valid, from, n, present)
	for i := range v {
		outside := i < from || i >= from+n
		if (outside || valid[i>>6]>>(i&63)&1 != 0) && v[i] != want[i] {
			t.Fatalf("value %d of %d from %d on is %d, want %d; %064b", i, n, from, v[i], want[i], valid)
		}
	}
}

func TestSpread(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 9))
	for from := range 20 {
		for n := range 90 {
			for _, nulls := range []int{0, 2, 10, 50, 90, 100} {
				checkSpread(t, r, from, n, nulls)
			}
		}
	}
}
