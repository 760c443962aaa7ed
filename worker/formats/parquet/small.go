package parquet

import (
	"fmt"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/formats/decode"
	"github.com/penstock-ml/penstock/worker/vector"
)

// small shows values of one or two bytes, of which the file has integers of 32 bits or half floats. They are decoded as
// words, and made narrow when they are shown.
type small struct {
	*fixed[uint32]
	width int
	// A word is a value if it has no more bits than width says once bias is added.
	bias uint32

	out  []byte
	dict []byte // of its entries
}

// newSmall returns the decoder of a shape whose kind no op computes with.
func newSmall(s shape, mem *decode.Allowance) (values, error) {
	kind := s.kind
	if kind != pb.Kind_FLOAT16 {
		s.kind = pb.Kind_INT32
	}
	v, err := newFixed(s, mem)
	f, ok := v.(*fixed[uint32])
	if err != nil || !ok || kind == pb.Kind_BFLOAT16 {
		return nil, fmt.Errorf("physical type %d cannot be read as %s", s.physical, kind)
	}
	f.kind = kind
	width := spec.Width(kind)
	if width == 4 { // nothing is to be made narrow
		return f, nil
	}
	out := &small{fixed: f, width: width}
	if kind == pb.Kind_INT8 || kind == pb.Kind_INT16 {
		out.bias = 1 << (8*width - 1)
	}
	return out, nil
}

func (s *small) dictionary(data []byte, e encoding, n int) (err error) {
	if err := s.fixed.dictionary(data, e, n); err != nil {
		return err
	}
	if err := s.check(s.fixed.dict); err != nil {
		return err
	}
	if s.dict, err = decode.Grow(s.mem, s.dict[:0], s.width*n); err != nil {
		return err
	}
	s.dict = s.dict[:s.width*n]
	s.narrow(s.dict, s.fixed.dict)
	return nil
}

// check refuses words that are no values.
func (s *small) check(words []uint32) error {
	all := uint32(0)
	for _, w := range words {
		all |= w + s.bias
	}
	if all>>(8*s.width) == 0 {
		return nil
	}
	for _, w := range words {
		if (w+s.bias)>>(8*s.width) != 0 {
			return fmt.Errorf("a value of %d, which is no %s: the file is damaged", int32(w), spec.KindName(s.kind))
		}
	}
	return nil
}

func (s *small) narrow(dst []byte, words []uint32) {
	if s.width == 1 {
		dst = dst[:len(words)]
		for i, w := range words {
			dst[i] = byte(w)
		}
		return
	}
	dst = dst[:2*len(words)]
	for i, w := range words {
		dst[2*i], dst[2*i+1] = byte(w), byte(w>>8)
	}
}

func (s *small) reserve(n, likely int) (err error) {
	if s.out, err = decode.GrowTo(s.mem, s.out, s.width*n, s.width*likely); err != nil {
		return err
	}
	return s.fixed.reserve(n, likely)
}

func (s *small) read(at, n int) error {
	if err := s.fixed.read(at, n); err != nil || s.indexed {
		return err
	}
	return s.check(s.window()[at : at+n])
}

func (s *small) into(v *vector.Vector, n int) {
	v.Small = s.out[:s.width*n]
	s.narrow(v.Small, s.window()[:n])
}

func (s *small) entries(v *vector.Vector) { v.Rows, v.Small = len(s.fixed.dict), s.dict }
