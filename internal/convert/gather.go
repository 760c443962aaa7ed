package convert

import (
	"errors"
	"fmt"
	"math"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/bitutil"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

// span is values of one of several arrays, which follow one another there.
type span struct{ array, from, n int }

var errLongRecord = errors.New(
	"its texts or lists have more than 2^31 bytes or values in a few rows: convert without sorting, or cut them")

// gatherRecord makes a record of rows of others.
func gatherRecord(schema *arrow.Schema, from []arrow.Record, order []span) (arrow.Record, error) {
	rows := 0
	for _, s := range order {
		rows += s.n
	}
	columns := make([]arrow.Array, schema.NumFields())
	values := make([]arrow.Array, len(from))
	for i, f := range schema.Fields() {
		for at, rec := range from {
			values[at] = rec.Column(i)
		}
		data, err := gather(f.Type, values, order, rows)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", f.Name, err)
		}
		columns[i] = array.MakeFromData(data)
	}
	return array.NewRecord(schema, columns, int64(rows)), nil
}

// gather makes an array of n values of others of the same type. arrow's Take would do it for what is no map.
func gather(t arrow.DataType, from []arrow.Array, order []span, n int) (arrow.ArrayData, error) {
	valid, nulls := gatherValid(from, order, n)
	buffers := []*memory.Buffer{valid}
	var children []arrow.ArrayData
	var err error
	switch t := t.(type) {
	case *arrow.NullType:
		return array.NewData(t, n, []*memory.Buffer{nil}, nil, n, 0), nil
	case *arrow.BooleanType:
		buffers = append(buffers, gatherBits(from, order, n))
	case *arrow.StructType:
		children, err = gatherFields(t, from, order, n)
	case *arrow.FixedSizeListType:
		_, below, all := listsBelow(from, order)
		children, err = gatherBelow(t.Elem(), from, below, all)
	case *arrow.ListType:
		children, buffers, err = gatherLists(t.Elem(), from, order, buffers)
	case *arrow.MapType:
		children, buffers, err = gatherLists(t.Elem(), from, order, buffers)
	case arrow.BinaryDataType:
		buffers, err = gatherTexts(t, from, order, n, buffers)
	default:
		width := widthOf(t)
		if width == 0 {
			return nil, fmt.Errorf("%v cannot be sorted or partitioned", t)
		}
		buffers = append(buffers, gatherFixed(width, from, order, n))
	}
	if err != nil {
		return nil, err
	}
	return array.NewData(t, n, buffers, children, nulls, 0), nil
}

// gatherValid makes the bitmap of values that are not null; nil if all are.
func gatherValid(from []arrow.Array, order []span, n int) (valid *memory.Buffer, nulls int) {
	any := false
	for _, a := range from {
		any = any || a.NullN() > 0
	}
	if !any {
		return nil, 0
	}
	bits := make([]byte, (n+7)/8)
	at := 0
	for _, s := range order {
		a := from[s.array]
		for i := s.from; i < s.from+s.n; i++ {
			if a.IsValid(i) {
				bitutil.SetBit(bits, at)
			} else {
				nulls++
			}
			at++
		}
	}
	return memory.NewBufferBytes(bits), nulls
}

func gatherBits(from []arrow.Array, order []span, n int) *memory.Buffer {
	bits := make([]byte, (n+7)/8)
	at := 0
	for _, s := range order {
		a := from[s.array].(*array.Boolean)
		for i := s.from; i < s.from+s.n; i++ {
			if a.Value(i) {
				bitutil.SetBit(bits, at)
			}
			at++
		}
	}
	return memory.NewBufferBytes(bits)
}

func gatherFixed(width int, from []arrow.Array, order []span, n int) *memory.Buffer {
	lying := make([][]byte, len(from))
	for i, a := range from {
		if a.Len() > 0 {
			lying[i] = fixed(a, width, 0, a.Len())
		}
	}
	switch width {
	case arrow.Int32SizeBytes:
		out := gatherWords(lying, arrow.Uint32Traits.CastFromBytes, order, n)
		return memory.NewBufferBytes(arrow.Uint32Traits.CastToBytes(out))
	case arrow.Int64SizeBytes:
		out := gatherWords(lying, arrow.Uint64Traits.CastFromBytes, order, n)
		return memory.NewBufferBytes(arrow.Uint64Traits.CastToBytes(out))
	}
	out := make([]byte, 0, n*width)
	for _, s := range order {
		out = append(out, lying[s.array][s.from*width:(s.from+s.n)*width]...)
	}
	return memory.NewBufferBytes(out)
}

// gatherWords takes half the time of copying bytes where spans are short.
func gatherWords[T uint32 | uint64](lying [][]byte, words func([]byte) []T, order []span, n int) []T {
	values := make([][]T, len(lying))
	for i, b := range lying {
		values[i] = words(b)
	}
	out := make([]T, 0, n)
	for _, s := range order {
		if s.n == 1 {
			out = append(out, values[s.array][s.from])
			continue
		}
		out = append(out, values[s.array][s.from:s.from+s.n]...)
	}
	return out
}

func gatherTexts(t arrow.BinaryDataType, from []arrow.Array, order []span, n int, buffers []*memory.Buffer) (
	[]*memory.Buffer, error,
) {
	if t.Layout().Buffers[1].ByteWidth == arrow.Int64SizeBytes {
		return gatherBytes(from, arrow.Int64Traits.CastFromBytes, arrow.Int64Traits.CastToBytes, order, n, buffers)
	}
	return gatherBytes(from, arrow.Int32Traits.CastFromBytes, arrow.Int32Traits.CastToBytes, order, n, buffers)
}

// gatherBytes gathers texts whose offsets are of a type.
func gatherBytes[T int32 | int64](from []arrow.Array, read func([]byte) []T, write func([]T) []byte, order []span,
	n int, buffers []*memory.Buffer,
) ([]*memory.Buffer, error) {
	type texts struct {
		offsets []T
		bytes   []byte
	}
	lying := make([]texts, len(from))
	for i, a := range from {
		if a.Len() == 0 {
			continue
		}
		d := a.Data()
		lying[i].offsets = read(d.Buffers()[1].Bytes())[d.Offset() : d.Offset()+d.Len()+1]
		if d.Buffers()[2] != nil {
			lying[i].bytes = d.Buffers()[2].Bytes()
		}
	}
	ends := make([]T, 1, n+1)
	all := int64(0)
	for _, s := range order {
		offsets := lying[s.array].offsets[s.from : s.from+s.n+1]
		for i := range s.n {
			all += int64(offsets[i+1] - offsets[i])
			ends = append(ends, T(all))
		}
	}
	if int64(T(all)) != all {
		return nil, errLongRecord
	}
	out := make([]byte, 0, all)
	for _, s := range order {
		l := lying[s.array]
		out = append(out, l.bytes[l.offsets[s.from]:l.offsets[s.from+s.n]]...)
	}
	return append(buffers, memory.NewBufferBytes(write(ends)), memory.NewBufferBytes(out)), nil
}

func gatherFields(t *arrow.StructType, from []arrow.Array, order []span, n int) ([]arrow.ArrayData, error) {
	children := make([]arrow.ArrayData, len(t.Fields()))
	values := make([]arrow.Array, len(from))
	for i, f := range t.Fields() {
		for at, a := range from {
			values[at] = a.(*array.Struct).Field(i)
		}
		var err error
		if children[i], err = gather(f.Type, values, order, n); err != nil {
			return nil, err
		}
	}
	return children, nil
}

// listsBelow are where lists end, and which values they hold.
func listsBelow(from []arrow.Array, order []span) (ends []int32, below []span, all int) {
	ends = append(ends, 0)
	for _, s := range order {
		a := from[s.array].(array.ListLike)
		for i := s.from; i < s.from+s.n; i++ {
			first, end := a.ValueOffsets(i)
			if a.IsNull(i) && a.DataType().ID() != arrow.FIXED_SIZE_LIST {
				end = first
			}
			if n := int(end - first); n > 0 {
				below = append(below, span{s.array, int(first), n})
				all += n
			}
			ends = append(ends, int32(all))
		}
	}
	return ends, below, all
}

func gatherBelow(elem arrow.DataType, from []arrow.Array, below []span, n int) ([]arrow.ArrayData, error) {
	values := make([]arrow.Array, len(from))
	for i, a := range from {
		values[i] = a.(array.ListLike).ListValues()
	}
	data, err := gather(elem, values, below, n)
	return []arrow.ArrayData{data}, err
}

func gatherLists(elem arrow.DataType, from []arrow.Array, order []span, buffers []*memory.Buffer) (
	[]arrow.ArrayData, []*memory.Buffer, error,
) {
	ends, below, all := listsBelow(from, order)
	if all > math.MaxInt32 {
		return nil, nil, errLongRecord
	}
	children, err := gatherBelow(elem, from, below, all)
	return children, append(buffers, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(ends))), err
}
