package transform

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// guestChain compiles a step of an op that is not built in.
func guestChain(t failer, made spec.Type, k Kernel, in ...spec.Type) *Chain {
	op := Op{
		Name: "own", Version: 1,
		Infer: func(Params, []spec.Type) (spec.Type, error) { return made, nil },
		New:   func(Params, []spec.Type) (Kernel, error) { return k, nil },
	}
	r, err := Builtin().With(op)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return chainIn(t, r, op, nil, in...)
}

// ratio is as people write it: it does not look at nulls.
func ratio(out *vector.Vector, in []*vector.Vector) error {
	out.F64 = out.F64[:0]
	for i := range in[0].Rows {
		out.F64 = append(out.F64, in[0].F64[i]/in[1].F64[i])
	}
	return nil
}

// A result that depends on two inputs is null where one is, in each window, and no value of another row shows there.
func TestNullsOfOpsOfOnesOwn(t *testing.T) {
	number := scalar(pb.Kind_FLOAT64)
	c := guestChain(t, number, kernelFunc(ratio), number, number)
	for range 2 {
		out := run(t, c, vectorOf(number, []any{6.0, nil, 8.0, nil}), vectorOf(number, []any{3.0, 2.0, nil, nil}))
		if got := rowsOf(out); !same(got, []any{2.0, nil, nil, nil}) {
			t.Errorf("got %v", got)
		}
		for i := 1; i < 4; i++ {
			if x := out.F64[i]; x == x && x != 0 && !math.IsInf(x, 0) {
				t.Errorf("row %d is null, and has %v behind it", i, x)
			}
		}
		if out := run(t, c, vectorOf(number, []any{6.0}), vectorOf(number, []any{2.0})); out.Valid != nil ||
			out.F64[0] != 3 {
			t.Errorf("got %v with bitmap %v", out.F64, out.Valid)
		}
	}
}

// What kernels see where an input is null is zero, of every kind, and the input itself stays as it is.
func TestKernelsOfOnesOwnSeeZeroForNull(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		typ := spec.Type{Kind: rapid.SampledFrom(everyKind).Draw(t, "kind"), List: rapid.Bool().Draw(t, "list")}
		rows := drawRows(t, typ, "rows")
		want := zeroForNull(typ, rows)
		var seen []any
		c := guestChain(t, scalar(pb.Kind_BOOL), kernelFunc(func(out *vector.Vector, in []*vector.Vector) error {
			bare := *in[0]
			setValueValid(&bare, nil)
			seen = rowsOf(&bare)
			if len(out.Bool) != out.Rows || slices.Contains(out.Bool, true) {
				return fmt.Errorf("the result begins as %v", out.Bool)
			}
			for i := range out.Bool {
				out.Bool[i] = true
			}
			return nil
		}), typ)
		for range 2 {
			in := vectorOf(typ, rows)
			out := run(t, c, in)
			if !same(seen, want) {
				t.Fatalf("of %v the kernel saw %v, want %v", rows, seen, want)
			}
			if !same(rowsOf(in), rows) {
				t.Fatalf("%v was changed to %v", rows, rowsOf(in))
			}
			for i, row := range rows {
				if out.IsNull(i) != (row == nil) {
					t.Fatalf("row %d of %v: null is %v", i, rows, out.IsNull(i))
				}
			}
		}
	})
}

var everyKind = []pb.Kind{pb.Kind_BOOL, pb.Kind_INT32, pb.Kind_INT64, pb.Kind_FLOAT32, pb.Kind_FLOAT64, pb.Kind_BINARY}

func zeroForNull(typ spec.Type, rows []any) []any {
	zero := map[pb.Kind]any{
		pb.Kind_BOOL: false, pb.Kind_INT32: int32(0), pb.Kind_INT64: int64(0),
		pb.Kind_FLOAT32: float32(0), pb.Kind_FLOAT64: 0.0, pb.Kind_BINARY: []byte{},
	}[typ.Kind]
	out := slices.Clone(rows)
	for i, row := range rows {
		switch {
		case typ.List && row != nil:
			out[i] = zeroForNull(scalar(typ.Kind), row.([]any))
		case !typ.List && row == nil:
			out[i] = zero
		}
	}
	return out
}

// A list has the first list's shape, and null elements where another list of that shape or a scalar is null.
func TestListsOfOpsOfOnesOwn(t *testing.T) {
	numbers, number := list(pb.Kind_FLOAT64), scalar(pb.Kind_FLOAT64)
	c := guestChain(t, numbers, kernelFunc(func(out *vector.Vector, in []*vector.Vector) error {
		for j := range out.F64 {
			out.F64[j] = in[0].F64[j] + in[1].F64[j]
		}
		return nil
	}), numbers, numbers, number)
	out := run(t, c, vectorOf(numbers, []any{[]any{1.0, nil, 3.0}, nil, []any{}, []any{4.0}}),
		vectorOf(numbers, []any{[]any{10.0, 20.0, nil}, nil, []any{}, []any{40.0}}), vectorOf(number,
			[]any{1.0, 1.0, 1.0, nil}))
	if got := rowsOf(out); !same(got, []any{[]any{11.0, nil, nil}, nil, []any{}, []any{nil}}) {
		t.Errorf("got %v", got)
	}
}

// Kernels that make lists of other lengths say themselves what is null.
func TestOtherLengthsOfOpsOfOnesOwn(t *testing.T) {
	numbers := list(pb.Kind_INT64)
	last := kernelFunc(func(out *vector.Vector, in []*vector.Vector) error {
		out.I64 = out.I64[:0]
		for row := range out.Rows {
			if from, to := in[0].Offsets[row], in[0].Offsets[row+1]; from < to {
				out.I64 = append(out.I64, in[0].I64[to-1])
			}
			out.Offsets[row+1] = int32(len(out.I64))
		}
		return nil
	})
	c := guestChain(t, numbers, last, numbers)
	rows := []any{[]any{int64(1), int64(2)}, nil, []any{int64(3)}}
	if got := rowsOf(run(t, c, vectorOf(numbers, rows))); !same(got, []any{[]any{int64(2)}, nil, []any{int64(3)}}) {
		t.Errorf("got %v", got)
	}
	_, err := c.Run(t.Context(), []*vector.Vector{vectorOf(numbers, []any{[]any{int64(1), nil}})})
	if err == nil || !strings.Contains(err.Error(), "have it assign out.ElemValid, too") {
		t.Errorf("null elements: %v", err)
	}
}

// A result that the kernel did not make is zeros or empty texts, never an earlier window's.
func TestResultsOfOpsOfOnesOwnBeginAnew(t *testing.T) {
	text := scalar(pb.Kind_BINARY)
	fill := true
	c := guestChain(t, text, kernelFunc(func(out *vector.Vector, in []*vector.Vector) error {
		if fill {
			out.Data, out.Ends = in[0].Data, in[0].Ends
		}
		return nil
	}), text)
	in := vectorOf(text, []any{[]byte("other"), []byte("rows")})
	run(t, c, in)
	fill = false
	if got := rowsOf(run(t, c, in)); !same(got, []any{[]byte{}, []byte{}}) {
		t.Errorf("got %q", got)
	}
}

func TestOpsOfOnesOwnAllocateNothing(t *testing.T) {
	number := scalar(pb.Kind_FLOAT64)
	c := guestChain(t, number, kernelFunc(ratio), number, number)
	a, b := vectorOf(number, []any{1.0, nil, 3.0}), vectorOf(number, []any{nil, 2.0, 3.0})
	if n := testing.AllocsPerRun(20, func() { run(t, c, a, b) }); n > 0 {
		t.Errorf("%v allocations a window", n)
	}
}
