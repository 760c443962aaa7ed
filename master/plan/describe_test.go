package plan_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/formats/filetest"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/formats/index"
	"github.com/penstock-ml/penstock/internal/formats/records"
	"github.com/penstock-ml/penstock/master/plan"
)

func footers(files ...plan.File) map[int]format.File {
	m := make(map[int]format.File)
	for i, f := range files {
		m[i] = f.Holds
	}
	return m
}

func TestDescribe(t *testing.T) {
	a := makeFile(t, "file:///a.parquet", 3<<20, schema(), uniform(1000, 1<<20).within(1, 10), uniform(0, 0),
		uniform(500, 1<<20).within(11, 20))
	b := makeFile(t, "file:///b.parquet", 1<<20, schema(), uniform(1000, 1<<20))
	prog := program(source("id", pb.Kind_INT64, false), source("ids", pb.Kind_INT64, true),
		source("gone", pb.Kind_INT64, false))
	prog.Filter = "id > 10"
	d, err := plan.Describe(plan.Config{}, prog, []*pb.File{a.File, b.File}, footers(a),
		map[string]string{"id": "native"})
	check(t, err)
	data, err := json.Marshal(d)
	check(t, err)
	const want = `{"listed_files":2,"listed_bytes":4194304,"blocks":1,` +
		`"planned":{"files":1,"shards":1,"row_groups":1,"rows":500,"pruned_row_groups":1,"pruned_rows":1000,"empty_row_groups":1},` +
		`"read_bytes":1048578,"decoded_bytes":2097152,"columns":[` +
		`{"name":"id","type":"int64","files":1,"read_bytes":524289,"decoded_bytes":1048576,"decoder":"native"},` +
		`{"name":"ids","type":"list\u003cint64\u003e","files":1,"read_bytes":524289,"decoded_bytes":1048576},` +
		`{"name":"gone","type":"int64","files":0,"read_bytes":0,"decoded_bytes":0}]}`
	if string(data) != want {
		t.Errorf("got  %s\nwant %s", data, want)
	}
	var text strings.Builder
	check(t, d.WriteText(&text))
	const wantText = `files    2        4.0 MiB in 1 block
planned  1        files: all below is of these
extents  1        1 pruned by statistics, 1 empty
rows     500      before the filter; 1000 pruned
shards   1        
to read  1.0 MiB  2.0 MiB decoded

column  type         files  to read    decoded  decoder
id      int64        1      512.0 KiB  1.0 MiB  native
ids     list<int64>  1      512.0 KiB  1.0 MiB  
gone    int64        0      0 B        0 B      
`
	if text.String() != wantText {
		t.Errorf("got\n%s\nwant\n%s", text.String(), wantText)
	}
}

// What shards have workers read is what the same plan describes.
func TestReads(t *testing.T) {
	a := makeFile(t, "file:///a.parquet", 3<<20, schema(), uniform(1000, 1<<20).within(1, 10),
		uniform(500, 1<<20).within(11, 20))
	b := makeFile(t, "file:///b.parquet", 1<<20, schema(), uniform(300, 1<<10))
	prog := program(source("id", pb.Kind_INT64, false), mapKey("scores", "1", pb.Kind_FLOAT32),
		mapKey("scores", "2", pb.Kind_FLOAT32), source("gone", pb.Kind_INT64, false))
	prog.Filter = "id > 10"
	var got [2]plan.Reads
	_, _, err := plan.ShardsAndReads(plan.Config{}, prog, []plan.File{a, b}, 0, func(f *pb.File) *plan.Reads {
		r := &got[0]
		if f == b.File {
			r = &got[1]
		}
		r.BySource = make([]int64, 4)
		return r
	})
	check(t, err)
	for i, f := range []plan.File{a, b} {
		d, err := plan.Describe(plan.Config{}, prog, []*pb.File{f.File}, footers(f), nil)
		check(t, err)
		if got[i].Rows != d.Planned.Rows || got[i].Bytes != d.ReadBytes || d.Planned.Extents != 1 {
			t.Errorf("of file %d: %+v, want %+v", i, got[i], d)
		}
		for c, column := range d.Columns {
			if got[i].BySource[c] != column.ReadBytes {
				t.Errorf("of %s in file %d %d bytes are read, want %d", column.Name, i, got[i].BySource[c],
					column.ReadBytes)
			}
		}
	}
}

// withRestarts is a file of lines whose restarts are close to each other.
func withRestarts(t *testing.T, data []byte) format.File {
	t.Helper()
	of := &filetest.One{URI: "mem://c.jsonl.gz", Data: data}
	described, err := formats.NewCache(1<<20).Load(t.Context(), of, "", of.File(), nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	lines := described.(*records.File)
	lines.Limits.Spacing = int64(len(data) / 4)
	in := &format.Input{Storage: of, File: of.File()}
	x, err := index.Scan(t.Context(), in, lines)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := x.Open(lines, index.For(of.File(), lines, nil))
	if err != nil {
		t.Fatal(err)
	}
	return opened
}

// TestWhatResumingCosts: a file of lines is cut every 4 MiB; one stream of gzip is not, or at few places if it is long,
// and that is said.
func TestWhatResumingCosts(t *testing.T) {
	line := []byte(`{"label": 1, "text": "` + strings.Repeat("x", 1000) + "\"}\n")
	text := bytes.Repeat(line, 20<<20/len(line))
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var files []*pb.File
	known := map[int]format.File{}
	for i, of := range []*filetest.One{
		{URI: "mem://a.jsonl", Data: text}, {URI: "mem://b.jsonl.gz", Data: packed.Bytes()},
	} {
		holds, err := formats.Load(t.Context(), of, "", of.File(), nil)
		if err != nil {
			t.Fatal(err)
		}
		files, known[i] = append(files, of.File()), holds
	}
	files, known[2] = append(files, files[1]), withRestarts(t, packed.Bytes())
	label := &pb.Source{Name: "label", Path: []string{"label"}, Type: &pb.Type{Kind: pb.Kind_INT64}}
	d, err := plan.Describe(plan.Config{}, &pb.Program{Sources: []*pb.Source{label}}, files, known, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := plan.Resuming{
		Extents: 6 + int64(len(known[2].Extents())), Most: int64(len(text)), MostStored: int64(packed.Len()),
		MostOf: "mem://b.jsonl.gz",
		Uncut:  1, Codec: "gzip", First: "mem://b.jsonl.gz", Long: 1, FirstLong: "mem://b.jsonl.gz",
	}
	if *d.Resume != want {
		t.Errorf("resuming costs %+v, want %+v", *d.Resume, want)
	}
	var told strings.Builder
	check(t, d.WriteText(&told))
	if out := told.String(); strings.Count(out, "\nextents ") != 1 || !strings.Contains(out, "\nlong      1 ") ||
		!strings.Contains(out, " MiB decompressed) is read again, of mem://b.jsonl.gz\n") {
		t.Error(out)
	}
}
