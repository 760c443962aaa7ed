package convert

import (
	"errors"
	"math"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/bitutil"
	"github.com/apache/arrow/go/v15/arrow/memory"
)

// stretch is a run of values of one of several arrays, or of nulls.
type stretch struct {
	of       int // which array; -1: nulls
	from, to int
}

// runs are what an array is made of.
type runs []stretch

// take adds values from..to of an array.
func (r *runs) take(of, from, to int) {
	if from == to {
		return
	}
	if n := len(*r); n > 0 && (*r)[n-1].of == of && (*r)[n-1].to == from {
		(*r)[n-1].to = to
		return
	}
	*r = append(*r, stretch{of, from, to})
}

// nulls adds so many nulls.
func (r *runs) nulls(n int) {
	if n > 0 {
		*r = append(*r, stretch{-1, 0, n})
	}
}

var errGathered = errors.New("its values take more than 2 GiB in one row group: give a smaller --row-group-bytes")

// gather makes an array of runs of others, which have one type but for how it lies in memory: it is written's type of
// theirs. Nulls take no room in lists.
func gather(t arrow.DataType, from []arrow.Array, of runs) (arrow.ArrayData, error) {
	n := 0
	for _, r := range of {
		n += r.to - r.from
	}
	if t.ID() == arrow.NULL {
		return array.NewNull(n).Data(), nil
	}
	valid, nulls := gatherValid(from, of, n)
	buffers := []*memory.Buffer{valid}
	var below []arrow.ArrayData
	var err error
	switch t := t.(type) {
	case *arrow.StructType:
		below, err = gatherFields(t, from, of)
	case arrow.ListLikeType:
		var offsets *memory.Buffer
		var elements arrow.ArrayData
		offsets, elements, err = gatherLists(t, from, of, n)
		buffers, below = append(buffers, offsets), []arrow.ArrayData{elements}
	case *arrow.BooleanType:
		buffers = append(buffers, gatherBits(from, of, n))
	case arrow.BinaryDataType:
		var offsets, text *memory.Buffer
		offsets, text, err = gatherTexts(from, of, n)
		buffers = append(buffers, offsets, text)
	default:
		buffers = append(buffers, gatherFixed(widthOf(t), from, of, n))
	}
	if err != nil {
		return nil, err
	}
	return array.NewData(t, n, buffers, below, nulls, 0), nil
}

// gatherValid says which of n values are none; nil: all are.
func gatherValid(from []arrow.Array, of runs, n int) (valid *memory.Buffer, nulls int) {
	bits := make([]byte, bitutil.BytesForBits(int64(n)))
	at := 0
	for _, r := range of {
		switch {
		case r.of < 0:
			nulls += r.to - r.from
		case from[r.of].NullN() == 0:
			bitutil.SetBitsTo(bits, int64(at), int64(r.to-r.from), true)
		default:
			for i := r.from; i < r.to; i++ {
				if from[r.of].IsNull(i) {
					nulls++
				} else {
					bitutil.SetBit(bits, at+i-r.from)
				}
			}
		}
		at += r.to - r.from
	}
	if nulls == 0 {
		return nil, 0
	}
	return memory.NewBufferBytes(bits), nulls
}

func gatherFields(t *arrow.StructType, from []arrow.Array, of runs) (below []arrow.ArrayData, err error) {
	for i, f := range t.Fields() {
		fields := make([]arrow.Array, len(from))
		for j, a := range from {
			if a != nil {
				fields[j] = a.(*array.Struct).Field(i)
			}
		}
		values, err := gather(f.Type, fields, of)
		if err != nil {
			return nil, err
		}
		below = append(below, values)
	}
	return below, nil
}

func gatherLists(t arrow.ListLikeType, from []arrow.Array, of runs, n int) (*memory.Buffer, arrow.ArrayData, error) {
	offsets := make([]int32, 1, n+1)
	elements := make([]arrow.Array, len(from))
	for i, a := range from {
		if a != nil {
			elements[i] = a.(array.ListLike).ListValues()
		}
	}
	var below runs
	end := int64(0)
	for _, r := range of {
		for i := r.from; i < r.to; i++ {
			if r.of >= 0 && from[r.of].IsValid(i) {
				lo, hi := from[r.of].(array.ListLike).ValueOffsets(i)
				below.take(r.of, int(lo), int(hi))
				end += hi - lo
			}
			offsets = append(offsets, int32(end))
		}
	}
	if end > math.MaxInt32 {
		return nil, nil, errGathered
	}
	values, err := gather(t.Elem(), elements, below)
	return memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(offsets)), values, err
}

func gatherBits(from []arrow.Array, of runs, n int) *memory.Buffer {
	bits := make([]byte, bitutil.BytesForBits(int64(n)))
	at := 0
	for _, r := range of {
		for i := r.from; i < r.to && r.of >= 0; i++ {
			bitutil.SetBitTo(bits, at+i-r.from, from[r.of].(*array.Boolean).Value(i))
		}
		at += r.to - r.from
	}
	return memory.NewBufferBytes(bits)
}

func gatherTexts(from []arrow.Array, of runs, n int) (offsets, text *memory.Buffer, err error) {
	ends := make([]int32, 1, n+1)
	var bytes []byte
	for _, r := range of {
		for i := r.from; i < r.to; i++ {
			if r.of >= 0 && from[r.of].IsValid(i) {
				bytes = append(bytes, textOf(from[r.of].(array.BinaryLike), i)...)
			}
			ends = append(ends, int32(len(bytes)))
		}
		if len(bytes) > math.MaxInt32 {
			return nil, nil, errGathered
		}
	}
	return memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(ends)), memory.NewBufferBytes(bytes), nil
}

func gatherFixed(width int, from []arrow.Array, of runs, n int) *memory.Buffer {
	out := make([]byte, width*n)
	at := 0
	for _, r := range of {
		if r.of >= 0 {
			copy(out[at*width:], fixed(from[r.of], width, r.from, r.to-r.from))
		}
		at += r.to - r.from
	}
	return memory.NewBufferBytes(out)
}
