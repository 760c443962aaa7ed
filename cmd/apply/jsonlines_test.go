package apply

import (
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/penstock-ml/penstock/worker/apply"
)

// TestTimesAsText: dates and times are numbers of the column's unit, or text, which is cut to that.
func TestTimesAsText(t *testing.T) {
	s := arrow.NewSchema([]arrow.Field{
		{Name: "day", Type: arrow.FixedWidthTypes.Date32},
		{Name: "at", Type: arrow.FixedWidthTypes.Timestamp_ms},
		{Name: "days", Type: arrow.ListOf(arrow.FixedWidthTypes.Date32)},
		{Name: "seen", Type: arrow.MapOf(arrow.BinaryTypes.String, arrow.FixedWidthTypes.Timestamp_ns)},
	}, nil)
	next := func(line string) (string, error) {
		r, err := newLines("rows", strings.NewReader(line), s).next()
		if err != nil {
			return "", err
		}
		defer r.Release()
		text, err := r.MarshalJSON()
		return string(text), err
	}
	numbers, err := next(`{"day": 19753, "at": 1706702400500, "days": [0, null], "seen": {"a": 1}}`)
	if err != nil {
		t.Fatal(err)
	}
	texts, err := next(`{"day": "2024-01-31 12:00", "at": "2024-01-31T13:00:00.5009+01:00", "days": ["1970-01-01", null], ` +
		`"seen": {"a": "1970-01-01 00:00:00.000000001"}}`)
	if err != nil || texts != numbers {
		t.Errorf("%s, %v\nwant %s", texts, err, numbers)
	}
	for line, says := range map[string]string{
		`{"day": "2024-02-30"}`:          `column day: found "2024-02-30"; want a number of days since 1970, or text such as 2024-01-31`,
		`{"day": 2147483648}`:            "column day: found 2147483648; want",
		`{"day": 1.5}`:                   "column day: found 1.5; want",
		`{"day": true}`:                  "column day: found true; want",
		`{"days": ["x"]}`:                `column days: element 0: found "x"; want a number of days`,
		`{"seen": {"a": "2262-04-12"}}`:  `key a: 2262-04-12T00:00:00Z is beyond the 64 bits of timestamp[ns]`,
		`{"at": "2024-01-31 12:00 CET"}`: "column at: found",
	} {
		if text, err := next(line); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s is %s, %v, want %s", line, text, err, says)
		}
	}
}

// Whatever lines hold, they are rows or an error, by their own types and by those of other ones.
func FuzzLines(f *testing.F) {
	for _, seed := range []string{
		`{"a": 1, "b": [1.5, null], "c": {"d": "x", "e": {"base64": "AAE="}}, "f": {}, "g": [], "h": [[]], "i": true}`,
		`{"a": null}` + "\n" + `{"a": 1e400}`, `{"a": [{"b": 1}, {"c": [2]}]}`, `{"": 0, "a": -0.0}`, `{"a": "` + "\xff" + `"}`,
	} {
		f.Add(seed, seed)
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		l := newLines("rows", strings.NewReader(first), nil)
		one, err := l.next()
		if err != nil || one == nil {
			return
		}
		if _, err := apply.SchemaOf(t.Context(), one.Schema()); err != nil {
			t.Fatalf("%v of %s", err, first)
		}
		like := newLines("rows", strings.NewReader(second), one.Schema())
		if other, err := like.next(); err == nil && other != nil && other.NumCols() > one.NumCols() {
			t.Errorf("%v has columns that %v lacks", other.Schema(), one.Schema())
		}
	})
}
