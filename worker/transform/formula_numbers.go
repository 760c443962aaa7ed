package transform

import (
	"math/bits"

	"github.com/penstock-ml/penstock/api/expr"
	"github.com/penstock-ml/penstock/api/pb"
)

// pairs computes values of two parts' values.
type pairs[T partValue] struct {
	a, b part
	out  chunk
	loop func(dst, a, b []T)
}

func (p *pairs[T]) compute(s *stretch) *chunk {
	a, b := p.a.compute(s), p.b.compute(s)
	p.out.nullsOf(a, b, s.words())
	p.loop(valuesIn[T](&p.out)[:s.n], valuesIn[T](a)[:s.n], valuesIn[T](b)[:s.n])
	return &p.out
}

// each computes values of one part's values, of which it may make null ones.
type each[D, S partValue] struct {
	of   part
	out  chunk
	loop func(out *chunk, dst []D, src []S)
}

func (p *each[D, S]) compute(s *stretch) *chunk {
	of := p.of.compute(s)
	p.out.valid = of.valid
	p.loop(&p.out, valuesIn[D](&p.out)[:s.n], valuesIn[S](of)[:s.n])
	return &p.out
}

// newEach is an each of a loop that makes no nulls.
func newEach[D, S partValue](of part, kind pb.Kind, loop func(dst []D, src []S)) part {
	return &each[D, S]{of, newChunk(kind), func(_ *chunk, dst []D, src []S) { loop(dst, src) }}
}

// checked computes integers of integers, and null where there is none.
type checked struct {
	op   expr.Op
	a, b part // one part, of Neg and Abs
	out  chunk
	loop func(dst, a, b []int64) (lost bool) // it reports whether some have no result
}

func (p *checked) compute(s *stretch) *chunk {
	a := p.a.compute(s)
	b := a
	if p.b != p.a {
		b = p.b.compute(s)
	}
	p.out.nullsOf(a, b, s.words())
	x, y := a.ints[:s.n], b.ints[:s.n]
	if !p.loop(p.out.ints[:s.n], x, y) {
		return &p.out
	}
	valid := p.out.mayLose(s.words())
	for i := range x {
		if _, ok := expr.IntResult(p.op, x[i], y[i]); !ok {
			clearBit(valid, i)
		}
	}
	return &p.out
}

func addInts(dst, a, b []int64) bool {
	a, b = a[:len(dst)], b[:len(dst)]
	over := int64(0)
	for i := range dst {
		x := a[i] + b[i]
		over |= (a[i] ^ x) & (b[i] ^ x)
		dst[i] = x
	}
	return over < 0
}

func subtractInts(dst, a, b []int64) bool {
	a, b = a[:len(dst)], b[:len(dst)]
	over := int64(0)
	for i := range dst {
		x := a[i] - b[i]
		over |= (a[i] ^ b[i]) & (a[i] ^ x)
		dst[i] = x
	}
	return over < 0
}

func multiplyInts(dst, a, b []int64) bool {
	a, b = a[:len(dst)], b[:len(dst)]
	over := uint64(0)
	for i := range dst {
		x, y := a[i], b[i]
		high, low := bits.Mul64(uint64(x), uint64(y))
		signed := int64(high) - x>>63&y - y>>63&x
		over |= uint64(signed ^ int64(low)>>63)
		dst[i] = int64(low)
	}
	return over != 0
}

func floorMods(dst, a, b []int64) (lost bool) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		if b[i] == 0 {
			dst[i], lost = 0, true
			continue
		}
		x := a[i] % b[i]
		if x != 0 && x^b[i] < 0 {
			x += b[i]
		}
		dst[i] = x
	}
	return lost
}

func negateInts(dst, a, _ []int64) bool {
	a = a[:len(dst)]
	over := int64(0)
	for i := range dst {
		dst[i] = -a[i]
		over |= a[i] & dst[i] // both are negative
	}
	return over < 0
}

func absInts(dst, a, _ []int64) bool {
	a = a[:len(dst)]
	over := int64(0)
	for i := range dst {
		sign := a[i] >> 63
		dst[i] = (a[i] ^ sign) - sign
		over |= dst[i]
	}
	return over < 0
}

func addFloats[T float32 | float64](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] + b[i]
	}
}

func subtractFloats[T float32 | float64](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] - b[i]
	}
}

func multiplyFloats[T float32 | float64](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] * b[i]
	}
}

func divideFloats[T float32 | float64](dst, a, b []T) {
	a, b = a[:len(dst)], b[:len(dst)]
	for i := range dst {
		dst[i] = a[i] / b[i]
	}
}

func negateFloats[T float32 | float64](dst, src []T) {
	dst = dst[:len(src)]
	for i, x := range src {
		dst[i] = -x
	}
}

// mapping is a loop of a function of float64, by way of which float32 values go, too.
func mapping[T float32 | float64](f func(float64) float64) func(dst, src []T) {
	return func(dst, src []T) {
		dst = dst[:len(src)]
		for i, x := range src {
			dst[i] = T(f(float64(x)))
		}
	}
}
