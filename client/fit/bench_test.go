package fit

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/fitted"
)

const benchRows = 1 << 16

// skewedIDs are ids of Criteo's kind: of n, a few are most.
func skewedIDs(n float64) []int64 {
	r := rand.New(rand.NewPCG(3, 4))
	ids := make([]int64, benchRows)
	for i := range ids {
		ids[i] = int64(mix(uint64(math.Exp(r.Float64()*math.Log(n)))) >> 33)
	}
	return ids
}

func benchmarkAdd(b *testing.B, c Column, parts []Values) {
	f := open(b, []Column{c}, Options{MaxExact: 1 << 30})
	b.SetBytes(benchRows)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if err := f.Add([][]Values{parts[i%len(parts) : i%len(parts)+1]}, func() {}); err != nil {
			b.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkMoments(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	floats, ints := make([]float32, benchRows), make([]int64, benchRows)
	for i := range floats {
		floats[i], ints[i] = float32(r.NormFloat64()), int64(r.IntN(1000)-500)
	}
	s := []fitted.Statistic{{Name: fitted.Moments}}
	b.Run("float32", func(b *testing.B) {
		benchmarkAdd(b, Column{Name: "x", Kind: pb.Kind_FLOAT32, Statistics: s}, []Values{{Float32s: floats}})
	})
	b.Run("int64", func(b *testing.B) {
		benchmarkAdd(b, Column{Name: "x", Kind: pb.Kind_INT64, Statistics: s}, []Values{{Int64s: ints}})
	})
}

func BenchmarkCounts(b *testing.B) {
	s := []fitted.Statistic{{Name: fitted.Vocabulary}}
	for _, n := range []float64{1e3, 1e7} {
		ids := skewedIDs(n)
		b.Run(fmt.Sprintf("int64/%.0e", n), func(b *testing.B) {
			benchmarkAdd(b, Column{Name: "x", Kind: pb.Kind_INT64, Statistics: s}, []Values{{Int64s: ids}})
		})
		v := Values{Offsets: []int32{0}}
		for _, id := range ids {
			v.Data = fmt.Appendf(v.Data, "%08x", id)
			v.Offsets = append(v.Offsets, int32(len(v.Data)))
		}
		b.Run(fmt.Sprintf("text/%.0e", n), func(b *testing.B) {
			benchmarkAdd(b, Column{Name: "x", Kind: pb.Kind_BINARY, Statistics: s}, []Values{v})
		})
	}
}
