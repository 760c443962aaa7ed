package filter

import (
	"math"

	"github.com/cespare/xxhash/v2"

	"github.com/penstock-ml/penstock/api/expr"
	"github.com/penstock-ml/penstock/api/pb"
)

// Hash is the hash function of one seed. What it gives is a promise (docs/reference/filters.md, "Splits"): datasets are
// split by it for years.
type Hash uint64

// NullID is the id of null: that of -1.
const NullID uint64 = math.MaxUint64

// golden is 2^64 divided by the golden ratio, the increment of SplitMix64.
const golden = 0x9e3779b97f4a7c15

// NewHash returns the hash function of a seed.
func NewHash(seed int64) Hash { return Hash(mix(uint64(seed))) }

// Of hashes a value's id to an integer in [0, 2^63).
func (h Hash) Of(id uint64) int64 { return int64(mix(uint64(h)+(id+1)*golden) >> 1) }

// FloatID is a number's id. One without a fraction that is an int64 has that integer's, whatever the column's type.
func FloatID(f float64) uint64 {
	switch {
	case f != f:
		return 0x7ff8000000000000
	case f >= -1<<63 && f < 1<<63 && f == math.Trunc(f):
		return uint64(int64(f))
	}
	return math.Float64bits(f)
}

// TextID is the id of a binary value, or of a file's URI.
func TextID(text []byte) uint64 { return xxhash.Sum64(text) }

// RowID is the id of row(): of a row of a file, whose id is that of its URI.
func RowID(file uint64, row int64) uint64 { return mix(file + uint64(row+1)*golden) }

func idOf(v expr.Value) uint64 {
	switch v.Kind {
	case pb.Kind_BOOL:
		if v.Bool {
			return 1
		}
		return 0
	case pb.Kind_FLOAT32, pb.Kind_FLOAT64:
		return FloatID(v.Float)
	case pb.Kind_BINARY:
		return xxhash.Sum64String(v.Text)
	}
	return uint64(v.Int)
}

// mix is the output function of SplitMix64.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
