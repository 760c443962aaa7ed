package tensor

import (
	"math"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/vector"
)

// dense stacks D scalar features to float32 [rows, D], row-major. Null is NaN, and a bool is 0 or 1.
type dense struct {
	out *pb.Output
	typ arrow.DataType
}

func newDense(o *pb.Output) *dense {
	return &dense{out: o, typ: arrow.FixedSizeListOfNonNullable(int32(len(o.GetSlots())), arrow.PrimitiveTypes.Float32)}
}

func (d *dense) width() int { return len(d.out.GetSlots()) }

func (d *dense) field() arrow.Field {
	return arrow.Field{
		Name:     d.out.GetName(),
		Type:     d.typ,
		Metadata: metadataWith(pb.Layout_DENSE, metaNames, jsonNames(d.out.GetColumns())),
	}
}

func (d *dense) size(_ *Window, from, to int) int64 { return 4 * int64(d.width()) * int64(to-from) }

func (d *dense) build(mem *scratch, w *Window, from, to int) (arrow.ArrayData, error) {
	rows, width := to-from, d.width()
	matrix := numbers[float32](&mem.values, rows*width)
	for c, slot := range d.out.GetSlots() {
		if err := denseColumn(matrix[min(c, len(matrix)):], width, w, w.Slots[slot], from, rows); err != nil {
			return nil, err
		}
	}
	return nested(d.typ, rows, nil, flat(arrow.PrimitiveTypes.Float32, rows*width, buffer(matrix))), nil
}

func denseColumn(dst []float32, stride int, w *Window, v *vector.Vector, from, rows int) error {
	if v.Type.List {
		return typeError(v, "a scalar")
	}
	switch v.Type.Kind {
	case pb.Kind_FLOAT32:
		stack(dst, stride, w, v.F32, v.Valid, from, rows)
	case pb.Kind_FLOAT64:
		stack(dst, stride, w, v.F64, v.Valid, from, rows)
	case pb.Kind_INT32:
		stack(dst, stride, w, v.I32, v.Valid, from, rows)
	case pb.Kind_INT64:
		stack(dst, stride, w, v.I64, v.Valid, from, rows)
	case pb.Kind_BOOL:
		for i := range rows {
			dst[i*stride] = boolValue(v, w.Source(from+i))
		}
	default:
		return typeError(v, "a number or bool")
	}
	return nil
}

func boolValue(v *vector.Vector, row int) float32 {
	switch {
	case v.IsNull(row):
		return float32(math.NaN())
	case v.Bool[row]:
		return 1
	}
	return 0
}

// stack writes every stride-th value of dst.
func stack[T number](dst []float32, stride int, w *Window, src []T, valid []uint64, from, rows int) {
	if rows == 0 {
		return
	}
	if w.Order != nil {
		for i, row := range w.Order[from : from+rows] {
			dst[i*stride] = float32(src[row])
		}
	} else {
		for i, x := range src[from : from+rows] {
			dst[i*stride] = float32(x)
		}
	}
	if valid == nil {
		return
	}
	nan := float32(math.NaN())
	for i := range rows {
		if !bit(valid, w.Source(from+i)) {
			dst[i*stride] = nan
		}
	}
}
