package fit

import (
	"encoding/binary"
	"math"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/fitted"
)

// Sets know values by keys, which are in the values' order: a number's is a uint64, in runs as eight bytes, the
// greatest first; a text's are its bytes. Those of ids that are uint64s (column.flip) are in the order of these.

const signBit = 1 << 63

func intKey(v int64) uint64   { return uint64(v) ^ signBit }
func keyInt(key uint64) int64 { return int64(key ^ signBit) }

// floatKey is the key of a number that is not NaN.
func floatKey(x float64) uint64 {
	if x == 0 {
		return signBit // -0 is 0
	}
	b := math.Float64bits(x)
	if b&signBit != 0 {
		return ^b
	}
	return b | signBit
}

func keyFloat(key uint64) float64 {
	if key&signBit != 0 {
		return math.Float64frombits(key &^ signBit)
	}
	return math.Float64frombits(^key)
}

// Where there are too many distinct values for exact quantiles, values are rounded to keptBits bits after the first
// one, as an HDR histogram does, and counted as before: what that makes of them depends on no order, nor on a logarithm
// that processors compute differently, as in DDSketch. There are at most 2^(12+keptBits) rounded values.
const (
	keptBits = 10
	lostBits = 52 - keptBits
	// roundingError bounds |rounded - x| / |x| of normal numbers x: half a unit of the last bit kept, 2^-11, and that
	// of ints beyond 2^53, which become floats.
	roundingError = 0.0005
)

// roundFloat is the nearest number that has only so many bits. It is in the order of the numbers, and keeps numbers
// that are short already.
func roundFloat(x float64) float64 {
	const half, lost = 1 << (lostBits - 1), 1<<lostBits - 1
	b := math.Float64bits(x)
	sign, size := b&signBit, b&^signBit
	r := (size + half) &^ lost
	if inf := math.Float64bits(math.Inf(1)); r >= inf && size < inf {
		r = inf - 1<<lostBits
	}
	return math.Float64frombits(sign | r)
}

// roundKey is the key of the rounded value of a key, which is an int's or a float's. It is a float's.
func roundKey(key uint64, ints bool) uint64 {
	if ints {
		return floatKey(roundFloat(float64(keyInt(key))))
	}
	return floatKey(roundFloat(keyFloat(key)))
}

// valueOf is the value of a key in a run, of a column of a kind.
func valueOf(key []byte, kind pb.Kind, rounded bool) fitted.Value {
	switch {
	case kind == pb.Kind_BINARY:
		return fitted.Text(key)
	case isFloat(kind) || rounded:
		return fitted.Float(keyFloat(binary.BigEndian.Uint64(key)))
	}
	return fitted.Int(keyInt(binary.BigEndian.Uint64(key)))
}

func isFloat(kind pb.Kind) bool { return kind == pb.Kind_FLOAT32 || kind == pb.Kind_FLOAT64 }
