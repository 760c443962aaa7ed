package convert

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/internal/formats/literal"
)

func newBuilder(k kind) array.Builder { return array.NewBuilder(memory.DefaultAllocator, k.arrow()) }

func TestKinds(t *testing.T) {
	const bad = "does not fit"
	for _, tt := range []struct {
		kind kind
		in   map[string]string
	}{
		{boolKind, map[string]string{
			"true": "true", "FALSE": "false", "1": "true", "0": "false", "": "(null)",
			" ": "(null)", "yes": bad, "2": bad,
		}},
		{int32Kind, map[string]string{
			"5": "5", "-5": "-5", "+5": "5", " 7 ": "7", "2147483647": "2147483647",
			"2147483648": bad, "1.0": bad, "1_0": bad, "0x1": bad,
		}},
		{int64Kind, map[string]string{
			"9223372036854775807": "9223372036854775807", "9223372036854775808": bad,
			"007": "7", "": "(null)", "-": bad,
		}},
		{float32Kind, map[string]string{
			"0.5": "0.5", "-1e3": "-1000", "nan": "NaN", "-inf": "-Inf", "1e39": bad,
			"x": bad, "": "(null)",
		}},
		{float64Kind, map[string]string{
			"1e39": "1e+39", ".5": "0.5", "0x1p-2": bad, "1_000": bad, "1e999": bad,
			"Infinity": "+Inf",
		}},
		{hexKind, map[string]string{
			"ff": "255", "FFFFFFFF": "4294967295", "0x10": "16", "ffffffffffffffff": "-1",
			"10000000000000000": bad, "g": bad, "-1": bad, "+1": bad, "": "(null)", "0x": bad,
		}},
		{stringKind, map[string]string{"a b ": "a b ", "": "(null)", "\xff": bad, "ü": "ü"}},
		{binaryKind, map[string]string{"\xff": "/w==", "": "(null)"}},
		{dateKind, map[string]string{
			"2026-01-02": "2026-01-02", " 1969-12-31 ": "1969-12-31", "": "(null)",
			"2026-02-30": bad, "2026-01-02 03:04:05": bad, "20260102": bad,
		}},
		{timestampKind, map[string]string{
			"2026-01-02": "2026-01-02 00:00:00Z", "2026-01-02 03:04:05": "2026-01-02 03:04:05Z",
			"2026-01-02T03:04:05.678901Z": "2026-01-02 03:04:05.678901Z",
			"2026-01-02 03:04:05+02:00":   "2026-01-02 01:04:05Z", "2026-01-02T03:04:05-0130": "2026-01-02 04:34:05Z",
			"2026-01-02 03:04:05+00":  "2026-01-02 03:04:05Z",
			"2026-01-02 03:04:05 UTC": "2026-01-02 03:04:05Z", "2026-01-02 03:04": "2026-01-02 03:04:00Z",
			"1969-12-31 23:59:59.5":         "1969-12-31 23:59:59.5Z",
			"2026-01-02 03:04:05.123456700": bad, "2026-01-02 25:00:00": bad, "2026-01-02 03:04:05,5": bad,
			"1700000000": bad, "": "(null)",
		}},
		{nanosecondsKind, map[string]string{
			"2026-01-02 03:04:05.123456789": "2026-01-02 03:04:05.123456789Z",
			"2262-01-01":                    "2262-01-01 00:00:00Z", "2263-01-01": bad,
		}},
	} {
		for in, want := range tt.in {
			b := newBuilder(tt.kind)
			got := bad
			if tt.kind.appendTo(b, field{text: []byte(in)}, nil) == nil {
				got = b.NewArray().ValueStr(0)
			} else if b.Len() != 0 {
				t.Errorf("%v of %q: an error, and a value", tt.kind, in)
			}
			if got != want {
				t.Errorf("%v of %q: got %s; want %s", tt.kind, in, got, want)
			}
		}
	}
}

func TestQuotedEmptyFields(t *testing.T) {
	for _, k := range kindNames() {
		b := newBuilder(k)
		if err := k.appendTo(b, field{quoted: true}, nil); err != nil {
			t.Fatal(err)
		}
		isText := k == stringKind || k == binaryKind
		if a := b.NewArray(); a.IsNull(0) == isText {
			t.Errorf("%v: null is %v", k, a.IsNull(0))
		}
	}
}

func TestGuesses(t *testing.T) {
	for _, tt := range []struct {
		fields []string
		want   kind
	}{
		{[]string{"", ""}, unknown},
		{[]string{"1", "", "2"}, int64Kind},
		{[]string{"1", "2.5"}, float64Kind},
		{[]string{"1", "1e3"}, float64Kind},
		{[]string{"true", "False"}, boolKind},
		{[]string{"true", "1"}, stringKind},
		{[]string{"0", "1"}, int64Kind},
		{[]string{"007"}, stringKind},
		{[]string{"0", "-0.5"}, float64Kind},
		{[]string{"1", "x"}, stringKind},
		{[]string{"1", "-10000169349117863715"}, stringKind},
		{[]string{"99999999999999999999.0"}, float64Kind},
		{[]string{"2026-01-02"}, dateKind},
		{[]string{"2026-01-02", "2026-01-02 00:00:00"}, timestampKind},
		{[]string{"2026-01-02T03:04:05.123456789Z", "2026-01-02 03:04:05"}, nanosecondsKind},
		{[]string{"2026-01-02", "7"}, stringKind},
		{[]string{"2026-01-02", "never"}, stringKind},
		{[]string{"x", "\xff"}, binaryKind},
		{[]string{"\xff", "1"}, binaryKind},
		{[]string{"nan", "1"}, float64Kind},
	} {
		k := literal.Unknown
		for _, f := range tt.fields {
			k = literal.Wide(k, guess(field{text: []byte(f)}, nil))
		}
		if got := inferred()[k]; got != tt.want {
			t.Errorf("%q: got %v; want %v", tt.fields, got, tt.want)
		}
	}
}

// A column whose kind was inferred takes all the fields that it was inferred from.
func TestGuessesFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fields := rapid.SliceOf(rapid.OneOf(
			rapid.String(), rapid.StringMatching(`[+-]?[0-9]{0,20}(\.[0-9]*)?(e[0-9])?`),
			rapid.SampledFrom([]string{
				"", "true", "false", "nan", "00", "\xff", "2026-01-02", "2026-01-02 03:04:05",
				"2026-01-02T03:04:05.123456789Z",
			}),
		)).Draw(t, "fields")
		k := literal.Unknown
		for _, f := range fields {
			k = literal.Wide(k, guess(field{text: []byte(f)}, nil))
		}
		if k == literal.Unknown {
			return
		}
		b := newBuilder(inferred()[k])
		for _, f := range fields {
			if err := inferred()[k].appendTo(b, field{text: []byte(f)}, nil); err != nil {
				t.Fatalf("%q as %v: %v", f, k, err)
			}
		}
	})
}

func TestNumbersRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, x := rapid.Int64().Draw(t, "n"), rapid.Float64().Draw(t, "x")
		if got, ok := literal.ParseInt([]byte(strconv.FormatInt(n, 10))); !ok || got != n {
			t.Fatalf("%d became %d", n, got)
		}
		if got, ok := parseHex(fmt.Appendf(nil, "%x", uint64(n))); !ok || got != n {
			t.Fatalf("%x became %d", uint64(n), got)
		}
		if got, ok := literal.ParseFloat(fmt.Append(nil, x), 64); !ok || got != x {
			t.Fatalf("%v became %v", x, got)
		}
	})
}

func TestWouldTake(t *testing.T) {
	for _, tt := range []struct {
		kind  kind
		field string
		want  kind
	}{
		{int32Kind, "3000000000", int64Kind},
		{int64Kind, "2.5", float64Kind},
		{float32Kind, "1e39", float64Kind},
		{boolKind, "2", stringKind},
		{hexKind, "xyz", stringKind},
		{stringKind, "\xff", binaryKind},
		{dateKind, "2026-01-02 03:04:05", timestampKind},
		{timestampKind, "2026-01-02 03:04:05.123456789", nanosecondsKind},
		{timestampKind, "1700000000", stringKind},
	} {
		if got := wouldTake(tt.kind, field{text: []byte(tt.field)}, nil); got != tt.want {
			t.Errorf("%v with %q: got %v; want %v", tt.kind, tt.field, got, tt.want)
		}
	}
}
