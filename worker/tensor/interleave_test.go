package tensor

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/penstock-ml/penstock/internal/simd"
)

// FuzzInterleave compares all loops with what lies where, for every width of a tile, and sees
// that they write nothing else.
func FuzzInterleave(f *testing.F) {
	for columns := range tileColumns + 1 {
		f.Add(columns, columns+3, 0)
		f.Add(columns, columns+31, 3)
	}
	f.Fuzz(func(t *testing.T, columns, rows, gap int) {
		columns, rows, gap = columns&math.MaxInt%(tileColumns+1), rows&255, gap&63
		stride := columns + gap
		in := make([][]float32, columns)
		for c := range in {
			in[c] = make([]float32, rows+c%3)
			for i := range in[c] {
				in[c][i] = float32(1000*c + i)
			}
		}
		want := make([]float32, stride*rows+1)
		got := slices.Clone(want)
		for c := range in {
			for i := range rows {
				want[i*stride+c] = in[c][i]
			}
		}
		loops(func(simd string) {
			clear(got)
			interleave(got, stride, in, rows)
			if !slices.Equal(got, want) {
				t.Fatalf("%s, %d columns of %d rows, %d apart: got %v, want %v", simd, columns, rows, stride, got, want)
			}
		})
	})
}

// loops runs f with the loops of each level that this CPU has.
func loops(f func(simd string)) { simd.Each(&simdLevel, f, simd.AVX512, simd.AVX2) }

// BenchmarkInterleave writes a matrix of 512 rows in tiles, with and without SIMD, and column by column; and copies as
// much, in nanoseconds of a value.
func BenchmarkInterleave(b *testing.B) {
	const rows = 512
	for _, width := range []int{13, 504} {
		columns := make([][]float32, width)
		for i := range columns {
			columns[i] = make([]float32, rows)
		}
		matrix, other := make([]float32, rows*width), make([]float32, rows*width)
		run := func(name string, f func()) {
			b.Run(fmt.Sprintf("%d/%s", width, name), func(b *testing.B) {
				for b.Loop() {
					f()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(rows*width), "ns/element")
			})
		}
		loops(func(simd string) {
			run(simd, func() {
				for c := 0; c < width; c += tileColumns {
					for row := 0; row < rows; row += tileRows {
						var in [tileColumns][]float32
						group := columns[c:min(c+tileColumns, width)]
						for i := range group {
							in[i] = group[i][row : row+tileRows]
						}
						interleave(matrix[row*width+c:], width, in[:len(group)], tileRows)
					}
				}
			})
		})
		run("columns", func() {
			for at, column := range columns {
				for i, x := range column {
					matrix[at+i*width] = x
				}
			}
		})
		run("copy", func() { copy(matrix, other) })
	}
}
