package transform

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/api/expr"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// expression computes a feature of others by an expression, whose names are its inputs.
func expression() Op {
	return Op{
		Name:    spec.ExprOp,
		Version: 1,
		Summary: "Computes a feature by an expression over columns and features, such as price / nullif(age, 0).",
		Exact:   "see [Expressions](expressions.md)",
		Inputs:  "scalars that the expression names",
		Output:  "scalar of the type that the expression has",
		Names:   spec.ExprOp,
		Params: []Param{{
			Name: spec.ExprOp, Want: Text, Required: true, Positional: true,
			Doc: "see the page Expressions of the reference",
		}},
		Example: `{op: expr, expr: "int_1 / nullif(int_2, 0)", out: int_ratio}`,
		Infer: func(p Params, in []spec.Type) (spec.Type, error) {
			typed, _, err := typedExpression(p.Text(spec.ExprOp), in)
			if err != nil {
				return spec.Type{}, fmt.Errorf("expr: %w", err)
			}
			return spec.Type{Kind: typed.Kind}, nil
		},
		New: func(p Params, in []spec.Type) (Kernel, error) {
			typed, slot, err := typedExpression(p.Text(spec.ExprOp), in)
			if err != nil {
				return nil, err
			}
			k := &formulaKernel{Formula: NewFormula(typed, slot)}
			if typed.Kind == pb.Kind_BINARY {
				return textFormula{k}, nil
			}
			return k, nil
		},
	}
}

// typedExpression is an expression of inputs of such types: one for each name in it, in order.
func typedExpression(text string, in []spec.Type) (*expr.Node, func(column string) int, error) {
	n, err := expr.Parse(text)
	if err != nil {
		return nil, nil, err
	}
	names := n.Columns()
	switch {
	case len(names) != len(in):
		return nil, nil, fmt.Errorf("it names %d features, and has %d inputs", len(names), len(in))
	case n.OfRows():
		return nil, nil, errors.New("row() is a row's place in its file, which filters and sample alone know; use a " +
			"column that says which row it is")
	}
	slot := func(column string) int { return slices.Index(names, column) }
	typed, errs := n.Check(func(column string) (expr.Type, error) {
		t := in[slot(column)]
		return expr.Type{Kind: t.Kind, List: t.List}, nil
	})
	return typed, slot, joined(errs)
}

// joined is all errors on one line.
func joined(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = err.Error()
	}
	return errors.New(strings.Join(texts, "; "))
}

// formulaKernel computes an expression's values.
type formulaKernel struct {
	*Formula
	valid []uint64
}

// Borrows says that results never are the inputs' values.
func (k *formulaKernel) Borrows() bool { return false }

// Run implements Kernel.
func (k *formulaKernel) Run(out *vector.Vector, in []*vector.Vector) error {
	rows := out.Rows
	k.valid = vector.Grow(k.valid, vector.Words(rows))
	prepare(out, k.kind, rows)
	nulls := false
	k.each(in, rows, 0, 0, func(at, n int, c *chunk) {
		nulls = nulls || c.valid != nil
		for i, valid := 0, k.valid[at>>6:][:vector.Words(n)]; i < len(valid); i++ {
			valid[i] = wordOf(c.valid, i)
		}
		store(out, k.kind, at, n, c)
	})
	if out.Valid = nil; nulls {
		out.Valid = k.valid
	}
	if len(out.Data) > math.MaxInt32 {
		return fmt.Errorf("%d rows have %d bytes of text; want less than 2 GiB", rows, len(out.Data))
	}
	return nil
}

// prepare gives out memory for values of so many rows.
func prepare(out *vector.Vector, kind pb.Kind, rows int) {
	switch kind {
	case pb.Kind_BOOL:
		out.Bool = vector.Grow(out.Bool, rows)
	case pb.Kind_INT32:
		out.I32 = vector.Grow(out.I32, rows)
	case pb.Kind_INT64:
		out.I64 = vector.Grow(out.I64, rows)
	case pb.Kind_FLOAT32:
		out.F32 = vector.Grow(out.F32, rows)
	case pb.Kind_FLOAT64:
		out.F64 = vector.Grow(out.F64, rows)
	default:
		out.Data, out.Ends = out.Data[:0], vector.Grow(out.Ends, rows+1)
		out.Ends[0] = 0
	}
}

// store puts the values of n rows from row at on into out.
func store(out *vector.Vector, kind pb.Kind, at, n int, c *chunk) {
	switch kind {
	case pb.Kind_BOOL:
		for i := range n {
			out.Bool[at+i] = c.bits[i>>6]>>(i&63)&1 != 0
		}
	case pb.Kind_INT32:
		convert(out.I32[at:], c.ints[:n])
	case pb.Kind_INT64:
		copy(out.I64[at:], c.ints[:n])
	case pb.Kind_FLOAT32:
		copy(out.F32[at:], c.f32[:n])
	case pb.Kind_FLOAT64:
		copy(out.F64[at:], c.f64[:n])
	default:
		for i, text := range c.texts[:n] {
			if wordOf(c.valid, i>>6)>>(i&63)&1 != 0 {
				out.Data = append(out.Data, text...)
			}
			out.Ends[at+i+1] = int32(len(out.Data))
		}
	}
}

// Scratch implements Scratcher.
func (k *formulaKernel) Scratch(in []*vector.Vector) int64 {
	return k.bytes + int64(k.makes)*grown(in)
}

// grown is how many bytes there are of the inputs' texts in other letters, which take up to half more, and of numbers
// as text.
func grown(in []*vector.Vector) (bytes int64) {
	for _, v := range in {
		bytes += int64(len(v.Data))*3/2 + stretchRows*24
	}
	return bytes
}

// textFormula is one whose results' size literals say, too.
type textFormula struct{ *formulaKernel }

// Size implements Sizer.
func (k textFormula) Size(in []*vector.Vector) (bytes int64, err error) {
	rows := 0
	for _, v := range in {
		rows = v.Rows
	}
	return k.size(rows, in), nil
}

// size is that of so many rows, which no input tells if there is none.
func (k textFormula) size(rows int, in []*vector.Vector) (bytes int64) {
	for _, v := range in {
		bytes += int64(len(v.Data)) * 3 / 2
	}
	return bytes + int64(rows)*int64(4+max(24, k.texts))
}
