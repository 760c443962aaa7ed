package transform

import (
	"math"
	"math/rand/v2"
	"testing"
)

// kernels runs f as it is on this CPU, and again with plain Go alone.
func kernels(t testing.TB, f func(name string)) {
	f("simd")
	had := simd
	simd = struct{ avx512 bool }{}
	defer func() { simd = had }()
	f("plain")
}

// TestOpsAreTheSameWithoutSIMD runs all ops' hashes of fixed inputs on plain Go.
func TestOpsAreTheSameWithoutSIMD(t *testing.T) {
	kernels(t, func(name string) {
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
	hashInts(got, ids, p)
	hashPlain(want, ids, p)
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("%d: got %d, want %d (%+v)", ids[i], got[i], want[i], p)
		}
	}
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

func sameLogs(t *testing.T, x []float32) {
	got, want := make([]float32, len(x)), make([]float32, len(x))
	logs32(got, x)
	logsPlain(want, x)
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("log1p of %v (%#x): got %#x, want %#x", x[i], math.Float32bits(x[i]), math.Float32bits(got[i]), math.Float32bits(want[i]))
		}
	}
}

// BenchmarkKernels compares kernels with their plain form and with copying as many bytes, in nanoseconds of a value. The
// values fit the first level of cache, as those of a window mostly do.
func BenchmarkKernels(b *testing.B) {
	ints, floats := make([]int64, 2048), make([]float32, 2048)
	for i := range ints {
		ints[i], floats[i] = int64(mix(uint64(i))>>20), float32(i%1000)/40
	}
	hashed, made := make([]int64, len(ints)), make([]float32, len(floats))
	p := &hashParams{3, newModulus(1_000_000)}
	for _, k := range []struct {
		name string
		run  func()
	}{
		{"sigrid_hash", func() { hashInts(hashed, ints, p) }},
		{"log1p", func() { logs32(made, floats) }},
	} {
		kernels(b, func(name string) {
			b.Run(k.name+"/"+name, func(b *testing.B) {
				for b.Loop() {
					k.run()
				}
				perElement(b, len(ints))
			})
		})
	}
	b.Run("copy/int64", func(b *testing.B) {
		for b.Loop() {
			copy(hashed, ints)
		}
		perElement(b, len(ints))
	})
}
