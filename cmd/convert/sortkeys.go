package convert

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/float16"
)

// sortKey is a column that rows are sorted by.
type sortKey struct {
	column     int
	descending bool
}

// sortKeys finds the columns of --sort-by: "column", "column:desc" or "column:asc". A column's name may have a colon.
func sortKeys(by []string, schema *arrow.Schema) ([]sortKey, error) {
	keys := make([]sortKey, len(by))
	for i, text := range by {
		column := columnNamed(schema, text)
		name, order, _ := cutLast(text, ":")
		if column < 0 && (order == "desc" || order == "asc") {
			column = columnNamed(schema, name)
			keys[i].descending = order == "desc"
		}
		if column < 0 {
			return nil, fmt.Errorf("--sort-by names %q, which is no column; there are %s", text,
				some(columnNames(schema)))
		}
		keys[i].column = column
		if f := schema.Field(column); !sortable(f.Type) {
			return nil, fmt.Errorf("--sort-by names column %s, which is %v: rows are sorted by numbers, texts, "+
				"booleans, dates, times and decimals", f.Name, f.Type)
		}
		if slices.ContainsFunc(keys[:i], func(k sortKey) bool { return k.column == column }) {
			return nil, fmt.Errorf("--sort-by names column %s twice: name it once", schema.Field(column).Name)
		}
	}
	return keys, nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

func columnNamed(schema *arrow.Schema, name string) int {
	return slices.IndexFunc(schema.Fields(), func(f arrow.Field) bool { return f.Name == name })
}

func columnNames(schema *arrow.Schema) (out []string) {
	for _, f := range schema.Fields() {
		out = append(out, f.Name)
	}
	return out
}

func sortable(t arrow.DataType) bool {
	switch t.ID() {
	case arrow.INTERVAL_MONTHS, arrow.INTERVAL_DAY_TIME, arrow.INTERVAL_MONTH_DAY_NANO, arrow.FIXED_SIZE_LIST,
		arrow.NULL:
		return false
	case arrow.BOOL, arrow.STRING, arrow.BINARY, arrow.LARGE_STRING, arrow.LARGE_BINARY:
		return true
	}
	return widthOf(t) > 0
}

// A key is bytes that compare as rows do. Each of its columns begins with what it is: these are in the order of rows
// whether they ascend or descend.
const (
	isValue = iota
	isNotANumber
	isNull
)

// appendKey appends the key of a row.
func appendKey(to []byte, by []sortKey, rec arrow.Record, row int) []byte {
	for _, k := range by {
		a := rec.Column(k.column)
		if a.IsNull(row) {
			to = append(to, isNull)
			continue
		}
		begin := len(to) + 1
		to = appendValue(append(to, isValue), a, row)
		if k.descending {
			for i := begin; i < len(to); i++ {
				to[i] = ^to[i]
			}
		}
	}
	return to
}

func appendValue(to []byte, a arrow.Array, row int) []byte {
	switch a := a.(type) {
	case *array.Boolean:
		if a.Value(row) {
			return append(to, 1)
		}
		return append(to, 0)
	case array.BinaryLike:
		return appendText(to, textOf(a, row))
	}
	t := a.DataType()
	width := widthOf(t)
	b := fixed(a, width, row, 1)
	switch t.ID() {
	case arrow.FIXED_SIZE_BINARY:
		return append(to, b...)
	case arrow.FLOAT16:
		return appendFloat(to, float64(float16.FromBits(binary.LittleEndian.Uint16(b)).Float32()))
	case arrow.FLOAT32:
		return appendFloat(to, float64(math.Float32frombits(binary.LittleEndian.Uint32(b))))
	case arrow.FLOAT64:
		return appendFloat(to, math.Float64frombits(binary.LittleEndian.Uint64(b)))
	}
	for i := width - 1; i >= 0; i-- {
		to = append(to, b[i])
	}
	if !arrow.IsUnsignedInteger(t.ID()) {
		to[len(to)-width] ^= 1 << 7 // the sign
	}
	return to
}

// appendFloat appends a number so that its bytes compare as it does. Both zeros are one, and so are all NaNs.
func appendFloat(to []byte, v float64) []byte {
	if math.IsNaN(v) {
		to[len(to)-1] = isNotANumber
		return to
	}
	if v == 0 {
		v = 0
	}
	bits := math.Float64bits(v)
	if bits>>63 == 1 {
		bits = ^bits
	} else {
		bits |= 1 << 63
	}
	return binary.BigEndian.AppendUint64(to, bits)
}

// appendText appends bytes and their end, which is less than whatever may follow.
func appendText(to, text []byte) []byte {
	for {
		i := bytes.IndexByte(text, 0)
		if i < 0 {
			return append(append(to, text...), 0, 0)
		}
		to = append(append(to, text[:i]...), 0, 1)
		text = text[i+1:]
	}
}

// prefix is the beginning of a key as a number, which compares as the key does, but for keys with the same one.
func prefix(key []byte) uint64 {
	if len(key) >= 8 {
		return binary.BigEndian.Uint64(key)
	}
	var padded [8]byte
	copy(padded[:], key)
	return binary.BigEndian.Uint64(padded[:])
}
