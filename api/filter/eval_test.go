package filter

import (
	"math"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/expr"
	"github.com/penstock-ml/penstock/api/pb"
)

func mustParse(t testing.TB, text string) *Expr {
	t.Helper()
	e, err := Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return e
}

func rowOf(values map[string]expr.Value) func(string) (expr.Value, bool) {
	return func(name string) (expr.Value, bool) {
		v, ok := values[name]
		return v, ok
	}
}

func TestEvalThreeValued(t *testing.T) {
	row := rowOf(map[string]expr.Value{
		"one": expr.Int(1), "nan": expr.Float64(math.NaN()), "half": expr.Float32(0.5), "tenth": expr.Float32(0.1), "wide": expr.Float64(0.1),
		"big": expr.Int(1<<53 + 1), "yes": expr.Bool(true), "de": expr.Text("de"),
	})
	for text, want := range map[string]Truth{
		"one == 1": True, "one == 1.0": True, "one != 1": False, "one < 1.5": True, "one >= 1.5": False,
		"none == 1": Unknown, "none != 1": Unknown, "none in (1)": Unknown, "none not in (1)": Unknown,
		"none is null": True, "none is not null": False, "one is null": False,
		"not none == 1":             Unknown,
		"none == 1 and one == 2":    False,
		"none == 1 and one == 1":    Unknown,
		"none == 1 or one == 1":     True,
		"none == 1 or one == 2":     Unknown,
		"not (none == 1 or one==2)": Unknown,
		"nan == 1":                  False, "nan != 1": True, "nan < 1": False, "not nan < 1": True,
		"nan in (1)":     False,
		"nan not in (1)": True, "nan is null": False, "nan >= 1": False,
		"tenth == 0.1": True, "tenth > 0.1": False, "wide == 0.1": True, "half == 0.5": True, "tenth < 1e300": True,
		"big == 9007199254740992.0": False, "big > 9007199254740992.0": True, "big == 9007199254740993": True,
		"wide < 9223372036854775807": True, "one < 1e300": True, "one > -1e300": True,
		"yes == true": True, "yes in (false)": False,
		"de == 'de'": True, "de > 'aa'": True, "de in ('fr', 'de')": True, "de not in ('fr')": True,
	} {
		got, err := mustParse(t, text).Eval(row)
		if err != nil || got != want {
			t.Errorf("%s: got %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestRemainders(t *testing.T) {
	row := rowOf(map[string]expr.Value{"i": expr.Int(7), "minus": expr.Int(-7), "least": expr.Int(math.MinInt64), "month": expr.Text("-1")})
	for text, want := range map[string]Truth{
		"i % 3 == 1": True, "i % 3 in (0, 2)": False, "i % 8 == 7": True, "i % 1 == 0": True, "i % 3 < 1.5": True,
		"minus % 3 == 2": True, "minus % 7 == 0": True, "least % 10 == 2": True,
		"least % 9223372036854775807 == 9223372036854775806": True,
		"none % 3 == 1": Unknown, "not none % 3 == 1": Unknown, "none % 3 is null": True, "i % 3 is not null": True,
		"month % 12 == 11": True,
	} {
		got, err := mustParse(t, text).Eval(row)
		if err != nil || got != want {
			t.Errorf("%s: got %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestEvalReadsPartitionText(t *testing.T) {
	row := rowOf(map[string]expr.Value{
		"day": expr.Text("2026-01-02"), "month": expr.Text("01"), "ratio": expr.Text("0.5"),
		"live": expr.Text("true"),
	})
	for text, want := range map[string]Truth{
		"day >= '2026-01-01' and day < '2026-02-01'": True,
		"month == 1": True, "month == '1'": False, "month < 1.5": True, "month in (1, 2)": True,
		"ratio > 0": True, "ratio == 0.5": True, "live == true": True, "zone == 1": Unknown,
	} {
		got, err := mustParse(t, text).Eval(row)
		if err != nil || got != want {
			t.Errorf("%s: got %v, %v; want %v", text, got, err, want)
		}
	}
	for text, says := range map[string]string{
		"day > 5":            "filter on day: '2026-01-02' is not a number",
		"not (day == true)":  "neither true nor false",
		"a is null or day>1": "not a number",
		"ratio % 2 == 1":     "filter on ratio % 2: 0.5 is no integer; % takes integers",
		"day % 2 == 1":       "'2026-01-02' is no integer",
	} {
		if _, err := mustParse(t, text).Eval(row); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want %s", text, err, says)
		}
	}
}

func TestCheck(t *testing.T) {
	types := map[string]expr.Type{
		"i": {Kind: pb.Kind_INT32}, "f": {Kind: pb.Kind_FLOAT32}, "b": {Kind: pb.Kind_BOOL},
		"s":   {Kind: pb.Kind_BINARY},
		"ids": {Kind: pb.Kind_INT64, List: true},
	}
	lookup := func(name string) (expr.Type, error) {
		if t, ok := types[name]; ok {
			return t, nil
		}
		return expr.Type{}, &expr.SyntaxError{Column: 1, Message: "no column " + name}
	}
	for text, want := range map[string][]string{
		"i == 1 and i < 2.5 and f in (1, 2.5) and b != true and s >= 'x' and s is null": nil,
		"i == '1'":       {"i is int32, but is compared with '1'; want a number"},
		"f in (1, true)": {"f is float32, but is compared with true; want a number"},
		"s == 1":         {"s is binary, but is compared with 1; want text in quotes"},
		"b == 1":         {"b is bool, but is compared with 1; want true or false"},
		"b > true":       {"b is bool; it takes == and !=, not >"},
		"i % 2 == 1 and hash(b, 1) % 2 < 1 and hash(s, 1) > 5 and hash(row(), 1) < 5 and b % 2 is null": {
			"b is bool, and % takes integers; a hash is one: hash(b, 1) % 2",
		},
		"f % 2 == 1":            {"f is float32, and % takes integers"},
		"s % 2 == 's'":          {"s is binary, and % takes integers"},
		"i % 2 == 's'":          {"i % 2 is int32, but is compared with 's'; want a number"},
		"hash(ids, 1) < 5":      {"ids is list<int64>; filters need scalar columns"},
		"hash(x, 1) < 5":        {"column 1: no column x"},
		"ids is null":           {"ids is list<int64>; filters need scalar columns"},
		"x == 1 or not x == 2":  {"column 1: no column x"},
		"i == '1' and ids == 3": {"i is int32, but", "ids is list<int64>"},
	} {
		errs := mustParse(t, text).Check(lookup)
		if len(errs) != len(want) {
			t.Errorf("%s: got %v, want %v", text, errs, want)
			continue
		}
		for i, err := range errs {
			if !strings.HasPrefix(err.Error(), want[i]) {
				t.Errorf("%s: got %v, want %v", text, err, want[i])
			}
		}
	}
}
