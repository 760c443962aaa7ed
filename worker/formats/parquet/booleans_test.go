package parquet

import (
	"math/rand/v2"
	"testing"
)

func TestTakeBits(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	packed := make([]byte, 20)
	for i := range packed {
		packed[i] = byte(r.Uint32())
	}
	for at := range 30 {
		for n := range len(packed)*8 - at + 1 {
			got := make([]bool, n)
			takeBits(got, packed, at)
			for i, b := range got {
				if p := at + i; b != (packed[p/8]&(1<<(p%8)) != 0) {
					t.Fatalf("%d bits from %d on: bit %d is %v", n, at, i, b)
				}
			}
		}
	}
}
