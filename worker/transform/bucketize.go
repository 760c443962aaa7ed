package transform

import (
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// bucketize maps numbers to buckets, as TorchArrow's functional.bucketize does: v falls into the first bucket i for which
// v <= borders[i], and into len(borders) if there is none, as for NaN. A float32 feature is compared with borders rounded
// to float32, every other one with the borders themselves.
func bucketize() Op {
	return Op{
		Name:    "bucketize",
		Version: 1,
		Summary: "The index of the first border that is not below the number, or the count of borders (for NaN, too).",
		Maps:    true,
		Inputs:  scalarOrListOfNumbers,
		Output:  "int32, scalar or list like the input",
		Params:  []Param{{Name: "borders", Want: Numbers, Required: true, Doc: "at least one, in ascending order"}},
		Example: "{op: bucketize, in: int_1, out: int_1_bucket, borders: [0.5, 1, 1.5]}",
		Infer: func(_ Params, in []spec.Type) (spec.Type, error) {
			return spec.Type{Kind: pb.Kind_INT32, List: in[0].List}, checkNumbers(in[0])
		},
		New: newBucketize,
	}
}

func newBucketize(p Params, in []spec.Type) (Kernel, error) {
	borders := p.Numbers("borders")
	if len(borders) == 0 {
		return nil, errors.New("borders: want at least one")
	}
	for i := range borders[1:] {
		if borders[i] > borders[i+1] {
			return nil, fmt.Errorf("borders: want ascending order, found %v before %v", borders[i], borders[i+1])
		}
	}
	n := int32(len(borders))
	switch in[0].Kind {
	case pb.Kind_FLOAT32:
		table := newTable(borders, func(x float64) int32 { return order32(float32(x)) }, math.MaxInt32)
		return Elementwise(func(dst []int32, src []float32) { bucketFloat32(dst, src, table, n) }), nil
	case pb.Kind_FLOAT64:
		table := newTable(borders, order64, math.MaxInt64)
		return Elementwise(func(dst []int32, src []float64) { bucketFloat64(dst, src, table, n) }), nil
	}
	table, below, err := intTable(p.Value("borders").GetList().GetValues())
	if err != nil {
		return nil, err
	}
	if in[0].Kind == pb.Kind_INT32 {
		return Elementwise(func(dst, src []int32) { bucketInt(dst, src, table, below) }), nil
	}
	return Elementwise(func(dst []int32, src []int64) { bucketInt(dst, src, table, below) }), nil
}

// newTable converts borders to integers that are ordered like them, and pads them to a power of two, at least one more
// than there are borders, with the greatest integer: no value is above that.
func newTable[T int32 | int64, B any](borders []B, convert func(B) T, pad T) []T {
	table := make([]T, 1<<bits.Len(uint(len(borders))))
	for i := range table {
		table[i] = pad
		if i < len(borders) {
			table[i] = convert(borders[i])
		}
	}
	return table
}

// intTable makes a table of each border's floor, since an integer is above a border if it is above its floor. It
// leaves out borders that are below all integers, and counts them.
func intTable(borders []*pb.Value) (table []int64, below int32, err error) {
	var floors []int64
	for i, b := range borders {
		n, isInt := integer(b)
		if x, _ := number(b); !isInt {
			switch x = math.Floor(x); {
			case x < -1<<63:
				below++
				continue
			case x >= 1<<63:
				n = math.MaxInt64
			default:
				n = int64(x)
			}
		}
		if len(floors) > 0 && n < floors[len(floors)-1] {
			return nil, 0, fmt.Errorf("borders: want ascending order, found %s before %s", show(borders[i-1]), show(b))
		}
		floors = append(floors, n)
	}
	return newTable(floors, func(n int64) int64 { return n }, math.MaxInt64), below, nil
}

// countBelow counts the table's entries below v. It does not branch on v: the compiler makes conditional moves of it.
func countBelow[T int32 | int64](table []T, v T) int {
	p := 0
	for half := len(table) >> 1; half > 0; half >>= 1 {
		next := p
		if table[p+half-1] < v {
			next = p + half
		}
		p = next
	}
	return p
}

func bucketInt[S int32 | int64](dst []int32, src []S, table []int64, below int32) {
	dst = dst[:len(src)]
	for i, v := range src {
		dst[i] = below + int32(countBelow(table, int64(v)))
	}
}

func bucketFloat32(dst []int32, src []float32, table []int32, n int32) {
	dst = dst[:len(src)]
	for i, v := range src {
		dst[i] = int32(countBelow(table, order32(v)))
		if v != v {
			dst[i] = n
		}
	}
}

func bucketFloat64(dst []int32, src []float64, table []int64, n int32) {
	dst = dst[:len(src)]
	for i, v := range src {
		dst[i] = int32(countBelow(table, order64(v)))
		if v != v {
			dst[i] = n
		}
	}
}

// order32 maps floats to integers of the same order; both zeros become 0.
func order32(x float32) int32 {
	u := int32(math.Float32bits(x))
	sign := u >> 31
	return (u & math.MaxInt32) ^ sign - sign
}

// order64 is order32 for float64.
func order64(x float64) int64 {
	u := int64(math.Float64bits(x))
	sign := u >> 63
	return (u & math.MaxInt64) ^ sign - sign
}
