package transform

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// Tests write features as one Go value a row: nil for null, a bool, int32, int64, float32, float64 or []byte for a
// scalar, and a []any of such (nil for a null element) for a list.

func scalar(k pb.Kind) spec.Type { return spec.Type{Kind: k} }

func list(k pb.Kind) spec.Type { return spec.Type{Kind: k, List: true} }

// values are an op's parameters as Go values.
type values map[string]any

func (v values) proto() map[string]*pb.Value {
	m := make(map[string]*pb.Value, len(v))
	for name, x := range v {
		m[name] = protoOf(x)
	}
	return m
}

func protoOf(x any) *pb.Value {
	switch x := x.(type) {
	case int64:
		return &pb.Value{Kind: &pb.Value_Int{Int: x}}
	case []any:
		l := &pb.List{}
		for _, e := range x {
			l.Values = append(l.Values, protoOf(e))
		}
		return &pb.Value{Kind: &pb.Value_List{List: l}}
	case []float64:
		l := &pb.List{}
		for _, e := range x {
			l.Values = append(l.Values, protoOf(e))
		}
		return &pb.Value{Kind: &pb.Value_List{List: l}}
	}
	return literal(x)
}

// vectorOf builds a vector of rows. Null values hold garbage, as they may.
func vectorOf(t spec.Type, rows []any) *vector.Vector {
	b := &builder{v: &vector.Vector{Type: t, Rows: len(rows)}}
	b.v.Ends = []int32{0}
	var flat []any
	if !t.List {
		flat = rows
		b.v.Valid = validOf(rows)
	} else {
		b.v.Valid = validOf(rows)
		b.v.Offsets = []int32{0}
		for _, row := range rows {
			if row != nil {
				flat = append(flat, row.([]any)...)
			}
			b.v.Offsets = append(b.v.Offsets, int32(len(flat)))
		}
		b.v.ElemValid = validOf(flat)
	}
	for _, x := range flat {
		b.add(x)
	}
	if t.Kind != pb.Kind_BINARY {
		b.v.Ends = nil
	}
	return b.v
}

// validOf is nil if no row is null.
func validOf(rows []any) []uint64 {
	var valid []uint64
	for i, x := range rows {
		if x == nil && valid == nil {
			valid = copyValid(nil, nil, len(rows))
		}
		if x == nil {
			clearBit(valid, i)
		}
	}
	return valid
}

type builder struct{ v *vector.Vector }

func (b *builder) add(x any) {
	v := b.v
	switch v.Type.Kind {
	case pb.Kind_BOOL:
		v.Bool = append(v.Bool, orElse(x, true))
	case pb.Kind_INT32:
		v.I32 = append(v.I32, orElse(x, int32(-77)))
	case pb.Kind_INT64:
		v.I64 = append(v.I64, orElse(x, int64(math.MinInt64)))
	case pb.Kind_FLOAT32:
		v.F32 = append(v.F32, orElse(x, float32(math.Inf(-1))))
	case pb.Kind_FLOAT64:
		v.F64 = append(v.F64, orElse(x, math.NaN()))
	case pb.Kind_BINARY:
		v.Data = append(v.Data, orElse(x, []byte("garbage"))...)
		v.Ends = append(v.Ends, int32(len(v.Data)))
	}
}

func orElse[T any](x any, garbage T) T {
	if x == nil {
		return garbage
	}
	return x.(T)
}

// rowsOf reads a vector back.
func rowsOf(v *vector.Vector) []any {
	rows := make([]any, v.Rows)
	for i := range rows {
		switch {
		case v.IsNull(i):
		case v.Type.List:
			elements := []any{}
			for j := v.Offsets[i]; j < v.Offsets[i+1]; j++ {
				elements = append(elements, valueAt(v, int(j)))
			}
			rows[i] = elements
		default:
			rows[i] = valueAt(v, i)
		}
	}
	return rows
}

func valueAt(v *vector.Vector, j int) any {
	if v.ElemIsNull(j) {
		return nil
	}
	switch v.Type.Kind {
	case pb.Kind_BOOL:
		return v.Bool[j]
	case pb.Kind_INT32:
		return v.I32[j]
	case pb.Kind_INT64:
		return v.I64[j]
	case pb.Kind_FLOAT32:
		return v.F32[j]
	case pb.Kind_FLOAT64:
		return v.F64[j]
	}
	return append([]byte{}, v.Data[v.Ends[j]:v.Ends[j+1]]...)
}

// same compares bit for bit; all NaN are equal.
func same(a, b any) bool {
	switch x := a.(type) {
	case float32:
		y, ok := b.(float32)
		return ok && (math.Float32bits(x) == math.Float32bits(y) || x != x && y != y)
	case float64:
		y, ok := b.(float64)
		return ok && (math.Float64bits(x) == math.Float64bits(y) || x != x && y != y)
	case []any:
		y, ok := b.([]any)
		if !ok || len(x) != len(y) {
			return false
		}
		for i := range x {
			if !same(x[i], y[i]) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(a, b)
}

type failer interface {
	Helper()
	Context() context.Context
	Fatalf(format string, args ...any)
}

// chainOf compiles one step over inputs of the given types.
func chainOf(t failer, op Op, params values, in ...spec.Type) *Chain {
	t.Helper()
	op.builtin = true
	r, err := new(Registry).With(op)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return chainIn(t, r, op, params, in...)
}

// chainIn compiles one step of a registry's op.
func chainIn(t failer, r *Registry, op Op, params values, in ...spec.Type) *Chain {
	t.Helper()
	sig, err := r.Check(op.Name, params.proto(), in)
	if err != nil {
		t.Fatalf("%s with %v of %v: %v", op.Name, params, in, err)
	}
	p := &pb.Program{}
	s := &pb.Step{
		Op: op.Name, Version: sig.Version, Params: sig.Params, Outs: 1, Name: "out", At: "transforms[0]",
		Type: sig.Out.Proto(),
	}
	for i, typ := range in {
		p.Sources = append(p.Sources, &pb.Source{Name: fmt.Sprint("source", i), Type: typ.Proto()})
		s.In = append(s.In, uint32(i))
	}
	p.Steps = append(p.Steps, s)
	c, err := Compile(r, p, nil)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return c
}

// run returns the result of a one-step chain.
func run(t failer, c *Chain, in ...*vector.Vector) *vector.Vector {
	t.Helper()
	slots, err := c.Run(t.Context(), in)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return slots[len(slots)-1]
}

// golden1 is a case of an op with one input.
type golden1 struct {
	name   string
	typ    spec.Type
	params values
	in     []any
	want   []any
}

// runGolden runs each case twice on one chain, with a window between that has no nulls, so that memory and nulls left
// over from an earlier window show; and checks that the input did not change.
func runGolden(t *testing.T, op Op, cases []golden1) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			chain := chainOf(t, op, c.params, c.typ)
			for range 2 {
				in := vectorOf(c.typ, c.in)
				if got := rowsOf(run(t, chain, in)); !same(got, c.want) {
					t.Fatalf("%s %v\n of %v\ngot  %v\nwant %v", op.Name, c.params, c.in, got, c.want)
				}
				if back := rowsOf(in); !same(back, c.in) {
					t.Fatalf("the input changed from %v to %v", c.in, back)
				}
				run(t, chain, vectorOf(c.typ, withoutNulls(c.in)))
			}
		})
	}
}

// withoutNulls drops null rows and elements.
func withoutNulls(rows []any) []any {
	kept := []any{}
	for _, x := range rows {
		if l, ok := x.([]any); ok {
			x = withoutNulls(l)
		}
		if x != nil {
			kept = append(kept, x)
		}
	}
	return kept
}

// drawRows draws a window of a type, with nulls and empty lists, long enough for bitmaps of several words.
func drawRows(t *rapid.T, typ spec.Type, label string) []any {
	value := drawValue(typ.Kind)
	nulls := rapid.Bool().Draw(t, label+" nulls")
	one := func() any {
		if nulls && rapid.IntRange(0, 3).Draw(t, "null") == 0 {
			return nil
		}
		return value.Draw(t, "value")
	}
	rows := make([]any, rapid.IntRange(0, 70).Draw(t, label+" rows"))
	for i := range rows {
		if !typ.List {
			rows[i] = one()
			continue
		}
		if nulls && rapid.IntRange(0, 4).Draw(t, "null row") == 0 {
			continue
		}
		elements := make([]any, rapid.IntRange(0, 5).Draw(t, "length"))
		for j := range elements {
			elements[j] = one()
		}
		rows[i] = elements
	}
	return rows
}

func drawValue(k pb.Kind) *rapid.Generator[any] {
	switch k {
	case pb.Kind_BOOL:
		return rapid.Bool().AsAny()
	case pb.Kind_INT32:
		return rapid.OneOf(rapid.Int32(), rapid.Int32Range(-5, 5)).AsAny()
	case pb.Kind_INT64:
		return rapid.OneOf(rapid.Int64(), rapid.Int64Range(-5, 5)).AsAny()
	case pb.Kind_FLOAT32:
		special := []float32{
			0, float32(math.Copysign(0, -1)), float32(math.NaN()), float32(math.Inf(1)),
			float32(math.Inf(-1)), -1, 1,
		}
		return rapid.OneOf(rapid.Float32(), rapid.SampledFrom(special), rapid.Float32Range(-3, 3)).AsAny()
	case pb.Kind_FLOAT64:
		special := []float64{0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1), -1, 1, 1 << 31, 1 << 63}
		return rapid.OneOf(rapid.Float64(), rapid.SampledFrom(special), rapid.Float64Range(-3, 3)).AsAny()
	}
	texts := []string{
		"", "0", "1", "-17", "+5", "9223372036854775808", "-99999999999999999999", "1.5", ".5e3", "1e400",
		"nan", "-Inf", "TRUE", "false", "0x1", "1_0", "e5", "12 ",
	}
	text := rapid.Map(rapid.SampledFrom(texts), func(s string) []byte { return []byte(s) })
	return rapid.OneOf(text, rapid.SliceOfN(rapid.Byte(), 0, 6)).AsAny()
}

// checkElementwise compares an op that works value by value with a function of one value; nil stands for null.
// Two windows go through one chain.
func checkElementwise(t *rapid.T, op Op, params values, from, to pb.Kind, naive func(any) any) {
	typ := spec.Type{Kind: from, List: rapid.Bool().Draw(t, "list")}
	chain := chainOf(t, op, params, typ)
	for range 2 {
		rows := drawRows(t, typ, "in")
		want := make([]any, len(rows))
		for i, x := range rows {
			if l, ok := x.([]any); ok {
				elements := make([]any, len(l))
				for j, e := range l {
					elements[j] = apply(naive, e)
				}
				want[i] = elements
				continue
			}
			want[i] = apply(naive, x)
		}
		in := vectorOf(typ, rows)
		out := run(t, chain, in)
		if out.Type != (spec.Type{Kind: to, List: typ.List}) {
			t.Fatalf("%s of %v made %v", op.Name, typ, out.Type)
		}
		if got := rowsOf(out); !same(got, want) {
			t.Fatalf("%s %v\n of %v\ngot  %v\nwant %v", op.Name, params, rows, got, want)
		}
		if back := rowsOf(in); !same(back, rows) {
			t.Fatalf("the input changed from %v to %v", rows, back)
		}
	}
}

func apply(f func(any) any, x any) any {
	if x == nil {
		return nil
	}
	return f(x)
}

// in2out runs a kernel by itself.
func in2out(t failer, k Kernel, in *vector.Vector, to spec.Type) *vector.Vector {
	t.Helper()
	out := &vector.Vector{Type: to, Rows: in.Rows}
	if err := k.Run(out, []*vector.Vector{in}); err != nil {
		t.Fatalf("%v", err)
	}
	return out
}
