package expr

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/penstock-ml/penstock/api/pb"
)

// Value is a literal, or the value of a column. Kind is BOOL, INT64 (also for int32 columns), FLOAT64, BINARY
// or, for values of float32 columns only, FLOAT32; the field of that kind is set.
type Value struct {
	Kind  pb.Kind
	Bool  bool
	Int   int64
	Float float64
	Text  string
}

// Bool returns the value of a bool column.
func Bool(b bool) Value { return Value{Kind: pb.Kind_BOOL, Bool: b} }

// Int returns the value of an int32 or int64 column.
func Int(i int64) Value { return Value{Kind: pb.Kind_INT64, Int: i} }

// Float32 returns the value of a float32 column.
func Float32(f float32) Value { return Value{Kind: pb.Kind_FLOAT32, Float: float64(f)} }

// Float64 returns the value of a float64 column.
func Float64(f float64) Value { return Value{Kind: pb.Kind_FLOAT64, Float: f} }

// Text returns the value of a binary column, or of a partition key.
func Text(s string) Value { return Value{Kind: pb.Kind_BINARY, Text: s} }

// FromBytes reads a value as footers hold it: little endian, BOOL one byte, BINARY the bytes themselves.
func FromBytes(kind pb.Kind, b []byte) (Value, error) {
	size := map[pb.Kind]int{
		pb.Kind_BOOL: 1, pb.Kind_INT32: 4, pb.Kind_INT64: 8, pb.Kind_FLOAT32: 4, pb.Kind_FLOAT64: 8,
		pb.Kind_BINARY: len(b),
	}[kind]
	if len(b) != size || kind == pb.Kind_KIND_UNSPECIFIED {
		return Value{}, fmt.Errorf("%d bytes are no value of kind %v", len(b), kind)
	}
	switch kind {
	case pb.Kind_BOOL:
		return Bool(b[0] != 0), nil
	case pb.Kind_INT32:
		return Int(int64(int32(binary.LittleEndian.Uint32(b)))), nil
	case pb.Kind_INT64:
		return Int(int64(binary.LittleEndian.Uint64(b))), nil
	case pb.Kind_FLOAT32:
		return Float32(math.Float32frombits(binary.LittleEndian.Uint32(b))), nil
	case pb.Kind_FLOAT64:
		return Float64(math.Float64frombits(binary.LittleEndian.Uint64(b))), nil
	}
	return Text(string(b)), nil
}

// For returns the literal as columns of kind k compare with it: for FLOAT32, a float literal is rounded to
// float32 unless that overflows, so that `score == 0.1` finds what was stored as 0.1.
func (v Value) For(k pb.Kind) Value {
	if k == pb.Kind_FLOAT32 && v.Kind == pb.Kind_FLOAT64 {
		if f := float64(float32(v.Float)); !math.IsInf(f, 0) {
			v.Float = f
		}
	}
	return v
}

// String writes the value as a literal that Parse reads.
func (v Value) String() string {
	switch v.Kind {
	case pb.Kind_BOOL:
		return strconv.FormatBool(v.Bool)
	case pb.Kind_INT64:
		return strconv.FormatInt(v.Int, 10)
	case pb.Kind_FLOAT32, pb.Kind_FLOAT64:
		bits := 64
		if v.Kind == pb.Kind_FLOAT32 {
			bits = 32
		}
		s := strconv.FormatFloat(v.Float, 'g', -1, bits)
		if strings.ContainsAny(s, ".eIN") {
			return s
		}
		return s + ".0"
	}
	return quote(v.Text)
}

func quote(s string) string {
	var b strings.Builder
	b.WriteByte('\'')
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '\'' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == utf8.RuneError && n == 1, !unicode.IsPrint(r):
			for _, c := range []byte(s[i : i+n]) {
				fmt.Fprintf(&b, `\x%02x`, c)
			}
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	b.WriteByte('\'')
	return b.String()
}

// Order compares a column's value with a literal. They are not ordered if one is NaN.
func Order(v, lit Value) (sign int, ordered bool, err error) {
	lit = lit.For(v.Kind)
	switch {
	case v.Kind == pb.Kind_BINARY && lit.Kind == pb.Kind_BINARY:
		return strings.Compare(v.Text, lit.Text), true, nil
	case v.Kind == pb.Kind_BOOL && lit.Kind == pb.Kind_BOOL:
		return cmp.Compare(bit(v.Bool), bit(lit.Bool)), true, nil
	case v.Kind == pb.Kind_INT64 && lit.Kind == pb.Kind_INT64:
		return cmp.Compare(v.Int, lit.Int), true, nil
	case v.Kind == pb.Kind_INT64 && lit.Kind == pb.Kind_FLOAT64:
		sign, ordered = OrderIntFloat(v.Int, lit.Float)
		return sign, ordered, nil
	case IsFloat(v.Kind) && lit.Kind == pb.Kind_INT64:
		sign, ordered = OrderIntFloat(lit.Int, v.Float)
		return -sign, ordered, nil
	case IsFloat(v.Kind) && lit.Kind == pb.Kind_FLOAT64:
		if v.Float != v.Float || lit.Float != lit.Float {
			return 0, false, nil
		}
		return cmp.Compare(v.Float, lit.Float), true, nil
	}
	return 0, false, fmt.Errorf("%s cannot be compared with %s", v, lit)
}

// IsFloat reports whether values of a kind are floats.
func IsFloat(k pb.Kind) bool { return k == pb.Kind_FLOAT32 || k == pb.Kind_FLOAT64 }

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// OrderIntFloat compares exactly, where converting either to the other's type could round.
func OrderIntFloat(i int64, f float64) (sign int, ordered bool) {
	switch {
	case f != f:
		return 0, false
	case f >= 1<<63:
		return -1, true
	case f < -1<<63:
		return 1, true
	}
	whole := math.Trunc(f)
	if c := cmp.Compare(i, int64(whole)); c != 0 {
		return c, true
	}
	return cmp.Compare(whole, f), true
}
