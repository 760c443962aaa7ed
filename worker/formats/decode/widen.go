package decode

import (
	"encoding/binary"

	"github.com/penstock-ml/penstock/api/pb"
)

// Widen makes integers of those of a kind that is no wider, which lie in memory little endian.
func Widen[T int32 | int64](dst []T, src []byte, from pb.Kind) {
	le := binary.LittleEndian
	switch from {
	case pb.Kind_UINT8:
		for i := range dst {
			dst[i] = T(src[i])
		}
	case pb.Kind_INT8:
		for i := range dst {
			dst[i] = T(int8(src[i]))
		}
	case pb.Kind_UINT16:
		for i := range dst {
			dst[i] = T(le.Uint16(src[2*i:]))
		}
	case pb.Kind_INT16:
		for i := range dst {
			dst[i] = T(int16(le.Uint16(src[2*i:])))
		}
	case pb.Kind_UINT32:
		for i := range dst {
			dst[i] = T(le.Uint32(src[4*i:]))
		}
	case pb.Kind_INT32:
		for i := range dst {
			dst[i] = T(int32(le.Uint32(src[4*i:])))
		}
	default:
		for i := range dst {
			dst[i] = T(le.Uint64(src[8*i:]))
		}
	}
}
