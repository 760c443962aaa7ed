package delta

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/expr"
)

// TestBounds widens bounds by what writers cut off, and believes nothing that it does not understand.
func TestBounds(t *testing.T) {
	path := func(typ string) *scalar {
		typ, wasFloat := strings.CutPrefix(typ, "was float, ")
		return &scalar{[]string{"s", "c"}, typ, wasFloat}
	}
	nothing := "false"
	for _, c := range []struct{ typ, low, high, nulls, want string }{
		{"long", "-9223372036854775808", "9007199254740993", "1", "-9223372036854775808 9007199254740993 1"},
		{"byte", "-1", "300", "null", nothing},
		{"string", `"a"`, `"az"`, "0", "a a{ 0"},
		{"string", `"a"`, `"\uD7FF"`, "0", "a \ue000 0"},
		{"string", `"a"`, `"b\uDBFF\uDFFF"`, "0", "a c 0"},
		{"string", `"a"`, `"\uDBFF\uDFFF"`, "2", "none 2"},
		{"string", "1", "2", "null", nothing},
		{"date", `"1970-01-02"`, `"1970-01-03"`, "0", "1 2 0"},
		{"timestamp", `"1970-01-01T00:00:00.001Z"`, `"1970-01-01T00:00:00.002Z"`, "0", "1000 2999 0"},
		{"timestamp", `"1970-01-01T00:00:00.001"`, `"1970-01-01T00:00:00.002"`, "0", "none 0"},
		{"timestamp_ntz", `"1970-01-01T00:00:00.001"`, `"1970-01-01T00:00:00.002"`, "0", "1000 2999 0"},
		{"float", "0.1", "1e40", "0", "none 0"},
		{"float", "0.1", "0.2", "0", "0.10000000149011612 0.20000000298023224 0"},
		{"double", `"NaN"`, `"NaN"`, "0", "none 0"},
		{"was float, double", "0.7", "0.8", "0", "0.699999988079071 0.800000011920929 0"},
		{"was float, double", "0.1", "0.1", "0", "0.1 0.10000000149011612 0"},
		{"boolean", "false", "true", "0", "false true 0"},
		{"binary", `"a"`, `"b"`, "0", "none 0"},
		{"long", "1", "2", "11", "1 2 -1"},
		{"long", "[1]", "{}", `"x"`, nothing},
	} {
		text := fmt.Sprintf(`{"minValues":{"s":{"c":%s}},"maxValues":{"s":{"c":%s}},"nullCount":{"s":{"c":%s}}}`,
			c.low, c.high, c.nulls)
		s, ok := stats(text, path(c.typ), 10, false)
		got := "none"
		if s.HasMinMax {
			got = show(s.Min) + " " + show(s.Max)
		}
		if got += fmt.Sprint(" ", s.Nulls); !ok {
			got = nothing
		}
		if got != c.want {
			t.Errorf("%s from %s to %s: got %q, want %q", c.typ, c.low, c.high, got, c.want)
		}
	}
	some := `{"minValues":{},"maxValues":{},"nullCount":{"s":{"c":3}}}`
	if s, ok := stats(some, path("long"), 10, true); ok {
		t.Errorf("nulls may be deleted rows', but got %+v", s)
	}
}

// TestRows finds the number of rows wherever it stands.
func TestRows(t *testing.T) {
	parsed := int64(3)
	for text, want := range map[string]int64{
		`{"numRecords":7}`: 7, `{"numRecords": 7 ,"minValues":{"numRecords":8}}`: 7,
		`{"minValues":{"numRecords":8},"numRecords":7}`: 7, `{"numRecords":-7}`: -1, "": parsed,
		`{"numRecords":7.5,"minValues":{}}`: parsed, `{"numRecords":null}`: parsed, `{"numRecords":`: parsed,
	} {
		if got := rowsOf(&add{Stats: text, rows: &parsed}); got != want {
			t.Errorf("%s: %d rows, want %d", text, got, want)
		}
	}
	if got := rowsOf(&add{}); got != -1 {
		t.Errorf("without statistics: %d rows", got)
	}
}

func show(v expr.Value) string {
	switch {
	case v.Text != "":
		return v.Text
	case v.Float != 0:
		return fmt.Sprint(v.Float)
	case v.Kind == expr.Bool(true).Kind:
		return fmt.Sprint(v.Bool)
	}
	return fmt.Sprint(v.Int)
}

// TestAfter bounds all texts that begin with one.
func TestAfter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prefix, rest := rapid.String().Draw(t, "prefix"), rapid.String().Draw(t, "rest")
		if upper, ok := after(prefix); ok && (prefix+rest > upper || !utf8.ValidString(upper)) {
			t.Errorf("%q is above %q", prefix+rest, upper)
		}
	})
}

// TestDecimals have the values that columns of files have: whole numbers divided by a power of ten.
func TestDecimals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		unscaled, scale := rapid.Int64().Draw(t, "unscaled"), rapid.IntRange(0, 18).Draw(t, "scale")
		text := fmt.Sprintf("%020d", unscaled) // "-" counts as a digit
		text = text[:len(text)-scale] + "." + text[len(text)-scale:]
		if scale == 0 {
			text = text[:len(text)-1]
		}
		v, err := valueOf(text, fmt.Sprintf("decimal(38,%d)", scale))
		if want := float64(unscaled) / math.Pow10(scale); err != nil || v.GetFloat() != want {
			t.Errorf("%s: got %v, %v; want %v", text, v, err, want)
		}
	})
}
