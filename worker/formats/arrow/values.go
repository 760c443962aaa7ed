package arrow

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"unsafe"

	lib "github.com/apache/arrow/go/v15/arrow"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/arrow"
	"github.com/penstock-ml/penstock/internal/formats/format"
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

// conversion makes values of a kind of as many in a file, each of a width; nil: there is none.
type conversion[T any] struct {
	width   int
	convert func(dst []T, src []byte) error
}

// number is a type of numbers as they are stored.
type number interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~float32 | ~float64
}

// from converts numbers of type S.
func from[S, T number]() conversion[T] {
	var s S
	size := int(unsafe.Sizeof(s))
	return conversion[T]{size, func(dst []T, src []byte) error {
		for i := range dst {
			dst[i] = T(*(*S)(unsafe.Pointer(&src[i*size])))
		}
		return nil
	}}
}

// same takes numbers as they are.
func same[T number]() conversion[T] {
	var t T
	size := int(unsafe.Sizeof(t))
	return conversion[T]{size, func(dst []T, src []byte) error {
		if len(dst) > 0 {
			copy(unsafe.Slice((*byte)(unsafe.Pointer(&dst[0])), len(dst)*size), src)
		}
		return nil
	}}
}

// times multiplies numbers of type S.
func times[S, T int32 | int64](factor T) conversion[T] {
	c := from[S, T]()
	return conversion[T]{c.width, func(dst []T, src []byte) error {
		_ = c.convert(dst, src) // it cannot fail
		for i, v := range dst {
			if dst[i] = v * factor; dst[i]/factor != v {
				return errors.New("a time in seconds is too far off to be one in milliseconds")
			}
		}
		return nil
	}}
}

func int32s(t lib.DataType) conversion[int32] {
	switch t.ID() {
	case lib.INT8:
		return from[int8, int32]()
	case lib.UINT8:
		return from[uint8, int32]()
	case lib.INT16:
		return from[int16, int32]()
	case lib.UINT16:
		return from[uint16, int32]()
	case lib.TIME32:
		if t.(*lib.Time32Type).Unit == lib.Second {
			return times[int32, int32](1000)
		}
		return same[int32]()
	case lib.INT32, lib.DATE32:
		return same[int32]()
	case lib.DATE64:
		const day = 24 * 60 * 60 * 1000
		return conversion[int32]{8, func(dst []int32, src []byte) error {
			for i := range dst {
				dst[i] = int32(int64(binary.LittleEndian.Uint64(src[8*i:])) / day)
			}
			return nil
		}}
	}
	return conversion[int32]{}
}

func int64s(t lib.DataType) conversion[int64] {
	switch t.ID() {
	case lib.UINT32:
		return from[uint32, int64]()
	case lib.TIMESTAMP:
		if t.(*lib.TimestampType).Unit == lib.Second {
			return times[int64, int64](1000)
		}
		return same[int64]()
	case lib.INT64, lib.UINT64, lib.TIME64, lib.DURATION:
		return same[int64]()
	case lib.INT8:
		return from[int8, int64]()
	case lib.UINT8:
		return from[uint8, int64]()
	case lib.INT16:
		return from[int16, int64]()
	case lib.UINT16:
		return from[uint16, int64]()
	case lib.INT32, lib.DATE32:
		return from[int32, int64]()
	}
	if narrow := int32s(t); narrow.convert != nil {
		return widened[int32, int64](narrow)
	}
	return conversion[int64]{}
}

func float32s(t lib.DataType) conversion[float32] {
	switch t.ID() {
	case lib.FLOAT32:
		return same[float32]()
	case lib.FLOAT16:
		return conversion[float32]{2, func(dst []float32, src []byte) error {
			for i := range dst {
				dst[i] = format.Float16(binary.LittleEndian.Uint16(src[2*i:]))
			}
			return nil
		}}
	}
	return conversion[float32]{}
}

func float64s(t lib.DataType) conversion[float64] {
	switch t.ID() {
	case lib.FLOAT64:
		return same[float64]()
	case lib.FLOAT32:
		return from[float32, float64]()
	case lib.DECIMAL128:
		scale := decode.NewDecimal(int(t.(*lib.Decimal128Type).Scale))
		return conversion[float64]{16, func(dst []float64, src []byte) error {
			for i := range dst {
				low, high := binary.LittleEndian.Uint64(src[16*i:]), binary.LittleEndian.Uint64(src[16*i+8:])
				negative := int64(high) < 0
				if negative {
					if low, high = -low, ^high; low == 0 {
						high++
					}
				}
				dst[i] = scale.Parts(negative, high, low)
			}
			return nil
		}}
	}
	if narrow := float32s(t); narrow.convert != nil {
		return widened[float32, float64](narrow)
	}
	return conversion[float64]{}
}

// widened converts to S, and then to T.
func widened[S, T number](c conversion[S]) conversion[T] {
	var room []S
	return conversion[T]{c.width, func(dst []T, src []byte) error {
		const step = 1024
		if room == nil {
			room = make([]S, step)
		}
		for at := 0; at < len(dst); at += step {
			part := room[:min(step, len(dst)-at)]
			if err := c.convert(part, src[at*c.width:]); err != nil {
				return err
			}
			for i, v := range part {
				dst[at+i] = T(v)
			}
		}
		return nil
	}}
}

// numbers are values of one width.
type numbers[T number] struct {
	conversion[T]
	memory *decode.Allowance
	bytes  *buffer
	out    []T
	into   func(*vector.Vector, []T)
}

func newNumbers[T number](
	m *decode.Allowance, b *buffer, c conversion[T], into func(*vector.Vector, []T),
) (values, error) {
	if c.convert == nil {
		return nil, errors.New("its values cannot be read as that kind")
	}
	return &numbers[T]{conversion: c, memory: m, bytes: b, into: into}, nil
}

func (s *numbers[T]) reserve(n int) (err error) {
	s.out, err = decode.Grow(s.memory, s.out[:0], n)
	return err
}

func (s *numbers[T]) read(at int, runs []run) error {
	all := span(runs)
	data, err := s.bytes.bytes(int64(s.width)*int64(all.from), int64(s.width)*int64(all.n))
	if err != nil {
		return err
	}
	for _, r := range runs {
		if err := s.convert(s.out[at:at+r.n], data[s.width*(r.from-all.from):]); err != nil {
			return err
		}
		at += r.n
	}
	return nil
}

func (s *numbers[T]) show(v *vector.Vector, n int) error {
	s.into(v, s.out[:n])
	return nil
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

// binaries are byte strings of any lengths.
type binaries struct {
	memory         *decode.Allowance
	offsets, bytes *buffer
	large          bool // the offsets are int64

	ends []int32
	data []byte
}

func (b *binaries) reserve(n int) (err error) {
	b.ends, err = decode.Grow(b.memory, b.ends[:0], n+1)
	b.data = b.data[:0]
	if err == nil {
		b.ends[0] = 0
	}
	return err
}

func (b *binaries) read(at int, runs []run) error {
	all := span(runs)
	if all.n == 0 {
		return nil
	}
	offset, err := b.offsets.offsets(all.from, all.n, b.large)
	if err != nil {
		return err
	}
	first, last := offset(0), offset(all.n)
	data, err := b.bytes.bytes(first, last-first)
	if err != nil {
		return err
	}
	for _, r := range runs {
		begin, end := offset(r.from-all.from), len(b.data)
		next := begin
		for i := range r.n {
			last, to := next, offset(r.from-all.from+i+1)
			if to < last || last < first || to-first > int64(len(data)) || int64(end)+to-begin > math.MaxInt32 {
				return fmt.Errorf(
					"value %d has bytes %d to %d: the file is damaged, or a window of it has more than %d bytes",
					r.from+i, last, to, math.MaxInt32)
			}
			b.ends[at+i+1] = int32(int64(end) + to - begin)
			next = to
		}
		size := end + int(next-begin)
		if b.data, err = decode.Grow(b.memory, b.data, size); err != nil {
			return err
		}
		b.data = b.data[:size]
		copy(b.data[end:], data[begin-first:next-first])
		at += r.n
	}
	return nil
}

func (b *binaries) show(v *vector.Vector, n int) error {
	v.Ends, v.Data = b.ends[:n+1], b.data
	return nil
}

// fixedBinaries are byte strings of one length.
type fixedBinaries struct {
	memory *decode.Allowance
	bytes  *buffer
	width  int

	ends []int32
	data []byte
}

func (b *fixedBinaries) reserve(n int) (err error) {
	if int64(n)*int64(b.width) > math.MaxInt32 {
		return fmt.Errorf("a window has more than %d bytes: write smaller record batches", math.MaxInt32)
	}
	if b.ends, err = decode.Grow(b.memory, b.ends[:0], n+1); err != nil {
		return err
	}
	for i := range b.ends[:n+1] {
		b.ends[i] = int32(i * b.width)
	}
	b.data, err = decode.Grow(b.memory, b.data[:0], n*b.width)
	return err
}

func (b *fixedBinaries) read(at int, runs []run) error {
	all := span(runs)
	data, err := b.bytes.bytes(int64(all.from)*int64(b.width), int64(all.n)*int64(b.width))
	if err != nil {
		return err
	}
	for _, r := range runs {
		copy(b.data[at*b.width:][:r.n*b.width], data[(r.from-all.from)*b.width:])
		at += r.n
	}
	return nil
}

func (b *fixedBinaries) show(v *vector.Vector, n int) error {
	v.Ends, v.Data = b.ends[:n+1], b.data[:n*b.width]
	return nil
}

// zeros stand for the values of an array that is null throughout.
type zeros struct {
	memory *decode.Allowance
	kind   pb.Kind
	ends   []int32
	words  []uint64
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
	none := make([]uint64, vector.Words(n))
	if v.Type.List {
		v.ElemValid = none
	} else {
		v.Valid = none
	}
	first := unsafe.Pointer(unsafe.SliceData(z.words))
	switch z.kind {
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
		v.Ends, v.Data = z.ends[:n+1], nil
	}
	return nil
}
