package convert

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
)

// Every difference is found, wherever it lies, and nothing else is one.
func TestCompare(t *testing.T) {
	shape := arrow.StructOf(nullable("l", arrow.ListOf(arrow.PrimitiveTypes.Float32)),
		nullable("m", arrow.MapOf(arrow.BinaryTypes.String, arrow.ListOf(arrow.PrimitiveTypes.Int64))))
	rows := func(changed string) string {
		all := []string{
			`{"x": 1, "s": {"l": [0.5, null, NaN], "m": [{"key": "k", "value": [1, null]}]}, "t": "a"}`,
			`{"x": null, "s": {"l": [], "m": null}, "t": null}`,
			`{"x": 3, "s": null, "t": ""}`,
		}
		if changed != "" {
			all[1] = changed
		}
		return strings.ReplaceAll("["+strings.Join(all, ",")+"]", "NaN", `"NaN"`)
	}
	x, s, text := nullable("x", arrow.PrimitiveTypes.Int64), nullable("s", shape), nullable("t", arrow.BinaryTypes.String)
	file := func(changed string, fields ...arrow.Field) string { return parquetFile(t, rows(changed), fields...) }
	base := file("", x, s, text)
	store := newStore(t)
	for name, tt := range map[string]struct {
		other string
		want  string // "" is equality
	}{
		"the same":          {file("", x, s, text), ""},
		"another order":     {file("", text, x, s), ""},
		"a number for null": {file(`{"x": 2, "s": {"l": [], "m": null}, "t": null}`, x, s, text), "column x: (null) in"},
		"null for empty":    {file(`{"x": null, "s": {"l": null, "m": null}, "t": null}`, x, s, text), "column s"},
		"empty for null":    {file(`{"x": null, "s": {"l": [], "m": []}, "t": null}`, x, s, text), "column s"},
		"empty text":        {file(`{"x": null, "s": {"l": [], "m": null}, "t": ""}`, x, s, text), "row 1"},
		"a struct":          {file(`{"x": null, "s": null, "t": null}`, x, s, text), "1 of 3 rows differ"},
		"minus zero": {
			file(`{"x": null, "s": {"l": [-0.0], "m": null}, "t": null}`, x, s, text), "column s",
		},
		"fewer rows": {parquetFile(t, `[]`, x, s, text), "3 of 3 rows differ"},
		"no column":  {file("", x, s), "column t of"},
		"more columns": {
			file("", x, s, text, nullable("y", arrow.PrimitiveTypes.Int64)), "column y of",
		},
		"another type": {
			file("", nullable("x", arrow.PrimitiveTypes.Int32), s, text), "column x is int64 in",
		},
	} {
		for _, pair := range [][2]string{{base, tt.other}, {tt.other, base}} {
			c, err := Compare(t.Context(), Options{Store: store, Inputs: pair[:1]}, Options{Store: store, Inputs: pair[1:]})
			if err == nil {
				err = c.Err()
			}
			switch {
			case tt.want == "" && (err != nil || c.Rows != 3 || c.Columns != 3):
				t.Errorf("%s: %+v, %v", name, c, err)
			case tt.want == "":
			case err == nil:
				t.Errorf("%s: no difference", name)
			case pair[0] == base && !strings.Contains(err.Error(), tt.want):
				t.Errorf("%s: %v lacks %q", name, err, tt.want)
			}
		}
	}
}

// An output is compared with its inputs, of whichever format and in however many files they are.
func TestVerify(t *testing.T) {
	for format, in := range numbered(t) {
		dir := filepath.Join(t.TempDir(), "[odd]*")
		r := run(t, Options{Inputs: in, Output: dir, FileRows: 7000, Verify: true})
		if !r.Verified || r.Rows != 30_000 {
			t.Errorf("%s: %+v", format, r)
		}
	}
	hex := write(t, "a.csv", "h,at\nff,2026-01-02\n,\n")
	r := run(t, Options{Inputs: []string{hex}, Hex: []string{"h"}, Verify: true})
	// what was written is read: with another file in its place the rows differ
	o := Options{Store: newStore(t), Inputs: []string{hex}, Hex: []string{"h"}}
	found, err := find(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	other := run(t, Options{Inputs: []string{write(t, "a.csv", "h,at\nfe,2026-01-02\n,\n")}, Hex: []string{"h"}})
	if err := os.Rename(other.Files[0], r.Files[0]); err != nil {
		t.Fatal(err)
	}
	if err := verify(t.Context(), o, &found, r.Files); err == nil || !strings.Contains(err.Error(), "column h: 255 in") {
		t.Errorf("of another output: %v", err)
	}
}
