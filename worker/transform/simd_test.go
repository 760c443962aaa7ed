package transform

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestOpsAreTheSameWithoutSIMD runs all ops' hashes of fixed inputs on plain Go.
func TestOpsAreTheSameWithoutSIMD(t *testing.T) {
	kernels(func(name string) {
		t.Run(name, func(t *testing.T) {
			TestFloatsAreTheSameEverywhere(t)
		})
	})
}

// FuzzHash compares sigrid_hash with its plain form, for any salt and divisor.
func FuzzHash(f *testing.F) {
	for _, d := range []int64{1, 2, 3, 1000, 1 << 31, 1<<32 + 1, 1 << 62, math.MaxInt64} {
		f.Add(int64(7), d, uint64(d), 35)
	}
	f.Fuzz(func(t *testing.T, salt, divisor int64, seed uint64, n int) {
		p := &hashParams{uint64(salt), newModulus(max(1, divisor))}
		r := rand.New(rand.NewPCG(seed, 1))
		wide := make([]int64, n&1023)
		narrow := make([]int32, len(wide))
		for i := range wide {
			wide[i] = int64(r.Uint64()) >> r.IntN(64)
			narrow[i] = int32(wide[i])
		}
		sameHashes(t, wide, p)
		sameHashes(t, narrow, p)
	})
}

func sameHashes[S int32 | int64](t *testing.T, ids []S, p *hashParams) {
	got, want := make([]int64, len(ids)), make([]int64, len(ids))
	hashPlain(want, ids, p)
	kernels(func(simd string) {
		hashInts(got, ids, p)
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("%s, %d: got %d, want %d (%+v)", simd, ids[i], got[i], want[i], p)
			}
		}
	})
}

// FuzzLog1p compares log1p with its plain form, for runs of floats that differ in their last bits.
func FuzzLog1p(f *testing.F) {
	for _, x := range []float32{0, -1, 1, 1e-9, 1000, float32(math.Inf(1)), float32(math.NaN()), -0.5, 3e38} {
		f.Add(math.Float32bits(x), uint32(1), 100)
	}
	f.Fuzz(func(t *testing.T, first, step uint32, n int) {
		x := make([]float32, n&1023)
		for i := range x {
			x[i] = math.Float32frombits(first + uint32(i)*step)
		}
		sameLogs(t, x)
	})
}

// TestLog1pOfAllBinades compares log1p with its plain form for floats of all magnitudes, among them those that
// neither can tell without more digits, at each place of a vector.
func TestLog1pOfAllBinades(t *testing.T) {
	x := make([]float32, 0, 1<<20)
	for bits := uint64(0); bits < 1<<32; bits += 4999 {
		x = append(x, math.Float32frombits(uint32(bits)))
		if len(x) == cap(x) {
			sameLogs(t, x)
			x = x[:0]
		}
	}
	sameLogs(t, x)
}

// TestLog1pOfCloseCalls compares log1p with its plain form where float32 arithmetic alone misses the nearest float.
func TestLog1pOfCloseCalls(t *testing.T) {
	sameLogs(t, []float32{
		0x1.0da334p-17, -0x1.d32a8cp-07, -0x1.de5d7cp-07, -0x1.ed78bcp-07, 0x1.010e6p-06, 0x1.fe3132p-06,
		0x1.018596p-05, 753292.25, 1787475.2e2,
		0x1.000a62p+56, 0x1.68143cp+67, 0x1.c03014p+82, 0x1.fffffep+125, 0x1p+126, 0x1.8p+126, math.MaxFloat32,
		-0x1.fffffep-1, 1e-40, 1 << 24, 1<<24 - 1,
	})
}

func sameLogs(t *testing.T, x []float32) {
	got, want := make([]float32, len(x)), make([]float32, len(x))
	logsPlain(want, x)
	kernels(func(simd string) {
		copy(got, x)
		logs32(got, got)
		for i := range want {
			if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
				t.Fatalf("%s, log1p of %v (%#x): got %#x, want %#x", simd, x[i], math.Float32bits(x[i]),
					math.Float32bits(got[i]), math.Float32bits(want[i]))
			}
		}
		logs32(got, x)
		if !slices.EqualFunc(got, want, func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }) {
			t.Fatalf("%s: not the same elsewhere as in place", simd)
		}
	})
}

// FuzzBorderTable compares the table's answers with those of a search, for borders that are spread evenly, crowd at one
// place, repeat, or are the greatest integers.
func FuzzBorderTable(f *testing.F) {
	for _, n := range []int{0, 1, 2, 100, 1000} {
		f.Add(uint64(n), n, 0)
		f.Add(uint64(n), n, 50)
	}
	f.Fuzz(func(t *testing.T, seed uint64, n, narrow int) {
		r := rand.New(rand.NewPCG(seed, 1))
		borders, keys := make([]int64, n&1023), []int64{math.MinInt64, math.MaxInt64, 0}
		for i := range borders {
			borders[i] = int64(r.Uint64()) >> r.IntN(1+narrow&63)
			keys = append(keys, borders[i], borders[i]+1, borders[i]-1, int64(r.Uint64())>>r.IntN(1+narrow&63))
		}
		slices.Sort(borders)
		table := newTable(borders, func(x int64) int64 { return x }, math.MaxInt64)
		found := make([]int32, len(keys))
		table.count(found, keys)
		for i, v := range keys {
			if want, _ := slices.BinarySearch(borders, v); int(found[i]) != want {
				t.Fatalf("%d of borders %v: got %d, want %d", v, borders, found[i], want)
			}
		}
	})
}

// FuzzBuckets compares bucketize of floats with its plain form, for values at and around the borders, and for NaN.
func FuzzBuckets(f *testing.F) {
	for _, n := range []int{0, 1, 16, 1000} {
		f.Add(uint64(n), n)
	}
	f.Fuzz(func(t *testing.T, seed uint64, n int) {
		r := rand.New(rand.NewPCG(seed, 1))
		borders := make([]float64, n&1023)
		keys := []float32{float32(math.NaN()), -float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 0}
		for i := range borders {
			x := math.Float32frombits(r.Uint32() >> r.IntN(3) << r.IntN(3))
			if x != x {
				x = 0
			}
			borders[i] = float64(x)
			keys = append(keys, x, math.Nextafter32(x, 1e38), math.Nextafter32(x, -1e38),
				math.Float32frombits(r.Uint32()))
		}
		slices.Sort(borders)
		table := newTable(borders, func(x float64) int32 { return order32(float32(x)) }, math.MaxInt32)
		got, want := make([]int32, len(keys)), make([]int32, len(keys))
		bucketsPlain(want, keys, table)
		kernels(func(simd string) {
			bucketFloat32(got, keys, table)
			for i, x := range keys {
				least := len(borders)
				if x == x {
					least, _ = slices.BinarySearch(borders, float64(x))
				}
				if got[i] != want[i] || int(got[i]) != least {
					t.Fatalf("%s, %v of borders %v: got %d, in plain Go %d, want %d",
						simd, x, borders, got[i], want[i], least)
				}
			}
		})
	})
}

// FuzzClampAndNormalize compares both with their plain forms, bit for bit.
func FuzzClampAndNormalize(f *testing.F) {
	f.Add(uint64(1), 100, float32(-1), float32(2))
	f.Add(uint64(2), 7, float32(0), float32(math.Inf(1)))
	f.Fuzz(func(t *testing.T, seed uint64, n int, low, high float32) {
		r := rand.New(rand.NewPCG(seed, 1))
		x := []float32{
			0, float32(math.Copysign(0, -1)), float32(math.NaN()), low, high, -low, -high,
			float32(math.Inf(-1)),
		}
		for range n & 255 {
			x = append(x, math.Float32frombits(r.Uint32()))
		}
		got, want := make([]float32, len(x)), make([]float32, len(x))
		check := func(op string) {
			for i := range x {
				if math.Float32bits(got[i]) != math.Float32bits(want[i]) && want[i] == want[i] ||
					(got[i] == got[i]) != (want[i] == want[i]) {
					t.Fatalf("%s of %v with %v and %v: got %v, want %v", op, x[i], low, high, got[i], want[i])
				}
			}
		}
		if low <= high {
			clampFloat32(got, x, low, high)
			clampPlain(want, x, low, high)
			check("clamp")
		}
		if high > 0 {
			standardizeFloat32(got, x, low, high)
			standardizePlain(want, x, low, high)
			check("normalize")
		}
	})
}
