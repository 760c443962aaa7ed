package transform

import (
	"fmt"
	"math"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// firstX keeps the first x elements of each list, null ones included.
func firstX() Op { return cutLists("first_x", "first", false) }

// lastX keeps the last x elements of each list, null ones included.
func lastX() Op { return cutLists("last_x", "last", true) }

func cutLists(name, which string, last bool) Op {
	return Op{
		Name:    name,
		Version: 1,
		Summary: "The " + which + " x elements of each list, null ones included.",
		Exact:   "the " + which + " x elements of each list; null ones count and stay",
		Maps:    true,
		Inputs:  "list of anything",
		Output:  sameAsInput,
		Keeps:   true,
		Params:  []Param{{Name: "x", Want: PositiveInt, Required: true, Positional: true, Doc: "greatest length"}},
		Example: "{op: " + name + ", in: cat_*, x: 10}",
		Infer: func(_ Params, in []spec.Type) (spec.Type, error) {
			if !in[0].List {
				return spec.Type{}, fmt.Errorf("in: want a list, found %v", in[0])
			}
			return in[0], nil
		},
		New: func(p Params, in []spec.Type) (Kernel, error) {
			cut := cut{x: int32(min(p.Int("x"), math.MaxInt32)), last: last}
			switch in[0].Kind {
			case pb.Kind_BOOL:
				return &cutValues[bool]{cut: cut}, nil
			case pb.Kind_INT32:
				return &cutValues[int32]{cut: cut}, nil
			case pb.Kind_INT64:
				return &cutValues[int64]{cut: cut}, nil
			case pb.Kind_FLOAT32:
				return &cutValues[float32]{cut: cut}, nil
			case pb.Kind_FLOAT64:
				return &cutValues[float64]{cut: cut}, nil
			case pb.Kind_BINARY:
				return &cutBytes{cut: cut}, nil
			}
			return nil, fmt.Errorf("in: cannot cut %v", in[0])
		},
	}
}

// cut cuts offsets and validity; it keeps their memory.
type cut struct {
	x         int32
	last      bool // the last elements stay, not the first
	offsets   []int32
	elemValid []uint64
}

// lists gives out the offsets of lists that are at most x long, and the elements' validity. It returns false, having
// given out all that v has but for the values, if all of v's lists are so.
func (k *cut) lists(out, v *vector.Vector) bool {
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
func (k *cut) runs(v *vector.Vector, each func(to, from, n int)) {
	from, to := int32(0), int32(0)
	for i, end := range v.Offsets[1 : v.Rows+1] {
		if more := end - v.Offsets[i] - k.x; more > 0 {
			next := end
			if k.last {
				next -= k.x
			}
			n := next - more - from
			each(int(to), int(from), int(n))
			from, to = next, to+n
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

type cutValues[T Value] struct {
	cut
	values []T
}

func (k *cutValues[T]) Run(out *vector.Vector, in []*vector.Vector) error {
	v := in[0]
	src := *Values[T](v)
	if !k.lists(out, v) {
		*Values[T](out) = src
		return nil
	}
	k.values = vector.Grow(k.values, out.Len())
	k.runs(v, func(to, from, n int) { copy(k.values[to:], src[from:from+n]) })
	*Values[T](out) = k.values
	return nil
}

type cutBytes struct {
	cut
	data []byte
	ends []int32
}

func (k *cutBytes) Run(out *vector.Vector, in []*vector.Vector) error {
	v := in[0]
	if !k.lists(out, v) {
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
