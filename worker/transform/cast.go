package transform

import (
	"fmt"
	"math"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// cast converts values to another kind. Numbers out of range take the nearest value of the new kind, fractions are cut
// off, and what has no counterpart (NaN as an integer, text that is no number) becomes null.
func cast() Op {
	return Op{
		Name:    "cast",
		Version: 1,
		Summary: "Converts to another kind. Out of range gives the nearest value, fractions are cut off, NaN as " +
			"int or bool and text that does not parse give null.",
		Exact:  "see below",
		Maps:   true,
		Inputs: scalarOrListOfAnything,
		Output: "scalar or list, like the input, of the kind `to`",
		Keeps:  true,
		Params: []Param{{
			Name: "to", Want: Text, Required: true, Positional: true, Doc: "the new kind",
			OneOf: []string{"bool", "int32", "int64", "float32", "float64"},
		}},
		Example: "{op: cast, in: int_*, to: float32}",
		Infer: func(p Params, in []spec.Type) (spec.Type, error) {
			return spec.Type{Kind: kindOf(p.Text("to")), List: in[0].List}, nil
		},
		New: newCast,
	}
}

func kindOf(name string) pb.Kind {
	switch name {
	case "bool":
		return pb.Kind_BOOL
	case "int32":
		return pb.Kind_INT32
	case "int64":
		return pb.Kind_INT64
	case "float32":
		return pb.Kind_FLOAT32
	}
	return pb.Kind_FLOAT64
}

func newCast(p Params, in []spec.Type) (Kernel, error) {
	to := kindOf(p.Text("to"))
	switch in[0].Kind {
	case pb.Kind_BOOL:
		return castBool(to), nil
	case pb.Kind_INT32:
		return castInt[int32](to), nil
	case pb.Kind_INT64:
		return castInt[int64](to), nil
	case pb.Kind_FLOAT32:
		return castFloat[float32](to), nil
	case pb.Kind_FLOAT64:
		return castFloat[float64](to), nil
	case pb.Kind_BINARY:
		return castText(to), nil
	}
	return nil, fmt.Errorf("in: cannot cast %v", in[0])
}

// identity shares all of its input.
type identity[T Value] struct{}

func (identity[T]) Run(out *vector.Vector, in []*vector.Vector) error {
	shareShape(out, in[0])
	*Values[T](out) = *Values[T](in[0])
	return nil
}

func castBool(to pb.Kind) Kernel {
	switch to {
	case pb.Kind_INT32:
		return Elementwise(boolsTo[int32])
	case pb.Kind_INT64:
		return Elementwise(boolsTo[int64])
	case pb.Kind_FLOAT32:
		return Elementwise(boolsTo[float32])
	case pb.Kind_FLOAT64:
		return Elementwise(boolsTo[float64])
	}
	return identity[bool]{}
}

func castInt[S int32 | int64](to pb.Kind) Kernel {
	switch to {
	case pb.Kind_BOOL:
		return Elementwise(notZero[S])
	case pb.Kind_INT32:
		if _, same := any(S(0)).(int32); same {
			return identity[S]{}
		}
		return Elementwise(saturate[S])
	case pb.Kind_INT64:
		if _, same := any(S(0)).(int64); same {
			return identity[S]{}
		}
		return Elementwise(convert[int64, S])
	case pb.Kind_FLOAT32:
		return Elementwise(convert[float32, S])
	}
	return Elementwise(convert[float64, S])
}

func castFloat[S float32 | float64](to pb.Kind) Kernel {
	switch to {
	case pb.Kind_BOOL:
		return &partial[bool]{convert: truths[S]}
	case pb.Kind_INT32:
		return &partial[int32]{convert: func(dst []int32, in *vector.Vector, valid []uint64) bool {
			return truncate[int32, S](dst, in, valid, math.MinInt32, math.MaxInt32)
		}}
	case pb.Kind_INT64:
		return &partial[int64]{convert: func(dst []int64, in *vector.Vector, valid []uint64) bool {
			return truncate[int64, S](dst, in, valid, math.MinInt64, math.MaxInt64)
		}}
	case pb.Kind_FLOAT32:
		if _, same := any(S(0)).(float32); same {
			return identity[S]{}
		}
		return Elementwise(convert[float32, S])
	}
	if _, same := any(S(0)).(float64); same {
		return identity[S]{}
	}
	return Elementwise(convert[float64, S])
}

// convert is Go's conversion, where that is exact or rounds to nearest.
func convert[D, S int32 | int64 | float32 | float64](dst []D, src []S) {
	dst = dst[:len(src)]
	for i, v := range src {
		dst[i] = D(v)
	}
}

func saturate[S int32 | int64](dst []int32, src []S) {
	dst = dst[:len(src)]
	for i, v := range src {
		dst[i] = int32(max(math.MinInt32, min(math.MaxInt32, int64(v))))
	}
}

func notZero[S int32 | int64](dst []bool, src []S) {
	dst = dst[:len(src)]
	for i, v := range src {
		dst[i] = v != 0
	}
}

func boolsTo[D int32 | int64 | float32 | float64](dst []D, src []bool) {
	dst = dst[:len(src)]
	for i, v := range src {
		var x D
		if v {
			x = 1
		}
		dst[i] = x
	}
}

// partial is a conversion that makes null what it cannot convert. convert fills dst, clears the bits of such values in
// valid, and reports whether there were any.
type partial[D Value] struct {
	convert func(dst []D, in *vector.Vector, valid []uint64) bool // keeps nothing
	table   int64                                                 // bytes of that which convert looks values up in
	valid   []uint64
}

// Table implements Tabled.
func (k *partial[D]) Table() int64 { return k.table }

func (k *partial[D]) again() Kernel { return &partial[D]{convert: k.convert, table: k.table} }

// Borrows says that results never are the inputs' values.
func (k *partial[D]) Borrows() bool { return false }

func (k *partial[D]) Run(out *vector.Vector, in []*vector.Vector) error {
	v := in[0]
	n := v.Len()
	dst := Values[D](out)
	*dst = vector.Grow(*dst, n)
	k.valid = copyValid(k.valid, v.ValueValid(), n)
	failed := k.convert(*dst, v, k.valid)
	shareShape(out, v)
	if failed {
		setValueValid(out, k.valid)
	}
	return nil
}

func clearBit(words []uint64, i int) { words[i>>6] &^= 1 << (i & 63) }

// truncate rounds to integers towards zero, within [least, most].
func truncate[D int32 | int64, S float32 | float64](
	dst []D, in *vector.Vector, valid []uint64, least, most D,
) (failed bool) {
	src := (*Values[S](in))[:len(dst)]
	// -least is a power of two, hence exact in S; most itself may not be.
	low, high := S(least), -S(least)
	for i, v := range src {
		switch {
		case v >= high:
			dst[i] = most
		case v <= low:
			dst[i] = least
		case v == v:
			dst[i] = D(v)
		default:
			dst[i], failed = 0, true
			clearBit(valid, i)
		}
	}
	return failed
}

func truths[S float32 | float64](dst []bool, in *vector.Vector, valid []uint64) (failed bool) {
	src := (*Values[S](in))[:len(dst)]
	for i, v := range src {
		dst[i] = v != 0
		if v != v {
			failed = true
			clearBit(valid, i)
		}
	}
	return failed
}
