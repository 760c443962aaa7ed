package lookup

import (
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/vector"
)

// overhead is what a copy takes beside its values: of the vector itself, and what slices are rounded up by.
const overhead = 512

// sizeOf is how many bytes a copy of a vector takes.
func sizeOf(v *vector.Vector) int64 {
	n, width := v.Len(), 8
	bytes := overhead
	switch v.Type.Kind {
	case pb.Kind_BOOL:
		width = 1
	case pb.Kind_INT32, pb.Kind_FLOAT32:
		width = 4
	case pb.Kind_BINARY:
		width = 4
		if n > 0 {
			bytes += int(v.Ends[n] - v.Ends[0])
		}
	}
	bytes += width * n
	if v.Type.List {
		bytes += 4 * (v.Rows + 1)
		bytes += bitsOf(v.ElemValid, n)
	}
	return int64(bytes + bitsOf(v.Valid, v.Rows))
}

// bitsOf is how many bytes a bitmap takes.
func bitsOf(valid []uint64, n int) int {
	if valid == nil {
		return 0
	}
	return 8 * vector.Words(n)
}

// copyOf is a vector in memory of its own, as little as it takes.
func copyOf(v *vector.Vector) *vector.Vector {
	n := v.Len()
	c := &vector.Vector{Type: v.Type, Rows: v.Rows, Valid: bitmap(v.Valid, v.Rows)}
	if v.Type.List {
		c.Offsets, c.ElemValid = exact(v.Offsets, v.Rows+1), bitmap(v.ElemValid, n)
	}
	switch v.Type.Kind {
	case pb.Kind_BOOL:
		c.Bool = exact(v.Bool, n)
	case pb.Kind_INT32:
		c.I32 = exact(v.I32, n)
	case pb.Kind_INT64:
		c.I64 = exact(v.I64, n)
	case pb.Kind_FLOAT32:
		c.F32 = exact(v.F32, n)
	case pb.Kind_FLOAT64:
		c.F64 = exact(v.F64, n)
	case pb.Kind_BINARY:
		c.Ends = make([]int32, n+1)
		if n == 0 {
			break
		}
		first := v.Ends[0]
		for j := range c.Ends {
			c.Ends[j] = v.Ends[j] - first
		}
		c.Data = exact(v.Data[first:], int(v.Ends[n]-first))
	}
	return c
}

func exact[T any](from []T, n int) []T {
	to := make([]T, n)
	copy(to, from)
	return to
}

// bitmap has the bits of another one, nil if all of them are set.
func bitmap(valid []uint64, n int) []uint64 {
	for i := range n {
		if valid != nil && valid[i>>6]>>(i&63)&1 == 0 {
			return exact(valid, vector.Words(n))
		}
	}
	return nil
}
