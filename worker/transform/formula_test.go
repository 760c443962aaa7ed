package transform

import (
	"math"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/expr"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// TestExpressions holds what docs/reference/expressions.md says; bench/reference and a test beside DuckDB hold the rest.
func TestExpressions(t *testing.T) {
	types := map[string]spec.Type{
		"b": scalar(pb.Kind_BOOL), "i": scalar(pb.Kind_INT32), "l": scalar(pb.Kind_INT64), "f": scalar(pb.Kind_FLOAT32),
		"d": scalar(pb.Kind_FLOAT64), "t": scalar(pb.Kind_BINARY),
	}
	columns := map[string][]any{
		"b": {true, false, nil},
		"i": {int32(-7), int32(0), nil},
		"l": {int64(math.MaxInt64), int64(1<<53 + 1), nil},
		"f": {float32(0.1), float32(math.NaN()), nil},
		"d": {2.5, float64(1 << 53), nil},
		"t": {[]byte("7"), []byte("Éa\xff"), nil},
	}
	for text, want := range map[string][]any{
		"i + 1":            {int64(-6), int64(1), nil},
		"l + 1":            {nil, int64(1<<53 + 2), nil},
		"i % 10":           {int64(3), int64(0), nil},
		"7 % i":            {int64(0), nil, nil},
		"10 % (i - 3)":     {int64(0), int64(-2), nil},
		"1 / i":            {-1. / 7, math.Inf(1), nil},
		"1 / nullif(i, 0)": {-1. / 7, nil, nil},
		"f * 2":            {float32(0.2), float32(math.NaN()), nil},
		"f == 0.1":         {true, false, nil},
		"f != f":           {false, true, nil},
		"l == d":           {false, false, nil},
		"b and i < 0":      {true, false, nil},
		"b or t is null":   {true, false, true},
		"case when b then i when not b then 5 end": {int64(-7), int64(5), nil},
		"case when b then 'yes' else t end":        {[]byte("yes"), []byte("Éa\xff"), nil},
		"coalesce(i, l, 3)":                        {int64(-7), int64(0), int64(3)},
		"least(i, 2)":                              {int64(-7), int64(0), int64(2)},
		"greatest(f, 0.5)":                         {float32(0.5), float32(math.NaN()), float32(0.5)},
		"round(d)":                                 {3.0, float64(1 << 53), nil},
		"cast(d as int32)":                         {int32(2), int32(math.MaxInt32), nil},
		"cast(t as int64)":                         {int64(7), nil, nil},
		"cast(d as text)":                          {[]byte("2.5"), []byte("9007199254740992.0"), nil},
		"length(t)":                                {int64(1), int64(3), nil},
		"octet_length(t)":                          {int64(1), int64(4), nil},
		"lower(t)":                                 {[]byte("7"), []byte("éa\xff"), nil},
		"i in (0, 1.5)":                            {false, true, nil},
		"i not between -7 and -1":                  {false, true, nil},
		"hash(t, 7) == hash(coalesce(t, ''), 7)":   {true, true, false},
		"pow(d, 2)":                                {6.25, float64(1 << 106), nil},
		"log1p(i)":                                 {math.NaN(), 0.0, nil},
	} {
		n, err := expr.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		var in []spec.Type
		var vectors []*vector.Vector
		for _, name := range n.Columns() {
			in = append(in, types[name])
			vectors = append(vectors, vectorOf(types[name], columns[name]))
		}
		out := run(t, chainOf(t, expression(), values{"expr": text}, in...), vectors...)
		got := rowsOf(out)
		for i := range want {
			if !same(got[i], want[i]) {
				t.Errorf("%s: row %d is %v, want %v", text, i, got[i], want[i])
			}
		}
	}
}

func TestExpressionsSayWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		"i + t":              "expr: column 3: t is text",
		"i +":                "expr: column 4: found the end",
		"hash(row(), 1) > i": "expr: row() is a row's place in its file, which filters and sample alone know",
	} {
		in := []spec.Type{scalar(pb.Kind_INT32), scalar(pb.Kind_BINARY)}[:1+strings.Count(text, "t")]
		_, err := Builtin().Check("expr", values{"expr": text}.proto(), in)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}

// nearestPower is x^y, rounded to nearest.
func nearestPower(x, y float64) float64 {
	exact := exactExp(newBig().Mul(exactLog(newBig().SetFloat64(x)), newBig().SetFloat64(y)))
	nearest, _ := new(big.Float).SetPrec(160).Set(exact).Float64()
	return nearest
}

// TestPowersAreNearest compares with 200 bits; exact powers between two numbers go to the even one.
func TestPowersAreNearest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := math.Abs(rapid.OneOf(rapid.Float64Range(0.5, 2), rapid.Float64(), rapid.Map(rapid.IntRange(1, 1<<20),
			func(n int) float64 { return float64(n) })).Draw(t, "x"))
		y := rapid.OneOf(rapid.Float64Range(-3, 3), rapid.Float64Range(-1000, 1000), rapid.Map(rapid.IntRange(-20, 20),
			func(n int) float64 { return float64(n) / 2 })).Draw(t, "y")
		if x == 0 {
			return
		}
		if got, want := pow64(x, y), nearestPower(x, y); got != want {
			t.Fatalf("%x to the power of %x is %x, want %x", x, y, got, want)
		}
	})
	for i := range 2000 { // where results lose bits
		x := 1.5 + float64(mix(uint64(i))>>11)*0x1p-53
		y := -(990 + float64(i%90)) / math.Log2(x)
		if got, want := pow64(x, y), nearestPower(x, y); got != want {
			t.Errorf("%x to the power of %x is %x, want %x", x, y, got, want)
		}
	}
	inf, nan := math.Inf(1), math.NaN()
	for _, x := range []float64{0, math.Copysign(0, -1), 1, -1, 0.5, -0.5, 2, -2, inf, -inf, nan} {
		for _, y := range []float64{0, 1, -1, 2, 3, -3, 0.5, -0.5, 1.5, inf, -inf, nan, 1 << 53, 1e300} {
			if got, want := pow64(x, y), math.Pow(x, y); !same(got, want) && math.Abs(got-want) > 1e-15 {
				t.Errorf("%v to the power of %v is %v, want %v", x, y, got, want)
			}
		}
	}
}

func TestExpIsWithinOneUlp(t *testing.T) {
	for i := range 3_000 {
		y := math.Ldexp(float64(int64(mix(uint64(i)))), -53-i%60) // up to 1024
		if y > 709.7 || y < -708 || y == 0 {
			continue
		}
		if off := offBy(exp64(y), exactExp(newBig().SetFloat64(y))); off > 0.9 {
			t.Fatalf("exp64(%x) is off by %v units in the last place", y, off)
		}
	}
	for y, want := range map[float64]float64{
		0: 1, 1000: math.Inf(1), -1000: 0, math.Inf(-1): 0, -745.2: 0, -744: 1e-323, math.NaN(): math.NaN(),
	} {
		if got := exp64(y); !same(got, want) {
			t.Errorf("exp64(%v): got %v, want %v", y, got, want)
		}
	}
}

func TestSampleOfSomeRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := Rows{Seed: rapid.Int64().Draw(t, "seed"), First: 77, N: rapid.IntRange(1, 700).Draw(t, "rows")}
		labels := &vector.Vector{Type: scalar(pb.Kind_INT64), Rows: rows.N}
		labels.I64 = rapid.SliceOfN(rapid.Int64Range(0, 2), rows.N, rows.N).Draw(t, "labels")
		labels.Valid = rapid.SliceOfN(rapid.Uint64(), vector.Words(rows.N), vector.Words(rows.N)).Draw(t, "valid")
		s, err := sample().Select(Params{values{"rate": 0.3, "where": "label == 0", "seed": int64(1)}.proto()},
			[]spec.Type{labels.Type})
		if err != nil {
			t.Fatal(err)
		}
		got, all := copyValid(nil, nil, rows.N), copyValid(nil, nil, rows.N)
		s.Select(rows, []*vector.Vector{labels}, got)
		(&sampler{rate: 0.3, seed: 1}).Select(rows, nil, all)
		for i := range rows.N {
			draws := !labels.IsNull(i) && labels.I64[i] == 0
			want := !draws || all[i>>6]>>(i&63)&1 == 1
			if kept := got[i>>6]>>(i&63)&1 == 1; kept != want {
				t.Fatalf("row %d, label %d, null: %v, is kept: %v", i, labels.I64[i], labels.IsNull(i), kept)
			}
		}
	})
}

func TestExpressionsAllocateNothing(t *testing.T) {
	f32, text := scalar(pb.Kind_FLOAT32), scalar(pb.Kind_BINARY)
	chain := chainOf(t, expression(), values{
		"expr": "case when coalesce(a, 0) > least(b, 0.5) or a is null then upper(t) when b in (1, 2) then cast(b as text) " +
			"else t end",
	}, f32, f32, text)
	texts := &vector.Vector{Type: text, Rows: benchRows, Ends: make([]int32, benchRows+1), Data: []byte("aé")}
	for i := range benchRows {
		texts.Ends[i+1] = int32(min(3, i))
	}
	in := []*vector.Vector{catalogueVector(f32, 1), catalogueVector(f32, 2), texts}
	run(t, chain, in...)
	if n := testing.AllocsPerRun(5, func() { run(t, chain, in...) }); n > 0 {
		t.Errorf("%v allocations a run", n)
	}
}

func BenchmarkExpr(b *testing.B) {
	f32, i64, f64 := scalar(pb.Kind_FLOAT32), scalar(pb.Kind_INT64), scalar(pb.Kind_FLOAT64)
	for _, c := range []struct {
		text string
		in   []spec.Type
	}{
		{"a + b", []spec.Type{f32, f32}},
		{"a + b", []spec.Type{i64, i64}},
		{"a / nullif(b, 0)", []spec.Type{f32, f32}},
		{"a * 2 + b * 3 - 1", []spec.Type{f64, f64}},
		{"case when a > b then a else b end", []spec.Type{f32, f32}},
		{"coalesce(a, 0) > 0.5 and b < 10", []spec.Type{f32, f32}},
		{"hash(a, 7) % 100", []spec.Type{i64}},
		{"ln(a + 1)", []spec.Type{f64}},
		{"exp(a)", []spec.Type{f64}},
		{"pow(a, 1.5)", []spec.Type{f64}},
	} {
		b.Run(c.text+"/"+c.in[0].String(), func(b *testing.B) {
			chain := chainOf(b, expression(), values{"expr": c.text}, c.in...)
			var in []*vector.Vector
			for i, typ := range c.in {
				in = append(in, catalogueVector(typ, uint64(i)))
			}
			run(b, chain, in...)
			b.ReportAllocs()
			for b.Loop() {
				run(b, chain, in...)
			}
			perElement(b, in[0].Rows)
		})
	}
}

// TestTextOfNothing: a text that is made of no column is counted for each row.
func TestTextOfNothing(t *testing.T) {
	text := strings.Repeat("a", 100)
	k, err := expression().New(Params{values{"expr": "'" + text + "'"}.proto()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := step{kernel: k, typ: scalar(pb.Kind_BINARY)}
	s.out.Rows = 1000
	if err := k.Run(&s.out, nil); err != nil {
		t.Fatal(err)
	}
	if bytes, err := s.size(); err != nil || bytes < int64(len(s.out.Data)) || len(s.out.Data) != 100_000 {
		t.Errorf("%d bytes of text are counted as %d; %v", len(s.out.Data), bytes, err)
	}
}
