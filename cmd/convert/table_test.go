package convert

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/tables/tabletest"
)

const deltaTables = "../../internal/tables/delta/testdata/tables"

// TestTables converts each version of tables of others, and finds the rows that others read.
func TestTables(t *testing.T) {
	for _, kind := range []string{"delta", "iceberg"} {
		all, err := filepath.Glob(filepath.Join("../../internal/tables", kind, "testdata/tables/*"))
		if err != nil || len(all) == 0 {
			t.Fatal(all, err)
		}
		for _, dir := range all {
			for version, want := range tabletest.Read(t, dir).Versions {
				if want.Refused != "" || len(want.Rows) == 0 {
					continue
				}
				uri := kind + "+" + dir + "@" + version
				t.Run(filepath.Base(dir)+version, func(t *testing.T) { converts(t, uri, want) })
			}
		}
	}
}

// converts converts a table, and finds the rows that others read.
func converts(t *testing.T, uri string, want tabletest.Version) {
	maps.DeleteFunc(want.Columns, func(_, kind string) bool {
		return slices.Contains([]string{"LIST", "STRUCT", "MAP", "BINARY", "FIXED_SIZE_BINARY", "TIME64"}, kind)
	})
	names := slices.Sorted(maps.Keys(want.Columns))
	if len(names) == 0 {
		t.Skip("it has no scalars")
	}
	r := run(t, Options{Inputs: []string{uri}, Columns: names, Verify: true})
	var rows []string
	for _, row := range want.Rows {
		rows = append(rows, told(names, func(name string) any { return expected(want.Columns[name], row[name]) }))
	}
	if got := valuesOfAll(t, r.Files, names); !slices.Equal(got, slices.Sorted(slices.Values(rows))) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(rows, "\n"))
	}
}

// TestTablesRefused are options that a table has no use for.
func TestTablesRefused(t *testing.T) {
	dir, err := filepath.Abs(filepath.Join(deltaTables, "partitioned"))
	if err != nil {
		t.Fatal(err)
	}
	uri := "delta+" + dir
	for want, o := range map[string]Options{
		"is a dataset by itself":  {Inputs: []string{uri, uri}},
		"--skip-rows":             {Inputs: []string{uri}, SkipRows: 1},
		"leave the format out":    {Inputs: []string{uri}, Format: &pb.Format{Name: "jsonl"}},
		"no metadata lies in":     {Inputs: []string{"iceberg+" + dir}},
		"--delimiter is":          {Inputs: []string{uri}, Delimiter: ";"},
		"name it as delta+":       {Inputs: []string{dir}},
		"no column x; there are ": {Inputs: []string{uri}, Columns: []string{"x"}},
		"lies in the input":       {Inputs: []string{uri}, Output: filepath.Join(dir, "out")},
	} {
		if o.Output == "" {
			o.Output = filepath.Join(t.TempDir(), "out")
		}
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got the error %v, want one that says %q", err, want)
		}
	}
}

func told(names []string, value func(name string) any) string {
	var out []string
	for _, name := range names {
		out = append(out, fmt.Sprintf("%s=%v", name, value(name)))
	}
	return strings.Join(out, " ")
}

// expected is a value of an expected.json as valuesOfAll has it.
func expected(kind string, v any) any {
	if v == nil {
		return nil
	}
	text := fmt.Sprint(v)
	switch kind {
	case "TIMESTAMP":
		for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999"} {
			if at, err := time.Parse(layout, text); err == nil {
				return at.UnixMicro()
			}
		}
	case "FLOAT32", "FLOAT64":
		var f float64
		if _, err := fmt.Sscan(text, &f); err == nil {
			return f
		}
	}
	return text
}

// valuesOfAll are the rows of Parquet files, in words.
func valuesOfAll(t *testing.T, files, names []string) (rows []string) {
	t.Helper()
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		table, err := pqarrow.ReadTable(t.Context(), f, nil, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
		if err != nil {
			t.Fatal(err)
		}
		records := array.NewTableReader(table, 0)
		for records.Next() {
			rec := records.Record()
			for i := range int(rec.NumRows()) {
				rows = append(rows, told(names, func(name string) any {
					return scalarOf(rec.Column(rec.Schema().FieldIndices(name)[0]), i)
				}))
			}
		}
	}
	slices.Sort(rows)
	return rows
}

func scalarOf(a arrow.Array, i int) any {
	if a.IsNull(i) {
		return nil
	}
	switch a := a.(type) {
	case *array.Timestamp:
		return int64(a.Value(i))
	case *array.Float64:
		return a.Value(i)
	case *array.Decimal128:
		return a.Value(i).ToString(a.DataType().(*arrow.Decimal128Type).Scale)
	case *array.Float32:
		return float64(a.Value(i))
	}
	return a.ValueStr(i)
}
