package reference

import (
	"encoding/binary"
	"math"
	"math/big"

	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"

	"github.com/penstock-ml/penstock/api/pb"
)

// appender adds a value, which is not null, to a cell.
type appender func(c *cell, e *entry)

// valueOf returns the kind as which a leaf's values are read, and how. The kind is unspecified if no feature has it.
func valueOf(e *format.SchemaElement) (pb.Kind, appender) {
	_, untyped := e.LogicalType.Value.(*format.NullType)
	fixed := e.Type.V == format.FixedLenByteArray
	if untyped || fixed && (e.TypeLength.V <= 0 || e.TypeLength.V > maxFixed) {
		return pb.Kind_KIND_UNSPECIFIED, nil
	}
	if precision, scale, ok := decimalOf(e); ok {
		if precision <= 0 || precision > maxDigits || scale < 0 || scale > precision || fixed && e.TypeLength.V > 16 {
			return pb.Kind_KIND_UNSPECIFIED, nil
		}
		return pb.Kind_FLOAT64, decimals(e.Type.V, scale)
	}
	switch _, half := e.LogicalType.Value.(*format.Float16Type); {
	case half && fixed && e.TypeLength.V == 2:
		return pb.Kind_FLOAT32, func(c *cell, e *entry) {
			c.floats = append(c.floats, float16(binary.LittleEndian.Uint16(e.in.text(e.at))))
		}
	case e.Type.V == format.Int32 && isUint32(e):
		return pb.Kind_INT64, func(c *cell, e *entry) { c.ints = append(c.ints, int64(uint32(e.in.ints32[e.at]))) }
	}
	return plainValueOf(e.Type.V)
}

const (
	maxFixed  = 1 << 26 // bytes of a fixed-length byte array
	maxDigits = 38      // of a decimal
)

// plainValueOf is for values that are what their physical type is.
func plainValueOf(t format.Type) (pb.Kind, appender) {
	switch t {
	case format.Boolean:
		return pb.Kind_BOOL, func(c *cell, e *entry) { c.ints = append(c.ints, boolInt(e.in.bools[e.at])) }
	case format.Int32:
		return pb.Kind_INT32, func(c *cell, e *entry) { c.ints = append(c.ints, int64(e.in.ints32[e.at])) }
	case format.Int64:
		return pb.Kind_INT64, func(c *cell, e *entry) { c.ints = append(c.ints, e.in.ints64[e.at]) }
	case format.Int96:
		return pb.Kind_INT64, func(c *cell, e *entry) { c.ints = append(c.ints, timestamp(e.in.ints96[e.at])) }
	case format.Float:
		return pb.Kind_FLOAT32, func(c *cell, e *entry) { c.floats = append(c.floats, float64(e.in.floats[e.at])) }
	case format.Double:
		return pb.Kind_FLOAT64, func(c *cell, e *entry) { c.floats = append(c.floats, e.in.doubles[e.at]) }
	case format.ByteArray, format.FixedLenByteArray:
		return pb.Kind_BINARY, func(c *cell, e *entry) { c.texts = append(c.texts, e.in.text(e.at)) }
	}
	return pb.Kind_KIND_UNSPECIFIED, nil
}

// isUint32 reports whether an int32 is to be read as unsigned; shorter ones are not negative anyhow.
func isUint32(e *format.SchemaElement) bool {
	if e.LogicalType.Value == nil {
		return e.ConvertedType.Valid && e.ConvertedType.V == deprecated.Uint32
	}
	i, ok := e.LogicalType.Value.(*format.IntType)
	return ok && !i.IsSigned && i.BitWidth == 32
}

// ownOf is the kind that a leaf's values have of themselves, where ops see a longer one in its place.
func ownOf(e *format.SchemaElement) pb.Kind {
	if _, half := e.LogicalType.Value.(*format.Float16Type); half && e.Type.V == format.FixedLenByteArray &&
		e.TypeLength.V == 2 {
		return pb.Kind_FLOAT16
	}
	if e.Type.V != format.Int32 {
		return pb.Kind_KIND_UNSPECIFIED
	}
	if i, ok := e.LogicalType.Value.(*format.IntType); ok {
		return map[format.IntType]pb.Kind{
			{BitWidth: 8, IsSigned: true}: pb.Kind_INT8, {BitWidth: 8}: pb.Kind_UINT8,
			{BitWidth: 16, IsSigned: true}: pb.Kind_INT16, {BitWidth: 16}: pb.Kind_UINT16,
			{BitWidth: 32}: pb.Kind_UINT32,
		}[*i]
	}
	if e.LogicalType.Value != nil || !e.ConvertedType.Valid {
		return pb.Kind_KIND_UNSPECIFIED
	}
	return map[deprecated.ConvertedType]pb.Kind{
		deprecated.Int8: pb.Kind_INT8, deprecated.Int16: pb.Kind_INT16, deprecated.Uint8: pb.Kind_UINT8,
		deprecated.Uint16: pb.Kind_UINT16, deprecated.Uint32: pb.Kind_UINT32,
	}[e.ConvertedType.V]
}

// decimalOf reports whether a leaf's values are decimals, with how many digits, and how many of them after the point.
func decimalOf(e *format.SchemaElement) (precision, scale int32, ok bool) {
	switch e.Type.V {
	case format.Int32, format.Int64, format.ByteArray, format.FixedLenByteArray:
	default:
		return 0, 0, false
	}
	if d, ok := e.LogicalType.Value.(*format.DecimalType); ok {
		return d.Precision, d.Scale, true
	}
	old := e.LogicalType.Value == nil && e.ConvertedType.Valid && e.ConvertedType.V == deprecated.Decimal
	return e.Precision.V, e.Scale.V, old
}

// decimals divides integers by 10^scale.
func decimals(t format.Type, scale int32) appender {
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(scale)), nil)
	number := func(e *entry) *big.Int {
		switch t {
		case format.Int32:
			return big.NewInt(int64(e.in.ints32[e.at]))
		case format.Int64:
			return big.NewInt(e.in.ints64[e.at])
		}
		return bigEndian(e.in.text(e.at))
	}
	return func(c *cell, e *entry) {
		x, _ := new(big.Rat).SetFrac(number(e), power).Float64() // the nearest
		c.floats = append(c.floats, x)
	}
}

// bigEndian is an integer in two's complement.
func bigEndian(b []byte) *big.Int {
	n := new(big.Int).SetBytes(b)
	if len(b) > 0 && b[0] >= 0x80 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(b))))
	}
	return n
}

// float16 is the value of a half-precision float: a sign, 5 bits of exponent, 10 of fraction.
func float16(bits uint16) float64 {
	exponent, fraction := int(bits>>10&0x1f), float64(bits&0x3ff)
	var x float64
	switch {
	case exponent == 0x1f && fraction > 0:
		return math.NaN()
	case exponent == 0x1f:
		x = math.Inf(1)
	case exponent == 0:
		x = math.Ldexp(fraction, -24)
	default:
		x = math.Ldexp(1024+fraction, exponent-25)
	}
	if bits&0x8000 != 0 {
		return -x
	}
	return x
}

// timestamp is the time in nanoseconds since 1970 of a count of nanoseconds and a Julian day; far from 1970 it wraps.
func timestamp(t deprecated.Int96) int64 {
	const julianDayOf1970, nanosecondsPerDay = 2440588, 86_400_000_000_000
	nanoseconds := int64(uint64(t[0]) | uint64(t[1])<<32)
	return (int64(int32(t[2]))-julianDayOf1970)*nanosecondsPerDay + nanoseconds
}
