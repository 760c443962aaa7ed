package apply

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/float16"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/tensors"
	"github.com/penstock-ml/penstock/api/times"
)

// put appends a value of JSON to a builder of a type.
func put(b array.Builder, t arrow.DataType, v any) error {
	if v == nil {
		b.AppendNull()
		return nil
	}
	switch b := b.(type) {
	case *array.NullBuilder:
		return wrong(v, "null, as in the first rows; give the columns' types, by --schema")
	case *array.BooleanBuilder:
		x, ok := v.(bool)
		if !ok {
			return wrong(v, "true or false")
		}
		b.Append(x)
	case *array.StringBuilder:
		return putBytes(v, func(x []byte) { b.Append(string(x)) })
	case *array.BinaryBuilder:
		return putBytes(v, b.Append)
	case *array.ListBuilder:
		list, ok := v.([]any)
		if !ok {
			return wrong(v, "a list")
		}
		b.Append(true)
		for i, x := range list {
			if err := put(b.ValueBuilder(), t.(*arrow.ListType).Elem(), x); err != nil {
				return fmt.Errorf("element %d: %w", i, err)
			}
		}
	case *array.MapBuilder:
		return putMap(b, t.(*arrow.MapType), v)
	case *array.StructBuilder:
		object, ok := v.(map[string]any)
		if !ok {
			return wrong(v, "an object")
		}
		b.Append(true)
		for i, f := range t.(*arrow.StructType).Fields() {
			if err := put(b.FieldBuilder(i), f.Type, object[f.Name]); err != nil {
				return fmt.Errorf("field %s: %w", f.Name, err)
			}
		}
	default:
		return putNumber(b, t, v)
	}
	return nil
}

// wrong says what was found in place of what is wanted.
func wrong(v any, want string) error {
	const limit = 40
	text, _ := json.Marshal(v) // it came from JSON
	if len(text) > limit {
		text = append(text[:limit:limit], "..."...)
	}
	return fmt.Errorf("found %s; want %s", text, want)
}

// putBytes takes text, or bytes as base64 has them.
func putBytes(v any, put func([]byte)) error {
	switch v := v.(type) {
	case string:
		put([]byte(v))
		return nil
	case map[string]any:
		if text, ok := v[bytesKey].(string); ok && len(v) == 1 {
			data, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				return fmt.Errorf("base64: %w", err)
			}
			put(data)
			return nil
		}
	}
	return wrong(v, `text, or bytes as {"base64": "AAE="}`)
}

func putMap(b *array.MapBuilder, t *arrow.MapType, v any) error {
	object, ok := v.(map[string]any)
	if !ok {
		return wrong(v, "an object")
	}
	b.Append(true)
	for _, name := range slices.Sorted(maps.Keys(object)) {
		var key any = name
		if t.KeyType().ID() != arrow.STRING && t.KeyType().ID() != arrow.BINARY {
			key = json.Number(name)
		}
		if err := errors.Join(put(b.KeyBuilder(), t.KeyType(), key), put(b.ItemBuilder(), t.ItemType(),
			object[name])); err != nil {
			return fmt.Errorf("key %s: %w", name, err)
		}
	}
	return nil
}

// putNumber takes a number, and a time as one or as text.
func putNumber(b array.Builder, t arrow.DataType, v any) error {
	switch b := b.(type) {
	case *array.Float16Builder:
		return putFloat(v, t, 64, func(x float64) {
			of := &pb.Value{Kind: &pb.Value_Float{Float: x}} // Arrow's own conversion loses subnormal numbers
			b.Append(float16.FromBits(uint16(tensors.Bits(of, pb.Kind_FLOAT16))))
		})
	case *array.Float32Builder:
		return putFloat(v, t, 32, func(x float64) { b.Append(float32(x)) })
	case *array.Float64Builder:
		return putFloat(v, t, 64, b.Append)
	case *array.Int8Builder:
		return putInt(v, t, 8, func(x int64) { b.Append(int8(x)) })
	case *array.Int16Builder:
		return putInt(v, t, 16, func(x int64) { b.Append(int16(x)) })
	case *array.Int32Builder:
		return putInt(v, t, 32, func(x int64) { b.Append(int32(x)) })
	case *array.Int64Builder:
		return putInt(v, t, 64, b.Append)
	case *array.Uint8Builder:
		return putUint(v, t, 8, func(x uint64) { b.Append(uint8(x)) })
	case *array.Uint16Builder:
		return putUint(v, t, 16, func(x uint64) { b.Append(uint16(x)) })
	case *array.Uint32Builder:
		return putUint(v, t, 32, func(x uint64) { b.Append(uint32(x)) })
	case *array.Uint64Builder:
		return putUint(v, t, 64, b.Append)
	case *array.Time32Builder:
		return putInt(v, t, 32, func(x int64) { b.Append(arrow.Time32(x)) })
	case *array.Time64Builder:
		return putInt(v, t, 64, func(x int64) { b.Append(arrow.Time64(x)) })
	case *array.TimestampBuilder:
		unit := t.(*arrow.TimestampType).Unit.String()
		return putTime(v, times.Unit(unit), "a number of "+unit, 64, func(x int64) { b.Append(arrow.Timestamp(x)) })
	case *array.Date32Builder:
		return putTime(v, times.Days, "a number of days since 1970", 32, func(x int64) { b.Append(arrow.Date32(x)) })
	}
	return fmt.Errorf("JSON has no values of type %v; give rows as Parquet", t)
}

// putFloat takes a number; what is none in JSON is text, such as "NaN".
func putFloat(v any, t arrow.DataType, bits int, put func(float64)) error {
	text, ok := v.(string)
	if n, isNumber := v.(json.Number); isNumber {
		text, ok = n.String(), true
	}
	x, err := strconv.ParseFloat(text, bits)
	if _, isNumber := v.(json.Number); !ok || err != nil || !isNumber && !math.IsNaN(x) && !math.IsInf(x, 0) {
		return wrong(v, "a number within the range of "+t.Name())
	}
	put(x)
	return nil
}

func putInt(v any, t arrow.DataType, bits int, put func(int64)) error {
	n, _ := v.(json.Number)
	x, err := strconv.ParseInt(n.String(), 10, bits)
	if err != nil {
		return wrong(v, "an integer within the range of "+t.Name())
	}
	put(x)
	return nil
}

func putUint(v any, t arrow.DataType, bits int, put func(uint64)) error {
	n, _ := v.(json.Number)
	x, err := strconv.ParseUint(n.String(), 10, bits)
	if err != nil {
		return wrong(v, "an integer within the range of "+t.Name())
	}
	put(x)
	return nil
}

// putTime takes a number of a unit, or a date or time as text, cut to that.
func putTime(v any, unit times.Unit, number string, bits int, put func(int64)) error {
	want := number + ", or text such as " + unit.Example()
	text, ok := v.(string)
	if !ok {
		n, _ := v.(json.Number)
		x, err := strconv.ParseInt(n.String(), 10, bits)
		if err != nil {
			return wrong(v, want)
		}
		put(x)
		return nil
	}
	at, err := times.Parse(text)
	if err != nil {
		return wrong(v, want)
	}
	x, err := unit.Of(at)
	if err != nil {
		return err
	}
	put(x)
	return nil
}
