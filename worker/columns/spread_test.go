package columns

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// checkSpread compares spread with placing values one by one; values on both sides of the positions stay as they are.
func checkSpread[T uint8 | uint32 | uint64](t *testing.T, r *rand.Rand, from, n, nulls int) {
	t.Helper()
	const behind = 9
	valid, v := make([]uint64, (from+n+63)>>6), make([]T, from+n+behind)
	for i := range v {
		v[i] = T(i)
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
		if !outside && len(v) < 256 && (int(v[i]) < from || int(v[i]) >= from+n) {
			t.Fatalf("null %d of %d from %d on is %d, which none of the values was", i, n, from, v[i])
		}
	}
}

// FuzzSpread compares the ways to move values apart.
func FuzzSpread(f *testing.F) {
	f.Add(uint64(1), uint16(3), uint16(200), uint8(10))
	f.Add(uint64(2), uint16(0), uint16(64), uint8(50))
	f.Add(uint64(3), uint16(70), uint16(8), uint8(100))
	f.Add(uint64(4), uint16(8), uint16(130), uint8(0))
	f.Fuzz(func(t *testing.T, seed uint64, from, n uint16, nulls uint8) {
		r := rand.New(rand.NewPCG(seed, 1))
		at, size := int(from)%200, int(n)%2000
		checkSpread[uint8](t, r, at, size, int(nulls))
		checkSpread[uint32](t, r, at, size, int(nulls))
		checkSpread[uint64](t, r, at, size, int(nulls))
	})
}

func TestSpread(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 9))
	for from := range 20 {
		for n := range 90 {
			for _, nulls := range []int{0, 2, 10, 50, 90, 100} {
				checkSpread[uint8](t, r, from, n, nulls)
				checkSpread[uint32](t, r, from, n, nulls)
				checkSpread[uint64](t, r, from, n, nulls)
			}
		}
	}
}
