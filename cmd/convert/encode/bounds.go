package encode

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"unicode/utf8"

	"github.com/apache/arrow/go/v15/arrow"
)

// order is how values compare.
type order int

const (
	unordered order = iota
	byInt32
	byUint32
	byInt64
	byUint64
	byFloat
	byDouble
	byFloat16
	byBytes
	byDecimal // most significant byte first, with a sign
)

// longestBound is how many bytes a bound has at most, where it may be cut.
const longestBound = 64

// bounds are a lowest and a highest value in PLAIN encoding, without lengths. Values may be missing at a bound that was
// cut: it lies outside of them.
type bounds struct {
	known              bool
	min, max           []byte
	minExact, maxExact bool
}

// boundsOf are the bounds of a page's values. NaN has no place among others.
func (k *kind) boundsOf(values []byte) bounds {
	if len(values) == 0 {
		return bounds{}
	}
	le := binary.LittleEndian
	switch k.order {
	case byInt32:
		lo, hi := extremes(arrow.Int32Traits.CastFromBytes(values))
		return exactly(le.AppendUint32(nil, uint32(lo)), le.AppendUint32(nil, uint32(hi)))
	case byUint32:
		lo, hi := extremes(arrow.Uint32Traits.CastFromBytes(values))
		return exactly(le.AppendUint32(nil, lo), le.AppendUint32(nil, hi))
	case byInt64:
		lo, hi := extremes(arrow.Int64Traits.CastFromBytes(values))
		return exactly(le.AppendUint64(nil, uint64(lo)), le.AppendUint64(nil, uint64(hi)))
	case byUint64:
		lo, hi := extremes(arrow.Uint64Traits.CastFromBytes(values))
		return exactly(le.AppendUint64(nil, lo), le.AppendUint64(nil, hi))
	case byFloat:
		lo, hi, ok := numbers(arrow.Float32Traits.CastFromBytes(values))
		if !ok {
			return bounds{}
		}
		return exactly(le.AppendUint32(nil, math.Float32bits(lo)), le.AppendUint32(nil, math.Float32bits(hi)))
	case byDouble:
		lo, hi, ok := numbers(arrow.Float64Traits.CastFromBytes(values))
		if !ok {
			return bounds{}
		}
		return exactly(le.AppendUint64(nil, math.Float64bits(lo)), le.AppendUint64(nil, math.Float64bits(hi)))
	case byFloat16:
		return halfBounds(values)
	case byBytes, byDecimal:
		return k.bytesBounds(values)
	}
	return bounds{}
}

func exactly(lo, hi []byte) bounds { return bounds{true, lo, hi, true, true} }

func extremes[T int32 | uint32 | int64 | uint64](values []T) (lo, hi T) {
	lo, hi = values[0], values[0]
	for _, v := range values {
		lo, hi = min(lo, v), max(hi, v)
	}
	return lo, hi
}

// numbers are the extremes of what is not NaN. A zero stands for either zero.
func numbers[T float32 | float64](values []T) (lo, hi T, ok bool) {
	lo, hi = T(math.Inf(1)), T(math.Inf(-1))
	for _, v := range values {
		if v < lo {
			lo = v
		}
		if v > hi {
			hi = v
		}
	}
	if lo == 0 {
		lo = T(math.Copysign(0, -1))
	}
	if hi == 0 {
		hi = 0
	}
	return lo, hi, lo <= hi
}

func halfBounds(values []byte) bounds {
	lo, hi := int16(math.MaxInt16), int16(math.MinInt16)
	for ; len(values) > 0; values = values[2:] {
		if v := half(values); max(v, -v) <= halfInfinity {
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	if lo > hi {
		return bounds{}
	}
	low, high := uint16(lo), uint16(hi)
	if lo <= 0 { // of the zeros, the one below
		low = halfSign | uint16(-lo)
	}
	if hi < 0 {
		high = halfSign | uint16(-hi)
	}
	le := binary.LittleEndian
	return exactly(le.AppendUint16(nil, low), le.AppendUint16(nil, high))
}

// Bits of halves.
const (
	halfSign     = 0x8000
	halfInfinity = 0x7c00 // NaN is above
)

// half orders halves: it is the bits without the sign, or what is as far below zero. Arrow's numbers have none of the
// smallest.
func half(v []byte) int16 {
	bits := binary.LittleEndian.Uint16(v)
	if bits&halfSign != 0 {
		return -int16(bits &^ halfSign)
	}
	return int16(bits)
}

func (k *kind) bytesBounds(values []byte) bounds {
	if k.width > longestBound { // readers take them for values, which have their length
		return bounds{}
	}
	var lo, hi []byte
	k.each(values, func(v []byte) bool {
		if lo == nil {
			lo, hi = v, v
		}
		if k.compare(v, lo) < 0 {
			lo = v
		}
		if k.compare(v, hi) > 0 {
			hi = v
		}
		return true
	})
	b := exactly(bytes.Clone(lo), bytes.Clone(hi))
	if k.width == 0 {
		b.min, b.minExact = k.cutBelow(b.min)
		if b.max, b.maxExact = k.cutAbove(b.max); b.max == nil {
			return bounds{}
		}
	}
	return b
}

// cutBelow is a bound that is no longer than bounds may be, and not above v.
func (k *kind) cutBelow(v []byte) (_ []byte, exact bool) {
	if len(v) <= longestBound {
		return v, true
	}
	return k.prefix(v), false
}

// cutAbove is a bound that is no longer than bounds may be, and not below v. It is nil if there is none.
func (k *kind) cutAbove(v []byte) (_ []byte, exact bool) {
	if len(v) <= longestBound {
		return v, true
	}
	p := bytes.Clone(k.prefix(v))
	if k.text && utf8.Valid(p) {
		return nextText(p), false
	}
	for i := len(p) - 1; i >= 0; i-- {
		if p[i] != 0xff {
			p[i]++
			return p[:i+1], false
		}
	}
	return nil, false
}

// prefix is the beginning of a long value, of whole characters if it is text.
func (k *kind) prefix(v []byte) []byte {
	n := longestBound
	for k.text && n > longestBound-utf8.UTFMax && !utf8.RuneStart(v[n]) {
		n--
	}
	return v[:n]
}

// nextText is the first text of this length or less that comes behind all that begin with p.
func nextText(p []byte) []byte {
	for len(p) > 0 {
		r, size := utf8.DecodeLastRune(p)
		p = p[:len(p)-size]
		switch r++; {
		case r == 0xd800:
			r = 0xe000 // what lies between is not in UTF-8
			fallthrough
		case r <= utf8.MaxRune:
			return utf8.AppendRune(p, r)
		}
	}
	return nil
}

// compare orders two values.
func (k *kind) compare(a, b []byte) int {
	le := binary.LittleEndian
	switch k.order {
	case byInt32:
		return cmp.Compare(int32(le.Uint32(a)), int32(le.Uint32(b)))
	case byUint32:
		return cmp.Compare(le.Uint32(a), le.Uint32(b))
	case byInt64:
		return cmp.Compare(int64(le.Uint64(a)), int64(le.Uint64(b)))
	case byUint64:
		return cmp.Compare(le.Uint64(a), le.Uint64(b))
	case byFloat:
		return cmp.Compare(math.Float32frombits(le.Uint32(a)), math.Float32frombits(le.Uint32(b)))
	case byDouble:
		return cmp.Compare(math.Float64frombits(le.Uint64(a)), math.Float64frombits(le.Uint64(b)))
	case byFloat16:
		return cmp.Compare(half(a), half(b))
	case byDecimal:
		if c := cmp.Compare(int8(a[0]), int8(b[0])); c != 0 {
			return c
		}
	}
	return bytes.Compare(a, b)
}

// join widens bounds by those of another page.
func (b *bounds) join(k *kind, other *bounds) {
	if !b.known {
		*b = *other
		return
	}
	if c := k.compare(other.min, b.min); c < 0 || c == 0 && !other.minExact {
		b.min, b.minExact = other.min, other.minExact
	}
	if c := k.compare(other.max, b.max); c > 0 || c == 0 && !other.maxExact {
		b.max, b.maxExact = other.max, other.maxExact
	}
}
