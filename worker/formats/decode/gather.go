package decode

import (
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// Gather gives v, of which it uses the memory again, the values of another vector of its kind by their numbers; where a
// number is below zero the value is any.
func Gather(m *Allowance, v, from *vector.Vector, at []int32) (err error) {
	switch kind := v.Type.Kind; kind {
	case pb.Kind_BOOL:
		v.Bool, err = gather(m, v.Bool, from.Bool, at)
	case pb.Kind_INT32:
		v.I32, err = gather(m, v.I32, from.I32, at)
	case pb.Kind_INT64:
		v.I64, err = gather(m, v.I64, from.I64, at)
	case pb.Kind_FLOAT32:
		v.F32, err = gather(m, v.F32, from.F32, at)
	case pb.Kind_FLOAT64:
		v.F64, err = gather(m, v.F64, from.F64, at)
	case pb.Kind_BINARY:
		err = gatherBinary(m, v, from, at)
	default:
		v.Small, err = gatherSmall(m, v.Small, from.Small, spec.Width(kind), at)
	}
	return err
}

func gather[T any](m *Allowance, out, from []T, at []int32) ([]T, error) {
	out, err := Grow(m, out, len(at))
	if err != nil {
		return out, err
	}
	out = out[:len(at)]
	for i, j := range at {
		if j >= 0 {
			out[i] = from[j]
		}
	}
	return out, nil
}

// gatherSmall does so with values of a width.
func gatherSmall(m *Allowance, out, from []byte, width int, at []int32) ([]byte, error) {
	out, err := Grow(m, out, width*len(at))
	if err != nil {
		return out, err
	}
	out = out[:width*len(at)]
	for i, j := range at {
		if j >= 0 {
			copy(out[width*i:width*(i+1)], from[width*int(j):])
		}
	}
	return out, nil
}

func gatherBinary(m *Allowance, v, from *vector.Vector, at []int32) (err error) {
	size := 0
	for _, j := range at {
		if j >= 0 {
			size += int(from.Ends[j+1] - from.Ends[j])
		}
	}
	if v.Ends, err = Grow(m, v.Ends, len(at)+1); err != nil {
		return err
	}
	if v.Data, err = Grow(m, v.Data, size); err != nil {
		return err
	}
	v.Ends, v.Data = v.Ends[:len(at)+1], v.Data[:0]
	v.Ends[0] = 0
	for i, j := range at {
		if j >= 0 {
			v.Data = append(v.Data, from.Data[from.Ends[j]:from.Ends[j+1]]...)
		}
		v.Ends[i+1] = int32(len(v.Data))
	}
	return nil
}
