package reference

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

func value(x any) *pb.Value {
	switch x := x.(type) {
	case int:
		return &pb.Value{Kind: &pb.Value_Int{Int: int64(x)}}
	case float64:
		return &pb.Value{Kind: &pb.Value_Float{Float: x}}
	case string:
		return &pb.Value{Kind: &pb.Value_Text{Text: x}}
	case bool:
		return &pb.Value{Kind: &pb.Value_Bool{Bool: x}}
	case []any:
		list := &pb.List{}
		for _, e := range x {
			list.Values = append(list.Values, value(e))
		}
		return &pb.Value{Kind: &pb.Value_List{List: list}}
	}
	return nil
}

func params(kv ...any) parameters {
	p := parameters{}
	for i := 0; i < len(kv); i += 2 {
		p[kv[i].(string)] = value(kv[i+1])
	}
	return p
}

// show writes a cell as "3", "null" or "[1 null]".
func (c *cell) show(t spec.Type) string {
	if c.null {
		return "null"
	}
	var parts []string
	for j := range c.count(t.Kind) {
		switch {
		case c.isGone(j):
			parts = append(parts, "null")
		case holdingOf(t.Kind) == storedInts:
			parts = append(parts, fmt.Sprint(c.ints[j]))
		case holdingOf(t.Kind) == storedFloats:
			parts = append(parts, fmt.Sprint(c.floats[j]))
		default:
			parts = append(parts, string(c.texts[j]))
		}
	}
	if t.List {
		return "[" + strings.Join(parts, " ") + "]"
	}
	return strings.Join(parts, " ")
}

var (
	i32    = spec.Type{Kind: pb.Kind_INT32}
	i64    = spec.Type{Kind: pb.Kind_INT64}
	f32    = spec.Type{Kind: pb.Kind_FLOAT32}
	f64    = spec.Type{Kind: pb.Kind_FLOAT64}
	text   = spec.Type{Kind: pb.Kind_BINARY}
	truths = spec.Type{Kind: pb.Kind_BOOL}
)

func list(t spec.Type) spec.Type { return spec.Type{Kind: t.Kind, List: true} }

func intsOf(x ...int64) *cell { return &cell{ints: x} }

func floatsOf(x ...float64) *cell { return &cell{floats: x} }

func textOf(s string) *cell { return &cell{texts: [][]byte{[]byte(s)}} }

// listOf is a list whose elements of value 404 are null.
func listOf(x ...int64) *cell {
	c := &cell{}
	for _, v := range x {
		c.ints = append(c.ints, v)
		c.gone = append(c.gone, v == 404)
	}
	return c
}

func floatList(x ...float64) *cell { return &cell{floats: x, gone: make([]bool, len(x))} }

func TestOps(t *testing.T) {
	null := &cell{null: true}
	nan := math.NaN()
	for _, tt := range []struct {
		op     string
		params parameters
		typ    spec.Type
		in     *cell
		want   string
	}{
		{"fill_null", params("value", 7), i32, null, "7"},
		{"fill_null", params("value", 7), i32, intsOf(3), "3"},
		{"fill_null", params("value", 1e6), i64, null, "1e+06"},
		{"fill_null", params("value", 7), list(i64), null, "null"},
		{"fill_null", params("value", 7), list(i64), listOf(1, 404, 2), "[1 7 2]"},
		{"fill_null", params("value", 0.1), f32, null, fmt.Sprint(float64(float32(0.1)))},
		{"fill_null", params("value", "x"), text, null, "x"},
		{"fill_null", params("value", true), truths, null, "1"},

		{"clamp", params("min", 0, "max", 5), i64, intsOf(-1), "0"},
		{"clamp", params("min", 0, "max", 5), i64, intsOf(9), "5"},
		{"clamp", params("max", 5), i64, intsOf(-9), "-9"},
		{"clamp", params("min", 0.1), f32, floatsOf(0), fmt.Sprint(float64(float32(0.1)))},
		{"clamp", params("min", 0, "max", 1), list(f64), floatList(-1, 0.5, 2, nan), "[0 0.5 1 NaN]"},
		{"clamp", params("min", 0), f64, null, "null"},

		{"normalize", params("mean", 1, "std", 2), f32, floatsOf(4), "1.5"},
		{"normalize", params("mean", 1, "std", 2), list(i64), listOf(1, 404, 3), "[0 null 1]"},
		{
			"normalize", params("mean", 0.1, "std", 3), f64, floatsOf(1),
			fmt.Sprint(float64((float32(1) - float32(0.1)) / 3)),
		},

		{"log1p", nil, f32, floatsOf(0), "0"},
		{"log1p", nil, f32, floatsOf(-1), "-Inf"},
		{"log1p", nil, f32, floatsOf(-2), "NaN"},
		{"log1p", nil, i64, intsOf(1), fmt.Sprint(float64(float32(math.Ln2)))},
		{"log1p", nil, f64, floatsOf(1), fmt.Sprint(math.Ln2)},

		{"bucketize", params("borders", []any{1, 2.5, 4}), f32, floatsOf(1), "0"},
		{"bucketize", params("borders", []any{1, 2.5, 4}), f32, floatsOf(1.5), "1"},
		{"bucketize", params("borders", []any{1, 2.5, 4}), f32, floatsOf(5), "3"},
		{"bucketize", params("borders", []any{1, 2.5, 4}), f32, floatsOf(nan), "3"},
		{"bucketize", params("borders", []any{0.1}), f32, floatsOf(float64(float32(0.1))), "0"},
		{"bucketize", params("borders", []any{0.1}), f64, floatsOf(float64(float32(0.1))), "1"},
		{"bucketize", params("borders", []any{2.5}), list(i64), listOf(2, 3, 404), "[0 1 null]"},
		{"bucketize", params("borders", []any{-1e300, 1e300}), i64, intsOf(math.MaxInt64), "1"},
		{"bucketize", params("borders", 2), i64, intsOf(3), "1"},

		{"first_x", params("x", 2), list(i64), listOf(1, 404, 3), "[1 null]"},
		{"first_x", params("x", 5), list(i64), listOf(1), "[1]"},
		{"first_x", params("x", 5), list(i64), null, "null"},
		{"last_x", params("x", 2), list(i64), listOf(1, 404, 3), "[null 3]"},
		{"last_x", params("x", 5), list(i64), listOf(1), "[1]"},
		{"last_x", params("x", 5), list(i64), null, "null"},

		{
			"sigrid_hash", params("salt", 0, "max", 100), list(i64),
			listOf(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16),
			"[6 60 54 54 9 4 91 11 67 79 2 25 92 98 83 66 2]",
		},
		{"sigrid_hash", params("max", 100), i32, intsOf(3), "54"},
		{"sigrid_hash", params("max", 1), i64, intsOf(-3), "0"},
		{"sigrid_hash", params("max", 100), list(i64), listOf(404, 1), "[null 60]"},

		{"ngram", params("n", 1, "max", 100), list(i64), listOf(0, 404, 1), "[6 60]"},
		{"ngram", params("n", 3), list(i64), listOf(1, 2), "[]"},
		{"ngram", params("n", 1), list(i64), null, "[]"},
	} {
		op, err := ops()[tt.op].make(tt.params, []spec.Type{tt.typ})
		if err != nil {
			t.Errorf("%s of %v: %v", tt.op, tt.typ, err)
			continue
		}
		out := &cell{null: true}
		if err := op.run([]*cell{tt.in}, out); err != nil {
			t.Error(err)
		}
		if got := out.show(op.out); got != tt.want && tt.want != "1e+06" || tt.want == "1e+06" && got != "1000000" {
			t.Errorf("%s %v of %s: got %s; want %s", tt.op, tt.params, tt.in.show(tt.typ), got, tt.want)
		}
	}
}

func TestCast(t *testing.T) {
	nan := math.NaN()
	for _, tt := range []struct {
		typ  spec.Type
		in   *cell
		want map[string]string
	}{
		{truths, intsOf(1), map[string]string{"bool": "1", "int64": "1", "float32": "1"}},
		{i64, intsOf(1<<40 + 1), map[string]string{
			"bool": "1", "int32": "2147483647", "int64": "1099511627777",
			"float32": "1.099511627776e+12", "float64": "1.099511627777e+12",
		}},
		{i64, intsOf(math.MinInt64), map[string]string{"int32": "-2147483648"}},
		{f64, floatsOf(-2.7), map[string]string{
			"bool": "1", "int32": "-2", "int64": "-2",
			"float32": fmt.Sprint(float64(float32(-2.7))),
		}},
		{f64, floatsOf(1e300), map[string]string{
			"int32": "2147483647", "int64": "9223372036854775807",
			"float32": "+Inf",
		}},
		{f32, floatsOf(-1e30), map[string]string{"int32": "-2147483648", "int64": "-9223372036854775808"}},
		{f32, floatsOf(nan), map[string]string{"bool": "null", "int32": "null", "int64": "null", "float64": "NaN"}},
		{list(f32), floatList(1, nan), map[string]string{"int32": "[1 null]", "float64": "[1 NaN]"}},
		{list(i64), listOf(404, 2), map[string]string{"bool": "[null 1]", "float32": "[null 2]"}},
		{text, textOf("12"), map[string]string{"bool": "null", "int32": "12", "float64": "12"}},
		{
			text, textOf("-99999999999999999999"),
			map[string]string{"int32": "-2147483648", "int64": "-9223372036854775808"},
		},
		{text, textOf("TRUE"), map[string]string{"bool": "1", "int64": "null", "float32": "null"}},
		{text, textOf("1_000"), map[string]string{"int64": "null", "float64": "null"}},
		{text, textOf("0x10"), map[string]string{"int64": "null", "float64": "null"}},
		{text, textOf(".5e1"), map[string]string{"int64": "null", "float64": "5"}},
		{text, textOf("-Inf"), map[string]string{"float64": "-Inf"}},
		{text, textOf("nan"), map[string]string{"float32": "NaN"}},
		{text, textOf(""), map[string]string{"bool": "null", "int64": "null", "float64": "null"}},
		{text, textOf("1e999"), map[string]string{"float64": "+Inf"}},
		{text, &cell{null: true}, map[string]string{"int64": "null"}},
	} {
		for to, want := range tt.want {
			op, err := ops()["cast"].make(params("to", to), []spec.Type{tt.typ})
			if err != nil {
				t.Fatal(err)
			}
			out := &cell{null: true}
			if err := op.run([]*cell{tt.in}, out); err != nil {
				t.Error(err)
			}
			if got := out.show(op.out); got != want {
				t.Errorf("cast %s to %s: got %s; want %s", tt.in.show(tt.typ), to, got, want)
			}
		}
	}
}

func TestNgramJoinsItsInputs(t *testing.T) {
	op, err := ops()["ngram"].make(params("n", 2, "salt", 3), []spec.Type{list(i64), i32, list(i64)})
	if err != nil {
		t.Fatal(err)
	}
	out := &cell{}
	if err := op.run([]*cell{listOf(1, 404, 2), intsOf(3), {null: true}}, out); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("[%d %d]", gram([]int64{1, 2}, 3), gram([]int64{2, 3}, 3))
	if got := out.show(op.out); got != want {
		t.Errorf("got %s; want %s", got, want)
	}
	if gram([]int64{1, 2}, 0) == gram([]int64{2, 1}, 0) || gram([]int64{1, 2}, 0) == gram([]int64{1, 2}, 1) {
		t.Error("order or salt make no difference")
	}
}

func TestSample(t *testing.T) {
	kept := func(rate float64, at place) (n int) {
		op, err := ops()["sample"].make(params("rate", rate, "seed", 5), nil)
		if err != nil {
			t.Fatal(err)
		}
		for at.row = range 10_000 {
			if op.keep(nil, at) {
				n++
			}
		}
		return n
	}
	at := place{seed: 1, uri: "file:///a"}
	if kept(0, at) != 0 || kept(1, at) != 10_000 {
		t.Error("rate 0 keeps some, or rate 1 drops some")
	}
	n := kept(0.25, at)
	if n < 2300 || n > 2700 {
		t.Errorf("rate 0.25 keeps %d of 10,000", n)
	}
	first := at.draw(5)
	for name, other := range map[string]place{
		"seed": {seed: 2, uri: at.uri}, "epoch": {seed: 1, epoch: 1, uri: at.uri},
		"uri": {seed: 1, uri: "file:///b"}, "row": {seed: 1, uri: at.uri, row: 1},
	} {
		if other.draw(5) == first {
			t.Errorf("%s makes no difference", name)
		}
	}
	if at.draw(6) == first {
		t.Error("the op's seed makes no difference")
	}
}

func TestOpErrors(t *testing.T) {
	for _, tt := range []struct {
		op     string
		params parameters
		in     []spec.Type
	}{
		{"fill_null", params("value", "x"), []spec.Type{i64}},
		{"fill_null", params("value", 1<<40), []spec.Type{i32}},
		{"fill_null", nil, []spec.Type{f32}},
		{"cast", params("to", "text"), []spec.Type{i64}},
		{"clamp", params("min", 0.5), []spec.Type{i64}},
		{"clamp", params("min", 0), []spec.Type{text}},
		{"normalize", params("mean", 0), []spec.Type{text}},
		{"log1p", nil, []spec.Type{text}},
		{"bucketize", params("borders", []any{"a"}), []spec.Type{i64}},
		{"sigrid_hash", nil, []spec.Type{i64}},
		{"sigrid_hash", params("max", 10), []spec.Type{f32}},
		{"first_x", params("x", 1), []spec.Type{i64}},
		{"last_x", params("x", 1), []spec.Type{i64}},
		{"ngram", params("n", 0), []spec.Type{list(i64)}},
		{"ngram", params("n", 2), []spec.Type{list(text)}},
		{"sample", params("rate", 2), nil},
	} {
		if _, err := ops()[tt.op].make(tt.params, tt.in); err == nil {
			t.Errorf("%s %v of %v: no error", tt.op, tt.params, tt.in)
		}
	}
}

func TestDecimalText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float64().Draw(t, "x")
		c := &cell{}
		if !c.castDecimal(fmt.Sprint(x), pb.Kind_FLOAT64) || c.floats[0] != x {
			t.Fatalf("%v became %v", x, c.floats)
		}
	})
}
