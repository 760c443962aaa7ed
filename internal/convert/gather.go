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
	out := make([]byte, 0, n*width)
	for _, s := range order {
		out = append(out, lying[s.array][s.from*width:(s.from+s.n)*width]...)
	}
	return memory.NewBufferBytes(out)
}

func gatherTexts(t arrow.BinaryDataType, from []arrow.Array, order []span, n int, buffers []*memory.Buffer) (
	[]*memory.Buffer, error,
) {
	type texts struct {
		array.BinaryLike
		first int64 // its offset
		bytes []byte
	}
	lying := make([]texts, len(from))
	for i, a := range from {
		if a.Len() > 0 {
			b := a.(array.BinaryLike)
			lying[i] = texts{b, b.ValueOffset64(0), b.ValueBytes()}
		}
	}
	ends := make([]int64, 1, n+1)
	all := int64(0)
	for _, s := range order {
		for i := s.from; i < s.from+s.n; i++ {
			all += int64(lying[s.array].ValueLen(i))
			ends = append(ends, all)
		}
	}
	offsets, err := offsetsOf(ends, t.Layout().Buffers[1].ByteWidth == 8)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, all)
	for _, s := range order {
		if s.n == 0 {
			continue
		}
		l := lying[s.array]
		end := l.ValueOffset64(s.from+s.n-1) + int64(l.ValueLen(s.from+s.n-1))
		out = append(out, l.bytes[l.ValueOffset64(s.from)-l.first:end-l.first]...)
	}
	return append(buffers, offsets, memory.NewBufferBytes(out)), nil
}

func offsetsOf(ends []int64, long bool) (*memory.Buffer, error) {
	if long {
		return memory.NewBufferBytes(arrow.Int64Traits.CastToBytes(ends)), nil
	}
	if ends[len(ends)-1] > math.MaxInt32 {
		return nil, errLongRecord
	}
	short := make([]int32, len(ends))
	for i, end := range ends {
		short[i] = int32(end)
	}
	return memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(short)), nil
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
func listsBelow(from []arrow.Array, order []span) (ends []int64, below []span, all int) {
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
			ends = append(ends, int64(all))
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
	offsets, err := offsetsOf(ends, false)
	if err != nil {
		return nil, nil, err
	}
	children, err := gatherBelow(elem, from, below, all)
	return children, append(buffers, offsets), err
}
