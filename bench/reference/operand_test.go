package reference

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/filter"
	"github.com/penstock-ml/penstock/api/spec"
	rowfilter "github.com/penstock-ml/penstock/worker/filter"
	"github.com/penstock-ml/penstock/worker/transform"
	"github.com/penstock-ml/penstock/worker/vector"
)

// operandTypes are the columns of drawOperand.
var operandTypes = []spec.Type{truths, i32, i64, f32, f64, text}

func drawOperand(t *rapid.T) string {
	name := strings.ToLower(rapid.SampledFrom(operandTypes).Draw(t, "column").Kind.String())
	modulus := rapid.OneOf(rapid.Int64Range(1, 5), rapid.Int64Range(1, 1<<62)).Draw(t, "modulus")
	if strings.HasPrefix(name, "int") && rapid.Bool().Draw(t, "plain") {
		return fmt.Sprintf("%s %% %d", name, modulus)
	}
	if rapid.IntRange(0, 3).Draw(t, "of row") == 0 {
		name = "row()"
	}
	return fmt.Sprintf("hash(%s, %d) %% %d", name, rapid.Int64().Draw(t, "seed"), modulus)
}

// Hashes and remainders are the worker's, which has another program for them, and the two parts of a split are each
// other's rest.
func TestOperandsAgreeWithTheWorker(t *testing.T) {
	columns, slots := map[string]column{}, map[string]int{}
	for i, typ := range operandTypes {
		name := strings.ToLower(typ.Kind.String())
		columns[name], slots[name] = column{name: name, typ: typ}, i
	}
	rapid.Check(t, func(t *rapid.T) {
		operand := drawOperand(t)
		part := operand + " < " + fmt.Sprint(rapid.Int64Range(0, 4).Draw(t, "least"))
		rest := "not " + part
		rows := make([][]cell, rapid.IntRange(1, 70).Draw(t, "rows"))
		w := rowfilter.Window{Rows: len(rows), File: transform.Hash("mem://a")}
		w.First = rapid.Int64Range(0, 1<<40).Draw(t, "first")
		for _, typ := range operandTypes {
			var cells []*cell
			for row := range rows {
				c := drawCell(t, typ)
				rows[row], cells = append(rows[row], *c), append(cells, c)
			}
			w.Vectors = append(w.Vectors, toVector(typ, cells))
		}
		var found [2][]uint64
		for i, text := range []string{part, rest} {
			found[i] = selected(t, text, slots, w)
			want := judged(t, text, columns, rows, w.First)
			for row := range rows {
				if got := found[i][row>>6]>>(row&63)&1 == 1; got != (want[row] == yes) {
					t.Fatalf("%s: the worker says %v of row %d, %v; here it is %v",
						text, got, row, rows[row], want[row])
				}
			}
		}
		for word := range found[0] {
			all := ^uint64(0) >> (64 - min(64, len(rows)-word*64))
			if a, b := found[0][word], found[1][word]; strings.HasPrefix(operand, "hash") && (a&b != 0 || a|b != all) {
				t.Fatalf("%s: %b, and %b of not that", part, a, b)
			}
		}
	})
}

// selected is what the worker selects.
func selected(t *rapid.T, text string, slots map[string]int, w rowfilter.Window) []uint64 {
	sel := selectedOf(t, text, slots, operandTypes, w)
	if sel == nil {
		t.Fatalf("%s is refused", text)
	}
	return sel
}

// selectedOf is what the worker selects, nil if it refuses the filter.
func selectedOf(t *rapid.T, text string, slots map[string]int, types []spec.Type, w rowfilter.Window) []uint64 {
	e, err := filter.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	p, err := rowfilter.Compile(e, slots, types)
	if err != nil {
		return nil
	}
	sel := make([]uint64, vector.Words(w.Rows))
	for i := range sel {
		sel[i] = ^uint64(0)
	}
	if err := p.Select(w, sel); err != nil {
		t.Fatal(err)
	}
	return sel
}

// judged is what the interpreter says.
func judged(t *rapid.T, text string, columns map[string]column, rows [][]cell, first int64) (all []truth) {
	r := &resolver{columns: columns, names: map[string]int{}}
	if err := r.resolveFilter(text); err != nil {
		t.Fatal(err)
	}
	for row, cells := range rows {
		mine := make([]cell, len(r.types))
		for _, s := range r.sources {
			for i, typ := range operandTypes {
				if strings.EqualFold(typ.Kind.String(), s.column.name) {
					mine[s.slot] = cells[i]
				}
			}
		}
		all = append(all, r.filter(mine, place{uri: "mem://a", row: first + int64(row)}))
	}
	return all
}
