package arrow

import (
	"fmt"

	lib "github.com/apache/arrow/go/v15/arrow"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/formats/decode"
	"github.com/penstock-ml/penstock/worker/vector"
)

// smalls are values of kinds that no op computes with, as the file has them.
type smalls struct {
	memory *decode.Allowance
	bytes  *buffer
	width  int
	out    []byte
}

func newSmalls(m *decode.Allowance, b *buffer, kind pb.Kind, t lib.DataType) (values, error) {
	width := spec.Width(kind)
	if fixed, ok := t.(lib.FixedWidthDataType); !ok || fixed.BitWidth() != 8*width {
		return nil, fmt.Errorf("values of type %s cannot be read as %s", t, spec.KindName(kind))
	}
	return &smalls{memory: m, bytes: b, width: width}, nil
}

func (s *smalls) reserve(n int) (err error) {
	s.out, err = decode.Grow(s.memory, s.out[:0], s.width*n)
	return err
}

func (s *smalls) read(at int, runs []run) error {
	all := span(runs)
	data, err := s.bytes.bytes(int64(s.width)*int64(all.from), int64(s.width)*int64(all.n))
	if err != nil {
		return err
	}
	for _, r := range runs {
		copy(s.out[s.width*at:s.width*(at+r.n)], data[s.width*(r.from-all.from):])
		at += r.n
	}
	return nil
}

func (s *smalls) show(v *vector.Vector, n int) error {
	v.Small = s.out[:s.width*n]
	return nil
}
