package reference

import (
	"fmt"
	"math"
	"math/big"
	"strconv"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"

	"github.com/penstock-ml/penstock/api/pb"
)

// appender adds value j of an array to a cell; the value is not null.
type appender func(c *cell, j int)

// filler sets a cell to row i of an array.
type filler func(c *cell, i int)

// bind returns how to read a column's rows from a batch. key selects a key of a map column.
func bind(b batch, col column, key string) (filler, error) {
	fill, err := bindPath(b.arrays[col.path[0]], col, col.path[1:], key)
	if err != nil {
		return nil, fmt.Errorf("column %s: %w", col.name, err)
	}
	return fill, nil
}

func bindPath(arr arrow.Array, col column, path []string, key string) (filler, error) {
	if len(path) == 0 {
		return bindValue(arr, col, key)
	}
	s, ok := arr.(*array.Struct)
	if !ok {
		return nil, fmt.Errorf("is %v; want a struct", arr.DataType())
	}
	at, ok := s.DataType().(*arrow.StructType).FieldIdx(path[0])
	if !ok {
		return nil, fmt.Errorf("no field %s", path[0])
	}
	inner, err := bindPath(s.Field(at), col, path[1:], key)
	return func(c *cell, i int) {
		if s.IsNull(i) {
			c.clear()
			return
		}
		inner(c, i)
	}, err
}

func bindValue(arr arrow.Array, col column, key string) (filler, error) {
	if m, ok := arr.(*array.Map); ok {
		switch {
		case col.part == mapKeys:
			return bindList(m, m.Keys())
		case col.part == mapValues:
			return bindList(m, m.Items())
		}
		return bindKey(m, key)
	}
	if l, ok := arr.(array.ListLike); ok {
		return bindList(l, l.ListValues())
	}
	add, err := valueOf(arr)
	return func(c *cell, i int) {
		c.clear()
		if c.null = arr.IsNull(i); !c.null {
			add(c, i)
		}
	}, err
}

// bindList reads rows of a list; null elements have a place, whose value does not matter.
func bindList(l array.ListLike, elements arrow.Array) (filler, error) {
	add, err := valueOf(elements)
	kind := kindOf(elements.DataType())
	return func(c *cell, i int) {
		c.clear()
		if c.null = l.IsNull(i); c.null {
			return
		}
		from, to := l.ValueOffsets(i)
		for j := from; j < to; j++ {
			null := elements.IsNull(int(j))
			if c.gone = append(c.gone, null); null {
				c.appendZero(kind)
			} else {
				add(c, int(j))
			}
		}
	}, err
}

// bindKey reads the value at one key of a map: of the last entry that bears it.
func bindKey(m *array.Map, key string) (filler, error) {
	same, err := keyEquals(m.Keys(), key)
	if err != nil {
		return nil, err
	}
	add, err := valueOf(m.Items())
	return func(c *cell, i int) {
		c.clear()
		if m.IsNull(i) {
			return
		}
		from, to := m.ValueOffsets(i)
		for j := to - 1; j >= from; j-- {
			if same(int(j)) {
				if c.null = m.Items().IsNull(int(j)); !c.null {
					add(c, int(j))
				}
				return
			}
		}
	}, err
}

func keyEquals(keys arrow.Array, key string) (func(j int) bool, error) {
	add, err := valueOf(keys)
	if err != nil {
		return nil, err
	}
	if kindOf(keys.DataType()) == pb.Kind_BINARY {
		return func(j int) bool {
			var c cell
			add(&c, j)
			return string(c.texts[0]) == key
		}, nil
	}
	want, err := strconv.ParseInt(key, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("key %q of a map with %v keys", key, keys.DataType())
	}
	var c cell
	return func(j int) bool {
		c.clear()
		add(&c, j)
		return len(c.ints) == 1 && c.ints[0] == want
	}, nil
}

// valueOf returns how to read the values of an array of scalars.
func valueOf(arr arrow.Array) (appender, error) {
	switch a := arr.(type) {
	case *array.Boolean:
		return func(c *cell, j int) { c.ints = append(c.ints, boolInt(a.Value(j))) }, nil
	case *array.Int8:
		return ints(a.Int8Values()), nil
	case *array.Int16:
		return ints(a.Int16Values()), nil
	case *array.Int32:
		return ints(a.Int32Values()), nil
	case *array.Int64:
		return ints(a.Int64Values()), nil
	case *array.Uint8:
		return ints(a.Uint8Values()), nil
	case *array.Uint16:
		return ints(a.Uint16Values()), nil
	case *array.Uint32:
		return ints(a.Uint32Values()), nil
	case *array.Uint64:
		return ints(a.Uint64Values()), nil
	case *array.Date32:
		return ints(a.Date32Values()), nil
	case *array.Date64:
		return ints(a.Date64Values()), nil
	case *array.Time32:
		return ints(a.Time32Values()), nil
	case *array.Time64:
		return ints(a.Time64Values()), nil
	case *array.Timestamp:
		return ints(a.TimestampValues()), nil
	case *array.Duration:
		return ints(a.DurationValues()), nil
	}
	return otherValueOf(arr)
}

func otherValueOf(arr arrow.Array) (appender, error) {
	switch a := arr.(type) {
	case *array.Float16:
		return func(c *cell, j int) { c.floats = append(c.floats, float64(a.Value(j).Float32())) }, nil
	case *array.Float32:
		return func(c *cell, j int) { c.floats = append(c.floats, float64(a.Value(j))) }, nil
	case *array.Float64:
		return func(c *cell, j int) { c.floats = append(c.floats, a.Value(j)) }, nil
	case *array.Decimal128:
		scale := a.DataType().(*arrow.Decimal128Type).Scale
		return func(c *cell, j int) { c.floats = append(c.floats, decimal(a.Value(j).BigInt(), scale)) }, nil
	case *array.Decimal256:
		scale := a.DataType().(*arrow.Decimal256Type).Scale
		return func(c *cell, j int) { c.floats = append(c.floats, decimal(a.Value(j).BigInt(), scale)) }, nil
	case *array.Binary:
		return func(c *cell, j int) { c.texts = append(c.texts, a.Value(j)) }, nil
	case *array.LargeBinary:
		return func(c *cell, j int) { c.texts = append(c.texts, a.Value(j)) }, nil
	case *array.FixedSizeBinary:
		return func(c *cell, j int) { c.texts = append(c.texts, a.Value(j)) }, nil
	case *array.String:
		return func(c *cell, j int) { c.texts = append(c.texts, []byte(a.Value(j))) }, nil
	case *array.LargeString:
		return func(c *cell, j int) { c.texts = append(c.texts, []byte(a.Value(j))) }, nil
	case *array.Dictionary:
		add, err := valueOf(a.Dictionary())
		return func(c *cell, j int) { add(c, a.GetValueIndex(j)) }, err
	}
	return nil, fmt.Errorf("values of type %v", arr.DataType())
}

func ints[T ~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64](values []T) appender {
	return func(c *cell, j int) { c.ints = append(c.ints, int64(values[j])) }
}

// decimal is n / 10^scale.
func decimal(n *big.Int, scale int32) float64 {
	x, _ := new(big.Float).SetInt(n).Float64()
	return x / math.Pow10(int(scale))
}
