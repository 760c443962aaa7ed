package arrow

import (
	"fmt"
	"unsafe"

	lib "github.com/apache/arrow/go/v15/arrow"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/arrow"
	"github.com/penstock-ml/penstock/worker/formats/decode"
	"github.com/penstock-ml/penstock/worker/vector"
)

// values decodes the values of an array into a buffer. Those of nulls are whatever the file has.
type values interface {
	// reserve makes room for n values.
	reserve(n int) error
	// read decodes runs of the array's values, to a position of the buffer.
	read(at int, runs []run) error
	// show lets v see the first n.
	show(v *vector.Vector, n int) error
}

// newValues returns what decodes an array, whose own buffers these are: validity, and those of values.
func (d *Decoder) newValues(a *arrow.Array, kind pb.Kind, own []*buffer) (values, error) {
	if a.Index != nil {
		return d.newCoded(a, kind, own[1])
	}
	if a.Type.ID() == lib.NULL {
		return newZeros(kind, &d.memory)
	}
	switch t := a.Type.(type) {
	case *lib.BooleanType:
		return &booleans{memory: &d.memory, bits: own[1]}, nil
	case *lib.StringType, *lib.BinaryType:
		return &binaries{memory: &d.memory, offsets: own[1], bytes: own[2]}, nil
	case *lib.LargeStringType, *lib.LargeBinaryType:
		return &binaries{memory: &d.memory, offsets: own[1], bytes: own[2], large: true}, nil
	case *lib.FixedSizeBinaryType:
		return &fixedBinaries{memory: &d.memory, bytes: own[1], width: t.ByteWidth}, nil
	}
	if spec.Small(kind) {
		return newSmalls(&d.memory, own[1], kind, a.Type)
	}
	switch kind {
	case pb.Kind_INT32:
		return newNumbers(&d.memory, own[1], int32s(a.Type), func(v *vector.Vector, of []int32) { v.I32 = of })
	case pb.Kind_INT64:
		return newNumbers(&d.memory, own[1], int64s(a.Type), func(v *vector.Vector, of []int64) { v.I64 = of })
	case pb.Kind_FLOAT32:
		return newNumbers(&d.memory, own[1], float32s(a.Type), func(v *vector.Vector, of []float32) { v.F32 = of })
	case pb.Kind_FLOAT64:
		return newNumbers(&d.memory, own[1], float64s(a.Type), func(v *vector.Vector, of []float64) { v.F64 = of })
	}
	return nil, fmt.Errorf("values of type %s cannot be read as %v", a.Type, kind)
}

// booleans are bits.
type booleans struct {
	memory *decode.Allowance
	bits   *buffer
	out    []bool
}

func (b *booleans) reserve(n int) (err error) {
	b.out, err = decode.Grow(b.memory, b.out[:0], n)
	return err
}

func (b *booleans) read(at int, runs []run) error {
	bits, first, err := b.bits.bits(runs)
	if err != nil {
		return err
	}
	for _, r := range runs {
		for i := range r.n {
			pos := r.from - first + i
			b.out[at+i] = bits[pos>>3]>>(pos&7)&1 == 1
		}
		at += r.n
	}
	return nil
}

func (b *booleans) show(v *vector.Vector, n int) error {
	v.Bool = b.out[:n]
	return nil
}

// zeros stand for the values of an array that is null throughout.
type zeros struct {
	memory *decode.Allowance
	kind   pb.Kind
	ends   []int32
	words  []uint64
	none   []uint64 // validity
}

func newZeros(kind pb.Kind, m *decode.Allowance) (values, error) {
	return &zeros{memory: m, kind: kind}, nil
}

func (z *zeros) reserve(n int) (err error) {
	if z.kind == pb.Kind_BINARY {
		z.ends, err = decode.Grow(z.memory, z.ends[:0], n+1)
		clear(z.ends)
		return err
	}
	z.words, err = decode.Grow(z.memory, z.words[:0], n)
	clear(z.words)
	return err
}

func (z *zeros) read(int, []run) error { return nil }

// show marks all as null.
func (z *zeros) show(v *vector.Vector, n int) error {
	z.none = vector.Grow(z.none, vector.Words(n))
	clear(z.none)
	none := z.none
	if v.Type.List {
		v.ElemValid = none
	} else {
		v.Valid = none
	}
	first := unsafe.Pointer(unsafe.SliceData(z.words))
	switch z.kind {
	case pb.Kind_BINARY:
		v.Ends, v.Data = z.ends[:n+1], nil
	case pb.Kind_BOOL:
		v.Bool = unsafe.Slice((*bool)(first), n)
	case pb.Kind_INT32:
		v.I32 = unsafe.Slice((*int32)(first), n)
	case pb.Kind_INT64:
		v.I64 = unsafe.Slice((*int64)(first), n)
	case pb.Kind_FLOAT32:
		v.F32 = unsafe.Slice((*float32)(first), n)
	case pb.Kind_FLOAT64:
		v.F64 = unsafe.Slice((*float64)(first), n)
	default:
		v.Small = unsafe.Slice((*byte)(first), n*spec.Width(z.kind))
	}
	return nil
}
