package tar

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/formats/npy"
	decoders "github.com/penstock-ml/penstock/worker/formats/records"
)

// set sets the values of an array, in C's order. A column that is no list takes the one value of an array.
func (s *array) set(a npy.Array, c *decoders.Column) error {
	width := spec.Width(a.Kind)
	n := len(a.Data) / width
	switch {
	case a.Meaning != s.meaning:
		return fmt.Errorf("its array is of %s: declare it in dataset.format.columns, such as list<float32>",
			described(a))
	case s.shape != nil && !slices.Equal(s.shape, a.Shape) && spec.Count(s.shape, 1) == n:
		return fmt.Errorf("its array has the shape %v where others of the file have %v: write it with theirs",
			a.Shape, s.shape)
	case !c.Type.List && n != 1:
		return fmt.Errorf("its array has %d values where one is wanted", n)
	case !c.Type.List:
		return values(a, width, c)
	}
	if err := c.Open(); err != nil {
		return err
	}
	defer c.Close()
	return values(a, width, c)
}

func described(a npy.Array) string {
	if a.Meaning != "" {
		return a.Meaning
	}
	return spec.KindName(a.Kind)
}

// values sets an array's values, which are those of the column, or widen to them.
func values(a npy.Array, width int, c *decoders.Column) error {
	if a.Kind == c.Type.Kind {
		return c.Raw(a.Data)
	}
	if !converts(a.Kind, c.Type.Kind) {
		return fmt.Errorf("its array is of %s where %s is wanted: declare it in dataset.format.columns",
			described(a), spec.KindName(c.Type.Kind))
	}
	if ok, err := c.Widen(a.Data, a.Kind); ok || err != nil {
		return err
	}
	for at := 0; at < len(a.Data); at += width {
		var err error
		if x := a.Data[at : at+width]; isFloat(a.Kind) {
			err = c.Float(floatOf(a.Kind, x))
		} else {
			err = c.Int(intOf(a.Kind, x))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func isFloat(k pb.Kind) bool {
	return k == pb.Kind_FLOAT16 || k == pb.Kind_FLOAT32 || k == pb.Kind_FLOAT64
}

// converts reports whether numbers of one kind can be told as another one: integers are looked at one by one.
func converts(from, to pb.Kind) bool {
	switch {
	case from == pb.Kind_BOOL || to == pb.Kind_BOOL || spec.Width(to) == 0:
		return false
	case isFloat(from):
		return isFloat(to) && spec.Width(to) > spec.Width(from)
	}
	return !isFloat(to) && to != pb.Kind_BFLOAT16
}

func floatOf(k pb.Kind, x []byte) float64 {
	if k == pb.Kind_FLOAT16 {
		return float64(format.Float16(binary.LittleEndian.Uint16(x)))
	}
	return float64(math.Float32frombits(binary.LittleEndian.Uint32(x)))
}

func intOf(k pb.Kind, x []byte) int64 {
	switch k {
	case pb.Kind_INT8:
		return int64(int8(x[0])) //nolint:gosec // bits
	case pb.Kind_UINT8:
		return int64(x[0])
	case pb.Kind_INT16:
		return int64(int16(binary.LittleEndian.Uint16(x))) //nolint:gosec // bits
	case pb.Kind_UINT16:
		return int64(binary.LittleEndian.Uint16(x))
	case pb.Kind_INT32:
		return int64(int32(binary.LittleEndian.Uint32(x))) //nolint:gosec // bits
	case pb.Kind_UINT32:
		return int64(binary.LittleEndian.Uint32(x))
	}
	return int64(binary.LittleEndian.Uint64(x)) //nolint:gosec // bits
}
