// Package rowtest writes vectors as Go values, for tests to hold decoders' rows against others. It is for those inside
// a decoder's package, too, which formattest imports.
package rowtest

import (
	"encoding/binary"
	"math"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/worker/vector"
)

// Of writes a vector's rows as Go values: nil, a scalar, or []any. Floats are their bits. Values of kinds that no op
// computes with are those of the kind that stands in for them.
func Of(v *vector.Vector) []any {
	if !v.Type.List {
		return valuesOf(v, v.Rows, v.Valid)
	}
	return listsOf(v, v.Rows, v.Offsets, v.Valid, v.Nested)
}

// listsOf writes n lists, below which there are some levels of others.
func listsOf(v *vector.Vector, n int, offsets []int32, valid []uint64, below []vector.Level) []any {
	var inner []any
	if total := int(offsets[n]); len(below) > 0 {
		inner = listsOf(v, total, below[0].Offsets, below[0].Valid, below[1:])
	} else {
		inner = valuesOf(v, total, v.ElemValid)
	}
	lists := make([]any, n)
	for i := range lists {
		if isSet(valid, i) {
			lists[i] = append([]any{}, inner[offsets[i]:offsets[i+1]]...)
		}
	}
	return lists
}

func valuesOf(v *vector.Vector, n int, valid []uint64) []any {
	values := make([]any, n)
	for i := range values {
		if isSet(valid, i) {
			values[i] = valueOf(v, i)
		}
	}
	return values
}

func isSet(valid []uint64, i int) bool { return valid == nil || valid[i>>6]>>(i&63)&1 != 0 }

func valueOf(v *vector.Vector, j int) any {
	if v.Dict != nil {
		return valueOf(v.Dict, int(v.Codes[j]))
	}
	switch v.Type.Kind {
	case pb.Kind_BOOL:
		return v.Bool[j]
	case pb.Kind_INT32:
		return v.I32[j]
	case pb.Kind_INT64:
		return v.I64[j]
	case pb.Kind_FLOAT32:
		return math.Float32bits(v.F32[j])
	case pb.Kind_FLOAT64:
		return math.Float64bits(v.F64[j])
	case pb.Kind_INT8:
		return int32(int8(v.Small[j]))
	case pb.Kind_UINT8:
		return int32(v.Small[j])
	case pb.Kind_INT16:
		return int32(int16(binary.LittleEndian.Uint16(v.Small[2*j:])))
	case pb.Kind_UINT16:
		return int32(binary.LittleEndian.Uint16(v.Small[2*j:]))
	case pb.Kind_UINT32:
		return int64(binary.LittleEndian.Uint32(v.Small[4*j:]))
	case pb.Kind_FLOAT16:
		return math.Float32bits(format.Float16(binary.LittleEndian.Uint16(v.Small[2*j:])))
	}
	return string(v.Data[v.Ends[j]:v.Ends[j+1]])
}
