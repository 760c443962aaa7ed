package tensor

import (
	"math/rand/v2"
	"testing"

	"github.com/penstock-ml/penstock/worker/vector"
)

// TestNullsToNaN sees each null become NaN, and nothing else, wherever rows begin and end, in order and shuffled.
func TestNullsToNaN(t *testing.T) {
	const rows = 300
	r := rand.New(rand.NewPCG(1, 2))
	valid := make([]uint64, vector.Words(rows))
	for i := range valid {
		valid[i] = r.Uint64() | r.Uint64()
	}
	shuffled := make([]int32, rows)
	for i, row := range r.Perm(rows) {
		shuffled[i] = int32(row)
	}
	for _, order := range [][]int32{nil, shuffled} {
		w := &Window{Rows: rows, Order: order}
		for range 500 {
			from := r.IntN(rows)
			dst := make([]float32, r.IntN(rows-from+1))
			nullsToNaN(dst, w, valid, from)
			for i, x := range dst {
				if null := !bit(valid, w.Source(from+i)); null != (x != x) || !null && x != 0 {
					t.Fatalf("row %d from %d on, shuffled %v: got %v, null %v", i, from, order != nil, x, null)
				}
			}
		}
	}
}
