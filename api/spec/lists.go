package spec

import (
	"math"

	"github.com/penstock-ml/penstock/api/pb"
)

// Elements are the values of a list in any of its forms, nil of what is no list. Not every form holds them as messages:
// what reads many numbers asks for GetFloats and GetInts first.
func Elements(v *pb.Value) []*pb.Value {
	switch list := v.GetKind().(type) {
	case *pb.Value_List:
		return list.List.GetValues()
	case *pb.Value_Floats:
		given := list.Floats.GetValues()
		kinds := make([]pb.Value_Float, len(given))
		return elements(len(given), func(i int, e *pb.Value) {
			kinds[i].Float = given[i]
			e.Kind = &kinds[i]
		})
	case *pb.Value_Ints:
		given := list.Ints.GetValues()
		kinds := make([]pb.Value_Int, len(given))
		return elements(len(given), func(i int, e *pb.Value) {
			kinds[i].Int = given[i]
			e.Kind = &kinds[i]
		})
	}
	return nil
}

// AsList are the elements of a list, of which a single value is one, too.
func AsList(v *pb.Value) []*pb.Value {
	if IsList(v) {
		return Elements(v)
	}
	return []*pb.Value{v}
}

func elements(n int, set func(i int, e *pb.Value)) []*pb.Value {
	values, out := make([]pb.Value, n), make([]*pb.Value, n)
	for i := range out {
		out[i] = &values[i]
		set(i, out[i])
	}
	return out
}

// IsList reports whether v is a list.
func IsList(v *pb.Value) bool {
	switch v.GetKind().(type) {
	case *pb.Value_List, *pb.Value_Floats, *pb.Value_Ints:
		return true
	}
	return false
}

// Packed reports whether v is a list that has no message for each of its numbers.
func Packed(v *pb.Value) bool {
	return len(v.GetFloats().GetValues()) > 0 || len(v.GetInts().GetValues()) > 0
}

// exactInts are those that any float64 holds: from -2^53 to 2^53.
const exactInts = 1 << 53

// ListOf makes a list in the one form that is meant for its elements. Ints among floats become floats, as in [0.5, 1,
// 2], unless one is too large for that.
func ListOf(elements []*pb.Value) *pb.Value {
	floats, ints, inexact := 0, 0, 0
	for _, e := range elements {
		switch k := e.GetKind().(type) {
		case *pb.Value_Float:
			floats++
		case *pb.Value_Int:
			ints++
			if k.Int < -exactInts || k.Int > exactInts {
				inexact++
			}
		}
	}
	switch n := len(elements); {
	case n > 0 && ints == n:
		out := make([]int64, n)
		for i, e := range elements {
			out[i] = e.GetInt()
		}
		return &pb.Value{Kind: &pb.Value_Ints{Ints: &pb.Ints{Values: out}}}
	case n > 0 && floats+ints-inexact == n:
		out := make([]float64, n)
		for i, e := range elements {
			if out[i] = e.GetFloat(); out[i] == 0 && e.GetInt() != 0 {
				out[i] = float64(e.GetInt())
			}
		}
		return FloatsOf(out)
	}
	return &pb.Value{Kind: &pb.Value_List{List: &pb.List{Values: elements}}}
}

// FloatsOf makes a list of floats.
func FloatsOf(values []float64) *pb.Value {
	if len(values) == 0 {
		return &pb.Value{Kind: &pb.Value_List{List: &pb.List{}}}
	}
	return &pb.Value{Kind: &pb.Value_Floats{Floats: &pb.Floats{Values: values}}}
}

// Canonical gives the lists of a spec the forms that are meant for them, in place: specs that mean the same are then
// equal. Others than Parse make specs, too, such as older clients.
func Canonical(s *pb.Spec) {
	for _, f := range s.GetFeatures() {
		if IsList(f.GetDefault()) {
			f.Default = canonicalList(f.GetDefault())
		}
	}
	for _, t := range s.GetTransforms() {
		for _, values := range []map[string]*pb.Value{t.GetParams(), t.GetPython().GetArgs()} {
			for name, v := range values {
				if IsList(v) {
					values[name] = canonicalList(v)
				}
			}
		}
	}
}

func canonicalList(v *pb.Value) *pb.Value {
	if Packed(v) {
		return v
	}
	return ListOf(Elements(v))
}

// Number reads an int or a float other than NaN.
func Number(v *pb.Value) (float64, bool) {
	switch k := v.GetKind().(type) {
	case *pb.Value_Int:
		return float64(k.Int), true
	case *pb.Value_Float:
		return k.Float, !math.IsNaN(k.Float)
	}
	return 0, false
}
