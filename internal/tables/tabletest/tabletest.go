// Package tabletest tests kinds of tables: Run opens tables that others wrote, version by version, and compares what it
// finds with what others read. Expected has their rows for tests that read these, too.
package tabletest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/penstock-ml/penstock/api/expr"
	"github.com/penstock-ml/penstock/api/filter"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/times"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/tables/table"
)

// Expected is what a table's expected.json says of it.
type Expected struct {
	Newest   string             `json:"newest"`
	Names    map[string]string  `json:"names"` // other names of versions: tags, branches, times
	Versions map[string]Version `json:"versions"`
}

// Version is what others read of a version.
type Version struct {
	Refused string            `json:"refused"` // a part of the error; "": it is read
	Files   int               `json:"files"`
	Columns map[string]string `json:"columns"` // the names of their types in Arrow's library for Go
	// Rows without those that are deleted, in no order. Dates and times are as ISO 8601 writes them, decimals text,
	// binary values hexadecimal.
	Rows []map[string]any `json:"rows"`
}

// Read reads the expected.json of the table in a folder.
func Read(t testing.TB, dir string) *Expected {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	e := &Expected{}
	d := json.NewDecoder(bytes.NewReader(content))
	d.UseNumber()
	if err := d.Decode(e); err != nil {
		t.Fatalf("%s: %v", dir, err)
	}
	return e
}

// Run opens each table in a folder of such.
func Run(t *testing.T, kind table.Kind, dir string) {
	st, err := storage.New(storage.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	dir, err = filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	all, err := os.ReadDir(dir)
	if err != nil || len(all) == 0 {
		t.Fatalf("%s has no tables: %v", dir, err)
	}
	for _, entry := range all {
		t.Run(entry.Name(), func(t *testing.T) {
			root := filepath.Join(dir, entry.Name())
			open := func(version string) (*table.Snapshot, error) {
				return kind.Open(t.Context(), &table.Table{Storage: st, Root: "file://" + root, Version: version})
			}
			want := Read(t, root)
			checkName(t, open, "", want, want.Newest)
			for name, version := range want.Names {
				checkName(t, open, name, want, version)
			}
			for name, version := range want.Versions {
				t.Run(name, func(t *testing.T) { check(t, open, name, version) })
			}
		})
	}
}

// checkName looks for a version by another name than its own.
func checkName(t *testing.T, open func(string) (*table.Snapshot, error), name string, of *Expected, version string) {
	t.Helper()
	if of.Versions[version].Refused != "" {
		check(t, open, name, of.Versions[version])
		return
	}
	if s, err := open(name); err != nil || s.Version != version {
		t.Errorf("the version %q: %v, %v; want %s", name, s, err, version)
	}
}

func check(t *testing.T, open func(string) (*table.Snapshot, error), name string, want Version) {
	s, err := open(name)
	if want.Refused != "" {
		if err == nil || !strings.Contains(err.Error(), want.Refused) {
			t.Fatalf("got the error %v, want one that says %q", err, want.Refused)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if s.Version != name || len(s.Files) != want.Files {
		t.Errorf("got %s of %d files; want %s of %d", s.Version, len(s.Files), name, want.Files)
	}
	checkColumns(t, s, want)
	checkFiles(t, s, want)
	checkStored(t, s, want)
	checkConstants(t, s, want)
	checkStats(t, s, want)
}

func checkColumns(t *testing.T, s *table.Snapshot, want Version) {
	t.Helper()
	got := map[string]string{}
	for _, f := range s.Schema.Fields() {
		got[f.Name] = strings.TrimSuffix(f.Type.ID().String(), "128")
	}
	if fmt.Sprint(got) != fmt.Sprint(want.Columns) {
		t.Errorf("columns:\n got %v\nwant %v", got, want.Columns)
	}
	for _, name := range s.Partitions {
		if _, ok := got[name]; !ok {
			t.Errorf("the partition column %s is none of the columns", name)
		}
	}
}

// checkFiles looks for the files, and counts their rows.
func checkFiles(t *testing.T, s *table.Snapshot, want Version) {
	t.Helper()
	rows, known := int64(0), true
	for i, f := range s.Files {
		info, err := os.Stat(strings.TrimPrefix(f.Uri, "file://"))
		if err != nil || info.Size() != f.Size || int(f.Index) != i || i > 0 && s.Files[i-1].Uri >= f.Uri {
			t.Errorf("file %d is %v: %v", i, f.File, err)
		}
		rows += f.Rows - deleted(t, f)
		known = known && f.Rows >= 0
		for _, e := range f.Excluded {
			if info, err := os.Stat(strings.TrimPrefix(e.Uri, "file://")); e.Uri != "" &&
				(err != nil || info.Size() < e.Offset+e.Length) {
				t.Errorf("%s: its deleted rows are in %v: %v", f.Uri, e, err)
			}
		}
	}
	if known && rows != int64(len(want.Rows)) {
		t.Errorf("got %d rows, want %d", rows, len(want.Rows))
	}
}

// position is a row of a file of positions.
type position struct {
	Path string `parquet:"file_path"`
	Row  int64  `parquet:"pos"`
}

// deleted is how many rows of a file are.
func deleted(t *testing.T, f table.File) (n int64) {
	t.Helper()
	named := map[int64]bool{} // by files of positions
	for _, e := range f.Excluded {
		if n += e.Rows; e.Form != pb.Excluded_ICEBERG_POSITIONS {
			continue
		}
		all, err := parquet.ReadFile[position](strings.TrimPrefix(e.Uri, "file://"))
		if err != nil {
			t.Fatalf("%s: %v", e.Uri, err)
		}
		for _, p := range all {
			if p.Path == e.Path {
				named[p.Row] = true
			}
		}
	}
	return n + int64(len(named))
}

// checkStored looks into the files for the columns that have values.
func checkStored(t *testing.T, s *table.Snapshot, want Version) {
	t.Helper()
	byName, byID := map[string]bool{}, map[int]bool{}
	for _, f := range s.Files {
		content, err := os.ReadFile(strings.TrimPrefix(f.Uri, "file://"))
		if err != nil {
			t.Fatal(err)
		}
		file, err := parquet.OpenFile(bytes.NewReader(content), int64(len(content)))
		if err != nil {
			t.Fatalf("%s: %v", f.Uri, err)
		}
		for _, c := range file.Root().Columns() {
			if c.ID() != 0 {
				byID[c.ID()] = true
			}
			byName[c.Name()] = true
		}
	}
	for _, f := range s.Schema.Fields() {
		name := f.Name
		if other, ok := f.Metadata.GetValue(table.StoredName); ok {
			name = other
		}
		others, _ := f.Metadata.GetValue(table.OtherNames)
		text, _ := f.Metadata.GetValue(table.FieldID)
		id, _ := strconv.Atoi(text)
		isThere := func(name string) bool { return byName[name] }
		stored := isThere(name) || slices.ContainsFunc(strings.Split(others, "\x00"), isThere)
		if id != 0 && len(byID) > 0 {
			stored = byID[id]
		}
		valued := func(row map[string]any) bool { return row[f.Name] != nil }
		if !stored && !slices.Contains(s.Partitions, f.Name) && slices.ContainsFunc(want.Rows, valued) {
			t.Errorf("no file has the column %s as %s, or by the id %d", f.Name, name, id)
		}
	}
}

// checkConstants compares how many rows have each combination of constants.
func checkConstants(t *testing.T, s *table.Snapshot, want Version) {
	t.Helper()
	got, expected := map[string]int64{}, map[string]int64{}
	for _, f := range s.Files {
		var values []string
		for i, c := range f.Constants {
			if i >= len(s.Partitions) || c.Name != s.Partitions[i] {
				t.Fatalf("%s: the constants are %v, the partition columns %v", f.Uri, f.Constants, s.Partitions)
			}
			values = append(values, textOf(c.Value))
		}
		if f.Rows < 0 || len(values) != len(s.Partitions) {
			return
		}
		if n := f.Rows - deleted(t, f); n > 0 {
			got[strings.Join(values, "|")] += n
		}
	}
	for _, row := range want.Rows {
		var values []string
		for _, name := range s.Partitions {
			values = append(values, textOf(Value(want.Columns[name], row[name])))
		}
		expected[strings.Join(values, "|")]++
	}
	if fmt.Sprint(got) != fmt.Sprint(expected) {
		t.Errorf("rows by constants:\n got %v\nwant %v", got, expected)
	}
}

// textOf tells values apart.
func textOf(v *pb.Value) string {
	switch k := v.GetKind().(type) {
	case *pb.Value_Int:
		return strconv.FormatInt(k.Int, 10)
	case *pb.Value_Float:
		return strconv.FormatFloat(k.Float, 'g', -1, 64)
	case *pb.Value_Text:
		return strconv.Quote(k.Text)
	case *pb.Value_Bool:
		return strconv.FormatBool(k.Bool)
	}
	return "null"
}

// Value reads a value as expected.json has it; nil: null, or nothing that is compared here.
func Value(kind string, v any) *pb.Value {
	text := fmt.Sprint(v)
	switch {
	case v == nil:
	case kind == "BOOL":
		return &pb.Value{Kind: &pb.Value_Bool{Bool: text == "true"}}
	case kind == "STRING":
		return &pb.Value{Kind: &pb.Value_Text{Text: text}}
	case kind == "DATE32" || kind == "TIMESTAMP":
		unit := map[string]times.Unit{"DATE32": times.Days, "TIMESTAMP": "us"}[kind]
		if at, err := times.Parse(text); err == nil {
			if n, err := unit.Of(at); err == nil {
				return &pb.Value{Kind: &pb.Value_Int{Int: n}}
			}
		}
	case strings.HasPrefix(kind, "INT"):
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return &pb.Value{Kind: &pb.Value_Int{Int: n}}
		}
	case kind == "DECIMAL" || strings.HasPrefix(kind, "FLOAT"):
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			return &pb.Value{Kind: &pb.Value_Float{Float: f}}
		}
	}
	return nil
}

// checkStats looks for values that the statistics of all files deny.
func checkStats(t *testing.T, s *table.Snapshot, want Version) {
	t.Helper()
	for column, kind := range want.Columns {
		denied := func(v *pb.Value) bool {
			return !slices.ContainsFunc(s.Files, func(f table.File) bool {
				stats, ok := f.Stats(column)
				return !ok || mayHold(stats, v)
			})
		}
		for _, row := range want.Rows {
			v := Value(kind, row[column])
			if v == nil && row[column] != nil {
				continue
			}
			if denied(v) {
				t.Errorf("no file has %v in its column %s, by their statistics", row[column], column)
			}
		}
	}
}

func mayHold(s filter.Stats, v *pb.Value) bool {
	if v == nil {
		return s.Nulls != 0
	}
	if s.Nulls == s.Rows {
		return false
	}
	return !s.HasMinMax || order(s.Min, v) <= 0 && order(s.Max, v) >= 0
}

// order compares a bound with a value.
func order(bound expr.Value, v *pb.Value) int {
	cmp := func(less, more bool) int {
		switch {
		case less:
			return -1
		case more:
			return 1
		}
		return 0
	}
	switch k := v.GetKind().(type) {
	case *pb.Value_Int:
		return cmp(bound.Int < k.Int, bound.Int > k.Int)
	case *pb.Value_Float:
		f := k.Float
		if bound.Kind == pb.Kind_FLOAT32 {
			f = float64(float32(f))
		}
		return cmp(bound.Float < f, bound.Float > f)
	case *pb.Value_Text:
		return strings.Compare(bound.Text, k.Text)
	case *pb.Value_Bool:
		return cmp(!bound.Bool && k.Bool, bound.Bool && !k.Bool)
	}
	return 0
}
