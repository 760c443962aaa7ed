package expr

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
)

func TestParseErrorsSayWhere(t *testing.T) {
	for _, c := range []struct {
		text   string
		column int
		says   string
	}{
		{``, 1, "found the end; want a column's name"},
		{`label ==`, 9, "found the end; want a column's name, a literal"},
		{`label 1`, 7, "found 1; want an operator"},
		{`a == 1 b == 2`, 8, "found b; want an operator, `and`, `or` or the end"},
		{`a == 1 and`, 11, "found the end"},
		{`(a == 1`, 8, "closing parenthesis"},
		{`a == 1)`, 7, "found )"},
		{`a in 1`, 6, "found 1; want a list"},
		{`a in ()`, 7, "found ); want a literal"},
		{`a in (1 2)`, 9, "a comma or a closing parenthesis"},
		{`a == null`, 6, "`is null`"},
		{`a is 3`, 6, "`is null` or `is not null`"},
		{`a not 3`, 7, "`in` or `between` after `not`"},
		{`a == 'b`, 6, "no closing '"},
		{`a == '\q'`, 6, `unknown escape \q`},
		{"`a == 1", 1, "no closing backtick"},
		{"`` == 1", 1, "empty column name"},
		{`a == 99999999999999999999`, 6, "does not fit in 64 bits"},
		{`a == 0x10`, 6, "want a number"},
		{`a == 1e999`, 6, "want a number"},
		{`a & b`, 3, "found '&'"},
		{
			`hash(user_id) % 100 < 90`, 13,
			"found ); want a comma and the seed: hash(expression, seed) or hash(row(), seed), as in hash(user_id, 7)",
		},
		{`hash() % 100 < 90`, 6, "found ); want a column's name"},
		{`hash(row(1), 7) < 9`, 10, "found 1; want a closing parenthesis: hash(expression, seed)"},
		{`hash(x, 0.5) < 9`, 9, "found 0.5; want the seed, an integer"},
		{`hash(x, 7, 8) < 9`, 10, "found ,; want a closing parenthesis"},
		{`row() % 2 == 1`, 1, "row() is known to hash alone: hash(row(), 7) % 100 < 90"},
		{`a == 1 and abss(x) > 1`, 12, "no function abss; nearest: abs; there are abs, cast, ceil"},
		{`SQRTT(x) > 1`, 1, "no function SQRTT; nearest: sqrt; there are"},
		{`frobnicate(x) > 1`, 1, "no function frobnicate; there are abs"},
		{"`hash`(x, 7) == 1", 1, "no function `hash`"},
		{`log(x) > 1`, 1, "write ln(x), or ln(x) / ln(10)"},
		{`a + null > 1`, 5, "null stands behind `is`, `then` and `else` alone"},
		{`a between 1 or 2`, 13, "`and` and the upper bound"},
		{`case when a then b`, 19, "found the end; want `when`, `else` or `end`"},
		{`case when a else b end`, 13, "`then` and a value"},
		{`cast(a float32)`, 8, "`as` and a type"},
		{`cast(a as float16)`, 11, "found float16; want bool, int32"},
		{`pow(a)`, 6, "pow has 1 arguments; it takes two arguments"},
		{`least() > 1`, 7, "least has 0 arguments; it takes one argument or more"},
		{`abs(a b)`, 7, "an operator, a comma or a closing parenthesis"},
		{`a < b < c`, 7, "found <; want an operator, `and`, `or` or the end"},
		{`a - 99999999999999999999`, 5, "does not fit in 64 bits"},
		{strings.Repeat("(", 100) + "a" + strings.Repeat(")", 100) + " == 1", 65, "nested"},
		{`größe ; 1`, 7, "found ';'"},
		{"a == '\xff'", 7, "not UTF-8"},
		{strings.Repeat("(", 100) + "a == 1", 65, "nested"},
		{strings.Repeat("not ", 100) + "a == 1", 257, "nested"},
		{strings.Repeat(" ", MaxLength) + "a", 1, "the limit is"},
	} {
		_, err := Parse(c.text)
		var syntax *SyntaxError
		if !errors.As(err, &syntax) {
			t.Errorf("%.40s: got %v", c.text, err)
			continue
		}
		if syntax.Column != c.column || !strings.Contains(syntax.Message, c.says) {
			t.Errorf("%.40s: got %v, want column %d: ...%s", c.text, err, c.column, c.says)
		}
	}
}

// TestPrintsCanonically also says how strongly operators bind.
func TestPrintsCanonically(t *testing.T) {
	for text, want := range map[string]string{
		"a+b*c-d/e%f":                        "a + b * c - d / e % f",
		"a-(b-c)-(d+e)*2":                    "a - (b - c) - (d + e) * 2",
		"((a-b)-c)<-(1)":                     "a - b - c < -(1)",
		"a--1 - -b":                          "a - -1 - -b",
		"+a = +3":                            "a == 3",
		"not a+1>b and (c or d)":             "not a + 1 > b and (c or d)",
		"a or b and not (c and d)":           "a or (b and not (c and d))",
		"(a=b)=(c is null)":                  "(a == b) == (c is null)",
		"a between b+1 and -c and d":         "a between b + 1 and -c and d",
		"a not between 1 and 2":              "not a between 1 and 2",
		"a+1 not in (1,-2)":                  "a + 1 not in (1, -2)",
		"CASE WHEN a>1 THEN b ELSE NULL END": "case when a > 1 then b else null end",
		"case when case then end when end then case end": "case when `case` then end when end then `case` end",
		"cast(a AS TEXT) == length(`as`)":                "cast(a as text) == length(as)",
		"-9223372036854775808 + a*-.5e-3":                "-9223372036854775808 + a * -0.0005",
		"hash(a + 1, -7) % 10 in (1)":                    "hash(a + 1, -7) % 10 in (1)",
		"a - 1 and b -1":                                 "a - 1 and b - 1",
	} {
		n, err := Parse(text)
		if err != nil || n.String() != want {
			t.Errorf("%s: got %v, %v; want %s", text, n, err, want)
			continue
		}
		if again, err := Parse(want); err != nil || again.String() != want {
			t.Errorf("%s: read back as %v, %v", want, again, err)
		}
	}
}

func typesOf(column string) (Type, error) {
	t, ok := map[string]Type{
		"b": {Kind: pb.Kind_BOOL}, "i": {Kind: pb.Kind_INT32}, "l": {Kind: pb.Kind_INT64}, "f": {Kind: pb.Kind_FLOAT32},
		"d": {Kind: pb.Kind_FLOAT64}, "t": {Kind: pb.Kind_BINARY}, "ids": {Kind: pb.Kind_INT64, List: true},
	}[column]
	if !ok {
		return t, fmt.Errorf("no column %s", column)
	}
	return t, nil
}

// TestKinds is the written rule of docs/reference/expressions.md.
func TestKinds(t *testing.T) {
	for text, want := range map[string]string{
		"i": "int32", "i + i": "int64", "i * 2": "int64", "i + 0.5": "float64", "i + f": "float64", "f * f": "float32",
		"f * 2": "float32", "f + 0.1": "float32", "f * (1.0 / 3)": "float32", "f + d": "float64", "d + 1": "float64",
		"i / 2": "float64", "f / 2": "float32", "-i": "int64", "-f": "float32", "l % 7": "int64", "1 + 2": "int64",
		"1 / 2": "float64", "i > 1": "bool", "b and i is null": "bool", "hash(t, 1)": "int64", "length(t)": "int64",
		"coalesce(f, 0)": "float32", "coalesce(i, 0.5)": "float64", "coalesce(t, '')": "text", "nullif(i, 0)": "int64",
		"nullif(f, 0.5)": "float32", "case when b then 1 else null end": "int64", "case when b then f end": "float32",
		"case when b then i when not b then f else 0 end": "float64", "least(i, l)": "int64", "abs(i)": "int64",
		"floor(f)": "float32", "case when b then f else round(2) end": "float64", "round(i)": "int64", "sqrt(i)": "float64", "exp(f)": "float32", "pow(f, 2)": "float32",
		"pow(i, 2)": "float64", "cast(t as int32)": "int32", "cast(d as float32) + 1": "float32", "lower(t)": "text",
		"coalesce(b, false)": "bool", "b == (i > 1)": "bool", "i between 1 and d": "bool",
	} {
		n, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		typed, errs := n.Check(typesOf)
		if len(errs) > 0 || KindName(typed.Kind) != want {
			t.Errorf("%s: got %v, %v; want %s", text, typed, errs, want)
		}
	}
}

func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"i + t":                           "column 3: t is text, and + takes numbers; cast makes one of it: cast(t as int64)",
		"b * 2":                           "column 3: b is bool, and * takes numbers",
		"f % 2":                           "column 3: f is float32, and % takes integers; a hash is one: hash(f, 1) % 2",
		"i % 0":                           "column 3: a division by 0 leaves no remainder",
		"i and b":                         "column 1: i is int32, and a condition is true or false: compare it, as in i > 0",
		"t or b":                          "column 1: t is text, and a condition is true or false: compare it, as in t == 'text'",
		"case when l then 1 end":          "column 11: l is int64, and a condition is true or false",
		"i == t":                          "column 3: int32 is compared with text; cast makes one of the other",
		"b < true":                        "column 3: bool takes == and !=, not <",
		"i in (1, 'x')":                   "column 3: int32 is compared with text",
		"f + 1e300":                       "column 5: 1e+300 is beyond float32; cast the other side: cast(... as float64)",
		"9223372036854775807 + 1":         "column 21: 9223372036854775807 + 1 has no value in 64 bits",
		"coalesce(i, t)":                  "column 1: coalesce is of int32 and of text; cast makes one of the other",
		"case when b then null end":       "column 1: all values are null; one of them says the type",
		"sqrt(t)":                         "column 1: t is text, and sqrt takes numbers",
		"length(i)":                       "column 1: i is int32, and length takes text; cast makes it of other values",
		"hash(i, 1) is null":              "column 12: a hash is never null",
		"hash(i, 1) % 100 < 0.9":          "column 18: found 0.9; want an integer, which a hash is",
		"ids + 1":                         "ids is list<int64>; expressions take scalars",
		"x + x > y":                       "no column x; no column y",
		strings.Repeat("i + ", 600) + "i": "the expression has 1201 parts; the limit is 1000",
	} {
		n, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		_, errs := n.Check(typesOf)
		var all []string
		for _, err := range errs {
			all = append(all, err.Error())
		}
		if got := strings.Join(all, "; "); !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

// TestIntResults compares with big integers.
func TestIntResults(t *testing.T) {
	edges := []int64{math.MinInt64, math.MinInt64 + 1, -7, -2, -1, 0, 1, 2, 7, 1 << 32, math.MaxInt64 - 1, math.MaxInt64}
	for _, a := range edges {
		for _, b := range edges {
			x, y, r := big.NewInt(a), big.NewInt(b), new(big.Int)
			for op, f := range map[Op]func(x, y *big.Int) *big.Int{
				Add: r.Add, Sub: r.Sub, Mul: r.Mul, Neg: func(x, _ *big.Int) *big.Int { return r.Neg(x) },
			} {
				want := f(x, y)
				if got, ok := IntResult(op, a, b); ok != want.IsInt64() || ok && got != want.Int64() {
					t.Errorf("%d %v %d: got %d, %v; want %d", a, op, b, got, ok, want)
				}
			}
			if got, ok := IntResult(Mod, a, b); ok != (b != 0) {
				t.Errorf("%d %% %d is %d, %v", a, b, got, ok)
			} else if ok {
				q := new(big.Int).Sub(x, big.NewInt(got))
				if new(big.Int).Rem(q, y).Sign() != 0 || got != 0 && (got < 0) != (b < 0) || x.CmpAbs(y) > 0 &&
					big.NewInt(got).CmpAbs(y) >= 0 {
					t.Errorf("%d %% %d is %d", a, b, got)
				}
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"case when a > 1 and not b then -c * 2 else null end in (1, 2)", "cast(a + 1 as float32) between 1 and -b",
		"hash(row(), -7) % 100 < 90 or coalesce(nullif(x, 0), `a b`) is not null", "- -1--1", "1e-3-1", "((((", "'",
		"a not between 1 and 2 and b not in ('x', \"\\x00\")", "length(lower(t)) == 3e5 % 2 <> -(1)", "case when",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := Parse(text)
		if err != nil {
			return
		}
		printed := n.String()
		if len(printed) > MaxLength {
			return
		}
		again, err := Parse(printed)
		if err != nil {
			t.Fatalf("%q was printed as %q: %v", text, printed, err)
		}
		if again.String() != printed {
			t.Fatalf("%q was printed as %q, then %q", text, printed, again)
		}
		n.Check(func(column string) (Type, error) { return Type{Kind: kinds()[len(column)%6]}, nil })
	})
}
