package transform

import (
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/vector"
)

// column is the values of a vector, which may be codes of a dictionary.
type column struct {
	slot int
	kind pb.Kind
	out  chunk
	made chunk // memory for values that do not lie in the vector as chunks have them
}

func newColumn(slot int, kind pb.Kind) *column {
	return &column{slot: slot, kind: kind, made: newChunk(kind)}
}

func (c *column) compute(s *stretch) *chunk {
	v, to := s.vectors[c.slot], s.from+s.n
	c.out = c.made
	if c.out.valid = nil; v.Valid != nil {
		c.out.valid = v.Valid[s.from>>6:][:s.words()]
	}
	if v.Dict != nil {
		c.decode(v.Dict, v.Codes[s.from:to])
		return &c.out
	}
	switch c.kind {
	case pb.Kind_BOOL:
		pack(c.out.bits[:s.words()], v.Bool[s.from:to])
	case pb.Kind_INT32:
		convert(c.out.ints, v.I32[s.from:to])
	case pb.Kind_INT64:
		c.out.ints = v.I64[s.from:to]
	case pb.Kind_FLOAT32:
		c.out.f32 = v.F32[s.from:to]
	case pb.Kind_FLOAT64:
		c.out.f64 = v.F64[s.from:to]
	default:
		for i, ends := 0, v.Ends[s.from:to+1]; i < s.n; i++ {
			c.out.texts[i] = v.Data[ends[i]:ends[i+1]]
		}
	}
	return &c.out
}

// pack makes bits of bools.
func pack(dst []uint64, src []bool) {
	for w := range dst {
		var word uint64
		for i, x := range src[w<<6 : min(w<<6+64, len(src))] {
			word |= bit(x) << i
		}
		dst[w] = word
	}
}

// bit is 1 for true; the compiler makes it branchless.
func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// decode looks codes up; those of null rows mean nothing.
func (c *column) decode(dict *vector.Vector, codes []uint32) {
	rows := uint32(dict.Rows)
	switch c.kind {
	case pb.Kind_BOOL:
		clear(c.out.bits)
		for i, code := range codes {
			if code < rows {
				c.out.bits[i>>6] |= bit(dict.Bool[code]) << (i & 63)
			}
		}
	case pb.Kind_INT32:
		for i, code := range codes {
			if code < rows {
				c.out.ints[i] = int64(dict.I32[code])
			}
		}
	case pb.Kind_INT64:
		lookUp(c.out.ints, dict.I64, codes, rows)
	case pb.Kind_FLOAT32:
		lookUp(c.out.f32, dict.F32, codes, rows)
	case pb.Kind_FLOAT64:
		lookUp(c.out.f64, dict.F64, codes, rows)
	default:
		for i, code := range codes {
			if c.out.texts[i] = nil; code < rows {
				c.out.texts[i] = dict.Data[dict.Ends[code]:dict.Ends[code+1]]
			}
		}
	}
}

func lookUp[T any](dst, entries []T, codes []uint32, rows uint32) {
	for i, code := range codes {
		if code < rows {
			dst[i] = entries[code]
		}
	}
}
