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

// span is n values of one of several arrays, which follow one another there, or so many nulls, if array is none.
type span struct{ array, from, n int }

const none = -1

// spans are what an array is made of.
type spans []span

// take adds values from..to of an array.
func (s *spans) take(of, from, to int) {
	if from == to {
		return
	}
	if n := len(*s); n > 0 && (*s)[n-1].array == of && (*s)[n-1].from+(*s)[n-1].n == from {
		(*s)[n-1].n += to - from
		return
	}
	*s = append(*s, span{of, from, to - from})
}

// nulls adds so many nulls.
func (s *spans) nulls(n int) {
	if n > 0 {
		*s = append(*s, span{none, 0, n})
	}
}

// len is how many values they are.
func (s spans) len() (n int) {
	for _, one := range s {
		n += one.n
	}
	return n
}

var errGathered = errors.New(
	"its texts or lists have more than 2^31 bytes or values in one row group: give a smaller --row-group-bytes")

// gatherRecord makes a record of rows of others.
func gatherRecord(schema *arrow.Schema, from []arrow.Record, order spans) (arrow.Record, error) {
	columns := make([]arrow.Array, schema.NumFields())
	values := make([]arrow.Array, len(from))
	for i, f := range schema.Fields() {
		for at, rec := range from {
			values[at] = rec.Column(i)
		}
		data, err := gather(f.Type, values, order)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", f.Name, err)
		}
		columns[i] = array.MakeFromData(data)
	}
	return array.NewRecord(schema, columns, int64(order.len())), nil
}

// gather makes an array of values of others, which have its type but for how they lie in memory. One that no span names
// may be nil. arrow's Take would do it for what is no map.
func gather(t arrow.DataType, from []arrow.Array, order spans) (arrow.ArrayData, error) {
	n := order.len()
	if t.ID() == arrow.NULL {
		return array.NewNull(n).Data(), nil
	}
	valid, nulls := gatherValid(from, order, n)
	buffers := []*memory.Buffer{valid}
	var below []arrow.ArrayData
	var err error
	switch t := t.(type) {
	case *arrow.BooleanType:
		buffers = append(buffers, gatherBits(from, order, n))
	case *arrow.StructType:
		below, err = gatherFields(t, from, order)
	case *arrow.FixedSizeListType:
		below, err = gatherBelow(t.Elem(), from, listsOfOne(int(t.Len()), from, order))
	case *arrow.ListType, *arrow.MapType:
		var ends *memory.Buffer
		ends, below, err = gatherLists(t.(arrow.ListLikeType).Elem(), from, order, n)
		buffers = append(buffers, ends)
	case arrow.BinaryDataType:
		var ends, text *memory.Buffer
		ends, text, err = gatherTexts(t, from, order, n)
		buffers = append(buffers, ends, text)
	default:
		width := widthOf(t)
		if width == 0 || isDictionary(t) {
			return nil, fmt.Errorf("%v cannot be sorted, partitioned or flattened", t)
		}
		buffers = append(buffers, gatherFixed(width, from, order, n))
	}
	if err != nil {
		return nil, err
	}
	return array.NewData(t, n, buffers, below, nulls, 0), nil
}

// gatherValid says which of n values are none; nil: all are some.
func gatherValid(from []arrow.Array, order spans, n int) (valid *memory.Buffer, nulls int) {
	bits := make([]byte, bitutil.BytesForBits(int64(n)))
	at := 0
	for _, s := range order {
		switch {
		case s.array == none:
			nulls += s.n
		case from[s.array].NullN() == 0:
			bitutil.SetBitsTo(bits, int64(at), int64(s.n), true)
		default:
			for i := range s.n {
				if from[s.array].IsNull(s.from + i) {
					nulls++
				} else {
					bitutil.SetBit(bits, at+i)
				}
			}
		}
		at += s.n
	}
	if nulls == 0 {
		return nil, 0
	}
	return memory.NewBufferBytes(bits), nulls
}

func gatherBits(from []arrow.Array, order spans, n int) *memory.Buffer {
	bits := make([]byte, bitutil.BytesForBits(int64(n)))
	at := 0
	for _, s := range order {
		if s.array != none {
			a := from[s.array].(*array.Boolean)
			for i := range s.n {
				bitutil.SetBitTo(bits, at+i, a.Value(s.from+i))
			}
		}
		at += s.n
	}
	return memory.NewBufferBytes(bits)
}

func gatherFixed(width int, from []arrow.Array, order spans, n int) *memory.Buffer {
	lying := make([][]byte, len(from))
	for i, a := range from {
		if a != nil && a.Len() > 0 {
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
	out := make([]byte, n*width)
	at := 0
	for _, s := range order {
		if s.array != none {
			copy(out[at*width:], lying[s.array][s.from*width:(s.from+s.n)*width])
		}
		at += s.n
	}
	return memory.NewBufferBytes(out)
}

// gatherWords takes half the time of copying bytes where spans are short.
func gatherWords[T uint32 | uint64](lying [][]byte, words func([]byte) []T, order spans, n int) []T {
	values := make([][]T, len(lying))
	for i, b := range lying {
		values[i] = words(b)
	}
	out := make([]T, n)
	at := 0
	for _, s := range order {
		switch {
		case s.array == none:
		case s.n == 1:
			out[at] = values[s.array][s.from]
		default:
			copy(out[at:], values[s.array][s.from:s.from+s.n])
		}
		at += s.n
	}
	return out
}

func gatherTexts(t arrow.BinaryDataType, from []arrow.Array, order spans, n int) (
	ends, text *memory.Buffer, err error,
) {
	if t.Layout().Buffers[1].ByteWidth == arrow.Int64SizeBytes {
		ends, text := gatherBytes[int64](from, order, n)
		return memory.NewBufferBytes(arrow.Int64Traits.CastToBytes(ends)), memory.NewBufferBytes(text), nil
	}
	short, bytes := gatherBytes[int32](from, order, n)
	if len(bytes) > math.MaxInt32 {
		return nil, nil, errGathered
	}
	return memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(short)), memory.NewBufferBytes(bytes), nil
}

// gatherBytes gathers texts, whose ends are of a type.
func gatherBytes[T int32 | int64](from []arrow.Array, order spans, n int) (ends []T, out []byte) {
	lying := make([]texts, len(from))
	for i, a := range from {
		if a != nil && a.Len() > 0 {
			lying[i] = textsOf(a)
		}
	}
	ends = make([]T, 1, n+1)
	size := int64(0)
	for _, s := range order {
		for i := range s.n {
			if s.array != none {
				l := &lying[s.array]
				size += l.at(s.from+i+1) - l.at(s.from+i)
			}
			ends = append(ends, T(size))
		}
	}
	out = make([]byte, 0, size)
	for _, s := range order {
		if s.array != none {
			l := &lying[s.array]
			out = append(out, l.bytes[l.at(s.from):l.at(s.from+s.n)]...)
		}
	}
	return ends, out
}

// texts are the texts of an array as they lie.
type texts struct {
	short []int32
	long  []int64 // nil: the offsets are short
	bytes []byte
}

func textsOf(a arrow.Array) (t texts) {
	d := a.Data()
	offsets := d.Buffers()[1].Bytes()
	if a.DataType().Layout().Buffers[1].ByteWidth == arrow.Int64SizeBytes {
		t.long = arrow.Int64Traits.CastFromBytes(offsets)[d.Offset() : d.Offset()+d.Len()+1]
	} else {
		t.short = arrow.Int32Traits.CastFromBytes(offsets)[d.Offset() : d.Offset()+d.Len()+1]
	}
	if d.Buffers()[2] != nil {
		t.bytes = d.Buffers()[2].Bytes()
	}
	return t
}

// at is where text i begins, and the one before ends.
func (t *texts) at(i int) int64 {
	if t.long != nil {
		return t.long[i]
	}
	return int64(t.short[i])
}

func gatherFields(t *arrow.StructType, from []arrow.Array, order spans) ([]arrow.ArrayData, error) {
	below := make([]arrow.ArrayData, len(t.Fields()))
	values := make([]arrow.Array, len(from))
	for i, f := range t.Fields() {
		for at, a := range from {
			if a != nil {
				values[at] = a.(*array.Struct).Field(i)
			}
		}
		var err error
		if below[i], err = gather(f.Type, values, order); err != nil {
			return nil, err
		}
	}
	return below, nil
}

// listsOfOne are the values of lists that all have one length, also of those that are null.
func listsOfOne(length int, from []arrow.Array, order spans) (below spans) {
	for _, s := range order {
		if s.array == none {
			below.nulls(s.n * length)
			continue
		}
		first, _ := from[s.array].(array.ListLike).ValueOffsets(s.from)
		below.take(s.array, int(first), int(first)+s.n*length)
	}
	return below
}

// gatherLists leaves out what lies in lists that are null.
func gatherLists(elem arrow.DataType, from []arrow.Array, order spans, n int) (
	*memory.Buffer, []arrow.ArrayData, error,
) {
	ends := make([]int32, 1, n+1)
	var below spans
	all := int64(0)
	for _, s := range order {
		for i := s.from; i < s.from+s.n; i++ {
			if s.array != none && from[s.array].IsValid(i) {
				first, end := from[s.array].(array.ListLike).ValueOffsets(i)
				below.take(s.array, int(first), int(end))
				all += end - first
			}
			ends = append(ends, int32(all))
		}
	}
	if all > math.MaxInt32 {
		return nil, nil, errGathered
	}
	values, err := gatherBelow(elem, from, below)
	return memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(ends)), values, err
}

func gatherBelow(elem arrow.DataType, from []arrow.Array, below spans) ([]arrow.ArrayData, error) {
	values := make([]arrow.Array, len(from))
	for i, a := range from {
		if a != nil {
			values[i] = a.(array.ListLike).ListValues()
		}
	}
	data, err := gather(elem, values, below)
	return []arrow.ArrayData{data}, err
}
