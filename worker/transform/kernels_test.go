package transform

import (
	"fmt"
	"math"
	"testing"

	"github.com/penstock-ml/penstock/internal/simd"
)

// BenchmarkKernels compares kernels with their plain form and with copying as many bytes, in nanoseconds of a value.
// The values fit the first level of cache, as those of a window mostly do.
func BenchmarkKernels(b *testing.B) {
	ints, floats := make([]int64, 2048), make([]float32, 2048)
	for i := range ints {
		r := mix(uint64(i))
		ints[i], floats[i] = int64(r>>20), float32(math.Exp(float64(r%6000)/1000))
	}
	hashed, made, found := make([]int64, len(ints)), make([]float32, len(floats)), make([]int32, len(floats))
	p := &hashParams{3, newModulus(1_000_000)}
	for name, run := range map[string]func(){
		"sigrid_hash": func() { hashInts(hashed, ints, p) },
		"log1p":       func() { logs32(made, floats) },
		"clamp":       func() { clampFloat32(made, floats, 2, 100) },
		"normalize":   func() { standardizeFloat32(made, floats, 3, 9) },
	} {
		kernels(func(simd string) { benchKernel(b, name+"/"+simd, len(ints), run) })
	}
	for _, n := range []int{10, 50, 1024, 4096} {
		borders := make([]float64, n)
		for i := range borders {
			borders[i] = math.Exp(6 * float64(i) / float64(n))
		}
		table := newTable(borders, func(x float64) int32 { return order32(float32(x)) }, math.MaxInt32)
		kernels(func(simd string) {
			benchKernel(b, fmt.Sprintf("bucketize of %d/%s", n, simd), len(ints),
				func() { bucketFloat32(found, floats, table) })
		})
	}
	benchKernel(b, "copy/int64", len(ints), func() { copy(hashed, ints) })
	benchKernel(b, "copy/float32", len(ints), func() { copy(made, floats) })
}

func benchKernel(b *testing.B, name string, values int, run func()) {
	b.Run(name, func(b *testing.B) {
		for b.Loop() {
			run()
		}
		perElement(b, values)
	})
}

// kernels runs f with the kernels of each level that this CPU has.
func kernels(f func(name string)) { simd.Each(&simdLevel, f, simd.AVX512, simd.AVX2) }
