package decode

import (
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/vector"
)

// deeper is the Reader of lists of lists of which the file has fewer levels, since whoever wrote it saw no element: the
// elements that it has, all of them null, are null lists.
type deeper struct {
	Reader
	mem   *Allowance
	zeros []int32  // offsets of what null lists hold
	nulls []uint64 // their bits
	out   vector.Vector
}

// Deeper returns the reader of a source's type for what a reader shows with fewer levels of lists, or with as many.
func Deeper(r Reader, levels uint32, typ *pb.Type, mem *Allowance) (Reader, error) {
	if typ.GetNested() <= levels {
		return r, nil
	}
	none, err := NewConstant(typ, nil, mem)
	if err != nil {
		return nil, err
	}
	out, err := none.Read(0)
	if err != nil {
		return nil, err
	}
	return &deeper{Reader: r, mem: mem, out: *out}, nil
}

// Read returns as many rows.
func (d *deeper) Read(rows int) (*vector.Vector, error) {
	v, err := d.Reader.Read(rows)
	if err != nil {
		return nil, err
	}
	n := v.Element(rows)
	if d.zeros, err = Grow(d.mem, d.zeros, n+1); err != nil {
		return nil, err
	}
	if words := vector.Words(n); words > len(d.nulls) {
		d.nulls = make([]uint64, words+words/8)
	}
	out := &d.out
	out.Rows, out.Valid, out.Offsets = rows, v.Valid, v.Offsets
	levels := copy(out.Nested, v.Nested)
	out.Nested[levels] = vector.Level{Offsets: d.zeros[:n+1], Valid: d.nulls}
	return out, nil
}
