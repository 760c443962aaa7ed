package convert

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/formats/beside"
	"github.com/penstock-ml/penstock/internal/formats/filetest"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/formats/index"
)

const others = "../../internal/formats/filetest/others"

// TestFilesOfOthers: a file that another writer wrote is, as Parquet, its twin.
func TestFilesOfOthers(t *testing.T) {
	for _, folder := range []string{"csv", "jsonl", "webdataset", "tfrecord", "mds", "tokens"} {
		for _, o := range filetest.Others(t, folder) {
			if o.File == "jsonl/uint64.jsonl" { // what is beyond int64 is refused
				continue
			}
			t.Run(o.File, func(t *testing.T) {
				how := o.How(t)
				how.Name = folder
				if strings.Contains(o.File, ".tsv") {
					how.Name = "tsv"
				}
				switch _, headless := o.Options["header"]; {
				case o.File == "csv/numbers.csv": // 007 is an identifier, if nobody says otherwise
					how.Columns = map[string]string{"i": "int64"}
				case headless:
					how.Options["names"] = textValues("id", "price", "name", "count", "flag", "note")
				}
				twin, names := withoutMeta(t, filepath.Join(others, o.Twin))
				r := run(t, Options{
					Inputs: []string{filepath.Join(others, o.File)}, Format: how, FileRows: 100, Columns: names,
				})
				expectEqual(t, Options{Inputs: r.Files}, Options{Inputs: []string{twin}})
			})
		}
	}
}

// withoutMeta is a twin without the column of MDS that is JSON, which is text there and a struct in the twin, and the
// names of the others; nil: it has none.
func withoutMeta(t *testing.T, twin string) (string, []string) {
	t.Helper()
	f, err := os.Open(twin)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	table, err := pqarrow.ReadTable(t.Context(), f, nil, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	at := table.Schema().FieldIndices("meta")
	if len(at) == 0 {
		return twin, nil
	}
	var names []string
	fields := slices.Delete(slices.Clone(table.Schema().Fields()), at[0], at[0]+1)
	var columns []arrow.Column
	for i := range int(table.NumCols()) {
		if i != at[0] {
			columns = append(columns, *table.Column(i))
			names = append(names, table.Column(i).Name())
		}
	}
	to, err := os.Create(filepath.Join(t.TempDir(), "twin.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	table = array.NewTable(arrow.NewSchema(fields, nil), columns, table.NumRows())
	err = pqarrow.WriteTable(table, to, table.NumRows(), nil, pqarrow.DefaultWriterProps())
	if err != nil {
		t.Fatal(err)
	}
	return to.Name(), names
}

// TestLateColumns: a column behind the front of a file is told of, and is there if it is declared.
func TestLateColumns(t *testing.T) {
	short := write(t, "short.jsonl", `{"a": 1}`+"\n"+`{"late": 2}`)
	if r := run(t, Options{Inputs: []string{short}}); len(r.Notes) > 0 || len(r.Columns) != 2 {
		t.Errorf("of a file that is its front: %+v", r)
	}
	long := Options{Inputs: []string{write(t, "long.jsonl", strings.Repeat(`{"a": 1}`+"\n", 50_000)+`{"late": 2}`)}}
	r := run(t, long)
	if len(r.Columns) != 1 || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "'{name: jsonl, columns: {late: int64}}'") {
		t.Errorf("%+v", r)
	}
	long.Format = &pb.Format{Name: "jsonl", Columns: map[string]string{"late": "int64"}}
	rows := table(t, run(t, long).Files...)
	expect(t, []string{rows[0], rows[1], rows[len(rows)-1]}, "a int64, late int64", "1|(null)", "(null)|2")
	long.Columns = []string{"a"}
	if r := run(t, long); len(r.Notes) > 0 {
		t.Errorf("of chosen columns: %q", r.Notes)
	}
}

// TestDecodedColumns: files that differ have the columns of all of them, as sessions have.
func TestDecodedColumns(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.jsonl": `{"n": 1, "u": {"age": 7, "tags": ["x", null]}, "none": null}`,
		"b.jsonl": `{"n": 2.5, "late": [[1], []]}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	how := &pb.Format{Name: "JSON lines", Columns: map[string]string{"u.age": "int16"}}
	r := run(t, Options{Inputs: []string{dir}, Format: how, Verify: true})
	expect(t, table(t, r.Files...),
		"n float64, u.age int16, u.tags list<list: utf8, nullable>, none utf8, "+
			"late list<list: list<list: int64, nullable>, nullable>",
		`1|7|["x",null]|(null)|(null)`,
		"2.5|(null)|(null)|(null)|[[1],[]]",
	)
	r = run(t, Options{Inputs: []string{dir}, Columns: []string{"late", "n"}})
	expect(t, r.Columns, "late: list<item: list<item: int64, nullable>, nullable>", "n: float64")
}

// TestFormatChoosesFiles: a folder whose format is named stands for the files that sessions read of it.
func TestFormatChoosesFiles(t *testing.T) {
	for _, tt := range []struct {
		files map[string]string
		how   *pb.Format
		want  []string
		notes int
	}{
		{
			map[string]string{"a.csv": "x\n1\n", "b.csv": "", "c.jsonl": `{"x": 5}`, "000_0": "x\n2\n"},
			&pb.Format{Name: "csv"},
			[]string{"x int64", "1"},
			3,
		},
		{
			map[string]string{"000_0": "x\n2\n", "a.dat": "x\n3\n", "b.idx": "?"},
			&pb.Format{Name: "csv"},
			[]string{"x int64", "2", "3"},
			0,
		},
		{
			map[string]string{"a.bin": "\x01\x00\x02\x00\x03\x00", "a.bin.docs": "\x03" + strings.Repeat("\x00", 7)},
			&pb.Format{Name: "tokens", Options: map[string]*pb.Value{
				"dtype": textValue("uint16"), "documents": textValue("*.docs"),
			}},
			[]string{"tokens list<list: uint16, nullable>", "[1,2,3]"},
			0,
		},
	} {
		dir := t.TempDir()
		for name, text := range tt.files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r := run(t, Options{Inputs: []string{dir}, Format: tt.how, Verify: true})
		expect(t, table(t, r.Files...), tt.want...)
		if len(r.Notes) != tt.notes {
			t.Errorf("%v: notes %q", tt.files, r.Notes)
		}
	}
}

// TestIndexBeside: a file that has an index is not scanned, and its rows are the same, also behind those of an earlier run.
func TestIndexBeside(t *testing.T) {
	const rows = 100_000
	var text []byte
	for i := range rows {
		text = fmt.Appendf(text, "{\"n\": %d}\n", i)
	}
	o := Options{Inputs: []string{write(t, "a.jsonl", string(text))}, Store: newStore(t)}
	in, err := find(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, scanned := range []bool{true, false} {
		src := must(openDecoded(t.Context(), o, &in))
		defer src.close()
		if err := goOn(t.Context(), src, &progress{files: []finished{{After: place{Row: rows - 2}}}}); err != nil {
			t.Fatal(err)
		}
		rec := must(src.next(t.Context(), rows))
		if got := fmt.Sprint(rec.Column(0)); got != "[99998 99999]" || src.part.scanned != scanned {
			t.Errorf("%s; scanned: %v", got, src.part.scanned)
		}
		if _, err := src.next(t.Context(), 1); !errors.Is(err, errEnd) {
			t.Error(err)
		}
		of := must(src.cache.Load(t.Context(), o.Store, "", in.files[0], nil, nil, nil)).(format.Scanned)
		x := must(formats.Scan(t.Context(), &format.Input{Storage: o.Store, File: in.files[0]}, of))
		dir, name := beside.Split(in.files[0].GetUri())
		pack := index.Pack([]index.Packed{{Name: name, Index: x.Bytes()}})
		if err := beside.Write(t.Context(), o.Store, "", dir, pack); err != nil {
			t.Fatal(err)
		}
	}
}

// TestVerifyNoRows: an output without rows, and thus without bytes, is read back, though a glob leaves out such files.
func TestVerifyNoRows(t *testing.T) {
	out := filepath.Join(t.TempDir(), "q[1]")
	if r := run(t, Options{
		Inputs: []string{write(t, "a.csv", "x\n")}, To: "jsonl", Output: out, Verify: true,
	}); !r.Verified || r.Bytes != 0 {
		t.Errorf("%+v", r)
	}
}

func textValue(text string) *pb.Value { return &pb.Value{Kind: &pb.Value_Text{Text: text}} }

// TestSkipRows: rows that cannot be decoded are left out and counted, also by a run that goes on.
func TestSkipRows(t *testing.T) {
	var lines []string
	bad := 0
	for i := range 9000 {
		if i%1000 == 7 {
			lines = append(lines, `{"n": "x"`)
			bad++
			continue
		}
		lines = append(lines, fmt.Sprintf(`{"n": %d}`, i))
	}
	lines[0] = `{"n": 0}`
	o := Options{
		Inputs: []string{write(t, "a.jsonl", strings.Join(lines, "\n"))}, FileRows: 2500, SkipRows: int64(bad),
		Output: filepath.Join(t.TempDir(), "out"), Format: &pb.Format{Name: "jsonl", Columns: map[string]string{"n": "int64"}},
	}
	_ = stopAfter(t, o, 5000)
	o.Verify = true
	r := run(t, o)
	if r.Rows != int64(9000-bad) || r.Skipped != int64(bad) || !r.Verified || len(r.Files) != 4 {
		t.Errorf("%+v", r)
	}
	o.SkipRows, o.Overwrite = int64(bad-1), true
	want := fmt.Sprintf("a.jsonl row 8007: record at byte %d", len(strings.Join(lines[:8007], "\n"))+1)
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) ||
		!strings.Contains(err.Error(), "--skip-rows leaves out 8") {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestDecodedErrors: they name the file, and what to do.
func TestDecodedErrors(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		o          Options
		want       string
	}{
		{"a.jsonl", "{\"n\": 1}\n{\"n\": \"x\"}\n", Options{}, "column n cannot be converted: it is of several types"},
		{"a.jsonl", "{\"n\": 1}\n", Options{Columns: []string{"m"}}, "there is no column m; there are n"},
		{"a.jsonl", "{\"n\": 1}\n", Options{Delimiter: ";"}, "--delimiter is for tables of text"},
		{
			"a.csv", "a\n1\n",
			Options{Format: &pb.Format{Name: "CSV"}, NoHeader: true, Nulls: []string{"NA"}},
			"--null and --no-header are not read beside --format csv",
		},
		{"a.tfrecord", "\x01", Options{}, "a.tfrecord"},
		{"a.dat", "a,b\n", Options{}, "a.dat: neither its name nor its bytes tell its format: give --format"},
		{"a.csv", "a\n1\n", Options{Format: &pb.Format{Name: "orc"}}, `no format "orc"`},
	} {
		tt.o.Inputs, tt.o.Output = []string{write(t, tt.name, tt.text)}, filepath.Join(t.TempDir(), "out")
		if _, err := Run(t.Context(), tt.o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
}

func textValues(all ...string) *pb.Value {
	list := &pb.List{}
	for _, text := range all {
		list.Values = append(list.Values, &pb.Value{Kind: &pb.Value_Text{Text: text}})
	}
	return &pb.Value{Kind: &pb.Value_List{List: list}}
}

// expectEqual holds a dataset against another one.
func expectEqual(t *testing.T, a, b Options) {
	t.Helper()
	a.Store, b.Store = newStore(t), newStore(t)
	c, err := Compare(t.Context(), a, b)
	if err == nil {
		err = c.Err()
	}
	if err != nil {
		t.Fatal(err)
	}
}
