package reference

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/transform"
	"github.com/penstock-ml/penstock/worker/vector"
)

// opCase is an op to run on both sides.
type opCase struct {
	op     string
	params parameters
}

// drawCases draws parameters for each op that takes one input of type in.
func drawCases(t *rapid.T, in spec.Type) []opCase {
	number := rapid.OneOf(rapid.Float64Range(-100, 100), rapid.Float64Range(-1e30, 1e30))
	seed := rapid.IntRange(-5, 1<<40)
	cases := []opCase{{
		"cast",
		params("to", rapid.SampledFrom([]string{"bool", "int32", "int64", "float32", "float64"}).Draw(t, "to")),
	}}
	fill := map[pb.Kind]any{
		pb.Kind_BOOL: true, pb.Kind_BINARY: "fill", pb.Kind_FLOAT32: number.Draw(t, "value"),
		pb.Kind_FLOAT64: number.Draw(t, "value"),
	}[in.Kind]
	if fill == nil {
		fill = rapid.IntRange(-100, 100).Draw(t, "value")
	}
	cases = append(cases, opCase{"fill_null", params("value", fill)})
	if in.List {
		cases = append(cases,
			opCase{"first_x", params("x", rapid.IntRange(1, 5).Draw(t, "x"))},
			opCase{"last_x", params("x", rapid.IntRange(1, 5).Draw(t, "x"))},
			opCase{"enumerate", params("start", seed.Draw(t, "start"))})
	}
	isInt := in.Kind == pb.Kind_INT32 || in.Kind == pb.Kind_INT64
	if isInt || in.Kind == pb.Kind_BINARY {
		cases = append(cases,
			opCase{"sigrid_hash", params("salt", seed.Draw(t, "salt"), "max", rapid.IntRange(1, 1<<50).Draw(t, "max"))})
	}
	if in.Kind == pb.Kind_BINARY {
		cases = append(cases,
			opCase{"map_id", params("keys", []any{"TRUE", "inf", ""}, "default", 5)},
			opCase{"map_id", params("keys", []any{"TRUE", "inf"}, "values", []any{0.5, 2.0})})
	}
	if isInt {
		cases = append(cases, drawIDCases(t)...)
		low := rapid.IntRange(-1000, 1000).Draw(t, "min")
		cases = append(cases,
			opCase{"ngram", params("n", rapid.IntRange(1, 3).Draw(t, "n"), "salt", seed.Draw(t, "salt"))},
			opCase{"clamp", params("min", low, "max", low+rapid.IntRange(0, 1000).Draw(t, "width"))})
	}
	if isInt || in.Kind == pb.Kind_FLOAT32 || in.Kind == pb.Kind_FLOAT64 {
		cases = append(cases, drawFloatCases(t)...)
		if in.List {
			cases = append(cases, opCase{"sort_by_score", params("ascending", rapid.Bool().Draw(t, "ascending"))})
		}
		border := rapid.Float64Range(-50, 50).Draw(t, "border")
		cases = append(cases,
			opCase{"log1p", nil},
			opCase{"normalize", params("mean", rapid.Float64Range(-9, 9).Draw(t, "mean"), "std",
				rapid.Float64Range(0.01, 9).Draw(t, "std"))},
			opCase{"bucketize", params("borders", []any{border, border + 0.1, border + 0.1, border + 7})})
		if !isInt {
			cases = append(cases, opCase{"clamp", params("min", border)})
		}
	}
	return cases
}

// drawIDCases draws parameters for the ops on ids by themselves.
func drawIDCases(t *rapid.T) []opCase {
	zone := rapid.SampledFrom([]string{
		"UTC", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe",
		"Africa/Casablanca", "Pacific/Kiritimati",
	})
	unit := rapid.SampledFrom([]string{"s", "ms", "us", "ns"})
	return []opCase{
		{"positive_modulus", params("modulus", rapid.IntRange(1, 1<<50).Draw(t, "modulus"))},
		{"map_id", params("keys", []any{5, -3, 7, 0}, "values", []any{1, 1 << 40, -1, 0})},
		{"map_id", params("keys", []any{1, 2}, "default", -1)},
		{"map_id", params("keys", []any{5, -3, 7, 0}, "values", []any{0.1, 2, 1e30, -0.5})},
		{"map_id", params("keys", []any{1, 2}, "default", 0.25)},
		{"map_id", params("first", rapid.IntRange(-60, 60).Draw(t, "first"), "count",
			rapid.IntRange(1, 60).Draw(t, "count"))},
		{"local_hour", params("timezone", zone.Draw(t, "zone"), "unit", unit.Draw(t, "unit"))},
		{"onehot", params("size", rapid.IntRange(1, 60).Draw(t, "size"))},
	}
}

// drawFloatCases draws parameters for the ops that make floats.
func drawFloatCases(t *rapid.T) []opCase {
	low, span := rapid.Float64Range(-9, 9).Draw(t, "low"), rapid.Float64Range(0.01, 9).Draw(t, "span")
	return []opCase{
		{"logit", nil},
		{"logit", params("eps", rapid.Float64Range(0, 0.5).Draw(t, "eps"))},
		{"box_cox", params("lambda", 0)},
		{"box_cox", params("lambda", low)},
		{"scale_to_0_1", params("min", low, "max", low+span)},
		{"scale_to_z_score", params("mean", low, "std", span)},
	}
}

// drawCell draws one row of a feature.
func drawCell(t *rapid.T, typ spec.Type) *cell {
	c := &cell{}
	if rapid.IntRange(0, 4).Draw(t, "null") == 0 {
		c.null = true
		return c
	}
	n := 1
	if typ.List {
		n = rapid.IntRange(0, 6).Draw(t, "length")
	}
	for range n {
		if typ.List {
			c.gone = append(c.gone, rapid.IntRange(0, 5).Draw(t, "gone") == 0)
		}
		switch typ.Kind {
		case pb.Kind_BOOL:
			c.ints = append(c.ints, rapid.Int64Range(0, 1).Draw(t, "bool"))
		case pb.Kind_INT32:
			c.ints = append(c.ints, int64(rapid.Int32().Draw(t, "int32")))
		case pb.Kind_INT64:
			c.ints = append(c.ints, rapid.OneOf(rapid.Int64(), rapid.Int64Range(-60, 60)).Draw(t, "int64"))
		case pb.Kind_FLOAT32:
			x := rapid.OneOf(rapid.Float32(), rapid.Float32Range(-60, 60),
				rapid.SampledFrom([]float32{-1, float32(math.NaN()), float32(math.Inf(1))})).Draw(t, "float32")
			c.floats = append(c.floats, float64(x))
		case pb.Kind_FLOAT64:
			x := rapid.OneOf(rapid.Float64(), rapid.Float64Range(-60, 60),
				rapid.SampledFrom([]float64{-1, math.NaN(), math.Inf(-1)})).Draw(t, "float64")
			c.floats = append(c.floats, x)
		default:
			s := rapid.OneOf(rapid.String(), rapid.StringMatching(`[+-]?[0-9]{0,22}(\.[0-9]{0,3})?(e[+-]?[0-9]{1,3})?`),
				rapid.SampledFrom([]string{"TRUE", "inf", "nan", "+nan"})).Draw(t, "text")
			c.texts = append(c.texts, []byte(s))
		}
	}
	return c
}

// toVector lays rows out as the worker has them.
func toVector(typ spec.Type, rows []*cell) *vector.Vector {
	v := &vector.Vector{Type: typ, Rows: len(rows), Valid: make([]uint64, vector.Words(len(rows))), Ends: []int32{0}}
	if typ.List {
		v.Offsets = []int32{0}
	}
	var elements []bool
	add := func(c *cell, j int) {
		if c.null { // what stands for it does not matter
			c = &cell{ints: []int64{0}, floats: []float64{0}, texts: [][]byte{nil}}
		}
		switch typ.Kind {
		case pb.Kind_BOOL:
			v.Bool = append(v.Bool, c.ints[j] != 0)
		case pb.Kind_INT32:
			v.I32 = append(v.I32, int32(c.ints[j]))
		case pb.Kind_INT64:
			v.I64 = append(v.I64, c.ints[j])
		case pb.Kind_FLOAT32:
			v.F32 = append(v.F32, float32(c.floats[j]))
		case pb.Kind_FLOAT64:
			v.F64 = append(v.F64, c.floats[j])
		default:
			v.Data = append(v.Data, c.texts[j]...)
			v.Ends = append(v.Ends, int32(len(v.Data)))
		}
	}
	for i, c := range rows {
		if !c.null {
			v.Valid[i>>6] |= 1 << (i & 63)
		}
		if !typ.List {
			add(c, 0)
			continue
		}
		for j := range c.count(typ.Kind) {
			add(c, j)
			elements = append(elements, !c.isGone(j))
		}
		v.Offsets = append(v.Offsets, int32(len(elements)))
	}
	v.ElemValid = make([]uint64, vector.Words(len(elements)))
	for j, valid := range elements {
		if valid {
			v.ElemValid[j>>6] |= 1 << (j & 63)
		}
	}
	return v
}

// fromVector is row i of a worker's result.
func fromVector(v *vector.Vector, i int) *cell {
	c := &cell{}
	if c.null = v.IsNull(i); c.null {
		return c
	}
	from, to := i, i+1
	if v.Type.List {
		from, to = int(v.Offsets[i]), int(v.Offsets[i+1])
	}
	for j := from; j < to; j++ {
		if v.Type.List {
			c.gone = append(c.gone, v.ElemIsNull(j))
		}
		switch v.Type.Kind {
		case pb.Kind_BOOL:
			c.ints = append(c.ints, boolInt(v.Bool[j]))
		case pb.Kind_INT32:
			c.ints = append(c.ints, int64(v.I32[j]))
		case pb.Kind_INT64:
			c.ints = append(c.ints, v.I64[j])
		case pb.Kind_FLOAT32:
			c.floats = append(c.floats, float64(v.F32[j]))
		case pb.Kind_FLOAT64:
			c.floats = append(c.floats, v.F64[j])
		default:
			c.texts = append(c.texts, v.Data[v.Ends[j]:v.Ends[j+1]])
		}
	}
	return c
}

// bitsOf shows a cell with every bit of its floats.
func bitsOf(c *cell, typ spec.Type) string {
	if c.null {
		return "null"
	}
	var parts []string
	for j := range c.count(typ.Kind) {
		switch {
		case c.isGone(j):
			parts = append(parts, "null")
		case len(c.floats) > 0 && c.floats[j] != c.floats[j]:
			parts = append(parts, "NaN")
		case len(c.floats) > 0:
			parts = append(parts, fmt.Sprintf("%x", math.Float64bits(c.floats[j])))
		case len(c.ints) > 0:
			parts = append(parts, fmt.Sprint(c.ints[j]))
		default:
			parts = append(parts, fmt.Sprintf("%q", c.texts[j]))
		}
	}
	return fmt.Sprint(parts)
}

// The worker's ops and the ones here were written apart from each other, by one description; they agree to the bit.
func TestOpsAgreeWithTheWorker(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		typ := spec.Type{Kind: pb.Kind(rapid.IntRange(1, 6).Draw(t, "kind")), List: rapid.Bool().Draw(t, "list")}
		var rows []*cell
		for range rapid.IntRange(1, 70).Draw(t, "rows") {
			rows = append(rows, drawCell(t, typ))
		}
		for _, c := range drawCases(t, typ) {
			checkAgreement(t, c, []spec.Type{typ}, [][]*cell{rows})
		}
	})
}

// Ops of several lists get ids of which they share some.
func TestListOpsAgreeWithTheWorker(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		isList := rapid.Bool().Draw(t, "list")
		ids := rapid.Map(rapid.IntRange(2, 3),
			func(k int) spec.Type { return spec.Type{Kind: pb.Kind(k), List: isList} })
		scores := rapid.Map(rapid.IntRange(2, 5),
			func(k int) spec.Type { return spec.Type{Kind: pb.Kind(k), List: isList} })
		a, b, x, y := ids.Draw(t, "a"), ids.Draw(t, "b"), scores.Draw(t, "x"), scores.Draw(t, "y")
		var columns [4][]*cell
		for range rapid.IntRange(1, 70).Draw(t, "rows") {
			for i, of := range []spec.Type{a, b} {
				n := rapid.IntRange(0, 12).Draw(t, "length")
				columns[2*i] = append(columns[2*i], drawShared(t, of, n))
				columns[2*i+1] = append(columns[2*i+1], drawShared(t, []spec.Type{x, y}[i], n))
			}
		}
		left, right, rightScores := columns[0], columns[2], columns[3]
		two, of := []spec.Type{a, b}, [][]*cell{left, right}
		for _, op := range []string{"intersect", "union", "has_overlap", "id_overlap_count", "jaccard_similarity"} {
			checkAgreement(t, opCase{op, nil}, two, of)
		}
		checkAgreement(t, opCase{"cartesian", params("salt", 3, "max", rapid.IntRange(1, 1<<40).Draw(t, "max"))},
			two, of)
		for _, op := range []string{"score_sum", "score_min", "score_max"} {
			checkAgreement(t, opCase{op, nil}, []spec.Type{a, b, y}, [][]*cell{left, right, rightScores})
		}
		checkAgreement(t, opCase{"cosine_similarity", nil}, []spec.Type{a, x, b, y}, columns[:])
		if isList {
			checkAgreement(t, opCase{"sort_by_score", params("ascending", rapid.Bool().Draw(t, "ascending"))},
				[]spec.Type{a, x}, columns[:2])
		}
	})
}

// drawShared draws a list of n small numbers, or one of them, or null.
func drawShared(t *rapid.T, typ spec.Type, n int) *cell {
	c := &cell{}
	if rapid.IntRange(0, 19).Draw(t, "null") == 0 {
		c.null = true
		return c
	}
	if !typ.List {
		n = 1
	}
	hasNulls := typ.List && rapid.IntRange(0, 5).Draw(t, "nulls") == 0
	for range n {
		if typ.List {
			c.gone = append(c.gone, hasNulls && rapid.IntRange(0, 2).Draw(t, "gone") == 0)
		}
		if holdingOf(typ.Kind) == storedInts {
			c.ints = append(c.ints, rapid.Int64Range(-3, 9).Draw(t, "int"))
			continue
		}
		x := rapid.OneOf(rapid.Float32Range(-3, 3),
			rapid.SampledFrom([]float32{0, 1, float32(math.NaN()), float32(math.Inf(1))}))
		c.floats = append(c.floats, float64(x.Draw(t, "float")))
	}
	return c
}

// checkAgreement runs an op on both sides.
func checkAgreement(t *rapid.T, c opCase, types []spec.Type, columns [][]*cell) {
	ours, err := ops()[c.op].make(c.params, types)
	if err != nil {
		t.Fatal(err)
	}
	catalog := transform.Builtin()
	sig, err := catalog.Check(c.op, c.params, types)
	if err != nil || sig.Out != ours.out {
		t.Fatalf("%s of %v: the worker has %v, %v; here it is %v", c.op, types, sig.Out, err, ours.out)
	}
	program := &pb.Program{Steps: []*pb.Step{{
		Op: c.op, Version: sig.Version, Params: sig.Params, Outs: 1,
		Type: sig.Out.Proto(),
	}}}
	var in []*vector.Vector
	for i, typ := range types {
		program.Sources = append(program.Sources, &pb.Source{Name: fmt.Sprint("x", i), Type: typ.Proto()})
		program.Steps[0].In = append(program.Steps[0].In, uint32(i))
		in = append(in, toVector(typ, columns[i]))
	}
	chain, err := transform.Compile(catalog, program, nil)
	if err != nil {
		t.Fatal(err)
	}
	slots, err := chain.Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	for i := range columns[0] {
		var row []*cell
		var shown []string
		for j, column := range columns {
			row, shown = append(row, column[i]), append(shown, bitsOf(column[i], types[j]))
		}
		want := &cell{}
		want.clear()
		if err := ours.run(row, want); err != nil {
			t.Fatal(err)
		}
		if got := fromVector(slots[len(slots)-1], i); bitsOf(got, sig.Out) != bitsOf(want, sig.Out) {
			t.Fatalf("%s %v of %v: the worker has %s; here it is %s", c.op, c.params, shown, bitsOf(got, sig.Out),
				bitsOf(want, sig.Out))
		}
	}
}

func TestSampleAgreesWithTheWorker(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := place{
			seed: rapid.Int64().Draw(t, "seed"), epoch: rapid.Uint32().Draw(t, "epoch"),
			uri: rapid.String().Draw(t, "uri"),
		}
		opSeed := rapid.Uint64().Draw(t, "op seed")
		first := rapid.Int64Range(0, 1<<40).Draw(t, "first")
		rows := transform.Rows{Seed: at.seed, Epoch: at.epoch, File: transform.Hash(at.uri), First: first, N: 3}
		for i := range rows.N {
			at.row = first + int64(i)
			if got, want := rows.Draws(opSeed).At(i), at.draw(opSeed); got != want {
				t.Fatalf("row %d: the worker draws %x; here it is %x", at.row, got, want)
			}
		}
	})
}
