package filter

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParsePrintsCanonically(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`label=1`, `label == 1`},
		{
			"label == 1 and country in ('de', \"fr\") and not (score < 0.5 or score is null)",
			`label == 1 and country in ('de', 'fr') and not (score < 0.5 or score is null)`,
		},
		{`a<>1||b!=2&&!c>=3`, `a != 1 or (b != 2 and not c >= 3)`},
		{`(a == 1 and b == 2) and (c == 3)`, `a == 1 and b == 2 and c == 3`},
		{`NOT NOT a IS NOT NULL`, `not not a is not null`},
		{`a not in (1, -2.5, 1e3, .5)`, `a not in (1, -2.5, 1000.0, 0.5)`},
		{`a < 100000000000000000000.5 and a > -99999999999999999999e1`, `a < 1e+20 and a > -1e+21`},
		{
			"`odd name` == 1 and `a``b` == 2 and `and` == 3 and `1a` == 4",
			"`odd name` == 1 and `a``b` == 2 and `and` == 3 and `1a` == 4",
		},
		{"scores.42 > 0 and $x <= 1 and `plain` is null", "scores.42 > 0 and $x <= 1 and plain is null"},
		{`t == 'it\'s \x00 "\\" é'`, `t == 'it\'s \x00 "\\" é'`},
		{`b == TRUE or b == False`, `b == true or b == false`},
		{`x == 1.0 and y == -0.0 and z == 1e300`, `x == 1.0 and y == -0.0 and z == 1e+300`},
		{"größe\n\t> 1", "größe > 1"},
		{`HASH(user_id,7)%100<90`, `hash(user_id, 7) % 100 < 90`},
		{
			`(hash(user_id, -7) % 100) < 90 and ((a)) == 1 and ((a % 3) in (1, 2))`,
			`hash(user_id, -7) % 100 < 90 and a == 1 and a % 3 in (1, 2)`,
		},
		{
			"not (hash(row(), 1) == 2) or (hash(`odd name`, 0)) % 2 != 1",
			"not hash(row(), 1) == 2 or hash(`odd name`, 0) % 2 != 1",
		},
		{
			`hash % 2 == 1 and row is null and hash(hash, 1) > 3 or hash(row, 1) == 2`,
			`(hash % 2 == 1 and row is null and hash(hash, 1) > 3) or hash(row, 1) == 2`,
		},
	} {
		e, err := Parse(c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if e.String() != c.want {
			t.Errorf("%s: got %s, want %s", c.text, e, c.want)
		}
		again, err := Parse(e.String())
		if err != nil || !reflect.DeepEqual(e, again) {
			t.Errorf("%s: read back as %v, %v", e, again, err)
		}
	}
}

func TestParseErrorsSayWhere(t *testing.T) {
	for _, c := range []struct {
		text   string
		column int
		says   string
	}{
		{``, 1, "found the end; want a column's name"},
		{`label ==`, 9, "found the end; want a literal"},
		{`label 1`, 7, "found 1; want one of =="},
		{`1 == label`, 1, "a column's name first"},
		{`a == 1 b == 2`, 8, "found b; want `and`, `or` or the end"},
		{`a == 1 and`, 11, "found the end"},
		{`(a == 1`, 8, "closing parenthesis"},
		{`a == 1)`, 7, "found )"},
		{`a in 1`, 6, "found 1; want a list"},
		{`a in ()`, 7, "found ); want a literal"},
		{`a in (1 2)`, 9, "a comma or a closing parenthesis"},
		{`a == null`, 6, "`is null`"},
		{`a is 3`, 6, "`is null` or `is not null`"},
		{`a not 3`, 7, "`in` after `not`"},
		{`a == b`, 6, "text goes in quotes"},
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
			"found ); want a comma and the seed: hash(column, seed) or hash(row(), seed), as in hash(user_id, 7)",
		},
		{`hash() % 100 < 90`, 6, "found ); want hash(column, seed)"},
		{`hash(row(1), 7) < 9`, 10, "found 1; want hash(column, seed)"},
		{`hash(abs(x), 7) < 9`, 9, "found (; want hash(column, seed)"},
		{`hash(x, 0.5) < 9`, 9, "found 0.5; want the seed, an integer"},
		{`hash(x, 7, 8) < 9`, 10, "found ,; want a closing parenthesis"},
		{
			`hash(x, 7) % 100 < 0.9`, 20,
			"found 0.9; want an integer, which a hash is; nine tenths of all keys have hash(x, 7) % 100 < 90",
		},
		{`hash(x, 7) in ('a')`, 16, "found 'a'; want an integer"},
		{`hash(x, 7) is null`, 12, "found is; want a comparison: a hash is never null"},
		{`row() % 2 == 1`, 1, "row() is known to hash alone: hash(row(), 7) % 100 < 90"},
		{`a == 1 and abs(x) > 1`, 12, "no function abs; there is hash(column, seed)"},
		{"`hash`(x, 7) == 1", 1, "no function `hash`"},
		{`x % 0 == 1`, 5, "found 0; want a positive integer"},
		{`x % -3 == 1`, 5, "found -3; want a positive integer"},
		{`x % 2.5 == 1`, 5, "found 2.5; want a positive integer"},
		{`x % y == 1`, 5, "found y; want a positive integer"},
		{`(x % 10) % 3 == 1`, 12, "found 3; want one % alone"},
		{`x % 2`, 6, "found the end; want one of =="},
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

func TestManyOperandsNeedNoDepth(t *testing.T) {
	text := "a == 1" + strings.Repeat(" and a == 1", 5000)
	e, err := Parse(text)
	if err != nil || len(e.Args) != 5001 {
		t.Fatalf("got %v", err)
	}
}

func TestColumns(t *testing.T) {
	e, err := Parse("b == 1 and (a in (1) or not b is null) and c is not null")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(e.Columns(), " "); got != "a b c" {
		t.Errorf("got %s", got)
	}
}

func TestPrintedExpressionsParseBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := anyExpr(t, 3)
		again, err := Parse(e.String())
		if err != nil {
			t.Fatalf("%s: %v", e, err)
		}
		if !reflect.DeepEqual(e, again) {
			t.Fatalf("%s was read back as %s", e, again)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"label == 1 and country in ('de', 'fr') and not (score < 0.5 or score is null)",
		"hash(user_id, 7) % 100 < 90 or (hash(row(), -1)) in (1) and not (a % 3) == 2", "`a b`<>-1e-3||!(x = " +
			"\"\\x00\\'\")", "a not in (1, 2.5, true)", "a is not null && b is null", "((((a==1", "'", "`",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := Parse(text)
		if err != nil {
			return
		}
		printed := e.String()
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
	})
}
