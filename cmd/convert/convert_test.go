package convert

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	parquetfile "github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"
	"github.com/klauspost/compress/zstd"
	"go.uber.org/goleak"

	"github.com/penstock-ml/penstock/internal/storage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newStore returns a storage whose profiles follow the environment.
func newStore(t testing.TB) *storage.Store {
	t.Helper()
	s, err := storage.New(storage.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// write makes a file in a new directory.
func write(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// run converts to a new directory, or to o.Output.
func run(t testing.TB, o Options) Result {
	t.Helper()
	if o.Output == "" {
		o.Output = filepath.Join(t.TempDir(), "out")
	}
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// table reads files as lines of values, the first of which has the columns' names and types.
func table(t testing.TB, files ...string) []string {
	t.Helper()
	var out []string
	for _, name := range files {
		f, err := parquetfile.OpenParquetFile(name, false)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		r, err := pqarrow.NewFileReader(f, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
		if err != nil {
			t.Fatal(err)
		}
		tbl, err := r.ReadTable(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var head []string
		for _, f := range tbl.Schema().Fields() {
			head = append(head, f.Name+" "+f.Type.String())
		}
		if out == nil {
			out = append(out, strings.Join(head, ", "))
		}
		records := array.NewTableReader(tbl, 0)
		for records.Next() {
			out = append(out, rowsOf(records.Record())...)
		}
	}
	return out
}

func rowsOf(rec arrow.Record) (out []string) {
	for i := range int(rec.NumRows()) {
		var row []string
		for _, col := range rec.Columns() {
			row = append(row, col.ValueStr(i))
		}
		out = append(out, strings.Join(row, "|"))
	}
	return out
}

func expect(t testing.TB, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestCSV(t *testing.T) {
	in := write(t, "a.csv", "\xef\xbb\xbfid,price,name,ok,h,none\r\n"+
		"1,0.5,\"Doe, \"\"J\"\"\nJr\",true,ff,\r\n"+
		"\r\n"+
		",2,\"\",FALSE,,\r\n"+
		"-3,,,,00000010,\"\"")
	r := run(t, Options{Inputs: []string{in}, Columns: []string{"price:float32"}, Hex: []string{"h*"}})
	expect(t, table(t, r.Files...),
		"id int64, price float32, name utf8, ok bool, h int64, none utf8",
		"1|0.5|Doe, \"J\"\nJr|true|255|(null)",
		"(null)|2||false|(null)|(null)",
		"-3|(null)|(null)|(null)|16|")
	if r.Rows != 3 || len(r.Files) != 1 || r.Bytes == 0 || !slices.Contains(r.Columns, "price: float32") {
		t.Errorf("result %+v", r)
	}
}

func TestTextFormats(t *testing.T) {
	compressed := func(name, text string) string {
		var b strings.Builder
		if strings.HasSuffix(name, ".gz") {
			z := gzip.NewWriter(&b)
			_, _ = z.Write([]byte(text))
			_ = z.Close()
		} else {
			z, err := zstd.NewWriter(&b)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = z.Write([]byte(text))
			_ = z.Close()
		}
		return write(t, name, b.String())
	}
	for name, o := range map[string]Options{
		"tsv":          {Inputs: []string{write(t, "a.tsv", "x\ty\n1\ta\n2\tb\n")}},
		"semicolons":   {Inputs: []string{write(t, "a.txt", "x;y\n1;a\n2;b\n")}, Delimiter: ";"},
		"tabs by name": {Inputs: []string{write(t, "a.txt", "x\ty\n1\ta\n2\tb\n")}, Delimiter: "tab"},
		"gzip":         {Inputs: []string{compressed("a.csv.gz", "x,y\n1,a\n2,b\n")}},
		"zstd":         {Inputs: []string{compressed("a.tsv.zst", "x\ty\n1\ta\n2\tb\n")}},
		"no header": {
			Inputs: []string{write(t, "a.csv", "1,a\n2,b\n")}, NoHeader: true,
			Columns: []string{"x", "y"},
		},
		"several files": {Inputs: []string{
			write(t, "a.csv", "x,y\n1,a\n"), write(t, "b.csv", "x,y\n"),
			write(t, "c.csv", ""), write(t, "d.csv", "x,y\n2,b"),
		}},
		"headless files": {Inputs: []string{
			write(t, "a.csv", "1,a\n"), write(t, "c.csv", ""),
			write(t, "b.csv", "2,b\n"),
		}, NoHeader: true, Columns: []string{"x:int64", "y"}},
		"empty files": {Inputs: []string{
			write(t, "a.csv.gz", ""), write(t, "b.csv.gz", ""),
			write(t, "c.csv", "x,y\n1,a\n"), write(t, "d.csv.zst", ""), write(t, "e.csv.gz", ""), write(t, "f.csv.gz",
				""), write(t, "g.csv", "x,y\n2,b\n"),
		}},
		"spaces in numbers": {Inputs: []string{write(t, "a.csv", " x ,y\n 1 ,a\n2 ,b\n")}},
	} {
		t.Run(name, func(t *testing.T) {
			expect(t, table(t, run(t, o).Files...), "x int64, y utf8", "1|a", "2|b")
		})
	}
	generated := run(t, Options{Inputs: []string{write(t, "a.csv", "1,a\n2,b\n")}, NoHeader: true})
	expect(t, table(t, generated.Files...), "col_0 int64, col_1 utf8", "1|a", "2|b")
	numbers := run(t, Options{Inputs: []string{write(t, "a.csv", "0,1\n1,a\n")}, Header: true})
	expect(t, table(t, numbers.Files...), "0 int64, 1 utf8", "1|a")
	single := run(t, Options{Inputs: []string{write(t, "a.csv", "x\n1\n\n2\n")}})
	expect(t, table(t, single.Files...), "x int64", "1", "(null)", "2")
	empty := run(t, Options{Inputs: []string{write(t, "a.csv", "x,y\n")}})
	expect(t, table(t, empty.Files...), "x utf8, y utf8")
}

// A folder stands for the files below it, and what is left out of it is told.
func TestFolders(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"b.csv": "x,at\r2,2026-01-02\r", "a/1.CSV": "x,at\n1,2026-01-02 03:04:05\n", "c.tsv": "x\tat\n3\t\n",
		"notes.md": "#", "_SUCCESS": "", ".hidden/d.csv": "y\n", "a/_e.csv": "y\n",
	} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(dir, "b.csv"), filepath.Join(dir, "link.csv")); err != nil {
		t.Fatal(err)
	}
	linked := filepath.Join(t.TempDir(), "linked")
	if err := os.Symlink(dir, linked); err != nil {
		t.Fatal(err)
	}
	for _, in := range []string{dir, linked + "/"} {
		r := run(t, Options{Inputs: []string{in}})
		expect(t, table(t, r.Files...), "x int64, at timestamp[us, tz=UTC]",
			"1|2026-01-02 03:04:05Z", "2|2026-01-02 00:00:00Z", "3|(null)", "2|2026-01-02 00:00:00Z")
		if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "3 files, such as "+filepath.Clean(in)) {
			t.Errorf("notes %q", r.Notes)
		}
	}
}

// pipe is a named one.
func pipe(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "pipe.csv")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestTextColumns: names without types are those of the columns that are wanted, in their order.
func TestTextColumns(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.csv": "id,w,w,t\n1,x,,NA\n\n2,y,,3\n", "b.csv": "id,w,w,t\n3,,,5.5\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := Options{Inputs: []string{dir}, Columns: []string{"t", "id"}, InferRows: 2, Nulls: []string{"NA"}}
	fails(t, o, "b.csv line 2", "column t", "t:float64")
	o.InferRows, o.Verify = 0, true
	expect(t, table(t, run(t, o).Files...), "t float64, id int64", "(null)|1", "3|2", "5.5|3")
}

func TestErrors(t *testing.T) {
	partitioned := filepath.Join(t.TempDir(), "day=1")
	if err := os.Mkdir(partitioned, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(partitioned, "a.csv"), []byte("x\n1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	csv := func(text string) []string { return []string{write(t, "a.csv", text)} }
	for name, tt := range map[string]struct {
		o    Options
		want []string
	}{
		"no inputs":            {Options{}, []string{"no input files"}},
		"a missing file":       {Options{Inputs: []string{"/no/such.csv"}}, []string{"/no/such.csv"}},
		"an empty file":        {Options{Inputs: csv("")}, []string{"empty"}},
		"no delimiter":         {Options{Inputs: []string{write(t, "a.txt", "x")}}, []string{"a.txt", "delimiter"}},
		"a bad delimiter":      {Options{Inputs: csv("x"), Delimiter: "::"}, []string{"delimiter"}},
		"no time format":       {Options{Inputs: csv("x"), TimeFormats: []string{"%d.%Q"}}, []string{"%d.%Q", "%H"}},
		"no directive":         {Options{Inputs: csv("x"), TimeFormats: []string{"Y-m-d"}}, []string{"Y-m-d"}},
		"a long quote":         {Options{Inputs: csv("x"), Quote: "''"}, []string{"quote", "none"}},
		"quotes of Parquet":    {Options{Inputs: []string{write(t, "a.parquet", "")}, Quote: "none"}, []string{"--quote is for tables of text"}},
		"a quote as delimiter": {Options{Inputs: csv("x"), Delimiter: `"`}, []string{"delimiter"}},
		"too few fields":       {Options{Inputs: csv("x,y\n1,2\n3\n")}, []string{"a.csv line 3", "found 1 fields, want 2"}},
		"too many fields":      {Options{Inputs: csv("x,y\n1,2,3\n")}, []string{"a.csv line 2", "found 3 fields, want 2"}},
		"an open quote":        {Options{Inputs: csv("x,y\n1,\"2\n")}, []string{"a.csv line 2", "does not end"}},
		"a late misfit":        {Options{Inputs: csv("x,y\n1,2\n3,abc\n"), InferRows: 1}, []string{"a.csv line 3", "column y", `"abc"`, "int64", "first 1 rows", "y:string"}},
		"a declared misfit":    {Options{Inputs: csv("x\n3000000000\n"), Columns: []string{"x:int32"}}, []string{"line 2", "int32", "as declared", "x:int64"}},
		"a hexadecimal misfit": {Options{Inputs: csv("x\nzz\n"), Hex: []string{"x"}}, []string{"line 2", "hex", "x:string"}},
		"an unknown type":      {Options{Inputs: csv("x\n1\n"), Columns: []string{"x:int"}}, []string{"x", `"int"`, "float64"}},
		"an unknown column":    {Options{Inputs: csv("x\n1\n"), Columns: []string{"z"}}, []string{"z", "header has x"}},
		"a column twice":       {Options{Inputs: csv("x\n1\n"), Columns: []string{"x", "x"}}, []string{"x twice"}},
		"one of two columns":   {Options{Inputs: csv("x,y,x\n1,2,3\n"), Columns: []string{"x"}}, []string{"two columns are named x"}},
		"types of some":        {Options{Inputs: csv("x,y\n1,2\n"), Columns: []string{"x", "y:int64"}}, []string{"x without a type", "all a type or none", "--format"}},
		"too many columns":     {Options{Inputs: csv("1\n"), NoHeader: true, Columns: []string{"x", "y"}}, []string{"2 columns", "1 fields"}},
		"a name twice":         {Options{Inputs: csv("x,x\n1,2\n")}, []string{"two columns are named x"}},
		"no hex column":        {Options{Inputs: csv("x\n1\n"), Hex: []string{"cat_*"}}, []string{"cat_*", "there are x"}},
		"hex and declared":     {Options{Inputs: csv("x\n1\n"), Hex: []string{"x"}, Columns: []string{"x:int32"}}, []string{"int32", "hex"}},
		"other headers":        {Options{Inputs: append(csv("x\n1\n"), csv("y\n1\n")...)}, []string{"line 1", "header"}},
		"UTF-16":               {Options{Inputs: csv("\xff\xfex\x00\n\x00")}, []string{"UTF-16", "iconv"}},
		"unmarked UTF-16":      {Options{Inputs: csv("x\x00\n\x001\x00\n\x00")}, []string{"a.csv", "UTF-16"}},
		"numbers as names":     {Options{Inputs: csv("1,,0.5\n2,3,4\n")}, []string{"line 1", "looks like data", "--no-header"}},
		"an empty folder":      {Options{Inputs: []string{t.TempDir()}}, []string{"nothing found", ".csv"}},
		"a folder's name lost": {Options{Inputs: []string{filepath.Dir(partitioned)}}, []string{"day=1", "column"}},
		"no such profile":      {Options{Inputs: csv("x"), Profile: "gold"}, []string{"a.csv", "gold"}},
		"no gzip":              {Options{Inputs: []string{write(t, "a.csv.gz", "x\n1\n")}}, []string{"a.csv.gz", "gzip"}},
		"a cut gzip header":    {Options{Inputs: append(csv("x\n1\n"), write(t, "b.csv.gz", "\x1f\x8b"))}, []string{"b.csv.gz", "gzip"}},
		"mixed formats":        {Options{Inputs: append(csv("x\n1\n"), write(t, "a.parquet", ""))}, []string{"one format"}},
		"no Parquet":           {Options{Inputs: []string{write(t, "a.parquet", "nonsense")}}, []string{"a.parquet"}},
		"columns of Parquet":   {Options{Inputs: []string{write(t, "a.parquet", "")}, Columns: []string{"x"}}, []string{"--columns is for text"}},
		"rows of Parquet":      {Options{Inputs: []string{write(t, "a.parquet", "")}, SkipRows: 1}, []string{"--skip-rows", "Parquet"}},
		"rows of text":         {Options{Inputs: []string{write(t, "a.tsv", "x")}, SkipRows: 1}, []string{"--format tsv, too"}},
		"rows of any text":     {Options{Inputs: []string{write(t, "a.txt", "x")}, Delimiter: ";", SkipRows: 1}, []string{"--format csv, too"}},
		"two orders":           {Options{Inputs: csv("x"), SortBy: []string{"x"}, Shuffle: new(int64(1))}, []string{"--shuffle"}},
		"two ends of files":    {Options{Inputs: csv("x"), FileRows: 1, FileBytes: 1}, []string{"--file-bytes"}},
		"a negative count":     {Options{Inputs: csv("x"), FileRows: -1}, []string{"negative"}},
		"a pipe":               {Options{Inputs: []string{pipe(t)}}, []string{"pipe.csv", "no regular file"}},
		"one file of many":     {Options{Inputs: csv("x"), Output: "x.parquet", FileRows: 1}, []string{"directory"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if tt.o.Output == "" {
				tt.o.Output = filepath.Join(dir, "out")
			}
			_, err := Run(t.Context(), tt.o)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v: lacks %q", err, want)
				}
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

// TestEmptyFileAfterRecord has an empty gzip file where the next record would begin.
func TestEmptyFileAfterRecord(t *testing.T) {
	whole := write(t, "a.csv", "x\n"+strings.Repeat("1\n", batchRows))
	r := run(t, Options{Inputs: []string{whole, write(t, "b.csv.gz", ""), write(t, "c.csv", "x\n2\n")}})
	if r.Rows != batchRows+1 {
		t.Errorf("%d rows; expected %d", r.Rows, batchRows+1)
	}
}

// TestCutGzip cuts a compressed file at each of its bytes but the first, where it is an empty one.
func TestCutGzip(t *testing.T) {
	var b strings.Builder
	z := gzip.NewWriter(&b)
	z.Name = "b.csv"
	_, _ = z.Write([]byte("x\n2\n"))
	_ = z.Close()
	good := write(t, "a.csv", "x\n1\n")
	for n := 1; n < b.Len(); n++ {
		cut := write(t, "b.csv.gz", b.String()[:n])
		_, err := Run(t.Context(), Options{Inputs: []string{good, cut, good}, Output: filepath.Join(t.TempDir(), "out")})
		if err == nil || !strings.Contains(err.Error(), cut) {
			t.Errorf("%d of %d bytes: got %v", n, b.Len(), err)
		}
	}
}

func TestGroupsAndFiles(t *testing.T) {
	var text strings.Builder
	text.WriteString("n,s\n")
	for i := range 10_000 {
		fmt.Fprintf(&text, "%d,%s\n", i, strings.Repeat("x", 50))
	}
	in := []string{write(t, "a.csv", text.String())}
	for _, tt := range []struct {
		o      Options
		groups [][]int64 // rows of each row group of each file
	}{
		{Options{}, [][]int64{{10_000}}},
		{Options{RowGroupRows: 4000}, [][]int64{{4000, 4000, 2000}}},
		{Options{RowGroupRows: 5000}, [][]int64{{5000, 5000}}},
		{Options{FileRows: 6000}, [][]int64{{6000}, {4000}}},
		{Options{FileRows: 5000, RowGroupRows: 3000}, [][]int64{{3000, 2000}, {3000, 2000}}},
		{Options{RowGroupBytes: 1}, [][]int64{{4096, 4096, 1808}}},
	} {
		tt.o.Inputs = in
		r := run(t, tt.o)
		var got [][]int64
		for _, name := range r.Files {
			got = append(got, groupsOf(t, name))
		}
		if fmt.Sprint(got) != fmt.Sprint(tt.groups) {
			t.Errorf("%+v: got %v; want %v", tt.o, got, tt.groups)
		}
		rows := table(t, r.Files...)[1:]
		if len(rows) != 10_000 || rows[0] != "0|"+strings.Repeat("x", 50) || rows[9999][:5] != "9999|" {
			t.Errorf("%+v: %d rows", tt.o, len(rows))
		}
	}
}

func groupsOf(t testing.TB, name string) (rows []int64) {
	t.Helper()
	f, err := parquetfile.OpenParquetFile(name, false)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i := range f.NumRowGroups() {
		rows = append(rows, f.RowGroup(i).NumRows())
	}
	return rows
}

func TestOutputs(t *testing.T) {
	dir := t.TempDir()
	one, two := []string{write(t, "a.csv", "x\n1\n")}, []string{write(t, "a.csv", "x\n2\n")}
	out := filepath.Join(dir, "sub", "out")
	run(t, Options{Inputs: one, Output: out, FileRows: 1})
	if _, err := Run(t.Context(), Options{Inputs: two, Output: out}); err == nil || !strings.Contains(err.Error(), "overwrite") {
		t.Errorf("a directory that is not empty: %v", err)
	}
	bad := Options{Inputs: []string{write(t, "a.csv", "x\n1\n2,3\n")}, Output: out, Overwrite: true}
	if _, err := Run(t.Context(), bad); err == nil {
		t.Error("no error")
	}
	expect(t, table(t, filepath.Join(out, "part-00000.parquet")), "x int64", "1")
	r := run(t, Options{Inputs: two, Output: out, Overwrite: true})
	expect(t, table(t, r.Files...), "x int64", "2")

	if err := os.WriteFile(filepath.Join(out, "notes.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), Options{Inputs: two, Output: out, Overwrite: true}); err == nil || !strings.Contains(err.Error(), "notes.txt") {
		t.Errorf("a directory with other files: %v", err)
	}

	file := filepath.Join(dir, "single.parquet")
	run(t, Options{Inputs: one, Output: file})
	if _, err := Run(t.Context(), Options{Inputs: two, Output: file}); err == nil {
		t.Error("a file that is there: no error")
	}
	r = run(t, Options{Inputs: two, Output: file, Overwrite: true})
	expect(t, table(t, file), "x int64", "2")
	if !slices.Equal(r.Files, []string{file}) {
		t.Errorf("files %v", r.Files)
	}
	again := Options{Inputs: []string{file}, Output: file, Overwrite: true}
	if _, err := Run(t.Context(), again); err == nil || !strings.Contains(err.Error(), "lies in the output") {
		t.Errorf("the input as the output: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("in the directory: %v, %v", entries, err)
	}
}

// What cannot be given a name in the end is refused before any work is done.
func TestOutputThatCannotBeReplaced(t *testing.T) {
	t.Chdir(t.TempDir())
	in := write(t, "a.csv", "x\n1\n")
	if _, err := Run(t.Context(), Options{Inputs: []string{in}, Output: "."}); err == nil || !strings.Contains(err.Error(), "name a directory in it") {
		t.Errorf("got %v", err)
	}
	run(t, Options{Inputs: []string{in}, Output: "below"})
}

func TestCancel(t *testing.T) {
	dir := t.TempDir()
	in := []string{write(t, "a.csv", "x\n"+strings.Repeat("1\n", 50_000))}
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Run(ctx, Options{Inputs: in, Output: filepath.Join(dir, "out"), Progress: func(Progress) { cancel() }})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestProgress(t *testing.T) {
	text := "x\n" + strings.Repeat("1\n", 50_000)
	var last Progress
	run(t, Options{Inputs: []string{write(t, "a.csv", text), write(t, "b.csv", "x\n7\n")}, Progress: func(p Progress) {
		if p.Rows <= last.Rows || p.Read < last.Read || p.BytesToRead != int64(len(text))+4 {
			t.Errorf("progress %+v after %+v", p, last)
		}
		last = p
	}})
	if last.Rows != 50_001 || last.Read != last.BytesToRead {
		t.Errorf("ended at %+v", last)
	}
}
