package arrow

import (
	"encoding/binary"
	"errors"
	"math"
	"unsafe"

	lib "github.com/apache/arrow/go/v15/arrow"

	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/worker/formats/decode"
	"github.com/penstock-ml/penstock/worker/vector"
)

// conversion makes values of a kind of as many in a file, each of a width; nil: there is none. What cannot be converted
// is bad, which no other value is; where bad is nil, all can. Nulls have any bits, so that it is an error only of other
// values.
type conversion[T any] struct {
	width   int
	convert func(dst []T, src []byte)
	bad     *T
}

// number is a type of numbers as they are stored.
type number interface {
	~int8 | ~int16 | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~float32 | ~float64
}

// from converts numbers of type S.
func from[S, T number]() conversion[T] {
	var s S
	size := int(unsafe.Sizeof(s))
	return conversion[T]{size, func(dst []T, src []byte) {
		for i := range dst {
			dst[i] = T(*(*S)(unsafe.Pointer(&src[i*size])))
		}
	}, nil}
}

// same takes numbers as they are.
func same[T number]() conversion[T] {
	var t T
	size := int(unsafe.Sizeof(t))
	return conversion[T]{size, func(dst []T, src []byte) {
		if len(dst) > 0 {
			copy(unsafe.Slice((*byte)(unsafe.Pointer(&dst[0])), len(dst)*size), src)
		}
	}, nil}
}

// seconds makes milliseconds of seconds.
func seconds[T int32 | int64](bad T) conversion[T] {
	c := same[T]()
	return conversion[T]{c.width, func(dst []T, src []byte) {
		c.convert(dst, src)
		for i, v := range dst {
			if dst[i] = v * 1000; dst[i]/1000 != v {
				dst[i] = bad
			}
		}
	}, &bad}
}

// days makes days of milliseconds.
func days() conversion[int32] {
	const day = 24 * 60 * 60 * 1000
	bad := int32(math.MinInt32)
	return conversion[int32]{8, func(dst []int32, src []byte) {
		for i := range dst {
			n := int64(binary.LittleEndian.Uint64(src[8*i:])) / day
			if dst[i] = int32(n); int64(dst[i]) != n {
				dst[i] = bad
			}
		}
	}, &bad}
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
			return seconds[int32](math.MinInt32)
		}
		return same[int32]()
	case lib.INT32, lib.DATE32:
		return same[int32]()
	case lib.DATE64:
		return days()
	}
	return conversion[int32]{}
}

func int64s(t lib.DataType) conversion[int64] {
	switch t.ID() {
	case lib.UINT32:
		return from[uint32, int64]()
	case lib.TIMESTAMP:
		if t.(*lib.TimestampType).Unit == lib.Second {
			return seconds[int64](math.MinInt64)
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
		return conversion[float32]{2, func(dst []float32, src []byte) {
			for i := range dst {
				dst[i] = format.Float16(binary.LittleEndian.Uint16(src[2*i:]))
			}
		}, nil}
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
		return conversion[float64]{16, func(dst []float64, src []byte) {
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
		}, nil}
	}
	if narrow := float32s(t); narrow.convert != nil {
		return widened[float32, float64](narrow)
	}
	return conversion[float64]{}
}

// widened converts to S, and then to T.
func widened[S, T number](c conversion[S]) conversion[T] {
	const step = 1024
	var room [step]S
	wide := conversion[T]{width: c.width}
	if c.bad != nil {
		bad := T(*c.bad)
		wide.bad = &bad
	}
	wide.convert = func(dst []T, src []byte) {
		for at := 0; at < len(dst); at += step {
			part := room[:min(step, len(dst)-at)]
			c.convert(part, src[at*c.width:])
			for i, v := range part {
				dst[at+i] = T(v)
			}
		}
	}
	return wide
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
		s.convert(s.out[at:at+r.n], data[s.width*(r.from-all.from):])
		at += r.n
	}
	return nil
}

func (s *numbers[T]) show(v *vector.Vector, n int) error {
	for i := 0; s.bad != nil && i < n; i++ {
		if s.out[i] == *s.bad && !v.ElemIsNull(i) {
			return errors.New("a date or time is too far off to be read")
		}
	}
	s.into(v, s.out[:n])
	return nil
}
