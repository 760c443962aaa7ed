package tensor

import (
	"fmt"
	"math"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/vector"
)

// label is one value a row in the feature's own dtype. A null float is NaN; other nulls are errors, since no
// value of theirs could stand for "missing".
type label struct {
	out   *pb.Output
	width int // bytes of an int64 value of the window; as many are enough for others
}

func (l *label) size(_ *Window, from, to int) (n, spare int64) {
	return int64(l.width) * int64(to-from), spareOf(l.width, to-from)
}

func (l *label) see(b *Builder, w *Window) {
	l.width = wide
	if v := w.Slots[l.out.GetSlots()[0]]; v.Type.Kind == pb.Kind_INT64 {
		l.width = widthOf(v, b.widths)
	}
}

func (l *label) build(b *Batch, w *Window, from, to int) error {
	v := w.Slots[l.out.GetSlots()[0]]
	if !isScalar(v, l.out.GetType().GetKind()) {
		return typeError(v, strings.ToLower(l.out.GetType().GetKind().String()))
	}
	var values []byte
	switch v.Type.Kind {
	case pb.Kind_FLOAT32:
		values = bytesOf(floatLabels(b, w, v.F32, v.Valid, from, to))
	case pb.Kind_FLOAT64:
		values = bytesOf(floatLabels(b, w, v.F64, v.Valid, from, to))
	default:
		if err := noNulls(w, v, from, to); err != nil {
			return err
		}
		switch v.Type.Kind {
		case pb.Kind_INT32:
			dst := room[int32](b, to-from)
			take(dst, w, v.I32, from)
			values = bytesOf(dst)
		case pb.Kind_INT64:
			values, _ = ints(b, l.width, nil, w, v, from, to)
		default:
			values = boolBits(b, w, v, from, to)
		}
	}
	b.add(to-from, values)
	return nil
}

func floatLabels[T float32 | float64](b *Batch, w *Window, src []T, valid []uint64, from, to int) []T {
	dst := room[T](b, to-from)
	take(dst, w, src, from)
	if valid != nil {
		for i := range dst {
			if !bit(valid, w.Source(from+i)) {
				dst[i] = T(math.NaN())
			}
		}
	}
	return dst
}

func noNulls(w *Window, v *vector.Vector, from, to int) error {
	if v.Valid == nil {
		return nil
	}
	bad := badRows{of: w}
	for i := from; i < to; i++ {
		if v.IsNull(w.Source(i)) {
			bad.add(i, fmt.Errorf(" is null, and a label of type %v has no value for that; "+
				"filter it (`... is not null`), use fill_null, or declare a default", v.Type))
		}
	}
	return bad.any()
}

func boolBits(b *Batch, w *Window, v *vector.Vector, from, to int) []byte {
	dst := room[byte](b, (to-from+7)/8)
	clear(dst)
	for i := from; i < to; i++ {
		if v.Bool[w.Source(i)] {
			dst[(i-from)>>3] |= 1 << ((i - from) & 7)
		}
	}
	return dst
}
