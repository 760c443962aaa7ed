package parquet

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/compress"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/rescue"
)

func source(path string, kind pb.Kind, list bool) *pb.Source {
	return &pb.Source{Name: path, Path: strings.Split(path, "."), Type: &pb.Type{Kind: kind, List: list}}
}

func smallTable(rows int) arrow.Table {
	return randomTable(9, arrow.NewSchema([]arrow.Field{
		{Name: "i", Type: arrow.PrimitiveTypes.Int32, Nullable: true},
		{Name: "f", Type: arrow.ListOf(arrow.PrimitiveTypes.Float32), Nullable: true},
		{Name: "s", Type: arrow.StructOf(arrow.Field{Name: "x", Type: arrow.BinaryTypes.String, Nullable: true})},
		{Name: "m", Type: arrow.ListOf(arrow.ListOf(arrow.PrimitiveTypes.Int32))},
		{Name: "text", Type: arrow.BinaryTypes.String},
		{Name: "u", Type: arrow.PrimitiveTypes.Uint8},
	}, nil), rows)
}

func TestWidening(t *testing.T) {
	for _, dictionary := range []bool{false, true} {
		data := writeTable(t, smallTable(100), 100, parquet.WithDictionaryDefault(dictionary))
		f, err := readFooter(data)
		if err != nil {
			t.Fatal(err)
		}
		d := NewDecoder([]*pb.Source{
			source("i", pb.Kind_INT64, false), source("i", pb.Kind_INT32, false), source("f", pb.Kind_FLOAT64, true),
			source("f", pb.Kind_FLOAT32, true), source("f", pb.Kind_FLOAT32, true),
		}, testMemory)
		if leaves, err := leavesOf(f, d.sources); err != nil || len(leaves) != 4 {
			t.Fatalf("leaves %v: %v", leaves, err)
		}
		chunks, err := chunksOf(d, f, 0, data)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.reset("file", f, 0, chunks); err != nil {
			t.Fatal(err)
		}
		v, err := d.Next(100)
		if err != nil {
			t.Fatal(err)
		}
		for i, x := range v[1].I32 {
			if v[0].I64[i] != int64(x) {
				t.Fatalf("row %d is %d, want %d", i, v[0].I64[i], x)
			}
		}
		for i, x := range v[3].F32 {
			if v[2].F64[i] != float64(x) || v[4].F32[i] != x {
				t.Fatalf("element %d is %v and %v, want %v", i, v[2].F64[i], v[4].F32[i], x)
			}
		}
	}
}

func TestConflicts(t *testing.T) {
	data := writeTable(t, smallTable(10), 10)
	f, err := readFooter(data)
	if err != nil {
		t.Fatal(err)
	}
	key := "k"
	for want, s := range map[string]*pb.Source{
		"column i is int32 here, which cannot be read as float32":                 source("i", pb.Kind_FLOAT32, false),
		"column i is int32 here, which cannot be read as list<int32>":             source("i", pb.Kind_INT32, true),
		"column i is int32 here, not a struct":                                    source("i.x", pb.Kind_INT32, false),
		"column s is a struct here, with a field s.x":                             source("s", pb.Kind_BINARY, false),
		"column m is list<list<int32>> here, which cannot be read as list<int32>": source("m", pb.Kind_INT32, true),
		"column u is uint8 here, which cannot be read as int8":                    source("u", pb.Kind_INT8, false),
		"column i is int32 here, which cannot be read as int16":                   source("i", pb.Kind_INT16, false),
		"column f is list<float32> here, which cannot be read as list<int64>":     source("f", pb.Kind_INT64, true),
		"column text is binary here, not a map": {
			Name: "text.k", Path: []string{"text"},
			Key: &key, Type: &pb.Type{Kind: pb.Kind_INT32},
		},
	} {
		d := NewDecoder([]*pb.Source{s}, testMemory)
		for _, err := range []error{
			func() error { _, err := d.chunksOf(f, 0); return err }(),
			d.reset("the-file", f, 0, nil),
		} {
			if err == nil || !strings.Contains(err.Error(), want) ||
				!strings.Contains(err.Error(), "feature "+s.GetName()) {
				t.Errorf("%v, want %q", err, want)
			}
		}
		if _, err := d.Next(1); err == nil {
			t.Error("Next after a failed Reset gave no error")
		}
	}
}

func TestAbsent(t *testing.T) {
	data := writeTable(t, smallTable(10), 4)
	f, err := readFooter(data)
	if err != nil {
		t.Fatal(err)
	}
	with := func(s *pb.Source, v *pb.Value) *pb.Source { s.Default = v; return s }
	integer := &pb.Value{Kind: &pb.Value_Int{Int: 7}}
	text := &pb.Value{Kind: &pb.Value_Text{Text: "none"}}
	list := &pb.Value{Kind: &pb.Value_List{List: &pb.List{Values: []*pb.Value{integer, {Kind: &pb.Value_Int{Int: 8}}}}}}
	empty := &pb.Value{Kind: &pb.Value_List{List: &pb.List{}}}
	sources := []*pb.Source{
		source("a.b", pb.Kind_INT64, false), source("a", pb.Kind_BINARY, true), with(source("b", pb.Kind_INT32, false),
			integer),
		with(source("c", pb.Kind_BINARY, false), text), with(source("d", pb.Kind_INT64, true), list),
		with(source("e", pb.Kind_FLOAT32, true), empty), with(source("g", pb.Kind_FLOAT64, false), integer),
		with(source("h", pb.Kind_BOOL, false), &pb.Value{Kind: &pb.Value_Bool{Bool: true}}),
		with(source("l", pb.Kind_INT16, true), list), with(source("n", pb.Kind_FLOAT16, false), integer),
		source("o", pb.Kind_UINT8, false),
	}
	d := NewDecoder(sources, testMemory)
	got, err := decodeAll(d, f, data, 3, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []any{
		nil, nil, int32(7), "none",
		[]any{int64(7), int64(8)},
		[]any{},
		uint64(0x401c << 48),
		true,
		[]any{int32(7), int32(8)},
		uint32(0x40e0 << 16), nil,
	} {
		rows := make([]any, 10)
		for j := range rows {
			rows[j] = want
		}
		compare(t, sources[i].GetName(), got[i], rows)
	}
	for _, s := range []*pb.Source{
		with(source("z", pb.Kind_INT64, false), text), with(source("z", pb.Kind_INT64, true), integer),
		with(source("z", pb.Kind_INT32, false), &pb.Value{Kind: &pb.Value_Int{Int: 1 << 40}}),
		with(source("z", pb.Kind_INT8, false), &pb.Value{Kind: &pb.Value_Int{Int: 128}}),
	} {
		if err := NewDecoder([]*pb.Source{s}, testMemory).reset("file", f, 0, nil); err == nil ||
			!strings.Contains(err.Error(), "default") {
			t.Errorf("default %v of %v: %v", s.GetDefault(), s.GetType(), err)
		}
	}
}

// TestSteadyState decodes row groups again and again, which takes no new memory.
func TestSteadyState(t *testing.T) {
	zstd := 0.0
	if underRace {
		zstd = 800 // its decoder uses a sync.Pool for each page
	}
	for codec, limit := range map[compress.Compression]float64{
		compress.Codecs.Uncompressed: 0, compress.Codecs.Snappy: 0, compress.Codecs.Zstd: zstd,
	} {
		for _, dictionary := range []bool{true, false} {
			data := writeTable(t, randomTable(4, testSchema(), 600), 600, parquet.WithCompression(codec),
				parquet.WithDictionaryDefault(dictionary),
				parquet.WithDataPageSize(2000), parquet.WithDataPageVersion(parquet.DataPageV2))
			if allocated := allocations(t, data, 600); allocated > limit {
				t.Errorf("%s, dictionary %v: %v allocations for each row group", codec, dictionary, allocated)
			}
		}
	}
	for name, of := range mapTypes() {
		if allocated := allocationsOf(t, mapsOf(t, of), kindRows, mapSources(15, of)); allocated > zstd {
			t.Errorf("keys of maps of %s: %v allocations for each row group", name, allocated)
		}
	}
	dir := pythonFiles(t)
	for _, name := range []string{"delta_length_v2", "delta_bytes_v1", "split_v2"} {
		data, _ := openFile(t, filepath.Join(dir, name+".parquet"))
		if allocated := allocations(t, data, 1500); allocated > 0 {
			t.Errorf("%s: %v allocations for each row group", name, allocated)
		}
	}
}

// allocations is how often memory is allocated when the first row group of a file, which has so many rows, is decoded
// once more.
func allocations(t *testing.T, data []byte, rows int) float64 {
	f, err := readFooter(data)
	if err != nil {
		t.Fatal(err)
	}
	return allocationsOf(t, data, rows, withOwn(f))
}

// allocationsOf is that of some sources.
func allocationsOf(t *testing.T, data []byte, rows int, sources []*pb.Source) float64 {
	f, err := readFooter(data)
	if err != nil {
		t.Fatal(err)
	}
	d := NewDecoder(sources, testMemory)
	chunks, err := chunksOf(d, f, 0, data)
	if err != nil {
		t.Fatal(err)
	}
	wholes := wholes(chunks)
	return testing.AllocsPerRun(10, func() {
		err := d.resetSources("file", f, 0, wholes)
		for left := rows; left > 0 && err == nil; left -= 100 {
			_, err = d.Next(min(100, left))
		}
		if err != nil {
			t.Fatal(err)
		}
	})
}

func TestPlan(t *testing.T) {
	data := writeTable(t, smallTable(10), 10, parquet.WithCompression(compress.Codecs.Zstd),
		parquet.WithDictionaryDefault(false))
	f, err := readFooter(data)
	if err != nil {
		t.Fatal(err)
	}
	got, err := explain(f, 0, []*pb.Source{source("i", pb.Kind_INT64, false), source("none", pb.Kind_BINARY, true)})
	want := []string{"zstd, PLAIN RLE, widened from int32", "absent from the file"}
	if err != nil || strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("plan %q, want %q: %v", got, want, err)
	}
	for i := range f.RowGroups[0].Chunks {
		f.RowGroups[0].Chunks[i].Codec = 3
	}
	if got, err := explain(f, 0, []*pb.Source{source("i", pb.Kind_INT32, false)}); err != nil ||
		got[0] != "codec 3 cannot be read" {
		t.Errorf("plan %q, %v", got, err)
	}
}

// A panic names what was being decoded, and stays the decoder's state.
func TestPanicsAreAboutTheFile(t *testing.T) {
	d := &Decoder{file: "a.parquet", rowGroup: 2, rowsLeft: 10}
	for range 2 {
		err := d.advance(3, func() error { panic("oh") })
		if err == nil || !strings.HasPrefix(err.Error(), "a.parquet row group 2: the decoder panicked") {
			t.Errorf("got %v", err)
		}
	}
	d = &Decoder{rowsLeft: 10}
	theirs := &rescue.PanicError{Who: rescue.Worker}
	if err := d.advance(3, func() error { return theirs }); !errors.Is(err, theirs) || err.Error() != theirs.Error() {
		t.Errorf("what panicked while it read is told as %v", err)
	}
}

// TestUntoldLengths decodes chunks that do not say how long their pages are.
func TestUntoldLengths(t *testing.T) {
	data := writeTable(t, smallTable(300), 100, parquet.WithCompression(compress.Codecs.Snappy))
	f, err := readFooter(data)
	if err != nil {
		t.Fatal(err)
	}
	want, err := decodeAll(NewDecoder(sourcesOf(f), testMemory), f, data, 64, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range f.RowGroups {
		for i := range g.Chunks {
			g.Chunks[i].Uncompressed = 0
		}
	}
	got, err := decodeAll(NewDecoder(sourcesOf(f), testMemory), f, data, 64, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range sourcesOf(f) {
		compare(t, s.GetName(), got[i], want[i])
	}
}
