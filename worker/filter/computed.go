package filter

import (
	"github.com/penstock-ml/penstock/api/filter"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// computed tests hashes and remainders of values.
type computed struct {
	operand filter.Operand
	hash    filter.Hash
	test    matcher // of int64
	out     vector.Vector
}

func newComputed(o filter.Operand, test matcher) *computed {
	return &computed{o, filter.NewHash(o.Seed), test, vector.Vector{Type: spec.Type{Kind: pb.Kind_INT64}}}
}

// match computes those of null rows, too, of which nothing comes.
func (c *computed) match(dst []uint64, v *vector.Vector) {
	ids := c.grow(v.Rows)
	switch v.Type.Kind {
	case pb.Kind_BOOL:
		for i, x := range v.Bool[:v.Rows] {
			ids[i] = int64(bit(x))
		}
	case pb.Kind_INT32:
		for i, x := range v.I32[:v.Rows] {
			ids[i] = int64(x)
		}
	case pb.Kind_INT64:
		copy(ids, v.I64)
	case pb.Kind_FLOAT32:
		for i, x := range v.F32[:v.Rows] {
			ids[i] = int64(filter.FloatID(float64(x)))
		}
	case pb.Kind_FLOAT64:
		for i, x := range v.F64[:v.Rows] {
			ids[i] = int64(filter.FloatID(x))
		}
	case pb.Kind_BINARY:
		for i := range ids {
			ids[i] = int64(filter.TextID(v.Data[v.Ends[i]:v.Ends[i+1]]))
		}
	}
	c.matchIDs(dst)
}

// nullPasses reports whether the hash of null does.
func (c *computed) nullPasses() bool {
	id, passes := filter.NullID, []uint64{0}
	c.grow(1)[0] = int64(id)
	c.matchIDs(passes)
	return passes[0]&1 != 0
}

func (c *computed) grow(rows int) []int64 {
	c.out.Rows, c.out.I64 = rows, vector.Grow(c.out.I64, rows)
	return c.out.I64
}

// matchIDs makes of ids what is tested, and tests it.
func (c *computed) matchIDs(dst []uint64) {
	values := c.out.I64
	if c.operand.Hashed {
		for i, id := range values {
			values[i] = c.hash.Of(uint64(id))
		}
	}
	if m := c.operand.Modulus; m != 0 {
		for i, x := range values {
			values[i] = filter.Remainder(x, m)
		}
	}
	c.test.match(dst, &c.out)
}

// places is a leaf that looks at where rows lie.
type places struct{ *computed }

func (p places) eval(dst []uint64, w *Window) {
	for i, ids := 0, p.grow(w.Rows); i < len(ids); i++ {
		ids[i] = int64(filter.RowID(w.File, w.First+int64(i)))
	}
	p.matchIDs(dst)
}
