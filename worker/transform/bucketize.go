package transform

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"unsafe"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// bucketize maps numbers to buckets, as TorchArrow's functional.bucketize does: v falls into the first bucket i for
// which v <= borders[i], and into len(borders) if there is none, as for NaN. A float32 feature is compared with borders
// rounded to float32, every other one with the borders themselves.
func bucketize() Op {
	return Op{
		Name:    "bucketize",
		Version: 1,
		Summary: "The index of the first border that is not below the number, or the count of borders (for NaN, too).",
		Exact: "int32: the least i with `v <= borders[i]`, or the count of borders if there is none, as for " +
			"NaN. Borders ascend; equal ones are allowed. For float32 they are rounded to float32, for float64 " +
			"ints beyond 2^53 to float64; otherwise numbers are compared exactly",
		Maps:   true,
		Inputs: scalarOrListOfNumbers,
		Output: "int32, scalar or list like the input",
		Params: []Param{{
			Name: "borders", Want: Numbers, Fitted: true, Required: true, Positional: true,
			Doc: "at least one, in ascending order",
		}},
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
	switch in[0].Kind {
	case pb.Kind_FLOAT32:
		table := newTable(borders, func(x float64) int32 { return order32(float32(x)) }, math.MaxInt32)
		return elementwise[int32, float32]{
			func(dst []int32, src []float32) { bucketFloat32(dst, src, table) },
			table.bytes(),
		}, nil
	case pb.Kind_FLOAT64:
		table := newTable(borders, order64, math.MaxInt64)
		return elementwise[int32, float64]{
			func(dst []int32, src []float64) { bucketFloat64(dst, src, table) },
			table.bytes(),
		}, nil
	}
	table, below, err := intTable(p.Value("borders"))
	if err != nil {
		return nil, err
	}
	if in[0].Kind == pb.Kind_INT32 {
		return elementwise[int32, int32]{func(dst, src []int32) { bucketInt(dst, src, table, below) }, table.bytes()},
			nil
	}
	return elementwise[int32, int64]{
		func(dst []int32, src []int64) { bucketInt(dst, src, table, below) },
		table.bytes(),
	}, nil
}

// borderTable finds borders by integers that are ordered like them. It divides the range from the first border to the
// last into cells of equal size, some more than there are borders, knows for each how many borders lie before it, and
// searches among those of one cell. Assembly knows the layout.
type borderTable[T int32 | int64] struct {
	base   T       // the first border
	shift  uint    // of the distance from it to the cell
	before []int32 // for each cell, the borders of those before it
	half   int     // where the search in a cell begins: the power of two that is at most its greatest count of borders
	sorted []T     // the borders, and 2*half more of the greatest integer: no value is above that
}

// cellsPerBorder makes most cells' searches short, and keeps the tables of thousands of borders in the nearest caches.
const cellsPerBorder = 2

// newTable takes borders in ascending order; there may be none.
func newTable[T int32 | int64, B any](borders []B, convert func(B) T, pad T) *borderTable[T] {
	t := &borderTable[T]{sorted: make([]T, len(borders), 2*len(borders)+2)}
	for i, b := range borders {
		t.sorted[i] = convert(b)
	}
	if len(borders) > 0 {
		t.base = t.sorted[0]
		distance := uint64(int64(t.sorted[len(borders)-1])) - uint64(int64(t.base))
		t.shift = uint(max(0, bits.Len64(distance)-bits.Len(uint(cellsPerBorder*len(borders)))))
		t.before = make([]int32, distance>>t.shift+2)
	} else {
		t.before = make([]int32, 2)
	}
	for _, b := range t.sorted {
		t.before[t.distance(b)>>t.shift+1]++
	}
	most := int32(0)
	for i, n := range t.before[1:] {
		most = max(most, n)
		t.before[i+1] += t.before[i]
	}
	t.before = t.before[:len(t.before)-1]
	if most > 0 {
		t.half = 1 << (bits.Len32(uint32(most)) - 1)
	}
	for range 2 * t.half {
		t.sorted = append(t.sorted, pad)
	}
	return t
}

// bytes is the size of the table.
func (t *borderTable[T]) bytes() int64 {
	return int64(unsafe.Sizeof(t.base))*int64(cap(t.sorted)) + 4*int64(cap(t.before))
}

// distance is how far v is above the first border, or 0.
func (t *borderTable[T]) distance(v T) uint64 {
	return uint64(int64(max(v, t.base))) - uint64(int64(t.base))
}

// intTable makes a table of each border's floor, since an integer is above a border if it is above its floor. It
// leaves out borders that are below all integers, and counts them.
func intTable(borders *pb.Value) (table *borderTable[int64], below int32, err error) {
	floors := borders.GetInts().GetValues()
	add := func(x float64) {
		switch x = math.Floor(x); {
		case x < -1<<63:
			below++
		case x >= 1<<63:
			floors = append(floors, math.MaxInt64)
		default:
			floors = append(floors, int64(x))
		}
	}
	switch {
	case borders.GetInts() != nil:
	case borders.GetFloats() != nil:
		floors = make([]int64, 0, len(borders.GetFloats().GetValues()))
		for _, x := range borders.GetFloats().GetValues() {
			add(x)
		}
	default:
		for _, b := range spec.AsList(borders) {
			if n, isInt := integer(b); isInt {
				floors = append(floors, n)
			} else {
				x, _ := spec.Number(b)
				add(x)
			}
		}
	}
	for i := range floors[min(1, len(floors)):] {
		if floors[i] > floors[i+1] {
			return nil, 0, fmt.Errorf("borders: want ascending order, found %d before %d", floors[i], floors[i+1])
		}
	}
	return newTable(floors, func(n int64) int64 { return n }, math.MaxInt64), below, nil
}

// count writes for each of a few keys how many borders are below it. It does not branch on them: the compiler makes
// conditional moves.
func (t *borderTable[T]) count(dst []int32, keys []T) {
	dst = dst[:len(keys)]
	base, shift, before := t.base, t.shift&63, t.before
	last := uint64(len(before) - 1)
	for i, v := range keys {
		var above uint64
		if v >= base {
			above = 1
		}
		cell := (uint64(int64(v)) - uint64(int64(base))) & -above >> shift
		if cell > last {
			cell = last
		}
		dst[i] = before[cell]
	}
	for half := t.half; half > 0; half >>= 1 {
		sorted := t.sorted[half-1:]
		for i, v := range keys {
			p := dst[i]
			next := p
			if sorted[p] < v { // those of later cells are not
				next = p + int32(half)
			}
			dst[i] = next
		}
	}
}

// keysAtOnce is how many values are looked up step by step together.
const keysAtOnce = 256

// eachBlock calls f for blocks of dst and src, with memory for their keys.
func eachBlock[S, T any](dst []int32, src []S, f func(dst []int32, src []S, keys []T)) {
	var keys [keysAtOnce]T
	for len(src) > 0 {
		n := min(len(src), keysAtOnce)
		f(dst[:n], src[:n], keys[:n])
		dst, src = dst[n:], src[n:]
	}
}

func bucketInt[S int32 | int64](dst []int32, src []S, table *borderTable[int64], below int32) {
	eachBlock(dst, src, func(dst []int32, src []S, keys []int64) {
		for i, v := range src {
			keys[i] = int64(v)
		}
		table.count(dst, keys)
		if below > 0 {
			for i := range dst {
				dst[i] += below
			}
		}
	})
}

// bucketsPlain is what bucketFloat32 does, on any CPU.
func bucketsPlain(dst []int32, src []float32, table *borderTable[int32]) {
	eachBlock(dst, src, func(dst []int32, src []float32, keys []int32) {
		for i, v := range src {
			key := order32(v)
			if math.Float32bits(v)&math.MaxInt32 > 0x7f800000 { // NaN
				key = math.MaxInt32
			}
			keys[i] = key
		}
		table.count(dst, keys)
	})
}

func bucketFloat64(dst []int32, src []float64, table *borderTable[int64]) {
	eachBlock(dst, src, func(dst []int32, src []float64, keys []int64) {
		for i, v := range src {
			key := order64(v)
			if math.Float64bits(v)&math.MaxInt64 > 0x7ff<<52 { // NaN
				key = math.MaxInt64
			}
			keys[i] = key
		}
		table.count(dst, keys)
	})
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
