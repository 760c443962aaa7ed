package transform

import (
	"bytes"

	"github.com/penstock-ml/penstock/api/expr"
	"github.com/penstock-ml/penstock/api/pb"
)

// compared sets bits where two parts' values compare.
type compared[A, B partValue] struct {
	a, b part
	out  chunk
	loop func(dst []uint64, a []A, b []B)
}

func (p *compared[A, B]) compute(s *stretch) *chunk {
	a, b := p.a.compute(s), p.b.compute(s)
	p.out.nullsOf(a, b, s.words())
	p.loop(p.out.bits[:s.words()], valuesIn[A](a)[:s.n], valuesIn[B](b)[:s.n])
	return &p.out
}

// newComparison compares values of one kind; a greater one is less from the other side.
func newComparison[T int64 | float32 | float64](op expr.Op, a, b part) part {
	loop := equal[T]
	switch op {
	case expr.Ne:
		loop = differ[T]
	case expr.Lt, expr.Gt:
		loop = less[T]
	case expr.Le, expr.Ge:
		loop = lessOrEqual[T]
	}
	if op == expr.Gt || op == expr.Ge {
		a, b = b, a
	}
	return &compared[T, T]{a, b, newChunk(pb.Kind_BOOL), loop}
}

func equal[T int64 | float32 | float64](dst []uint64, a, b []T) {
	for w := range dst {
		var word uint64
		x := a[w<<6 : min(w<<6+64, len(a))]
		y := b[w<<6:][:len(x)]
		for i := range x {
			word |= bit(x[i] == y[i]) << i
		}
		dst[w] = word
	}
}

func differ[T int64 | float32 | float64](dst []uint64, a, b []T) {
	equal(dst, a, b)
	for w := range dst {
		dst[w] = ^dst[w]
	}
}

func less[T int64 | float32 | float64](dst []uint64, a, b []T) {
	for w := range dst {
		var word uint64
		x := a[w<<6 : min(w<<6+64, len(a))]
		y := b[w<<6:][:len(x)]
		for i := range x {
			word |= bit(x[i] < y[i]) << i
		}
		dst[w] = word
	}
}

func lessOrEqual[T int64 | float32 | float64](dst []uint64, a, b []T) {
	for w := range dst {
		var word uint64
		x := a[w<<6 : min(w<<6+64, len(a))]
		y := b[w<<6:][:len(x)]
		for i := range x {
			word |= bit(x[i] <= y[i]) << i
		}
		dst[w] = word
	}
}

// mixed compares integers with floats, exactly.
func mixed(op expr.Op) func(dst []uint64, ints []int64, floats []float64) {
	return func(dst []uint64, ints []int64, floats []float64) {
		clear(dst)
		for i, x := range ints {
			sign, ordered := expr.OrderIntFloat(x, floats[i])
			dst[i>>6] |= bit(holds(op, sign, ordered)) << (i & 63)
		}
	}
}

// holds says what a comparison is of values of such an order.
func holds(op expr.Op, sign int, ordered bool) bool {
	switch op {
	case expr.Eq:
		return ordered && sign == 0
	case expr.Ne:
		return !ordered || sign != 0
	case expr.Lt:
		return ordered && sign < 0
	case expr.Le:
		return ordered && sign <= 0
	case expr.Gt:
		return ordered && sign > 0
	}
	return ordered && sign >= 0
}

func mirrored(op expr.Op) expr.Op {
	switch op {
	case expr.Lt:
		return expr.Gt
	case expr.Le:
		return expr.Ge
	case expr.Gt:
		return expr.Lt
	case expr.Ge:
		return expr.Le
	}
	return op
}

func comparingTexts(op expr.Op) func(dst []uint64, a, b [][]byte) {
	return func(dst []uint64, a, b [][]byte) {
		clear(dst)
		for i, x := range a {
			dst[i>>6] |= bit(holds(op, bytes.Compare(x, b[i]), true)) << (i & 63)
		}
	}
}

// sameTruth compares bools.
type sameTruth struct {
	a, b part
	flip uint64 // all bits, where it is asked whether they differ
	out  chunk
}

func (p *sameTruth) compute(s *stretch) *chunk {
	a, b := p.a.compute(s), p.b.compute(s)
	p.out.nullsOf(a, b, s.words())
	for i := range s.words() {
		p.out.bits[i] = ^(a.bits[i] ^ b.bits[i]) ^ p.flip
	}
	return &p.out
}

// member sets bits where a part's value is one of a set.
type member[T partValue] struct {
	of   part
	flip uint64 // all bits, where it is asked whether it is none of them
	in   func(x T) bool
	out  chunk
}

func (p *member[T]) compute(s *stretch) *chunk {
	of := p.of.compute(s)
	p.out.valid = of.valid
	clear(p.out.bits)
	for i, x := range valuesIn[T](of)[:s.n] {
		p.out.bits[i>>6] |= bit(p.in(x)) << (i & 63)
	}
	for i := range p.out.bits {
		p.out.bits[i] ^= p.flip
	}
	return &p.out
}

// among looks for a value in a set.
func among[T int64 | float32 | float64](values []T) func(x T) bool {
	if len(values) > 8 {
		set := make(map[T]struct{}, len(values))
		for _, v := range values {
			set[v] = struct{}{}
		}
		return func(x T) bool {
			_, in := set[x]
			return in
		}
	}
	return func(x T) (in bool) {
		for _, v := range values {
			in = in || x == v
		}
		return in
	}
}

// truths joins bools in three-valued logic: what one of them decides, nulls do not change.
type truthsPart struct {
	all  bool // and, else or
	args []part
	out  chunk
}

func (p *truthsPart) compute(s *stretch) *chunk {
	// As `or` of what is decided: `and` is that of falsehoods.
	flip := uint64(0)
	if p.all {
		flip = ^uint64(0)
	}
	out, words := &p.out, s.words()
	clear(out.bits)             // decided
	out.valid = out.own[:words] // all are known
	setAll(out.valid, ^uint64(0))
	for _, arg := range p.args {
		c := arg.compute(s)
		for i := range words {
			known := wordOf(c.valid, i)
			out.bits[i] |= (c.bits[i] ^ flip) & known
			out.valid[i] &= known
		}
	}
	for i := range words {
		out.valid[i] |= out.bits[i]
		out.bits[i] ^= flip
	}
	return out
}

// opposite is `not`.
type opposite struct {
	of  part
	out chunk
}

func (p *opposite) compute(s *stretch) *chunk {
	of := p.of.compute(s)
	p.out.valid = of.valid
	for i := range s.words() {
		p.out.bits[i] = ^of.bits[i]
	}
	return &p.out
}

// nulls finds those, or the others.
type nulls struct {
	of   part
	flip uint64 // all bits, where nulls are looked for
	out  chunk
}

func (p *nulls) compute(s *stretch) *chunk {
	of := p.of.compute(s)
	for i := range s.words() {
		p.out.bits[i] = wordOf(of.valid, i) ^ p.flip
	}
	return &p.out
}
