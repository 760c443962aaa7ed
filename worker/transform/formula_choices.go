package transform

import (
	"math/bits"

	"github.com/penstock-ml/penstock/api/pb"
)

// choice takes, row by row, the value of the first condition that is true.
type choice struct {
	conditions, values []part
	otherwise          part
	out                chunk
	mask               []uint64
	blend              func(dst, src *chunk, mask []uint64)
}

func (p *choice) compute(s *stretch) *chunk {
	mask := p.mask[:s.words()]
	p.out.take(p.otherwise.compute(s), mask, p.blend)
	for i := len(p.conditions) - 1; i >= 0; i-- {
		condition := p.conditions[i].compute(s)
		any := uint64(0)
		for w := range mask {
			mask[w] = condition.bits[w] & wordOf(condition.valid, w)
			any |= mask[w]
		}
		if any != 0 {
			p.out.put(p.values[i].compute(s), mask, p.blend)
		}
	}
	return &p.out
}

// take makes the chunk another's copy. It uses mask, of the rows' words.
func (c *chunk) take(from *chunk, mask []uint64, blend func(dst, src *chunk, mask []uint64)) {
	setAll(mask, ^uint64(0))
	c.valid = from.valid
	c.mayLose(len(mask))
	blend(c, from, mask)
}

// put takes values and nulls of another chunk where mask says so.
func (c *chunk) put(from *chunk, mask []uint64, blend func(dst, src *chunk, mask []uint64)) {
	for w, m := range mask {
		c.valid[w] = c.valid[w]&^m | wordOf(from.valid, w)&m
	}
	blend(c, from, mask)
}

// blender copies values of a kind from src to dst where mask has a bit.
func blender(k pb.Kind) func(dst, src *chunk, mask []uint64) {
	switch k {
	case pb.Kind_BOOL:
		return func(dst, src *chunk, mask []uint64) {
			for w, m := range mask {
				dst.bits[w] = dst.bits[w]&^m | src.bits[w]&m
			}
		}
	case pb.Kind_INT32, pb.Kind_INT64:
		return func(dst, src *chunk, mask []uint64) { blendValues(dst.ints, src.ints, mask) }
	case pb.Kind_FLOAT32:
		return func(dst, src *chunk, mask []uint64) { blendValues(dst.f32, src.f32, mask) }
	case pb.Kind_FLOAT64:
		return func(dst, src *chunk, mask []uint64) { blendValues(dst.f64, src.f64, mask) }
	}
	return func(dst, src *chunk, mask []uint64) { blendValues(dst.texts, src.texts, mask) }
}

// blendValues may be given shorter values, of the last rows, than mask has bits.
func blendValues[T any](dst, src []T, mask []uint64) {
	for w, m := range mask {
		from := src[min(w<<6, len(src)):min(w<<6+64, len(src))]
		to := dst[w<<6:][:len(from)]
		if m == ^uint64(0) {
			copy(to, from)
			continue
		}
		if n := len(from); n < 64 {
			m &= 1<<n - 1
		}
		for ; m != 0; m &= m - 1 {
			i := bits.TrailingZeros64(m)
			to[i] = from[i]
		}
	}
}

// firstKnown is coalesce.
type firstKnown struct {
	of    []part
	out   chunk
	mask  []uint64
	blend func(dst, src *chunk, mask []uint64)
}

func (p *firstKnown) compute(s *stretch) *chunk {
	mask, first := p.mask[:s.words()], p.of[0].compute(s)
	if first.valid == nil {
		return first
	}
	p.out.take(first, mask, p.blend)
	for _, other := range p.of[1:] {
		missing := uint64(0)
		for w := range mask {
			mask[w] = ^p.out.valid[w]
			if tail := s.n - w<<6; tail < 64 {
				mask[w] &= 1<<tail - 1
			}
			missing |= mask[w]
		}
		if missing == 0 {
			break
		}
		p.out.put(other.compute(s), mask, p.blend)
	}
	return &p.out
}

// nullWhere is nullif: a value that is null where a condition is true.
type nullWhere struct {
	value, condition part
	out              chunk // its values are those of value
	own              []uint64
}

func (p *nullWhere) compute(s *stretch) *chunk {
	value, condition := p.value.compute(s), p.condition.compute(s)
	p.out = *value
	p.out.valid = p.own[:s.words()]
	for i := range p.out.valid {
		p.out.valid[i] = wordOf(value.valid, i) &^ (condition.bits[i] & wordOf(condition.valid, i))
	}
	return &p.out
}

// extreme is the least or the greatest of values that are not null.
type extreme[T int64 | float32 | float64] struct {
	of   []part
	pick func(a, b T) T
	out  chunk
}

func (p *extreme[T]) compute(s *stretch) *chunk {
	first := p.of[0].compute(s)
	out := valuesIn[T](&p.out)[:s.n]
	copy(out, valuesIn[T](first)[:s.n])
	p.out.valid = first.valid
	for _, other := range p.of[1:] {
		c := other.compute(s)
		values := valuesIn[T](c)[:s.n]
		if p.out.valid == nil && c.valid == nil {
			for i, x := range values {
				out[i] = p.pick(out[i], x)
			}
			continue
		}
		valid := p.out.mayLose(s.words())
		for i, x := range values {
			at, known := uint64(1)<<(i&63), wordOf(c.valid, i>>6)>>(i&63)&1 != 0
			switch {
			case !known:
			case valid[i>>6]&at == 0:
				out[i] = x
				valid[i>>6] |= at
			default:
				out[i] = p.pick(out[i], x)
			}
		}
	}
	return &p.out
}
