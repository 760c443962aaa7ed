package convert

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"

	"github.com/penstock-ml/penstock/internal/formats/literal"
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
		v, ok := literal.ParseBool(text)
		if !ok {
			return errValue
		}
		b.Append(v)
	case *array.Int32Builder:
		n, ok := literal.ParseInt(text)
		if !ok || n != int64(int32(n)) {
			return errValue
		}
		b.Append(int32(n))
	case *array.Int64Builder:
		parse := literal.ParseInt
		if k == hexKind {
			parse = parseHex
		}
		n, ok := parse(text)
		if !ok {
			return errValue
		}
		b.Append(n)
	case *array.Float32Builder:
		x, ok := literal.ParseFloat(text, 32)
		if !ok {
			return errValue
		}
		b.Append(float32(x))
	case *array.Float64Builder:
		x, ok := literal.ParseFloat(text, 64)
		if !ok {
			return errValue
		}
		b.Append(x)
	default:
		return k.appendTime(b, text, formats)
	}
	return nil
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

// guess is the narrowest kind that users mean by a field; unknown if it is null.
func guess(f field, formats times) literal.Kind {
	text := bytes.TrimSpace(f.text)
	switch {
	case f.null() || len(text) == 0 && !f.quoted:
		return literal.Unknown
	case len(formats) > 0 && !literal.Integer(text): // such as 01.02.2026
		if k := formats.kind(text); k != literal.Unknown {
			return k
		}
	}
	return literal.Guess(text, formats.kind)
}

// inferred are the kinds of columns whose kind is inferred.
func inferred() []kind {
	return []kind{
		literal.Unknown: unknown, literal.Bool: boolKind, literal.Int: int64Kind, literal.Float: float64Kind,
		literal.String: stringKind, literal.Binary: binaryKind, literal.Date: dateKind, literal.Micros: timestampKind,
		literal.Nanos: nanosecondsKind,
	}
}

// wouldTake is a kind that takes what a column of kind k does, and the field, too.
func wouldTake(k kind, f field, formats times) kind {
	base := map[kind]kind{int32Kind: int64Kind, float32Kind: float64Kind, hexKind: stringKind}
	if b, ok := base[k]; ok {
		k = b
	}
	takes := literal.Kind(slices.Index(inferred(), k))
	if other := inferred()[literal.Wide(takes, guess(f, formats))]; other != nanosecondsKind || k != other {
		return other
	}
	return stringKind // the time is beyond what nanoseconds count
}
