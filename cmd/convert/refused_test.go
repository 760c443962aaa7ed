package convert

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	parquetprops "github.com/apache/arrow/go/v15/parquet"
	parquetfile "github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/schema"
)

func fails(t *testing.T, o Options, want ...string) {
	t.Helper()
	if o.Output == "" {
		o.Output = filepath.Join(t.TempDir(), "out")
	}
	_, err := Run(t.Context(), o)
	if err == nil {
		t.Fatal("no error")
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%v: lacks %q", err, w)
		}
	}
}

// Times that no nanoseconds count are refused, and not wrapped around.
func TestInt96(t *testing.T) {
	file := func(days ...uint32) string {
		name := filepath.Join(t.TempDir(), "a.parquet")
		f, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		x := schema.NewInt96Node("x", parquetprops.Repetitions.Optional, -1)
		root, err := schema.NewGroupNode("schema", parquetprops.Repetitions.Required, schema.FieldList{x}, -1)
		if err != nil {
			t.Fatal(err)
		}
		w := parquetfile.NewParquetWriter(f, root)
		column, err := w.AppendRowGroup().NextColumn()
		if err != nil {
			t.Fatal(err)
		}
		values, levels := make([]parquetprops.Int96, len(days)), []int16{0}
		for i, day := range days {
			values[i][8], values[i][9], values[i][10] = byte(day), byte(day>>8), byte(day>>16)
			levels = append(levels, 1)
		}
		if _, err := column.(*parquetfile.Int96ColumnChunkWriter).WriteBatch(values, levels, nil); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return name
	}
	r := run(t, Options{Inputs: []string{file(firstInt96, lastInt96)}})
	expect(t, table(t, r.Files...), "x timestamp[ns, tz=UTC]", "(null)", "1677-09-22 00:00:00Z", "2262-04-10 00:00:00Z")
	for _, day := range []uint32{firstInt96 - 1, lastInt96 + 1} {
		fails(t, Options{Inputs: []string{file(2_440_588, day)}}, "a.parquet", "row group 0, column x", "1677")
	}
}

// Arrow's reader and writer take two columns of one name for one.
func TestTwoColumnsOfOneName(t *testing.T) {
	name := parquetFile(t, `[{"x": 1, "y": 7}]`, nullable("x", arrow.PrimitiveTypes.Int64),
		nullable("y", arrow.PrimitiveTypes.Int64))
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	text = []byte(strings.ReplaceAll(string(text), "\x18\x01y", "\x18\x01x")) // a text of one byte, in the footer
	if err := os.WriteFile(name, text, 0o600); err != nil {
		t.Fatal(err)
	}
	fails(t, Options{Inputs: []string{name}}, "two columns are named x")
}

// A day that a month lacks is none of the next month, and a zone's name says no offset.
func TestTimesThatAreNone(t *testing.T) {
	o := Options{TimeFormats: []string{"%d.%m.%Y"}, Columns: []string{"d:date"}}
	for _, day := range []string{"31.02.2026", "29.02.2026", "30.02.2024", "31.04.2026"} {
		o.Inputs = []string{write(t, "a.csv", "d\n"+day+"\n")}
		fails(t, o, "line 2", day)
	}
	o.Inputs = []string{write(t, "a.csv", "d\n29.02.2024\n31.01.2026\n1.3.2026\n03.03.2031\n")}
	expect(t, table(t, run(t, o).Files...), "d date32", "2024-02-29", "2026-01-31", "2026-03-01", "2031-03-03")
	o = Options{Inputs: o.Inputs, TimeFormats: []string{"%d.%m.%Y %Z"}}
	fails(t, o, "%Z", "%z")
}

// Inputs are not replaced by the output, by whichever links they are reached, and do not get it into their folder.
func TestOutputAndInputs(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	in := write(t, "a.csv", "x\n1\n")
	run(t, Options{Inputs: []string{in}, Output: "real/a"})
	if err := os.Symlink("real", "link"); err != nil {
		t.Fatal(err)
	}
	fails(t, Options{Inputs: []string{"real/a"}, Output: "link/a", Overwrite: true}, "lies in the output")
	if err := os.Symlink("real/a/part-00000.parquet", "one.parquet"); err != nil {
		t.Fatal(err)
	}
	fails(t, Options{Inputs: []string{"one.parquet"}, Output: "real/a", Overwrite: true}, "lies in the output")
	for _, inputs := range []string{"real", "link/", "re*/**", "{real,real}/"} {
		fails(t, Options{Inputs: []string{inputs}, Output: "real/new"}, "real/new lies in the input", "twice")
	}
	fails(t, Options{Inputs: []string{"real/a"}, Output: "link/a/new.parquet"}, "lies in the input")
	expect(t, table(t, "real/a/part-00000.parquet"), "x int64", "1")
}

// A folder of the working directory's path is named, though relative paths leave it out.
func TestInPartition(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run=5")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	if err := os.WriteFile("a.csv", []byte("x\n1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, Options{Inputs: []string{"a.csv"}, Output: "day=1", Verify: true})
}

// A run that was killed while it replaced a directory loses nothing.
func TestKilledWhileReplacing(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out")
	old := filepath.Join(filepath.Dir(out), ".out.converting.old")
	in := func(x string) Options {
		return Options{
			Inputs: []string{write(t, "a.csv", "x\n"+x+"\n")}, Output: out, Overwrite: true,
			Columns: []string{"x:int64"},
		}
	}
	run(t, in("1"))
	if err := os.Rename(out, old); err != nil {
		t.Fatal(err)
	}
	fails(t, in("2\nabc"), "line 3")
	expect(t, table(t, filepath.Join(out, "part-00000.parquet")), "x int64", "1")
	if err := os.CopyFS(old, os.DirFS(out)); err != nil { // the new one is in its place
		t.Fatal(err)
	}
	expect(t, table(t, run(t, in("5")).Files...), "x int64", "5")
	if _, err := os.Stat(old); err == nil {
		t.Error("the old output is left")
	}
}

// What can be said of the output is said before the inputs are read, and leaves nothing behind. What an earlier run
// finished is kept where the command is wrong, also with --restart.
func TestOutputFirst(t *testing.T) {
	in := parquetFile(t, `[{"x": 1, "m": [{"key": 1, "value": 1}]}]`, nullable("x", arrow.PrimitiveTypes.Int64),
		nullable("m", arrow.MapOf(arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Int64)))
	o := Options{
		Store: newStore(t), Inputs: []string{in}, Flatten: flatten("m"), Output: filepath.Join(t.TempDir(), "out"),
		Order:    inOrder([]int{0, 1, 2}, new([]byte)),
		Progress: func(Progress) { t.Error("the inputs were read") },
	}
	o.Order.Begin = func(context.Context) error { t.Error("a master was asked"); return nil }
	if err := os.MkdirAll(o.Output, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(o.Output, "a.parquet"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refused := func(o Options, want string) {
		t.Helper()
		if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, not %q", err, want)
		}
	}
	refused(o, "is not empty")
	within := o
	within.Inputs, within.Output = []string{filepath.Dir(in)}, filepath.Join(filepath.Dir(in), "out")
	refused(within, "lies in the input")
	if left := must(os.ReadDir(filepath.Dir(o.Output))); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}

	rows := Options{
		Inputs: []string{write(t, "a.csv", "x\n"+strings.Repeat("1\n", 30_000))}, FileRows: 4000,
		Output: filepath.Join(t.TempDir(), "out"),
	}
	_ = stopAfter(t, rows, 20_000)
	wrong := rows
	wrong.Flatten, wrong.Restart = flatten("no"), true
	fails(t, wrong, "there is no such column")
	if r := run(t, rows); len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "went on behind") {
		t.Errorf("notes %v", r.Notes)
	}
}
