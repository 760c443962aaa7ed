package tensor

import (
	"math"
	"math/bits"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/vector"
)

// dense stacks D scalar features to float32 [rows, D], row-major. Null is NaN, and a bool is 0 or 1.
type dense struct {
	out  *pb.Output
	tile tile
}

func (d *dense) width() int { return len(d.out.GetSlots()) }

func (d *dense) size(_ *Window, from, to int) (n, spare int64) {
	return 4 * int64(d.width()) * int64(to-from), 0
}

func (d *dense) build(b *Batch, w *Window, from, to int) error {
	rows, width := to-from, d.width()
	for _, slot := range d.out.GetSlots() {
		switch v := w.Slots[slot]; {
		case v.Type.List:
			return typeError(v, "a scalar")
		case v.Type.Kind == pb.Kind_BINARY, !v.Type.Computes():
			return typeError(v, "a number or bool that ops compute with")
		}
	}
	matrix := room[float32](b, rows*width)
	// All columns of a few rows come before the next rows, so that lines which two tiles have a part of are still in a
	// cache.
	for row := 0; row < rows; row += tileRows {
		n := min(tileRows, rows-row)
		for first := 0; first < width; first += tileColumns {
			slots := d.out.GetSlots()[first:min(first+tileColumns, width)]
			for i, slot := range slots {
				d.tile.columns[i] = denseColumn(&d.tile.memory[i], w, w.Slots[slot], from+row, n)
			}
			interleave(matrix[row*width+first:], width, d.tile.columns[:len(slots)], n)
		}
	}
	b.add(rows)
	b.add(rows*width, bytesOf(matrix))
	return nil
}

// denseColumn returns n values of a column: where they lie if the matrix has them as they are, or else in mem.
func denseColumn(mem *[tileRows]float32, w *Window, v *vector.Vector, from, n int) []float32 {
	dst := mem[:n]
	switch v.Type.Kind {
	case pb.Kind_FLOAT32:
		if v.Valid == nil && w.Order == nil {
			return v.F32[from : from+n]
		}
		take(dst, w, v.F32, from)
	case pb.Kind_FLOAT64:
		take(dst, w, v.F64, from)
	case pb.Kind_INT32:
		take(dst, w, v.I32, from)
	case pb.Kind_INT64:
		take(dst, w, v.I64, from)
	case pb.Kind_BOOL:
		for i := range dst {
			dst[i] = 0
			if v.Bool[w.Source(from+i)] {
				dst[i] = 1
			}
		}
	}
	if v.Valid != nil {
		nullsToNaN(dst, w, v.Valid, from)
	}
	return dst
}

// nullsToNaN writes NaN for nulls among output rows from, from+1, ... of the window.
func nullsToNaN(dst []float32, w *Window, valid []uint64, from int) {
	nan := float32(math.NaN())
	if w.Order != nil {
		for i, row := range w.Order[from : from+len(dst)] {
			null := uint32(valid[row>>6]>>(row&63)&1) - 1 // all ones, or none: chance decides, so no branch does
			dst[i] = math.Float32frombits(math.Float32bits(dst[i])&^null | math.Float32bits(nan)&null)
		}
		return
	}
	for i := 0; i < len(dst); {
		at := from + i
		n := min(64-at&63, len(dst)-i)
		nulls := ^valid[at>>6] >> (at & 63) & (1<<n - 1)
		for ; nulls != 0; nulls &= nulls - 1 {
			dst[i+bits.TrailingZeros64(nulls)] = nan
		}
		i += n
	}
}

// take converts the values of output rows from, from+1, ... of the window.
func take[D, S number](dst []D, w *Window, src []S, from int) {
	if w.Order == nil {
		convert(dst, src[from:from+len(dst)])
		return
	}
	for i, row := range w.Order[from : from+len(dst)] {
		dst[i] = D(src[row])
	}
}
