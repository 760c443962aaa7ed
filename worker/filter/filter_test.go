package filter

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/expr"
	"github.com/penstock-ml/penstock/api/filter"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

var kinds = []pb.Kind{
	pb.Kind_BOOL, pb.Kind_INT32, pb.Kind_INT64, pb.Kind_FLOAT32, pb.Kind_FLOAT64, pb.Kind_BINARY,
}

func slotsAndTypes() (map[string]int, []spec.Type) {
	slots, types := map[string]int{}, make([]spec.Type, len(kinds))
	for i, k := range kinds {
		slots[strings.ToLower(k.String())], types[i] = i, spec.Type{Kind: k}
	}
	return slots, types
}

var (
	ints64 = []int64{math.MinInt64, -1 << 31, -2, -1, 0, 1, 2, 3, 1<<31 - 1, 1 << 53, 1<<53 + 1, math.MaxInt64}
	reals  = []float64{
		-1e300, -1 << 63, -2.5, -1, -0.5, math.Copysign(0, -1), 0, 0.1, 0.5, 1, 2, 1 << 53, 1 << 63,
		1e300,
	}
	words = []string{"", "a", "ab", "b", "\xff"}
)

// anyText writes a random predicate.
func anyText(t *rapid.T, depth int) string {
	if depth > 0 && rapid.Bool().Draw(t, "nested") {
		a, b := anyText(t, depth-1), anyText(t, depth-1)
		return fmt.Sprintf(rapid.SampledFrom([]string{
			"(%s and %s)", "(%s or %s)", "not (%s and %s)", "not (%s or not %s)",
		}).Draw(t, "junction"), a, b)
	}
	column := strings.ToLower(rapid.SampledFrom(kinds).Draw(t, "column").String())
	if rapid.IntRange(0, 2).Draw(t, "computed") == 0 {
		return anyComputed(t, column)
	}
	ops := []string{"==", "!=", "in", "not in", "is null", "is not null"}
	if column != "bool" {
		ops = append(ops, "<", "<=", ">", ">=")
	}
	op := rapid.SampledFrom(ops).Draw(t, "op")
	switch op {
	case "is null", "is not null":
		return column + " " + op
	case "in", "not in":
		literals := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string { return anyLiteral(t, column) }), 1,
			12).Draw(t, "set")
		return column + " " + op + " (" + strings.Join(literals, ",") + ")"
	}
	return column + " " + op + " " + anyLiteral(t, column)
}

// anyComputed writes a test of a hash or of a remainder.
func anyComputed(t *rapid.T, column string) string {
	modulus := rapid.SampledFrom([]int64{1, 2, 3, 100, math.MaxInt64}).Draw(t, "modulus")
	op := rapid.SampledFrom([]string{"<", ">=", "==", "!="}).Draw(t, "op")
	least := rapid.Int64Range(0, modulus/2).Draw(t, "least")
	if strings.HasPrefix(column, "int") && rapid.Bool().Draw(t, "remainder") {
		return fmt.Sprintf("%s %% %d %s %d", column, modulus, op, least)
	}
	if rapid.IntRange(0, 2).Draw(t, "of row") == 0 {
		column = "row()"
	}
	return fmt.Sprintf("hash(%s, %d) %% %d %s %d", column, rapid.Int64Range(-2, 2).Draw(t, "seed"), modulus, op, least)
}

func anyLiteral(t *rapid.T, column string) string {
	switch column {
	case "bool":
		return rapid.SampledFrom([]string{"true", "false"}).Draw(t, "bool")
	case "binary":
		return expr.Text(rapid.SampledFrom(words).Draw(t, "text")).String()
	}
	if rapid.Bool().Draw(t, "integer") {
		return expr.Int(rapid.SampledFrom(ints64).Draw(t, "int")).String()
	}
	return expr.Float64(rapid.SampledFrom(reals).Draw(t, "float")).String()
}

// anyVectors draws a vector of each kind.
func anyVectors(t *rapid.T, rows int) []*vector.Vector {
	vs := make([]*vector.Vector, len(kinds))
	anyReal := rapid.SampledFrom(append(reals, math.NaN(), math.Inf(1)))
	for i, k := range kinds {
		v := &vector.Vector{Type: spec.Type{Kind: k}, Rows: rows}
		if rapid.Bool().Draw(t, "has nulls") {
			v.Valid = rapid.SliceOfN(rapid.Uint64(), vector.Words(rows), vector.Words(rows)).Draw(t, "valid")
		}
		v.Ends = []int32{0}
		for range rows {
			switch k {
			case pb.Kind_BOOL:
				v.Bool = append(v.Bool, rapid.Bool().Draw(t, "b"))
			case pb.Kind_INT32:
				v.I32 = append(v.I32, int32(rapid.SampledFrom(ints64).Draw(t, "i")))
			case pb.Kind_INT64:
				v.I64 = append(v.I64, rapid.SampledFrom(ints64).Draw(t, "i"))
			case pb.Kind_FLOAT32:
				v.F32 = append(v.F32, float32(anyReal.Draw(t, "f")))
			case pb.Kind_FLOAT64:
				v.F64 = append(v.F64, anyReal.Draw(t, "f"))
			default:
				v.Data = append(v.Data, rapid.SampledFrom(words).Draw(t, "s")...)
				v.Ends = append(v.Ends, int32(len(v.Data)))
			}
		}
		vs[i] = v
	}
	return vs
}

// asCodes has some of the vectors be the dictionary of codes instead.
func asCodes(t *rapid.T, vs []*vector.Vector) {
	for i, v := range vs {
		coded := &vector.Vector{Type: v.Type, Rows: v.Rows, Valid: v.Valid, Dict: v, Codes: make([]uint32, v.Rows)}
		switch rapid.IntRange(0, 4).Draw(t, "codes") {
		case 0, 1:
			continue
		case 2: // rows are null, so that there are no entries
			coded.Valid, coded.Dict = make([]uint64, vector.Words(v.Rows)), &vector.Vector{
				Type: v.Type,
				Ends: []int32{0},
			}
		default:
			v.Valid = nil
			for row := range coded.Codes {
				coded.Codes[row] = rapid.Uint32Range(0, uint32(v.Rows-1)).Draw(t, "code")
			}
		}
		vs[i] = coded
	}
}

func valueAt(v *vector.Vector, row int) (expr.Value, bool) {
	if v.IsNull(row) {
		return expr.Value{}, false
	}
	if v.Dict != nil {
		return valueAt(v.Dict, int(v.Codes[row]))
	}
	switch v.Type.Kind {
	case pb.Kind_BOOL:
		return expr.Bool(v.Bool[row]), true
	case pb.Kind_INT32:
		return expr.Int(int64(v.I32[row])), true
	case pb.Kind_INT64:
		return expr.Int(v.I64[row]), true
	case pb.Kind_FLOAT32:
		return expr.Float32(v.F32[row]), true
	case pb.Kind_FLOAT64:
		return expr.Float64(v.F64[row]), true
	}
	return expr.Text(string(v.Data[v.Ends[row]:v.Ends[row+1]])), true
}

func compile(t interface{ Fatalf(string, ...any) }, text string) (*filter.Expr, *Program) {
	e, err := filter.Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	slots, types := slotsAndTypes()
	p, err := Compile(e, slots, types)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return e, p
}

func TestSelectAgreesWithTheRowEvaluator(t *testing.T) {
	slots, _ := slotsAndTypes()
	rapid.Check(t, func(t *rapid.T) {
		e, p := compile(t, anyText(t, 3))
		// The second window finds the scratch of the first.
		for range 2 {
			rows := rapid.SampledFrom([]int{1, 5, 63, 64, 65, 130}).Draw(t, "rows")
			vs := anyVectors(t, rows)
			asCodes(t, vs)
			n := vector.Words(rows) + 1
			before := rapid.SliceOfN(rapid.Uint64(), n, n).Draw(t, "sel")
			sel := append([]uint64(nil), before...)
			w := Window{Vectors: vs, Rows: rows, File: rapid.Uint64().Draw(t, "file")}
			w.First = rapid.Int64Range(0, 1<<40).Draw(t, "first")
			if err := p.Select(w, sel); err != nil {
				t.Fatal(err)
			}
			for row := range n * 64 {
				want := false
				if row < rows && before[row>>6]>>(row&63)&1 == 1 {
					truth, err := e.Eval(func(name string) (expr.Value, bool) {
						if name == "" {
							return expr.Int(int64(filter.RowID(w.File, w.First+int64(row)))), true
						}
						return valueAt(vs[slots[name]], row)
					})
					if err != nil {
						t.Fatal(err)
					}
					want = truth == filter.True
				}
				if got := sel[row>>6]>>(row&63)&1 == 1; got != want {
					t.Fatalf("%s: row %d of %d: got %v, want %v", e, row, rows, got, want)
				}
			}
		}
	})
}

// Conditions that no leaf stands for see codes as the values that they are.
func TestConditionsOfCodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom([]string{
			"int32 + int64 > float64 or bool", "length(binary) < int32 or binary == 'ab' and not bool == (float32 > 1)",
			"coalesce(float32, float64) between -1 and int64 and int32 % 2 == 1 or int64 is null", "not (int64 < float32)",
		}).Draw(t, "text")
		_, p := compile(t, text+" and (int32 > -100 or hash(row(), 1) % 2 == int64 % 2)")
		rows := rapid.SampledFrom([]int{1, 64, 600}).Draw(t, "rows")
		coded := anyVectors(t, rows)
		asCodes(t, coded)
		plain := make([]*vector.Vector, len(coded))
		for i, v := range coded {
			plain[i] = decoded(v)
		}
		var found [2][]uint64
		for i, vs := range [][]*vector.Vector{coded, plain} {
			found[i] = make([]uint64, vector.Words(rows))
			for w := range found[i] {
				found[i][w] = ^uint64(0)
			}
			if err := p.Select(Window{Vectors: vs, Rows: rows, First: 3}, found[i]); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(found[0], found[1]) {
			t.Fatalf("%s: %x of codes, %x of values", text, found[0], found[1])
		}
	})
}

// decoded is a vector of values.
func decoded(v *vector.Vector) *vector.Vector {
	if v.Dict == nil {
		return v
	}
	rows := make([]int32, v.Rows)
	for row, code := range v.Codes {
		rows[row] = int32(code)
	}
	if v.Dict.Rows == 0 { // all are null
		out := *v
		out.Dict, out.Codes = nil, nil
		out.Bool, out.I32, out.I64 = make([]bool, v.Rows), make([]int32, v.Rows), make([]int64, v.Rows)
		out.F32, out.F64, out.Ends = make([]float32, v.Rows), make([]float64, v.Rows), make([]int32, v.Rows+1)
		return &out
	}
	var e vector.Excerpt
	out := *e.Take(v.Dict, rows)
	out.Valid = v.Valid
	return &out
}

func TestSelectOfNoRows(t *testing.T) {
	_, p := compile(t, "int64 is null")
	v := &vector.Vector{Type: spec.Type{Kind: pb.Kind_INT64}}
	sel := []uint64{7}
	if err := p.Select(Window{Vectors: []*vector.Vector{v, v, v}}, sel); err != nil || sel[0] != 0 {
		t.Errorf("got %v, %v", sel, err)
	}
}

func TestMistakes(t *testing.T) {
	slots, types := slotsAndTypes()
	for text, says := range map[string]string{
		"other == 1":  "other is not among the sources",
		"int32 = 'a'": "want a number",
	} {
		e, err := filter.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Compile(e, slots, types); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v", text, err)
		}
	}
	_, p := compile(t, "bool == true")
	err := p.Select(Window{Vectors: []*vector.Vector{{Type: spec.Type{Kind: pb.Kind_INT32}, Rows: 4}}, Rows: 4},
		make([]uint64, 1))
	if err == nil || !strings.Contains(err.Error(), "column bool has 4 rows of int32; want 4 of bool") {
		t.Errorf("got %v", err)
	}
}

const realistic = "int64 == 1 and binary in ('de', 'fr', 'it') and not (float32 < 0.5 or float32 is null) or int32 " +
	"in (1,2,3,4,5,6,7,8,9)"

func window(rows int) []*vector.Vector {
	vs := make([]*vector.Vector, len(kinds))
	for i, k := range kinds {
		vs[i] = &vector.Vector{
			Type: spec.Type{Kind: k}, Rows: rows, Valid: make([]uint64, vector.Words(rows)), Bool: make([]bool, rows),
			I32: make([]int32, rows), I64: make([]int64, rows), F32: make([]float32, rows), F64: make([]float64, rows),
			Ends: make([]int32, rows+1),
		}
		for w := range vs[i].Valid {
			vs[i].Valid[w] = ^uint64(0)
		}
		for row := range rows {
			vs[i].I32[row], vs[i].I64[row], vs[i].F32[row] = int32(row%20), int64(row%2), float32(row%3)
		}
	}
	return vs
}

func TestSelectAllocatesNothing(t *testing.T) {
	_, p := compile(t, realistic+" or hash(binary, 7) % 100 < 90 or hash(row(), 7) % 100 < 90")
	vs := window(1000)
	sel := make([]uint64, vector.Words(1000))
	run := func() {
		for i := range sel {
			sel[i] = ^uint64(0)
		}
		if err := p.Select(Window{Vectors: vs, Rows: 1000}, sel); err != nil {
			t.Fatal(err)
		}
	}
	run()
	if n := testing.AllocsPerRun(20, run); n != 0 {
		t.Errorf("%v allocations a window", n)
	}
}

func BenchmarkSelect(b *testing.B) {
	for _, text := range []string{
		"int64 == 1", "float32 >= 0.5", "float32 is not null and int32 in (1, 2, 3)",
		realistic, "hash(int64, 7) % 100 < 90",
	} {
		b.Run(text[:min(len(text), 30)], func(b *testing.B) {
			const rows = 1 << 14
			_, p := compile(b, text)
			vs := window(rows)
			sel := make([]uint64, vector.Words(rows))
			for b.Loop() {
				for i := range sel {
					sel[i] = ^uint64(0)
				}
				if err := p.Select(Window{Vectors: vs, Rows: rows}, sel); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
		})
	}
}
