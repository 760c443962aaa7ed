package convert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/storage/storagetest"
)

// manyRows is text with a number a row.
func manyRows(n int) string {
	var b strings.Builder
	b.WriteString("x,y\n")
	for i := range n {
		fmt.Fprintf(&b, "%d,1\n", i)
	}
	return b.String()
}

// arrowFile writes a record as a file.
func arrowFile(t *testing.T, dir string, rec arrow.Record) string {
	t.Helper()
	name := filepath.Join(dir, "in.arrow")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	w, err := ipc.NewFileWriter(f, ipc.WithSchema(rec.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	for at := int64(0); at < rec.NumRows(); at += 7 {
		if err := w.Write(rec.NewSlice(at, min(at+7, rec.NumRows()))); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return name
}

// partitionFields may all name folders, but for the first.
func partitionFields() []arrow.Field {
	return []arrow.Field{
		nullable("id", arrow.PrimitiveTypes.Int64), nullable("the text", arrow.BinaryTypes.String),
		nullable("i=8", arrow.PrimitiveTypes.Int8), nullable("_u", arrow.PrimitiveTypes.Uint64),
		nullable("bool", arrow.FixedWidthTypes.Boolean), nullable("day", arrow.FixedWidthTypes.Date32),
		nullable("at", arrow.FixedWidthTypes.Timestamp_ns),
		nullable("loc", &arrow.TimestampType{Unit: arrow.Millisecond}),
	}
}

// appendPartition appends one of a few values.
func appendPartition(b array.Builder, n int) {
	switch b := b.(type) {
	case *array.StringBuilder:
		b.Append([]string{"", "..", "a/b é%2F+=", "007", "\x00*?[\\", "null"}[n])
	case *array.Int8Builder:
		b.Append(int8(n - 3))
	case *array.Uint64Builder:
		b.Append(^uint64(n))
	case *array.BooleanBuilder:
		b.Append(n > 2)
	case *array.Date32Builder:
		b.Append(arrow.Date32(n*5000 - 10_000))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(n-3) * 1_234_567_890_123)
	}
}

// anyRows are rows of partitionFields.
func anyRows(t *rapid.T) arrow.Record {
	fields := partitionFields()
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	for id := range rapid.IntRange(1, 30).Draw(t, "rows") {
		b.Field(0).(*array.Int64Builder).Append(int64(id))
		for i := 1; i < len(fields); i++ {
			if n := rapid.IntRange(0, 6).Draw(t, "value"); n < 6 {
				appendPartition(b.Field(i), n)
			} else {
				b.Field(i).AppendNull()
			}
		}
	}
	return b.NewRecord()
}

// partitionsSeen checks that rows are where they belong: each once, in the folders that its values name, and within them
// in the inputs' order or sorted.
type partitionsSeen struct {
	rec     arrow.Record
	columns []int
	sorted  bool
	rows    map[int64]bool
	last    map[string]int64
}

func (p *partitionsSeen) add(t interface{ Fatalf(string, ...any) }, folder string, ids []int64) {
	values := map[string]string{}
	for _, level := range strings.Split(folder, "/") {
		name, value, _ := strings.Cut(level, "=")
		values[must(url.PathUnescape(name))] = must(url.PathUnescape(value))
	}
	for _, id := range ids {
		before, some := p.last[folder]
		if p.rows[id] || some && (before < id) == p.sorted {
			t.Fatalf("%s has %v, after %d", folder, ids, before)
		}
		p.rows[id], p.last[folder] = true, id
		for _, column := range p.columns {
			a, want := p.rec.Column(column), nullPartition
			if a.IsValid(int(id)) {
				want = strings.TrimSuffix(a.ValueStr(int(id)), "Z")
			}
			if got, ok := values[p.rec.ColumnName(column)]; !ok || got != want {
				t.Fatalf("%s has row %d, where %s is %s", folder, id, p.rec.ColumnName(column), want)
			}
		}
	}
}

// Each row is in the folder of its values once, in order, and places behind records are theirs.
func TestPartitions(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		rec := anyRows(t)
		o := Options{}
		columns := rapid.Permutation([]int{1, 2, 3, 4, 5, 6, 7}).Draw(t, "columns")
		columns = columns[:rapid.IntRange(1, 3).Draw(t, "partitions")]
		for _, column := range columns {
			o.PartitionBy = append(o.PartitionBy, rec.ColumnName(column))
		}
		seen := &partitionsSeen{rec: rec, columns: columns, rows: map[int64]bool{}, last: map[string]int64{}}
		if seen.sorted = rapid.Bool().Draw(t, "sorted"); seen.sorted {
			o.SortBy = []string{"id:desc"}
		}
		where, err := arrangementOf(o, rec.Schema())
		if err != nil {
			t.Fatal(err)
		}
		in := &inputs{files: []*pb.File{{Uri: "a"}}}
		src := where.of(&given{of: rec.Schema(), records: []arrow.Record{rec}}, o, in, dir)
		defer src.close()
		for {
			got, err := src.next(context.Background(), rapid.Int64Range(1, 5).Draw(t, "limit"))
			if errors.Is(err, errEnd) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			seen.add(t, folderOf(src), got.Column(0).(*array.Int64).Int64Values())
			if at := src.behind(); at != (place{Row: int64(len(seen.rows))}) {
				t.Fatalf("behind %d rows it is at %v", len(seen.rows), at)
			}
		}
		if int64(len(seen.rows)) != rec.NumRows() {
			t.Fatalf("%d of %d rows", len(seen.rows), rec.NumRows())
		}
	})
}

// Files have the rows of their folders, without the columns that these stand for.
func TestPartitionFiles(t *testing.T) {
	rec := rapid.Custom(anyRows).Filter(func(rec arrow.Record) bool { return rec.NumRows() > 20 }).Example(1)
	store, in := newStore(t), arrowFile(t, t.TempDir(), rec)
	for column := 1; column < int(rec.NumCols()); column++ {
		o := Options{
			Store: store, Inputs: []string{in}, Output: filepath.Join(t.TempDir(), "out"), FileRows: 3, Verify: true,
			PartitionBy: []string{rec.ColumnName(column)},
		}
		r := run(t, o)
		seen := &partitionsSeen{rec: rec, columns: []int{column}, rows: map[int64]bool{}, last: map[string]int64{}}
		for _, name := range r.Files {
			ids, columns := rowsIn(t, store, name)
			if len(ids) > 3 || columns != int(rec.NumCols())-1 {
				t.Errorf("%s has %d rows, %d columns", name, len(ids), columns)
			}
			seen.add(t, must(filepath.Rel(o.Output, filepath.Dir(name))), ids)
		}
		if len(seen.rows) != int(rec.NumRows()) || r.Rows != rec.NumRows() || !r.Verified {
			t.Errorf("by column %s: %d rows; %+v", rec.ColumnName(column), len(seen.rows), r)
		}
	}
}

// rowsIn are the ids of a file, and how many columns it has.
func rowsIn(t *testing.T, store *storage.Store, name string) (ids []int64, columns int) {
	t.Helper()
	in := must(find(t.Context(), Options{Store: store, Inputs: []string{storage.Quote(name)}}))
	src, err := openSource(t.Context(), Options{}, &in)
	if err != nil {
		t.Fatal(err)
	}
	defer src.close()
	at := columnNamed(src.schema(), "id")
	for {
		rec, err := src.next(t.Context(), batchRows)
		if errors.Is(err, errEnd) {
			return ids, src.schema().NumFields()
		}
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, rec.Column(at).(*array.Int64).Int64Values()...)
	}
}

// days are rows of five days, in 8 files if each has at most 4000 rows.
func days() string {
	var b strings.Builder
	b.WriteString("id,day\n")
	for id := range 30_000 {
		fmt.Fprintf(&b, "%d,2026-01-0%d\n", id, 1+id*7%5)
	}
	return b.String()
}

// checkDays checks the files of a conversion of days.
func checkDays(t *testing.T, r Result, rowsOf func(name string) []string) {
	t.Helper()
	if r.Rows != 30_000 || len(r.Files) != 10 || !strings.HasSuffix(r.Files[3], "/day=2026-01-02/part-00001.parquet") {
		t.Fatalf("result %+v", r)
	}
	next := map[string]int{}
	for _, name := range r.Files {
		day := path.Base(path.Dir(name))
		for _, row := range rowsOf(name) {
			id := next[day]
			for day != fmt.Sprintf("day=2026-01-0%d", 1+id*7%5) {
				id++
			}
			if row != fmt.Sprint(id) {
				t.Fatalf("%s has row %s, not %d", name, row, id)
			}
			next[day] = id + 1
		}
	}
}

// TestPartitionsKilled kills a process whenever its journal has more files, and the next one goes on.
func TestPartitionsKilled(t *testing.T) {
	const variable = "PENSTOCK_TEST_PARTITIONS_KILLED"
	const partitions = 2 * fewFiles
	of := func(in string) Options {
		return Options{
			Inputs: []string{in}, Output: filepath.Join(filepath.Dir(in), "outputs"), PartitionBy: []string{"part"},
			FileRows: 20,
		}
	}
	journal := func(o Options) int {
		text, _ := os.ReadFile(filepath.Join(filepath.Dir(o.Output), ".outputs.converting", journalName))
		return strings.Count(string(text), "\n")
	}
	if in := os.Getenv(variable); in != "" {
		o := of(in)
		before := max(1, journal(o))
		o.Progress = func(p Progress) {
			if p.Rows > 0 && journal(o) > before {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
		}
		run(t, o)
		return
	}
	text := "id,part\n"
	for id := range 30 * partitions {
		text += fmt.Sprintf("%d,%d\n", id, id*7%partitions)
	}
	in := write(t, "a.csv", text)
	o := of(in)
	killed := 0
	for {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPartitionsKilled$")
		cmd.Env = append(os.Environ(), variable+"="+in)
		if err := cmd.Run(); err == nil {
			break
		}
		if killed++; killed > 10 {
			t.Fatal("it does not go on")
		}
		if _, err := os.Stat(o.Output); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("there is an output: %v", err)
		}
	}
	if killed < 3 {
		t.Errorf("it was killed %d times", killed)
	}
	if left, err := os.ReadDir(filepath.Dir(in)); err != nil || len(left) != 2 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	// one that is not killed makes the same files, and holds what the input does
	o.Overwrite, o.Verify = true, true
	first := tree(t, o.Output)
	r := run(t, o)
	if again := tree(t, o.Output); !slices.Equal(first, again) || len(first) != 2*partitions || !r.Verified {
		t.Errorf("%d files; %d without being killed; verified: %v", len(first), len(again), r.Verified)
	}
}

// tree are the files below a directory, with their sizes.
func tree(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			names = append(names, fmt.Sprint(name, " ", must(e.Info()).Size()))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// A journal is a file: what it names lies below the output.
func TestJournalNames(t *testing.T) {
	for name, follows := range map[string]bool{
		"a=1/b=2/part-00000.parquet": true, "part-00000.parquet": true,
		"../part-00000.parquet": false, "a=1/../../part-00000.parquet": false, "/part-00000.parquet": false,
		"a=1/part-00001.parquet": false, "a=1/x.parquet": false, "a=1//part-00000.parquet": false,
	} {
		p := &progress{ending: ".parquet"}
		if err := p.take([]entry{{Work: "w"}, {File: &finished{Name: name}}}, "w"); (err == nil) != follows {
			t.Errorf("%s: %v", name, err)
		}
	}
	p := &progress{ending: ".parquet"}
	twice := []entry{
		{Work: "w"},
		{File: &finished{Name: p.next("a=1")}},
		{File: &finished{Name: p.next("a=2")}},
		{File: &finished{Name: p.next("a=1")}},
	}
	if err := p.take(twice, "w"); err == nil {
		t.Error("a folder comes twice")
	}
}

// Partitions in a store: names with escapes, a resume, and a manifest that lists them.
func TestPartitionsIntoBucket(t *testing.T) {
	m := storagetest.StartMinIO(t)
	m.Setenv(t)
	m.MakeBucket(t, "outputs")
	store := lake(t)
	o := Options{
		Store: store, Inputs: []string{write(t, "a.csv", days())}, Output: "s3://outputs/derived/a", OutProfile: "lake",
		FileRows: 4000, PartitionBy: []string{"day"}, Verify: true,
	}
	_ = stopAfter(t, o, 20_000)
	if files, err := store.List(t.Context(), "lake", []string{"s3://outputs/derived/a/day=2026-01-01/"}); err == nil {
		t.Errorf("while it is not finished there are %v", files)
	}
	r := run(t, o)
	if !r.Verified || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "went on behind day=") {
		t.Errorf("result %+v", r)
	}
	checkDays(t, r, func(name string) (rows []string) {
		in := must(find(t.Context(), Options{Store: store, Profile: "lake", Inputs: []string{name}}))
		src, err := openSource(t.Context(), Options{}, &in)
		if err != nil {
			t.Fatal(err)
		}
		defer src.close()
		for {
			rec, err := src.next(t.Context(), batchRows)
			if errors.Is(err, errEnd) {
				return rows
			}
			if err != nil {
				t.Fatal(err)
			}
			rows = append(rows, rowsOf(rec)...)
		}
	})
	found, _, err := (&bucket{store: store, profile: "lake"}).find(t.Context(), "s3://outputs/derived/a/_*")
	if err != nil || len(found) != 1 {
		t.Fatalf("beside the folders there are %v, %v", found, err)
	}
	text := make([]byte, found[0].GetSize())
	var listed manifest
	if err := errors.Join(store.ReadAt(t.Context(), "lake", found[0], text, 0), json.Unmarshal(text, &listed)); err != nil {
		t.Fatal(err)
	}
	if len(listed.Files) != 10 || listed.Files[3].Name != "day=2026-01-02/part-00001.parquet" {
		t.Errorf("manifest %+v", listed)
	}
	odd := Options{
		Store: store, Inputs: []string{write(t, "b.csv", "x,the text\n1,\"a/b %é\"\n2,\n3,..\n")},
		Output: "s3://outputs/derived/odd", OutProfile: "lake", PartitionBy: []string{"the text"}, Verify: true,
	}
	if r := run(t, odd); !r.Verified || len(r.Files) != 3 {
		t.Errorf("result %+v", r)
	}
}

// Row groups are bounded by bytes, lists among them.
func TestRowGroupBytesOfLists(t *testing.T) {
	rec, _, err := array.RecordFromJSON(memory.DefaultAllocator,
		arrow.NewSchema([]arrow.Field{nullable("l", arrow.ListOf(arrow.PrimitiveTypes.Int64))}, nil),
		strings.NewReader("["+strings.TrimSuffix(strings.Repeat(`{"l":[1,2,3,4,5,6,7,8]},`, 1000), ",")+"]"))
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, Options{Inputs: []string{arrowFile(t, t.TempDir(), rec)}, RowGroupBytes: 100 * 8 * 8})
	groups := groupsOf(t, r.Files[0])
	for _, rows := range groups[:len(groups)-1] {
		if rows < 80 || rows > 107 { // and their record
			t.Fatalf("row groups of %v", groups)
		}
	}
}

// What a verification would find, if it were there.
func TestVerifyArranged(t *testing.T) {
	in := write(t, "a.csv", "id,day\n3,b\n1,a\n2,b\n")
	r := run(t, Options{Inputs: []string{in}, PartitionBy: []string{"day"}, SortBy: []string{"id"}})
	for want, text := range map[string]string{
		"":                              "id,day\n2,b\n1,a\n3,b\n",
		"its 3 rows are not the 2 rows": "id,day\n3,b\n1,a\n",
		"its 3 rows are not the 3 rows": "id,day\n3,b\n1,b\n2,b\n",
		"is not in":                     "id,days\n3,b\n1,a\n2,b\n",
	} {
		o := Options{
			Store: newStore(t), Inputs: []string{write(t, "a.csv", text)}, PartitionBy: []string{"day"}, SortBy: []string{"id"},
			InferRows: 10,
		}
		if want == "is not in" {
			o.PartitionBy[0] = "days"
			want = "no folder of column days"
		}
		found := must(find(t.Context(), o))
		err := verify(t.Context(), o, &found, r.Files)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	falling := Options{
		Store: newStore(t), Inputs: []string{in}, PartitionBy: []string{"day"}, SortBy: []string{"id:desc"}, InferRows: 10,
	}
	found := must(find(t.Context(), falling))
	if err := verify(t.Context(), falling, &found, r.Files); err == nil ||
		!strings.Contains(err.Error(), "row 1 belongs before the row before") {
		t.Errorf("of another order: %v", err)
	}
}
