package reference

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/expr"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	rowfilter "github.com/penstock-ml/penstock/worker/filter"
	"github.com/penstock-ml/penstock/worker/transform"
	"github.com/penstock-ml/penstock/worker/vector"
)

// expressionTypes are those of the columns b, i, l, f, d and t.
func expressionTypes() map[string]spec.Type {
	return map[string]spec.Type{"b": truths, "i": i32, "l": i64, "f": f32, "d": f64, "t": text}
}

// drawExpression writes an expression of a kind: BOOL, INT64, FLOAT32 (or any number), BINARY.
func drawExpression(t *rapid.T, kind pb.Kind, depth int) string {
	sub := func(k pb.Kind) string { return drawExpression(t, k, depth-1) }
	pick := func(texts ...string) string { return rapid.SampledFrom(texts).Draw(t, "pick") }
	number := func() string {
		return sub(rapid.SampledFrom([]pb.Kind{pb.Kind_INT64, pb.Kind_FLOAT32, pb.Kind_FLOAT64}).Draw(t, "number"))
	}
	if depth <= 0 {
		switch kind {
		case pb.Kind_BOOL:
			return pick("b", "true", "false", "i is null", "t is not null")
		case pb.Kind_INT64:
			return pick("i", "l", "l", "0", "1", "-1", "7", "9223372036854775807", "-9223372036854775808", "4294967296")
		case pb.Kind_FLOAT32:
			return pick("f", "f", "0.5", "2", "-0.0", "0.1", "cast(d as float32)")
		case pb.Kind_FLOAT64:
			return pick("d", "d", "0.5", "1e300", "cast(f as float64)")
		}
		return pick("t", "''", "'a'", "'Ünï'")
	}
	same := func() string { return sub(kind) }
	shared := []string{
		fmt.Sprintf("case when %s then %s when %s then %s else %s end", sub(pb.Kind_BOOL), same(), sub(pb.Kind_BOOL), same(),
			same()),
		fmt.Sprintf("case when %s then %s else null end", sub(pb.Kind_BOOL), same()),
		fmt.Sprintf("coalesce(%s, %s)", same(), same()),
		fmt.Sprintf("nullif(%s, %s)", same(), same()),
	}
	var own []string
	switch kind {
	case pb.Kind_BOOL:
		op := pick("==", "!=", "<", "<=", ">", ">=")
		own = []string{
			fmt.Sprintf("(%s) %s (%s)", number(), op, number()), fmt.Sprintf("%s %s %s", sub(pb.Kind_BINARY), op, sub(pb.Kind_BINARY)),
			fmt.Sprintf("(%s and %s)", same(), same()), fmt.Sprintf("(%s or %s)", same(), same()), fmt.Sprintf("not (%s)", same()),
			fmt.Sprintf("(%s) == (%s)", same(), same()), fmt.Sprintf("(%s) is %snull", number(), pick("", "not ")),
			fmt.Sprintf("(%s) %sbetween (%s) and (%s)", number(), pick("", "not "), number(), number()),
			fmt.Sprintf("(%s) %sin (1, 0.5, -7, 1e300, 9223372036854775807%s)", number(), pick("", "not "),
				strings.Repeat(", 0.1, 3", rapid.IntRange(0, 4).Draw(t, "more"))),
			fmt.Sprintf("(%s) %sin ('a', '')", sub(pb.Kind_BINARY), pick("", "not ")),
			fmt.Sprintf("cast(%s as bool)", pick(number(), sub(pb.Kind_BINARY))), fmt.Sprintf("(%s) in (true)", same()),
			fmt.Sprintf("hash(l, 7)%s %s %s", pick("", " % 4", " % l", " % (1 + 1)"), op, pick("(2)", "-(1)", "0.5", "0.5 + 1", "f", "l")),
		}
	case pb.Kind_INT64:
		own = []string{
			fmt.Sprintf("(%s) %s (%s)", same(), pick("+", "-", "*", "%"), same()), fmt.Sprintf("-(%s)", same()),
			fmt.Sprintf("%s(%s)", pick("abs", "round"), same()), fmt.Sprintf("%s(%s, %s)", pick("least", "greatest"), same(), same()),
			fmt.Sprintf("cast(%s as %s)", pick(number(), sub(pb.Kind_BINARY), sub(pb.Kind_BOOL)), pick("int32", "int64")),
			fmt.Sprintf("hash(%s, %d)", pick(number(), sub(pb.Kind_BINARY), sub(pb.Kind_BOOL)), rapid.Int64().Draw(t, "seed")),
			fmt.Sprintf("%s(%s)", pick("length", "octet_length"), sub(pb.Kind_BINARY)),
		}
	case pb.Kind_FLOAT32, pb.Kind_FLOAT64:
		own = []string{
			fmt.Sprintf("(%s) %s (%s)", same(), pick("+", "-", "*", "/"), same()), fmt.Sprintf("-(%s)", same()),
			fmt.Sprintf("(%s) %s (%s)", same(), pick("+", "-", "*", "/"), number()),
			fmt.Sprintf("%s(%s)", pick("abs", "round", "floor", "ceil", "sqrt", "exp", "ln", "log1p"), same()),
			fmt.Sprintf("pow(%s, %s)", same(), pick(same(), "2", "0.5", "3", "-1")),
			fmt.Sprintf("%s(%s, %s)", pick("least", "greatest"), same(), same()),
			fmt.Sprintf("cast(%s as %s)", pick(number(), sub(pb.Kind_BINARY), sub(pb.Kind_BOOL)), expr.KindName(kind)),
		}
	default:
		own = []string{
			fmt.Sprintf("%s(%s)", pick("lower", "upper"), same()),
			fmt.Sprintf("cast(%s as text)", pick(number(), sub(pb.Kind_BOOL), same())),
		}
	}
	return pick(append(own, shared...)...)
}

// drawColumns draws so many rows of each column.
func drawColumns(t *rapid.T, rows int) map[string][]*cell {
	columns := map[string][]*cell{}
	for _, name := range []string{"b", "i", "l", "f", "d", "t"} {
		typ := expressionTypes()[name]
		nulls := rapid.IntRange(0, 3).Draw(t, "nulls") > 0
		for range rows {
			c := drawCell(t, typ)
			for c.null && !nulls {
				c = drawCell(t, typ)
			}
			if rapid.IntRange(0, 3).Draw(t, "edge") == 0 && !c.null {
				drawEdge(t, typ, c)
			}
			columns[name] = append(columns[name], c)
		}
	}
	return columns
}

func drawEdge(t *rapid.T, typ spec.Type, c *cell) {
	switch typ {
	case i32:
		c.ints[0] = rapid.SampledFrom([]int64{math.MinInt32, -1, 0, 1, math.MaxInt32}).Draw(t, "edge")
	case i64:
		c.ints[0] = rapid.SampledFrom([]int64{
			math.MinInt64, math.MinInt64 + 1, -1, 0, 1, 1<<53 + 1, math.MaxInt64,
		}).Draw(t, "edge")
	case f32:
		c.floats[0] = float64(rapid.SampledFrom([]float32{
			0, 0.1, 0.5, 2, math.MaxFloat32, 1e-40, float32(math.Inf(1)), float32(math.NaN()), 16777216,
		}).Draw(t, "edge"))
	case f64:
		c.floats[0] = rapid.SampledFrom([]float64{
			0, math.Copysign(0, -1), 0.1, 0.5, 2, -2, 3, 1 << 53, 1 << 63, -1 << 63, 1e300, 5e-324, math.Inf(-1), math.NaN(),
		}).Draw(t, "edge")
	case text:
		c.texts[0] = []byte(rapid.SampledFrom([]string{"", "a", "A", "7", "-1.5e3", "true", "Ünï", "\xff\u0130Ⱥ"}).Draw(t, "edge"))
	}
}

// The op expr, which computes columns, and the interpreter, which computes rows and was written apart from it, agree to
// the bit.
func TestExpressionsAgreeWithTheWorker(t *testing.T) {
	kinds := []pb.Kind{pb.Kind_BOOL, pb.Kind_INT64, pb.Kind_FLOAT32, pb.Kind_FLOAT64, pb.Kind_BINARY}
	refused, checked := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SampledFrom([]int{1, 3, 64, 65, 130}).Draw(t, "rows")
		columns := drawColumns(t, rows)
		for range 12 {
			text := drawExpression(t, rapid.SampledFrom(kinds).Draw(t, "kind"), rapid.IntRange(0, 3).Draw(t, "depth"))
			n, err := expr.Parse(text)
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			var types []spec.Type
			var cells [][]*cell
			for _, name := range n.Columns() {
				types, cells = append(types, expressionTypes()[name]), append(cells, columns[name])
			}
			if len(cells) == 0 {
				continue // constants of no rows
			}
			_, errs := n.Check(func(name string) (expr.Type, error) { return expr.Type{Kind: expressionTypes()[name].Kind}, nil })
			if _, err := overInputs(text, types); (err != nil) != (len(errs) > 0) && !folds(errs) {
				t.Fatalf("%s: the worker says %v; here it is %v", text, errs, err)
			}
			if len(errs) > 0 {
				refused++
				continue
			}
			checked++
			checkAgreement(t, opCase{"expr", params("expr", text)}, types, cells)
		}
	})
	if checked < 5*refused {
		t.Errorf("%d expressions were refused, and %d were not", refused, checked)
	}
}

// folds reports whether mistakes are about the values of literals alone, of which the interpreter knows nothing.
func folds(errs []error) bool {
	for _, err := range errs {
		if strings.Contains(err.Error(), "has no value") || strings.Contains(err.Error(), "beyond float32") ||
			strings.Contains(err.Error(), "leaves no remainder") {
			return true
		}
	}
	return false
}

// Filters of any conditions choose the rows that the interpreter chooses.
func TestConditionsAgreeWithTheWorker(t *testing.T) {
	slots, types, known := map[string]int{}, []spec.Type{}, map[string]column{}
	for _, name := range []string{"b", "i", "l", "f", "d", "t"} {
		slots[name], types = len(types), append(types, expressionTypes()[name])
		known[name] = column{name: name, typ: expressionTypes()[name]}
	}
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SampledFrom([]int{1, 64, 70}).Draw(t, "rows")
		columns := drawColumns(t, rows)
		w := rowfilter.Window{Rows: rows, File: transform.Hash("mem://a"), First: 5, Vectors: make([]*vector.Vector, 6)}
		for name, slot := range slots {
			w.Vectors[slot] = toVector(types[slot], columns[name])
		}
		for range 12 {
			text := drawExpression(t, pb.Kind_BOOL, rapid.IntRange(1, 3).Draw(t, "depth"))
			if rapid.Bool().Draw(t, "of rows") {
				text = "(" + text + ") or hash(row(), 3) % 2 == l % 2"
			}
			r := &resolver{columns: known, names: map[string]int{}}
			if err := r.resolveFilter(text); err != nil {
				continue // as the worker refuses it: see above
			}
			found := selectedOf(t, text, slots, types, w)
			for row := range rows {
				cells := make([]cell, len(r.types))
				for _, s := range r.sources {
					cells[s.slot] = *columns[s.column.name][row]
				}
				want := r.filter(cells, place{uri: "mem://a", row: 5 + int64(row)})
				if got := found == nil || found[row>>6]>>(row&63)&1 == 1; found != nil && got != (want == yes) {
					t.Fatalf("%s: the worker says %v of row %d; here it is %v", text, got, row, want)
				}
			}
		}
	})
}
