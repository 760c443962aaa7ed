package decode

import "github.com/penstock-ml/penstock/api/pb"

// Widen makes integers of those of a kind that is no wider, which lie in memory little endian. Their bytes are put
// together here: calls of encoding/binary are not inlined in what is generic.
func Widen[T int32 | int64](dst []T, src []byte, from pb.Kind) {
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
			s := src[2*i : 2*i+2]
			dst[i] = T(uint16(s[0]) | uint16(s[1])<<8)
		}
	case pb.Kind_INT16:
		for i := range dst {
			s := src[2*i : 2*i+2]
			dst[i] = T(int16(uint16(s[0]) | uint16(s[1])<<8))
		}
	case pb.Kind_UINT32:
		for i := range dst {
			s := src[4*i : 4*i+4]
			dst[i] = T(uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24)
		}
	case pb.Kind_INT32:
		for i := range dst {
			s := src[4*i : 4*i+4]
			dst[i] = T(int32(uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24))
		}
	default:
		for i := range dst {
			s := src[8*i : 8*i+8]
			low := uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
			high := uint32(s[4]) | uint32(s[5])<<8 | uint32(s[6])<<16 | uint32(s[7])<<24
			dst[i] = T(uint64(low) | uint64(high)<<32)
		}
	}
}
