package convert

import (
	"bytes"
	"errors"
	"strconv"
	"unicode/utf8"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
)

// kind is what the fields of a text column are.
type kind int

const (
	unknown kind = iota
	boolKind
	int32Kind
	int64Kind
	float32Kind
	float64Kind
	stringKind
	binaryKind
	hexKind
	dateKind
	timestampKind
	nanosecondsKind
)

// kindNames are those that users write.
func kindNames() map[string]kind {
	return map[string]kind{
		"bool": boolKind, "int32": int32Kind, "int64": int64Kind, "float32": float32Kind, "float64": float64Kind,
		"string": stringKind, "binary": binaryKind, "hex": hexKind,
		"date": dateKind, "timestamp": timestampKind, "timestamp[ns]": nanosecondsKind,
	}
}

func (k kind) String() string {
	for name, other := range kindNames() {
		if other == k {
			return name
		}
	}
	return "unknown"
}

func (k kind) arrow() arrow.DataType {
	switch k {
	case boolKind:
		return arrow.FixedWidthTypes.Boolean
	case int32Kind:
		return arrow.PrimitiveTypes.Int32
	case int64Kind, hexKind:
		return arrow.PrimitiveTypes.Int64
	case float32Kind:
		return arrow.PrimitiveTypes.Float32
	case float64Kind:
		return arrow.PrimitiveTypes.Float64
	case binaryKind:
		return arrow.BinaryTypes.Binary
	case dateKind:
		return arrow.FixedWidthTypes.Date32
	case timestampKind:
		return arrow.FixedWidthTypes.Timestamp_us
	case nanosecondsKind:
		return arrow.FixedWidthTypes.Timestamp_ns
	}
	return arrow.BinaryTypes.String
}

var errValue = errors.New("does not fit")

// appendTo adds a field to a column's builder, or returns an error if it is none of the kind. What is empty is null; in
// a column of text, an empty text in quotes is not.
func (k kind) appendTo(b array.Builder, f field, formats times) error {
	switch b := b.(type) {
	case *array.StringBuilder:
		switch {
		case f.null():
			b.AppendNull()
		case !utf8.Valid(f.text):
			return errValue
		default:
			b.BinaryBuilder.Append(f.text)
		}
		return nil
	case *array.BinaryBuilder:
		if f.null() {
			b.AppendNull()
		} else {
			b.Append(f.text)
		}
		return nil
	}
	text := bytes.TrimSpace(f.text)
	if len(text) == 0 {
		b.AppendNull()
		return nil
	}
	return k.appendNumber(b, text, formats)
}

func (k kind) appendNumber(b array.Builder, text []byte, formats times) error {
	switch b := b.(type) {
	case *array.BooleanBuilder:
		v, ok := parseBool(text)
		if !ok {
			return errValue
		}
		b.Append(v)
	case *array.Int32Builder:
		n, ok := parseInt(text)
		if !ok || n != int64(int32(n)) {
			return errValue
		}
		b.Append(int32(n))
	case *array.Int64Builder:
		parse := parseInt
		if k == hexKind {
			parse = parseHex
		}
		n, ok := parse(text)
		if !ok {
			return errValue
		}
		b.Append(n)
	case *array.Float32Builder:
		x, ok := parseFloat(text, 32)
		if !ok {
			return errValue
		}
		b.Append(float32(x))
	case *array.Float64Builder:
		x, ok := parseFloat(text, 64)
		if !ok {
			return errValue
		}
		b.Append(x)
	default:
		return k.appendTime(b, text, formats)
	}
	return nil
}

// parseBool reads true, false, 1 and 0.
func parseBool(text []byte) (value, ok bool) {
	switch {
	case bytes.EqualFold(text, []byte("true")), string(text) == "1":
		return true, true
	case bytes.EqualFold(text, []byte("false")), string(text) == "0":
		return false, true
	}
	return false, false
}

func parseInt(text []byte) (int64, bool) {
	n, err := strconv.ParseInt(string(text), 10, 64)
	return n, err == nil
}

// parseHex reads up to 16 hexadecimal digits, perhaps after 0x. 16 digits may give a negative number.
func parseHex(text []byte) (int64, bool) {
	if len(text) > 2 && text[0] == '0' && text[1]|0x20 == 'x' {
		text = text[2:]
	}
	if len(text) == 0 || text[0] == '+' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(text), 16, 64)
	return int64(n), err == nil
}

// parseFloat reads decimal numbers, inf, infinity and nan. What is out of range is none.
func parseFloat(text []byte, bits int) (float64, bool) {
	if bytes.ContainsAny(text, "xX_") {
		return 0, false
	}
	x, err := strconv.ParseFloat(string(text), bits)
	return x, err == nil
}

// guess is the narrowest kind that users mean by a field: bool, int64, float64, a time or string; unknown if it is
// null. A number with leading zeros is an identifier and so a string, and so is an integer that no int64 holds: as
// floats, different ones would be the same.
func guess(f field, formats times) kind {
	text := bytes.TrimSpace(f.text)
	switch {
	case f.null() || len(text) == 0 && !f.quoted:
		return unknown
	case bytes.EqualFold(text, []byte("true")), bytes.EqualFold(text, []byte("false")):
		return boolKind
	case len(formats) > 0 && !integer(text): // such as 01.02.2026
		if k := guessTime(text, formats); k != unknown {
			return k
		}
	}
	if leadingZero(text) {
		return stringKind
	}
	if _, ok := parseInt(text); ok {
		return int64Kind
	}
	if _, ok := parseFloat(text, 64); ok && !integer(text) {
		return float64Kind
	}
	if k := guessTime(text, formats); k != unknown {
		return k
	}
	if utf8.Valid(f.text) {
		return stringKind
	}
	return binaryKind
}

func integer(text []byte) bool {
	return len(bytes.TrimLeft(text, "+-0123456789")) == 0
}

func leadingZero(text []byte) bool {
	text = bytes.TrimLeft(text, "+-")
	return len(text) > 1 && text[0] == '0' && text[1] >= '0' && text[1] <= '9'
}

// wide is the kind that takes the values of both.
func wide(a, b kind) kind {
	numbers := func(k kind) bool { return k == int64Kind || k == float64Kind }
	switch {
	case a == unknown || a == b:
		return b
	case b == unknown:
		return a
	case numbers(a) && numbers(b):
		return float64Kind
	case a.isTime() && b.isTime(): // each takes those before it
		return max(a, b)
	case a == binaryKind || b == binaryKind:
		return binaryKind
	}
	return stringKind
}

// wouldTake is a kind that takes what a column of kind k does, and the field, too.
func wouldTake(k kind, f field, formats times) kind {
	base := map[kind]kind{int32Kind: int64Kind, float32Kind: float64Kind, hexKind: stringKind}
	if b, ok := base[k]; ok {
		k = b
	}
	if other := wide(k, guess(f, formats)); other != nanosecondsKind || k != other {
		return other
	}
	return stringKind // the time is beyond what nanoseconds count
}
