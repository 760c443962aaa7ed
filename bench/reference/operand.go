package reference

import (
	"fmt"
	"math"
	"math/big"

	"github.com/cespare/xxhash/v2"

	"github.com/penstock-ml/penstock/api/filter"
	"github.com/penstock-ml/penstock/api/pb"
)

// operand finds what a test looks at.
type operand func(cells []cell, at place) *cell

func compileOperand(o filter.Operand, literal pb.Kind, bind binder) (operand, pb.Kind, error) {
	column := func([]cell, place) *cell { return nil }
	var kind pb.Kind
	switch { // a partition key is text, or is read as what it is compared with
	case o.Hashed:
		literal = pb.Kind_BINARY
	case o.Modulus != 0:
		literal = pb.Kind_INT64
	}
	if !o.OfRow() {
		slot, k, err := bind(o.Column, literal)
		if err != nil {
			return nil, 0, err
		}
		column, kind = func(cells []cell, _ place) *cell { return &cells[slot] }, k
	}
	if o.Hashed {
		of, k := column, kind
		column = func(cells []cell, at place) *cell {
			return &cell{ints: []int64{hashed(o.Seed, idOf(of(cells, at), k, at))}}
		}
		kind = pb.Kind_INT64
	}
	if o.Modulus == 0 {
		return column, kind, nil
	}
	if !isInt(kind) {
		return nil, 0, fmt.Errorf("the remainder of %s, which is %v", o.Column, kind)
	}
	return func(cells []cell, at place) *cell {
		c := column(cells, at)
		if c.null {
			return c
		}
		rest := new(big.Int).Mod(big.NewInt(c.ints[0]), big.NewInt(o.Modulus)) // Euclid's
		return &cell{ints: []int64{rest.Int64()}}
	}, kind, nil
}

// hashed is number id of the SplitMix64 that is seeded by the mixed seed, without its last bit.
func hashed(seed int64, id uint64) int64 {
	return int64(split(split(uint64(seed))+(id+1)*golden) / 2)
}

// idOf is the number that stands for a value, or for a row where there is no column.
func idOf(c *cell, k pb.Kind, at place) uint64 {
	switch {
	case c == nil:
		return split(xxhash.Sum64String(at.uri) + uint64(at.row+1)*golden)
	case c.null:
		return math.MaxUint64
	case k == pb.Kind_BINARY:
		return xxhash.Sum64(c.texts[0])
	case holdingOf(k) == storedInts:
		return uint64(c.ints[0])
	}
	x := c.floats[0]
	if x != x {
		return 0x7ff8 << 48
	}
	if whole, accuracy := big.NewFloat(x).Int64(); accuracy == big.Exact {
		return uint64(whole)
	}
	return math.Float64bits(x)
}
