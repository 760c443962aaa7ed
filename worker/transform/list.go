package transform

import (
	"fmt"
	"math"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// firstX keeps the first x elements of each list, null ones included.
func firstX() Op {
	return Op{
		Name:    "first_x",
		Version: 1,
		Summary: "The first x elements of each list, null ones included.",
		Exact:   "the first x elements of each list; null ones count and stay",
		Maps:    true,
		Inputs:  "list of anything",
		Output:  sameAsInput,
		Keeps:   true,
		Params:  []Param{{Name: "x", Want: PositiveInt, Required: true, Positional: true, Doc: "greatest length"}},
		Example: "{op: first_x, in: cat_*, x: 10}",
		Infer: func(_ Params, in []spec.Type) (spec.Type, error) {
			if !in[0].List {
				return spec.Type{}, fmt.Errorf("in: want a list, found %v", in[0])
			}
			return in[0], nil
		},
		New: func(p Params, in []spec.Type) (Kernel, error) {
			cut := firstOf{x: int32(min(p.Int("x"), math.MaxInt32))}
			switch in[0].Kind {
			case pb.Kind_BOOL:
				return &firstValues[bool]{firstOf: cut}, nil
			case pb.Kind_INT32:
				return &firstValues[int32]{firstOf: cut}, nil
			case pb.Kind_INT64:
				return &firstValues[int64]{firstOf: cut}, nil
			case pb.Kind_FLOAT32:
				return &firstValues[float32]{firstOf: cut}, nil
			case pb.Kind_FLOAT64:
				return &firstValues[float64]{firstOf: cut}, nil
			case pb.Kind_BINARY:
				return &firstBytes{firstOf: cut}, nil
			}
			return nil, fmt.Errorf("in: cannot cut %v", in[0])
		},
	}
}

// firstOf cuts offsets and validity; it keeps their memory.
type firstOf struct {
	x         int32
	offsets   []int32
	elemValid []uint64
}

// cut gives out the offsets of lists that are at most x long, and the elements' validity. It returns false, having
// given out all that v has but for the values, if all of v's lists are so.
func (k *firstOf) cut(out, v *vector.Vector) bool {
	shareShape(out, v)
	k.offsets = vector.Grow(k.offsets, v.Rows+1)
	k.offsets[0] = 0
	total, from := int32(0), int32(0)
	kept := k.offsets[1:]
	for i, end := range v.Offsets[1 : v.Rows+1] {
		total += min(end-from, k.x)
		from = end
		kept[i] = total
	}
	if total == from {
		return false
	}
	out.Offsets = k.offsets
	if v.ElemValid != nil {
		k.elemValid = vector.Grow(k.elemValid, vector.Words(int(total)))
		clear(k.elemValid)
		k.runs(v, func(to, from, n int) { copyBits(k.elemValid, to, v.ElemValid, from, n) })
		out.ElemValid = k.elemValid
	}
	return true
}

// runs calls each for the runs of elements to copy. Rows that are not cut extend the run before them.
func (k *firstOf) runs(v *vector.Vector, each func(to, from, n int)) {
	from, to := int32(0), int32(0)
	for i, end := range v.Offsets[1 : v.Rows+1] {
		if end-v.Offsets[i] > k.x {
			n := v.Offsets[i] + k.x - from
			each(int(to), int(from), int(n))
			from, to = end, to+n
		}
	}
	each(int(to), int(from), int(v.Offsets[v.Rows]-from))
}

// copyBits copies n bits into memory that is clear.
func copyBits(to []uint64, at int, from []uint64, first, n int) {
	for i := range n {
		to[(at+i)>>6] |= from[(first+i)>>6] >> ((first + i) & 63) & 1 << ((at + i) & 63)
	}
}

type firstValues[T Value] struct {
	firstOf
	values []T
}

func (k *firstValues[T]) Run(out *vector.Vector, in []*vector.Vector) error {
	v := in[0]
	src := *Values[T](v)
	if !k.cut(out, v) {
		*Values[T](out) = src
		return nil
	}
	k.values = vector.Grow(k.values, out.Len())
	k.runs(v, func(to, from, n int) { copy(k.values[to:], src[from:from+n]) })
	*Values[T](out) = k.values
	return nil
}

type firstBytes struct {
	firstOf
	data []byte
	ends []int32
}

func (k *firstBytes) Run(out *vector.Vector, in []*vector.Vector) error {
	v := in[0]
	if !k.cut(out, v) {
		out.Data, out.Ends = v.Data, v.Ends
		return nil
	}
	k.data = k.data[:0]
	k.ends = vector.Grow(k.ends, out.Len()+1)
	k.ends[0] = 0
	k.runs(v, func(to, from, n int) {
		moved := int32(len(k.data)) - v.Ends[from]
		k.data = append(k.data, v.Data[v.Ends[from]:v.Ends[from+n]]...)
		for i, end := range v.Ends[from+1 : from+n+1] {
			k.ends[to+1+i] = end + moved
		}
	})
	out.Data, out.Ends = k.data, k.ends
	return nil
}
