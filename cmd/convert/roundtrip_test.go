package convert

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"
	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/worker/formats/formattest"
)

// kept is a column of a table, and what a decoder finds of it in the files of a format: under which name, and which
// values; nil: those of the table.
type kept struct {
	name  string
	typ   arrow.DataType
	draw  func(t *rapid.T) any // as JSON
	tar   string
	plain func(any) any // as decoded from Parquet and Arrow
	json  func(any) any // from JSON lines and tars
	mds   func(any) any
}

func keptColumns() []kept {
	texts := rapid.StringMatching(`[a-zé"\\ \n0-9]{0,5}`)
	whole := rapid.Int64Range(-1<<40, 1<<40)
	each := func(of func(any) any) func(any) any {
		return func(v any) any {
			out := []any{}
			for _, e := range v.([]any) {
				if e != nil {
					e = of(e)
				}
				out = append(out, e)
			}
			return out
		}
	}
	same := func(v any) any { return v }
	bits := func(v any) any { return math.Float64bits(v.(float64)) }
	asText := func(v any) any {
		text, _ := json.Marshal(v)
		return string(text)
	}
	day := func(v any) any {
		at, _ := time.Parse("2006-01-02", v.(string))
		return int32(at.Unix() / (24 * 60 * 60))
	}
	return []kept{
		{"n", arrow.PrimitiveTypes.Int64, func(t *rapid.T) any { return whole.Draw(t, "n") }, "n.cls", same, same, same},
		{
			"f", arrow.PrimitiveTypes.Float64, func(t *rapid.T) any { return rapid.Float64().Draw(t, "f") },
			"f.json", bits, bits, bits,
		},
		{"s", arrow.BinaryTypes.String, func(t *rapid.T) any { return texts.Draw(t, "s") }, "s.txt", same, same, same},
		{
			"ok", arrow.FixedWidthTypes.Boolean, func(t *rapid.T) any { return rapid.Bool().Draw(t, "ok") }, "ok.json",
			same, same, func(v any) any { return map[bool]int32{true: 1}[v.(bool)] },
		},
		{"d", arrow.FixedWidthTypes.Date32, func(t *rapid.T) any {
			return time.Unix(rapid.Int64Range(-1e9, 1e10).Draw(t, "d"), 0).UTC().Format("2006-01-02")
		}, "d.txt", day, same, same},
		{"l", arrow.ListOf(arrow.PrimitiveTypes.Int64), func(t *rapid.T) any {
			return anys(rapid.SliceOfN(whole, 0, 4).Draw(t, "l"))
		}, "l.json", each(same), each(same), each(same)},
		{"w", arrow.ListOf(arrow.BinaryTypes.String), func(t *rapid.T) any {
			return anys(rapid.SliceOfN(texts, 0, 3).Draw(t, "w"))
		}, "w.json", each(same), each(same), asText},
	}
}

func anys[T any](all []T) any {
	out := make([]any, len(all))
	for i, v := range all {
		out[i] = v
	}
	return out
}

// TestWhatIsWrittenIsRead: of any table, workers' decoders find in the files of each format what the format keeps, and
// --verify agrees.
func TestWhatIsWrittenIsRead(t *testing.T) {
	columns := keptColumns()
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		to := rapid.SampledFrom(Formats()).Draw(rt, "to")
		rows := make([]map[string]any, rapid.IntRange(1, 12).Draw(rt, "rows"))
		for i := range rows {
			rows[i] = map[string]any{}
			for _, c := range columns {
				if c.name == "n" || to == "mds" || rapid.IntRange(0, 3).Draw(rt, "null") > 0 {
					rows[i][c.name] = c.draw(rt)
				}
			}
		}
		dir, err := os.MkdirTemp(dir, "")
		if err != nil {
			rt.Fatal(err)
		}
		o := Options{
			Inputs: []string{filepath.Join(dir, "in.parquet")}, To: to, Verify: true,
			Output: filepath.Join(dir, "out"), FileRows: rapid.Int64Range(1, 12).Draw(rt, "file"),
			RowGroupRows: rapid.Int64Range(1, 12).Draw(rt, "group"),
			Compression:  map[bool]string{true: "zstd"}[to == "mds" && rapid.Bool().Draw(rt, "zstd")],
		}
		writeKept(rt, o.Inputs[0], columns, rows)
		r, err := Run(t.Context(), o)
		if err != nil || !r.Verified || r.Rows != int64(len(rows)) {
			rt.Fatalf("%+v: %v", r, err)
		}
		for _, name := range r.Files {
			n := expectKept(t, rt, to, name, columns, rows)
			rows = rows[n:]
		}
		if len(rows) > 0 {
			rt.Fatalf("%d rows are missing", len(rows))
		}
	})
}

func writeKept(t fataler, name string, columns []kept, rows []map[string]any) {
	fields := make([]arrow.Field, len(columns))
	for i, c := range columns {
		fields[i] = arrow.Field{Name: c.name, Type: c.typ, Nullable: true}
	}
	text, err := json.Marshal(rows)
	if err != nil {
		t.Fatal(err)
	}
	writeJSON(t, name, arrow.NewSchema(fields, nil), string(text))
}

// fataler is a test of any kind.
type fataler interface{ Fatal(args ...any) }

// jsonParquet makes a file of Parquet of rows as JSON.
func jsonParquet(t *testing.T, schema *arrow.Schema, rows string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "rows.parquet")
	writeJSON(t, name, schema, rows)
	return name
}

func writeJSON(t fataler, name string, schema *arrow.Schema, rows string) {
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(rows))
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	w, err := pqarrow.NewFileWriter(schema, f, nil, pqarrow.DefaultWriterProps())
	if err == nil {
		err = w.Write(rec)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// expectKept holds a file against the first rows, and returns how many it has.
func expectKept(
	t *testing.T, rt *rapid.T, to, name string, columns []kept, rows []map[string]any,
) int {
	data, err := os.ReadFile(name)
	if err != nil {
		rt.Fatal(err)
	}
	schema, values := formattest.Values(t, formattest.File{Name: filepath.Base(name), Data: data})
	for _, c := range columns {
		found, as := c.name, c.plain
		switch to {
		case "jsonl":
			as = c.json
		case "tar":
			found, as = c.tar, c.json
		case "mds":
			as = c.mds
		}
		at := -1
		for i, s := range schema {
			if s.Name == found {
				at = i
			}
		}
		for i, row := range values {
			want := rows[i][c.name]
			if want != nil {
				want = as(want)
			}
			if at < 0 { // it has no value in the file, which has no type then
				if want != nil && fmt.Sprint(want) != "[]" {
					rt.Fatalf("%s has no column %s", to, found)
				}
				continue
			}
			if got := row[at]; !reflect.DeepEqual(got, want) {
				rt.Fatalf("%s: row %d of %s is %#v, want %#v", to, i, found, got, want)
			}
		}
	}
	return len(values)
}
