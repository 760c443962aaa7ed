package transform

import (
	"github.com/penstock-ml/penstock/api/expr"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/vector"
)

// Formula is an expression that is computed for the rows of vectors. It has memory of its own and serves one goroutine
// at a time; a steady state allocates nothing.
//
// It computes some hundred rows at a time, a part of the expression after the other, so that what it works with stays
// in cache.
type Formula struct {
	root  part
	kind  pb.Kind
	rows  stretch
	bytes int64 // of its memory
	makes int   // parts that write text
	texts int   // bytes of the longest that is a literal
}

// stretchRows is how many rows are computed at a time; a multiple of 64.
const stretchRows = 512

// stretch is the rows that are computed.
type stretch struct {
	vectors []*vector.Vector
	from, n int // rows of the vectors; from is a multiple of 64
	file    uint64
	first   int64 // row of the file at which the vectors start
	serial  uint64
}

// words is the length of the rows' bitmaps.
func (s *stretch) words() int { return vector.Words(s.n) }

// part computes a part of an expression. What it returns is valid until it is called again; others do not change it.
type part interface {
	compute(s *stretch) *chunk
}

// chunk is the values of a stretch's rows, in the slice of their kind. Where they are null they are anything.
type chunk struct {
	valid []uint64 // bits of rows that are not null, anything behind the last; nil: none is
	bits  []uint64 // BOOL
	ints  []int64  // INT32, INT64
	f32   []float32
	f64   []float64
	texts [][]byte
	own   []uint64 // memory for valid
}

// newChunk has memory for values of a kind.
func newChunk(k pb.Kind) chunk {
	c := chunk{own: make([]uint64, stretchRows/64)}
	switch k {
	case pb.Kind_BOOL:
		c.bits = make([]uint64, stretchRows/64)
	case pb.Kind_INT32, pb.Kind_INT64:
		c.ints = make([]int64, stretchRows)
	case pb.Kind_FLOAT32:
		c.f32 = make([]float32, stretchRows)
	case pb.Kind_FLOAT64:
		c.f64 = make([]float64, stretchRows)
	default:
		c.texts = make([][]byte, stretchRows)
	}
	return c
}

// partValue is what a chunk holds slices of.
type partValue interface {
	int64 | float32 | float64 | []byte
}

// valuesIn is the chunk's slice of such values.
func valuesIn[T partValue](c *chunk) []T {
	var slice any
	switch any(*new(T)).(type) {
	case int64:
		slice = c.ints
	case float32:
		slice = c.f32
	case float64:
		slice = c.f64
	default:
		slice = c.texts
	}
	return slice.([]T) //nolint:forcetypeassert // it is one
}

// nullsOf makes null what is so in one of the chunks.
func (c *chunk) nullsOf(a, b *chunk, words int) {
	switch {
	case a.valid == nil:
		c.valid = b.valid
	case b.valid == nil:
		c.valid = a.valid
	default:
		c.valid = c.own[:words]
		for i := range c.valid {
			c.valid[i] = a.valid[i] & b.valid[i]
		}
	}
}

// mayLose gives the chunk a bitmap of its own, as copied, of which bits may be cleared.
func (c *chunk) mayLose(words int) []uint64 {
	if c.valid == nil || &c.valid[0] != &c.own[0] {
		c.valid = copyValid(c.own, c.valid, 64*words)
	}
	return c.valid
}

// wordOf is word i of a bitmap, of which there may be none.
func wordOf(valid []uint64, i int) uint64 {
	if valid == nil {
		return ^uint64(0)
	}
	return valid[i]
}

// NewFormula prepares an expression that expr.Node's Check returned. Column names are at slot(name) of the vectors.
func NewFormula(typed *expr.Node, slot func(column string) int) *Formula {
	f := &Formula{kind: typed.Kind}
	c := formulaCompiler{Formula: f, slot: slot, uses: map[*expr.Node]int{}, shared: map[*expr.Node]*sharedPart{}}
	c.count(typed)
	f.root = c.part(typed)
	return f
}

// Bytes is how much memory it has, beside that of texts which it makes.
func (f *Formula) Bytes() int64 { return f.bytes }

// each calls take with the values of each stretch of rows, from row at on.
func (f *Formula) each(vectors []*vector.Vector, rows int, file uint64, first int64, take func(at, n int, c *chunk)) {
	s := &f.rows
	s.vectors, s.file, s.first = vectors, file, first
	for s.from = 0; s.from < rows; s.from += stretchRows {
		s.n = min(stretchRows, rows-s.from)
		s.serial++
		take(s.from, s.n, f.root.compute(s))
	}
	s.vectors = nil
}

// Find sets in dst the bits of rows for which the expression is true, or else those for which it is false, and clears
// others; bits behind the last row are anything. The vectors' first row is row first of the file, whose id is that of
// its URI.
func (f *Formula) Find(dst []uint64, truth bool, vectors []*vector.Vector, rows int, file uint64, first int64) {
	flip := uint64(0)
	if !truth {
		flip = ^uint64(0)
	}
	f.each(vectors, rows, file, first, func(at, n int, c *chunk) {
		to := dst[at>>6:][:vector.Words(n)]
		for i := range to {
			to[i] = (c.bits[i] ^ flip) & wordOf(c.valid, i)
		}
	})
}

// sharedPart stands in several places, and is computed once for each stretch.
type sharedPart struct {
	part
	serial uint64
	last   *chunk
}

func (p *sharedPart) compute(s *stretch) *chunk {
	if p.serial != s.serial {
		p.serial, p.last = s.serial, p.part.compute(s)
	}
	return p.last
}

// constant is a literal.
type constant struct{ chunk }

func newConstant(v expr.Value, kind pb.Kind) *constant {
	c := &constant{newChunk(kind)}
	for i := range c.bits {
		if v.Bool {
			c.bits[i] = ^uint64(0)
		}
	}
	setAll(c.ints, v.Int)
	setAll(c.f32, float32(v.Float))
	setAll(c.f64, v.Float)
	setAll(c.texts, []byte(v.Text))
	return c
}

func setAll[T any](to []T, x T) {
	for i := range to {
		to[i] = x
	}
}

func (c *constant) compute(*stretch) *chunk { return &c.chunk }

// nothing is null.
type nothing struct{ chunk }

func newNothing(kind pb.Kind) *nothing {
	n := &nothing{newChunk(kind)}
	n.valid = n.own // no bit is set
	return n
}

func (n *nothing) compute(*stretch) *chunk { return &n.chunk }
