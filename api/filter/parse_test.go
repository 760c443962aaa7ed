package filter

import (
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/expr"
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

func TestPartitionsTakeTestsAlone(t *testing.T) {
	for text, says := range map[string]string{
		"day > '2026' and hash(row(), 1) % 2 == 0": "partitions are whole files",
		"day > '2026' or not a + b > 1":            "a + b > 1 is computed, and partitions are chosen by tests",
		"day >":                                    "column 6: found the end",
	} {
		if _, err := ParsePartitions(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want %s", text, err, says)
		}
	}
}

// TestTests says which conditions statistics are asked about: those that have no Holds.
func TestTests(t *testing.T) {
	for _, c := range []struct {
		text, want string
		computed   bool
	}{
		{"1 < a and 2 >= b", "a > 1 and b <= 2", false},
		{"a between 1 and 3 or b is null", "(a >= 1 and a <= 3) or b is null", false},
		{"c == 1 and a between 1 and 3", "c == 1 and a >= 1 and a <= 3", false},
		{"a not between -1 and 'x'", "not (a >= -1 and a <= 'x')", false},
		{"7 == hash(a, 1) % 10", "hash(a, 1) % 10 == 7", false},
		{"a == b and c == 1", "a == b and c == 1", true},
		{"not b or a % 10 % 3 == 1", "not b or a % 10 % 3 == 1", true},
		{"a % -3 == 1", "a % -3 == 1", true},
		{"length(t) in (1, 2)", "length(t) in (1, 2)", true},
		{"hash(a, 1) is null", "hash(a, 1) is null", true},
	} {
		e := mustParse(t, c.text)
		if e.String() != c.want || (e.firstHolds() != nil) != c.computed {
			t.Errorf("%s: got %s, computed: %v; want %s", c.text, e, e.firstHolds(), c.want)
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
			"\"\\x00\\'\")", "a not in (1, 2.5, true)", "a is not null && b is null", "((((a==1", "'", "`", "a between b and 3 and -(c) < 2 * d or e",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := Parse(text)
		if err != nil {
			return
		}
		printed := e.String()
		if len(printed) > expr.MaxLength {
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
