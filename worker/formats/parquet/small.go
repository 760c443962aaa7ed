package parquet

import (
	"fmt"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/formats/decode"
	"github.com/penstock-ml/penstock/worker/vector"
)

// small shows values of one or two bytes, of which the file has integers of 32 bits or half floats. They are decoded as
// words, and made narrow when they are shown: what integers have beyond that is cut off.
type small struct {
	*fixed[uint32]
	width int

	out  []byte
	dict []byte // of its entries
}

// newSmall returns the decoder of a shape whose kind no op computes with.
func newSmall(s shape, mem *decode.Allowance) (values, error) {
	kind := s.kind
	if kind != pb.Kind_FLOAT16 {
		s.kind, s.logical.Small = pb.Kind_INT32, pb.Kind_KIND_UNSPECIFIED
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
	return &small{fixed: f, width: width}, nil
}

func (s *small) dictionary(data []byte, e encoding, n int) (err error) {
	if err := s.fixed.dictionary(data, e, n); err != nil {
		return err
	}
	if s.dict, err = decode.Grow(s.mem, s.dict[:0], s.width*n); err != nil {
		return err
	}
	s.dict = s.dict[:s.width*n]
	s.narrow(s.dict, s.fixed.dict)
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

func (s *small) into(v *vector.Vector, n int) {
	v.Small = s.out[:s.width*n]
	s.narrow(v.Small, s.window()[:n])
}

func (s *small) entries(v *vector.Vector) { v.Rows, v.Small = len(s.fixed.dict), s.dict }
