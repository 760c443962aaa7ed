package parquet

import (
	"errors"
	"fmt"

	"github.com/penstock-ml/penstock/worker/vector"
)

// stream gives values in PLAIN layout, whatever their encoding.
type stream struct {
	width    int
	integers bool // DELTA_BINARY_PACKED is for integers only
	encoding encoding
	data     []byte
	n, pos   int // BYTE_STREAM_SPLIT: values in all, and given
	delta    delta
	bytes    *binaries // DELTA_BYTE_ARRAY of fixed width; nil unless values are byte arrays
	scratch  []byte
	ints     []uint64
}

func (s *stream) begin(data []byte, e encoding, n int) error {
	s.encoding, s.data = e, data
	switch e {
	case encodingPlain:
		return nil
	case encodingStreamSplit:
		if len(data)%s.width != 0 || len(data)/s.width > n {
			return fmt.Errorf("%s of %d bytes where there are %d values", e, len(data), n)
		}
		s.n, s.pos = len(data)/s.width, 0
		return nil
	case encodingDeltaPacked:
		if s.integers {
			if len(data) == 0 { // as for pages of nulls only
				s.delta = delta{}
				return nil
			}
			_, err := s.delta.begin(data, n)
			return err
		}
	case encodingDeltaByteArray:
		if s.bytes != nil {
			return s.bytes.page(data, e, n)
		}
	}
	return fmt.Errorf("encoding %s does not fit the column's type", e)
}

// next returns the next n values.
func (s *stream) next(n int) ([]byte, error) {
	size := n * s.width
	switch s.encoding {
	case encodingPlain:
		if size > len(s.data) {
			return nil, errValues
		}
		out := s.data[:size]
		s.data = s.data[size:]
		return out, nil
	case encodingStreamSplit:
		if n > s.n-s.pos { // before memory is made for values that the page has not
			return nil, errValues
		}
		s.scratch = vector.Grow(s.scratch, size)
		return s.scratch, s.join(s.scratch, n)
	case encodingDeltaByteArray:
		if err := s.bytes.reserve(n, n); err != nil {
			return nil, err
		}
		err := s.bytes.read(0, n)
		return s.bytes.data, err
	}
	s.scratch, s.ints = vector.Grow(s.scratch, size), vector.Grow(s.ints, n)
	if err := nextDeltas(&s.delta, s.ints); err != nil {
		return nil, err
	}
	putInts(s.scratch, s.ints, s.width)
	return s.scratch, nil
}

// join writes the next n values of BYTE_STREAM_SPLIT.
func (s *stream) join(dst []byte, n int) error {
	if n > s.n-s.pos {
		return errValues
	}
	joinPlanes(dst, s.data[s.pos:], s.n, s.width)
	s.pos += n
	return nil
}

var errValues = errors.New("it ends before its values do")
