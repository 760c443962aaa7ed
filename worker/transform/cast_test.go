package transform

import (
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
)

func TestCastGolden(t *testing.T) {
	text := func(all ...string) (rows []any) {
		for _, s := range all {
			rows = append(rows, []byte(s))
		}
		return append(rows, nil)
	}
	nan, inf := math.NaN(), math.Inf(1)
	runGolden(t, cast(), []golden1{
		{
			"int64 to int32", scalar(pb.Kind_INT64),
			values{"to": "int32"},
			[]any{int64(1 << 40), int64(-1 << 40), int64(-3), nil},
			[]any{
				int32(math.MaxInt32), int32(math.MinInt32),
				int32(-3), nil,
			},
		},
		{
			"int64 to float32", scalar(pb.Kind_INT64),
			values{"to": "float32"},
			[]any{int64(1<<24 + 1), int64(1<<24 + 3), nil},
			[]any{float32(1 << 24), float32(1<<24 + 4), nil},
		},
		{
			"int32 to bool", list(pb.Kind_INT32),
			values{"to": "bool"},
			[]any{[]any{int32(0), nil, int32(-1)}, nil},
			[]any{[]any{false, nil, true}, nil},
		},
		{"bool to float64", scalar(pb.Kind_BOOL), values{"to": "float64"}, []any{true, false, nil}, []any{1., 0., nil}},
		{
			"float64 to int64", scalar(pb.Kind_FLOAT64),
			values{"to": "int64"},
			[]any{1.9, -1.9, 1e300, -inf, nan, nil, float64(1 << 63), -float64(1 << 63)},
			[]any{
				int64(1), int64(-1), int64(math.MaxInt64), int64(math.MinInt64), nil, nil, int64(math.MaxInt64),
				int64(math.MinInt64),
			},
		},
		{
			"float32 to int32, in lists", list(pb.Kind_FLOAT32),
			values{"to": "int32"},
			[]any{[]any{float32(3e9), float32(nan)}, nil, []any{}, []any{nil, float32(-0.5), float32(1<<31 - 128)}},
			[]any{[]any{int32(math.MaxInt32), nil}, nil, []any{}, []any{nil, int32(0), int32(1<<31 - 128)}},
		},
		{
			"float64 to bool", scalar(pb.Kind_FLOAT64),
			values{"to": "bool"},
			[]any{0., 0.1, nan, inf, nil},
			[]any{false, true, nil, true, nil},
		},
		{
			"float64 to float32", scalar(pb.Kind_FLOAT64),
			values{"to": "float32"},
			[]any{1e300, 0.1, nan},
			[]any{float32(inf), float32(0.1), float32(nan)},
		},
		{
			"same kind", list(pb.Kind_INT64),
			values{"to": "int64"},
			[]any{nil, []any{nil, int64(1)}},
			[]any{nil, []any{nil, int64(1)}},
		},
		{
			"text to int64", scalar(pb.Kind_BINARY),
			values{"to": "int64"},
			text("12", "-7", "+7", "", "-", "1.0", " 1", "0x1", "9223372036854775808", "-9223372036854775808",
				"-9223372036854775809", "00000000000000000000000001"),
			[]any{
				int64(12), int64(-7), int64(7), nil, nil, nil, nil, nil, int64(math.MaxInt64), int64(math.MinInt64),
				int64(math.MinInt64), int64(1), nil,
			},
		},
		{
			"text to int32", scalar(pb.Kind_BINARY),
			values{"to": "int32"},
			text("3000000000", "-3000000000"),
			[]any{int32(math.MaxInt32), int32(math.MinInt32), nil},
		},
		{
			"text to float32", scalar(pb.Kind_BINARY),
			values{"to": "float32"},
			text("0.1", ".5", "5.", "1e40", "-Infinity", "NaN", ".", "1e", "0x1p4", "1_0", "+nan", "16777217.0000001"),
			[]any{
				float32(0.1), float32(0.5), float32(5), float32(inf), float32(-inf), float32(nan), nil, nil, nil,
				nil, nil, float32(16777218), nil,
			},
		},
		{
			"text to bool", list(pb.Kind_BINARY),
			values{"to": "bool"},
			[]any{text("1", "False", "yes", "TRUE", "0")},
			[]any{[]any{true, false, nil, true, false, nil}},
		},
	})
}

func TestCastProperty(t *testing.T) {
	names := map[string]pb.Kind{
		"bool": pb.Kind_BOOL, "int32": pb.Kind_INT32, "int64": pb.Kind_INT64, "float32": pb.Kind_FLOAT32,
		"float64": pb.Kind_FLOAT64,
	}
	rapid.Check(t, func(t *rapid.T) {
		to := rapid.SampledFrom([]string{"bool", "int32", "int64", "float32", "float64"}).Draw(t, "to")
		checkElementwise(t, cast(), values{"to": to}, drawKind(t), names[to],
			func(x any) any { return naiveCast(x, names[to]) })
	})
}

// naiveCast goes by arbitrary precision where that exists.
func naiveCast(x any, to pb.Kind) any {
	if b, ok := x.([]byte); ok {
		return naiveParse(string(b), to)
	}
	var exact *big.Float
	switch x := x.(type) {
	case bool:
		exact = big.NewFloat(0)
		if x {
			exact = big.NewFloat(1)
		}
	case int32:
		exact = new(big.Float).SetInt64(int64(x))
	case int64:
		exact = new(big.Float).SetInt64(x)
	case float32:
		return naiveCast(float64(x), to)
	case float64:
		switch {
		case to == pb.Kind_FLOAT64:
			return x
		case to == pb.Kind_FLOAT32:
			return float32(x)
		case x != x:
			return nil
		}
		exact = big.NewFloat(x)
	}
	return fromExact(exact, to)
}

func fromExact(exact *big.Float, to pb.Kind) any {
	switch to {
	case pb.Kind_BOOL:
		return exact.Sign() != 0
	case pb.Kind_FLOAT32:
		y, _ := exact.Float32()
		return y
	case pb.Kind_FLOAT64:
		y, _ := exact.Float64()
		return y
	}
	n, _ := exact.Int64() // cuts off and saturates
	if to == pb.Kind_INT32 {
		return int32(max(math.MinInt32, min(math.MaxInt32, n)))
	}
	return n
}

func naiveParse(s string, to pb.Kind) any {
	switch to {
	case pb.Kind_BOOL:
		return map[string]any{"true": true, "1": true, "false": false, "0": false}[strings.ToLower(s)]
	case pb.Kind_INT32, pb.Kind_INT64:
		if !regexp.MustCompile(`^[+-]?[0-9]+$`).MatchString(s) {
			return nil
		}
		exact, _ := new(big.Float).SetPrec(2000).SetString(s)
		return fromExact(exact, to)
	}
	if !regexp.MustCompile(`^(?i)(nan|[+-]?(inf|infinity|([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?))$`).MatchString(s) {
		return nil
	}
	if to == pb.Kind_FLOAT32 {
		y, _ := strconv.ParseFloat(s, 32)
		return float32(y)
	}
	y, _ := strconv.ParseFloat(s, 64)
	return y
}

// FuzzParse compares the parsers of text with the definition.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"", "1", "-9223372036854775809", "1.5e-3", "+Infinity", "nAn", "0x1p-2", "1__0", "\xff",
		"TRUE",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 400 {
			return
		}
		in := vectorOf(scalar(pb.Kind_BINARY), []any{b})
		for _, to := range []pb.Kind{pb.Kind_BOOL, pb.Kind_INT32, pb.Kind_INT64, pb.Kind_FLOAT32, pb.Kind_FLOAT64} {
			out := in2out(t, castText(to), in, scalar(to))
			if got, want := rowsOf(out)[0], naiveParse(string(b), to); !same(got, want) {
				t.Fatalf("%q as %v: got %v, want %v", b, to, got, want)
			}
		}
	})
}
