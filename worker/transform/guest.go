package transform

import (
	"errors"
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/vector"
)

// guest stands between the chain and the kernel of an op that is not built in. Vectors hold anything where they are
// null, and a step's memory holds values of other rows: built-in kernels know, and pay nothing. Others get zeros.
type guest struct {
	inputs           []zeroing
	borrows          bool // values are the step's memory
	values           memory
	valid, elemValid []uint64
	offsets, ends    []int32
	data             []byte
	elements         int  // that elemValid is of
	nullElements     bool // there are some
}

// zeroing makes copies of an input, with zero for null.
type zeroing struct {
	fill Kernel // nil: of pictures, which are made where there are some
	in   [1]*vector.Vector
	out  vector.Vector
}

func newGuest(inputs int, borrows bool) *guest {
	return &guest{inputs: make([]zeroing, inputs), borrows: borrows}
}

// enter gets the inputs and the result ready for the kernel.
func (g *guest) enter(out *vector.Vector, in []*vector.Vector) error {
	for i, v := range in {
		if !hasNulls(v.ValueValid(), v.Len()) {
			continue
		}
		zeroed, err := g.inputs[i].of(v)
		if err != nil {
			return err
		}
		in[i] = zeroed
	}
	g.shape(out, in)
	g.clear(out)
	return nil
}

func (z *zeroing) of(v *vector.Vector) (*vector.Vector, error) {
	if z.fill == nil {
		if z.fill = zeroFill(v.Type.Kind); z.fill == nil {
			return v, nil
		}
	}
	z.in[0], z.out.Type, z.out.Rows = v, v.Type, v.Rows
	if err := z.fill.Run(&z.out, z.in[:]); err != nil {
		return nil, err
	}
	setValueValid(&z.out, v.ValueValid())
	return &z.out, nil
}

func zeroFill(kind pb.Kind) Kernel {
	switch kind {
	case pb.Kind_BOOL:
		return &fill[bool]{}
	case pb.Kind_INT32:
		return &fill[int32]{}
	case pb.Kind_INT64:
		return &fill[int64]{}
	case pb.Kind_FLOAT32:
		return &fill[float32]{}
	case pb.Kind_FLOAT64:
		return &fill[float64]{}
	case pb.Kind_BINARY:
		return &fillBytes{}
	}
	return nil
}

// shape gives the result the nulls of its inputs, in bitmaps that the kernel may write to: a scalar is null where an
// input is. A list has the rows of the first input that is one, and its elements are null where those of a list of the
// same lengths are, or a scalar is.
func (g *guest) shape(out *vector.Vector, in []*vector.Vector) {
	g.valid = copyValid(g.valid, nil, out.Rows)
	out.Valid = g.valid
	if !out.Type.List {
		for _, v := range in {
			and(g.valid, v.Valid)
		}
		return
	}
	g.offsets = zeros(g.offsets, out.Rows+1)
	out.Offsets, out.ElemValid = g.offsets, nil
	at := slices.IndexFunc(in, func(v *vector.Vector) bool { return v.Type.List })
	if at < 0 {
		return
	}
	copy(g.offsets, in[at].Offsets)
	and(g.valid, in[at].Valid)
	g.elements = out.Len()
	g.elemValid = copyValid(g.elemValid, nil, g.elements)
	for _, v := range in {
		switch {
		case !v.Type.List:
			g.spread(v)
		case slices.Equal(v.Offsets[:v.Rows+1], g.offsets):
			and(g.elemValid, v.ElemValid)
		}
	}
	g.nullElements = hasNulls(g.elemValid, g.elements)
	out.ElemValid = g.elemValid
}

// spread makes the elements of rows null in which a scalar is.
func (g *guest) spread(v *vector.Vector) {
	for row := range v.Rows {
		for j := g.offsets[row]; v.IsNull(row) && j < g.offsets[row+1]; j++ {
			clearBit(g.elemValid, int(j))
		}
	}
}

// and clears the bits that another bitmap, if there is one, has not.
func and(to, with []uint64) {
	for i := range with[:min(len(with), len(to))] {
		to[i] &= with[i]
	}
}

// clear gives the result as many zeros as its shape has values.
func (g *guest) clear(out *vector.Vector) {
	n := out.Len()
	if !g.borrows {
		g.values.into(out)
	}
	switch out.Type.Kind {
	case pb.Kind_BOOL:
		out.Bool = zeros(out.Bool, n)
	case pb.Kind_INT32:
		out.I32 = zeros(out.I32, n)
	case pb.Kind_INT64:
		out.I64 = zeros(out.I64, n)
	case pb.Kind_FLOAT32:
		out.F32 = zeros(out.F32, n)
	case pb.Kind_FLOAT64:
		out.F64 = zeros(out.F64, n)
	case pb.Kind_BINARY:
		g.ends = zeros(g.ends, n+1)
		out.Data, out.Ends = g.data[:0], g.ends
	}
	if !g.borrows {
		g.values = memoryOf(out)
	}
}

func zeros[T any](s []T, n int) []T {
	s = vector.Grow(s, n)
	clear(s)
	return s
}

// settle has elements of lists whose lengths the kernel changed be null where it says so: the bitmap that it was handed
// is of other elements.
func (g *guest) settle(out *vector.Vector) error {
	if !begins(out.ElemValid, g.elemValid) || len(out.Offsets) != out.Rows+1 {
		return nil
	}
	switch n := int(out.Offsets[out.Rows]); {
	case n == g.elements:
	case g.nullElements:
		return errors.New("the op made lists of other lengths than the input's, which have null elements: " +
			"have it assign out.ElemValid, too (nil: no element is null)")
	case len(out.ElemValid) < vector.Words(n) || !hasNulls(out.ElemValid, n):
		out.ElemValid = nil
	}
	return nil
}

// leave takes the bitmaps away that say nothing.
func (g *guest) leave(out *vector.Vector) {
	if !hasNulls(out.Valid, out.Rows) {
		out.Valid = nil
	}
	if out.Type.List && !hasNulls(out.ElemValid, out.Len()) {
		out.ElemValid = nil
	}
	// for the next window; this one's may be an input's, or the kernel's own
	g.data = vector.Grow(g.data, len(out.Data))
}

// takes is about how many bytes the copies of inputs take. The result's memory is counted as that of every step.
func (g *guest) takes(in []*vector.Vector) (bytes int64) {
	for _, v := range in {
		if hasNulls(v.ValueValid(), v.Len()) {
			bytes += 8*int64(v.Len()) + int64(len(v.Data))
		}
	}
	return bytes
}
