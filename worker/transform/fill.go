package transform

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// fillNull replaces nulls by a value: null rows of scalars, null elements of lists. A null list row stays null.
func fillNull() Op {
	return Op{
		Name:    "fill_null",
		Version: 1,
		Summary: "Replaces null rows of a scalar, or null elements of a list, by a value; a null list stays null.",
		Exact: "null scalars and null elements become `value`, which must be of the feature's kind (an int for " +
			"floats will do; an int must fit, and for float32 a finite number must be finite as such). Null list " +
			"rows stay null",
		Maps:   true,
		Inputs: scalarOrListOfAnything,
		Output: sameAsInput,
		Keeps:  true,
		Params: []Param{{
			Name: "value", Want: Scalar, Fitted: true, Required: true, Positional: true, Doc: "of the feature's kind",
		}},
		Example: "{op: fill_null, in: int_*, value: 0}",
		Infer: func(_ Params, in []spec.Type) (spec.Type, error) {
			return in[0], nil
		},
		New: newFill,
	}
}

func newFill(p Params, in []spec.Type) (Kernel, error) {
	v := p.Value("value")
	bad := func(want string) error {
		return fmt.Errorf("value: want %s to fill %v, found %s", want, in[0], show(v))
	}
	switch k := in[0].Kind; k {
	case pb.Kind_BOOL:
		b, ok := v.GetKind().(*pb.Value_Bool)
		if !ok {
			return nil, bad("true or false")
		}
		return &fill[bool]{value: b.Bool}, nil
	case pb.Kind_INT32, pb.Kind_INT64:
		n, ok := integer(v)
		switch {
		case !ok:
			return nil, bad("an int")
		case k == pb.Kind_INT64:
			return &fill[int64]{value: n}, nil
		case n != int64(int32(n)):
			return nil, bad("an int of 32 bits")
		}
		return &fill[int32]{value: int32(n)}, nil
	case pb.Kind_FLOAT32, pb.Kind_FLOAT64:
		x, ok := spec.Number(v)
		switch {
		case !ok:
			return nil, bad("a number")
		case k == pb.Kind_FLOAT32 && overflows(x):
			return nil, bad("a finite float32")
		case k == pb.Kind_FLOAT32:
			return &fill[float32]{value: float32(x)}, nil
		}
		return &fill[float64]{value: x}, nil
	case pb.Kind_BINARY:
		t, ok := v.GetKind().(*pb.Value_Text)
		if !ok {
			return nil, bad("a text")
		}
		return &fillBytes{value: t.Text}, nil
	}
	return nil, fmt.Errorf("in: cannot fill %v", in[0])
}

// hasNulls reports whether any of the first n bits is clear.
func hasNulls(valid []uint64, n int) bool {
	if valid == nil {
		return false
	}
	for _, word := range valid[:n>>6] {
		if word != ^uint64(0) {
			return true
		}
	}
	return n&63 != 0 && ^valid[n>>6]<<(64-n&63) != 0
}

// countNulls is how many of the first n bits are clear.
func countNulls(valid []uint64, n int) int {
	if valid == nil {
		return 0
	}
	set := 0
	for _, word := range valid[:n>>6] {
		set += bits.OnesCount64(word)
	}
	if n&63 != 0 {
		set += bits.OnesCount64(valid[n>>6] << (64 - n&63))
	}
	return n - set
}

// fill shares its input's values where none is null, and else makes a copy.
type fill[T Value] struct{ value T }

// Borrows says that values without nulls are shared.
func (k *fill[T]) Borrows() bool { return true }

// early is the step for whoever makes the input.
func (k *fill[T]) early(t spec.Type) vector.Early {
	one := &vector.Vector{Type: spec.Type{Kind: t.Kind}, Rows: 1}
	*Values[T](one) = []T{k.value}
	return vector.Early{Fill: one}
}

func (k *fill[T]) Run(out *vector.Vector, in []*vector.Vector) error {
	v := in[0]
	n := v.Len()
	shareShape(out, v)
	setValueValid(out, nil)
	src, valid := *Values[T](v), v.ValueValid()
	if !hasNulls(valid, n) {
		*Values[T](out) = src
		return nil
	}
	filled := vector.Grow(*Values[T](out), n)
	copy(filled, src)
	for w := range vector.Words(n) {
		nulls := ^valid[w]
		if left := n - w<<6; left < 64 {
			nulls &= 1<<left - 1
		}
		for ; nulls != 0; nulls &= nulls - 1 {
			filled[w<<6+bits.TrailingZeros64(nulls)] = k.value
		}
	}
	*Values[T](out) = filled
	return nil
}

type fillBytes struct {
	value string
	data  []byte
	ends  []int32
}

// Size implements Sizer: of what takes the nulls' places. The rest is as long as the input.
func (k *fillBytes) Size(in []*vector.Vector) (int64, error) {
	added := k.added(in[0])
	return added + added/8 + 64, nil // vector.Grow leaves room
}

func (k *fillBytes) added(v *vector.Vector) int64 {
	return int64(countNulls(v.ValueValid(), v.Len())) * int64(len(k.value))
}

func (k *fillBytes) Run(out *vector.Vector, in []*vector.Vector) error {
	v := in[0]
	n := v.Len()
	shareShape(out, v)
	setValueValid(out, nil)
	if !hasNulls(v.ValueValid(), n) {
		out.Data, out.Ends = v.Data, v.Ends
		return nil
	}
	size := k.added(v) + int64(v.Ends[n]-v.Ends[0])
	if size > math.MaxInt32 {
		return fmt.Errorf("filled values are over 2 GiB in one window of %d rows", v.Rows)
	}
	k.data, k.ends = vector.Grow(k.data, int(size))[:0], vector.Grow(k.ends, n+1)
	k.ends[0] = 0
	for j := range n {
		if v.ElemIsNull(j) {
			k.data = append(k.data, k.value...)
		} else {
			k.data = append(k.data, v.Data[v.Ends[j]:v.Ends[j+1]]...)
		}
		k.ends[j+1] = int32(len(k.data))
	}
	out.Data, out.Ends = k.data, k.ends
	return nil
}
