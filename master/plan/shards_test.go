package plan_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/master/plan"
)

func source(name string, kind pb.Kind, list bool) *pb.Source {
	return &pb.Source{Name: name, Path: strings.Split(name, "."), Type: &pb.Type{Kind: kind, List: list}}
}

func mapKey(column, key string, kind pb.Kind) *pb.Source {
	return &pb.Source{Name: column + "." + key, Path: []string{column}, Key: &key, Type: &pb.Type{Kind: kind}}
}

func program(sources ...*pb.Source) *pb.Program { return &pb.Program{Sources: sources, Seed: 7} }

// drawFiles makes files whose row groups have ids that do not overlap.
func drawFiles(t *rapid.T) []plan.File {
	var files []plan.File
	next := int64(1)
	for i := range rapid.IntRange(0, 5).Draw(t, "files") {
		var groups []rowGroup
		for range rapid.IntRange(0, 8).Draw(t, "row groups") {
			rows := rapid.Int64Range(0, 5000).Draw(t, "rows")
			g := uniform(rows, rows*rapid.Int64Range(0, 100).Draw(t, "width"))
			groups = append(groups, g.within(next, next+rows))
			next += rows + 1
		}
		files = append(files, makeFile(t, fmt.Sprintf("file:///d/%d.parquet", i), 1, schema(), groups...))
		files[i].Index = uint32(i)
	}
	return files
}

// seen counts the row groups that shards hold, as "uri#index".
func seen(shards []*pb.Shard) map[string]int {
	n := make(map[string]int)
	for _, s := range shards {
		for _, g := range s.GetExtents() {
			n[fmt.Sprintf("%s#%d", s.GetFile().GetUri(), g.GetIndex())]++
		}
	}
	return n
}

func TestShardsHoldEachRowGroupOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		files := drawFiles(t)
		threshold := rapid.Int64Range(0, 20000).Draw(t, "threshold")
		prog := program(source("id", pb.Kind_INT64, false), source("ids", pb.Kind_INT64, true))
		prog.Filter = fmt.Sprintf("id >= %d", threshold)
		prog.Shuffle = rapid.Bool().Draw(t, "shuffle")
		cfg := plan.Config{ShardBytes: rapid.Int64Range(1, 1<<20).Draw(t, "shard")}
		shards, counts, err := plan.Shards(cfg, prog, files, 3)
		check(t, err)
		held := seen(shards)
		var want plan.Counts
		want.Files, want.Shards = int64(len(files)), int64(len(shards))
		for _, f := range files {
			for i, g := range footerOf(f).RowGroups {
				n := held[fmt.Sprintf("%s#%d", f.Uri, i)]
				excluded := int64(binary.LittleEndian.Uint64(g.Chunks[0].Stats.Max)) < threshold
				switch {
				case g.Rows == 0:
					want.EmptyExtents++
				case excluded:
					want.PrunedExtents++
					want.PrunedRows += g.Rows
				default:
					want.Extents++
					want.Rows += g.Rows
				}
				if kept := g.Rows > 0 && !excluded; kept != (n == 1) || n > 1 {
					t.Fatalf("row group %d of %s is held %d times (%d rows, excluded: %v)",
						i, f.Uri, n, g.Rows, excluded)
				}
			}
		}
		if counts != want {
			t.Fatalf("counts %+v, want %+v", counts, want)
		}
	})
}

func TestShardsKeepTheirBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		files := drawFiles(t)
		cfg := plan.Config{
			ShardBytes:  rapid.Int64Range(1, 1<<20).Draw(t, "shard"),
			WindowBytes: rapid.Int64Range(1, 1<<20).Draw(t, "window"),
		}
		shards, _, err := plan.Shards(cfg, program(source("id", pb.Kind_INT64, false)), files, 0)
		check(t, err)
		for i, s := range shards {
			f := files[s.GetFile().GetIndex()]
			var bytes int64
			for j, g := range s.GetExtents() {
				rg := footerOf(f).RowGroups[g.GetIndex()]
				size := max(rg.Chunks[0].Uncompressed, 8*rg.Rows)
				bytes += size
				if g.GetRows() != rg.Rows || g.GetFirstRow() != rg.FirstRow {
					t.Fatalf("row group %v does not tell of %+v", g, rg)
				}
				if j > 0 && g.GetIndex() <= s.GetExtents()[j-1].GetIndex() {
					t.Fatalf("row groups of %v are out of order", s)
				}
				w := g.GetWindowRows()
				width := size / rg.Rows
				if w < 1 || w > min(65536, rg.Rows) || w > 256 && w*width > cfg.WindowBytes || w > 1 &&
					w*width > 8*cfg.WindowBytes ||
					w < min(256, rg.Rows) && (w+1)*(width+8) <= 8*cfg.WindowBytes {
					t.Fatalf("windows of %d rows of %d bytes each; window bytes %d", w, size/rg.Rows, cfg.WindowBytes)
				}
			}
			if len(s.GetExtents()) > 1 && bytes > cfg.ShardBytes {
				t.Fatalf("shard %d of %d bytes; the limit is %d", i, bytes, cfg.ShardBytes)
			}
		}
	})
}

// Functions take long for what is little to read: many workers share it out.
func TestShardsAreSmallWhereFunctionsAreCalled(t *testing.T) {
	f := makeFile(t, "file:///0.parquet", 1, schema(), uniform(1000, 1<<19), uniform(1000, 1<<19),
		uniform(1000, 1<<19), uniform(1000, 1<<19))
	p := program(source("id", pb.Kind_INT64, false))
	for _, want := range []int{1, 2} {
		shards, _, err := plan.Shards(plan.Config{}, p, []plan.File{f}, 0)
		check(t, err)
		if len(shards) != want {
			t.Errorf("%d shards of 2 MiB with %d steps, want %d", len(shards), len(p.GetSteps()), want)
		}
		p.Steps = append(p.Steps, &pb.Step{Op: spec.FunctionOp})
	}
}

func TestShardsAreShuffledBySeedAndEpoch(t *testing.T) {
	var files []plan.File
	for i := range 10 {
		f := makeFile(t, fmt.Sprintf("file:///%d.parquet", i), 1, schema(), uniform(1000, 1<<16), uniform(1000, 1<<16),
			uniform(1000, 1<<16))
		f.Index = uint32(i)
		files = append(files, f)
	}
	shards := func(shuffle bool, seed int64, epoch uint32) []string {
		prog := program(source("id", pb.Kind_INT64, false))
		prog.Shuffle, prog.Seed = shuffle, seed
		got, _, err := plan.Shards(plan.Config{ShardBytes: 1}, prog, files, epoch)
		check(t, err)
		var names []string
		for _, s := range got {
			names = append(names, fmt.Sprintf("%d/%d", s.GetFile().GetIndex(), s.GetExtents()[0].GetIndex()))
		}
		return names
	}
	plain, base := shards(false, 7, 0), shards(true, 7, 0)
	if !slices.IsSortedFunc(plain, strings.Compare) || len(plain) != 30 {
		t.Errorf("without shuffling the shards are %v", plain)
	}
	if !slices.Equal(base, shards(true, 7, 0)) {
		t.Error("planning again gives another order")
	}
	for name, other := range map[string][]string{
		"plain": plain, "epoch": shards(true, 7, 1),
		"seed": shards(true, 8, 0),
	} {
		if slices.Equal(base, other) {
			t.Errorf("%s: the order is the same", name)
		}
		if !slices.Equal(slices.Sorted(slices.Values(base)), slices.Sorted(slices.Values(other))) {
			t.Errorf("%s: the shards are others", name)
		}
	}
}

// Shard sizes come from the columns that the program needs, however they are nested, and each leaf counts once.
func TestNeededColumns(t *testing.T) {
	g := rowGroup{rows: 100}
	for i := range int64(leaves) { // decoded: 10 kB, 20 kB, 40 kB, ...
		g.chunks = append(g.chunks, chunk{values: 100, stored: 1 << i, decoded: 10000 << i})
	}
	f := makeFile(t, "file:///a.parquet", 1, schema(), g)
	tests := []struct {
		name    string
		sources []*pb.Source
		leaves  int64 // bit set
	}{
		{"none", nil, 0},
		{"scalar", []*pb.Source{source("id", pb.Kind_INT64, false)}, 1},
		{"list", []*pb.Source{source("ids", pb.Kind_INT64, true)}, 2},
		{"map keys share leaves", []*pb.Source{
			mapKey("scores", "1", pb.Kind_FLOAT32),
			mapKey("scores", "2", pb.Kind_FLOAT32),
		}, 4 + 8},
		{"the keys of a map", []*pb.Source{source("scores.key", pb.Kind_INT64, true)}, 4},
		{"struct", []*pb.Source{source("user.age", pb.Kind_INT32, false)}, 16},
		{"twice", []*pb.Source{source("name", pb.Kind_BINARY, false), source("name", pb.Kind_BINARY, false)}, 32},
		{"missing", []*pb.Source{source("nope", pb.Kind_BINARY, false)}, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d, err := plan.Describe(plan.Config{}, program(test.sources...), []*pb.File{f.File}, footers(f), nil)
			check(t, err)
			if d.ReadBytes != test.leaves || d.DecodedBytes != 10000*test.leaves {
				t.Errorf("%d bytes to read, %d decoded; want leaves %b", d.ReadBytes, d.DecodedBytes, test.leaves)
			}
		})
	}
}

func TestDictionariesDoNotMakeWindowsHuge(t *testing.T) {
	g := uniform(65536, 100) // 65,536 values of one distinct id in 100 bytes
	shards, _, err := plan.Shards(plan.Config{WindowBytes: 80000}, program(source("id", pb.Kind_INT64, false)),
		[]plan.File{makeFile(t, "file:///a", 1, schema(), g)}, 0)
	check(t, err)
	if w := shards[0].GetExtents()[0].GetWindowRows(); w != 10000 {
		t.Errorf("windows of %d rows, want 80,000 bytes of 8 each", w)
	}
}

// Files say how many rows there are, and need no bytes to say so.
func TestRowsThatNobodyCouldPlan(t *testing.T) {
	few, many := uniform(1000, 1000), uniform(1<<62, 1000)
	sources := program(source("id", pb.Kind_INT64, false))
	files := []plan.File{makeFile(t, "file:///a", 1, schema(), few), makeFile(t, "file:///b", 1, schema(), few, many)}
	_, _, err := plan.Shards(plan.Config{}, sources, files, 0)
	if err == nil || !strings.Contains(err.Error(),
		"file:///b row group 1: the file says that it has 4611686018427387904 rows") {
		t.Errorf("got %v", err)
	}
	if _, err := plan.Describe(plan.Config{}, sources, []*pb.File{files[1].File}, footers(files[1]), nil); err == nil {
		t.Error("it was described")
	}
}

func TestTypeConflicts(t *testing.T) {
	f := makeFile(t, "file:///a.parquet", 1, schema(), uniform(1, 1))
	field := mapKey("scores", "4", pb.Kind_FLOAT32)
	field.Field, field.Type.List = []string{"value"}, true
	ofMaps := arrow.MapOf(arrow.BinaryTypes.String, arrow.MapOf(arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Float32))
	maps := arrow.NewSchema([]arrow.Field{{Name: "scores", Type: ofMaps}}, nil)
	m := makeFile(t, "file:///maps.parquet", 1, maps, rowGroup{
		rows: 1, chunks: slices.Repeat([]chunk{{values: 1, stored: 1}}, 3),
	})
	dotted := source("user.age", pb.Kind_INT32, false)
	dotted.Path = []string{"user.age"}
	structs := arrow.StructOf(arrow.Field{Name: "x", Type: arrow.PrimitiveTypes.Int64})
	odd := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.ListOf(arrow.ListOf(structs))}}, nil)
	g := makeFile(t, "file:///odd.parquet", 1, odd, rowGroup{rows: 1, chunks: []chunk{{values: 1, stored: 1}}})
	tests := []struct {
		file   plan.File
		source *pb.Source
		want   string
	}{
		{
			f, source("id", pb.Kind_INT32, false),
			`file:///a.parquet: feature id: column id is int64 here, which cannot be read as int32`,
		},
		{f, source("ids", pb.Kind_INT64, false), `column ids is list<int64> here, which cannot be read as int64`},
		{f, source("scores", pb.Kind_FLOAT32, false), `column scores is a map here, not float32`},
		{f, mapKey("id", "4", pb.Kind_INT64), `column id is int64 here, not a map`},
		{f, mapKey("scores", "4", pb.Kind_INT64), `column scores is float32 here, which cannot be read as int64`},
		{f, dotted, `column user.age is at path ["user" "age"] here, not at ["user.age"]`},
		{f, source("user", pb.Kind_INT32, false), `column user is a struct here, with a field user.age`},
		{f, source("id.x", pb.Kind_INT32, false), `column id is int64 here, not a struct`},
		{f, source("scores.x", pb.Kind_FLOAT32, false), `column scores is a map here, not a struct`},
		{f, field, `column scores is a map of float32 here, not a map of maps`},
		{m, mapKey("scores", "4", pb.Kind_FLOAT32), `column scores is a map of maps here, not of float32`},
		{g, source("id", pb.Kind_INT64, false), `odd.parquet: feature id: column id cannot be read: a list of lists`},
	}
	for _, test := range tests {
		_, _, err := plan.Shards(plan.Config{}, program(test.source), []plan.File{test.file}, 0)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: %v, want %q", test.source, err, test.want)
		}
	}
}

func TestShardsAreAFunction(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		files := drawFiles(t)
		prog := program(source("id", pb.Kind_INT64, false))
		prog.Shuffle = true
		a, _, err := plan.Shards(plan.Config{ShardBytes: 1000}, prog, files, 1)
		check(t, err)
		slices.Reverse(files)
		b, _, err := plan.Shards(plan.Config{ShardBytes: 1000}, prog, files, 1)
		check(t, err)
		if !slices.EqualFunc(a, b, func(x, y *pb.Shard) bool { return proto.Equal(x, y) }) {
			t.Fatal("the shuffled shards of a block depend on the order of its files")
		}
	})
}

// TestWindowsOfRepeatedText: a dictionary of long texts says little of the rows, but newer files say how long they are.
func TestWindowsOfRepeatedText(t *testing.T) {
	for plain, want := range map[int64]int64{0: 8192, 8192 * 16 << 10: 256, math.MaxInt64: 1} {
		f := makeFile(t, "file:///a", 1, schema(), uniform(8192, 1000))
		for i := range footerOf(f).RowGroups[0].Chunks {
			footerOf(f).RowGroups[0].Chunks[i].Plain = plain
		}
		shards, _, err := plan.Shards(plan.Config{}, program(source("id", pb.Kind_INT64, false)), []plan.File{f}, 0)
		check(t, err)
		if w := shards[0].GetExtents()[0].GetWindowRows(); w != want {
			t.Errorf("windows of %d rows of %d bytes in all, want %d", w, plain, want)
		}
	}
}

func TestWindowsOfManyColumns(t *testing.T) {
	for columns, want := range map[int]int64{1024: 512, 2048: 512, 3000: 750, 4096: 1024, 8192: 512} {
		var fields []arrow.Field
		var sources []*pb.Source
		g := rowGroup{rows: 8192}
		for i := range columns {
			name := fmt.Sprintf("c%d", i)
			fields = append(fields, arrow.Field{Name: name, Type: arrow.PrimitiveTypes.Int64})
			sources = append(sources, source(name, pb.Kind_INT64, false))
			g.chunks = append(g.chunks, chunk{values: g.rows, stored: 8 * g.rows})
		}
		shards, _, err := plan.Shards(plan.Config{}, program(sources...),
			[]plan.File{makeFile(t, "file:///a", 1, arrow.NewSchema(fields, nil), g)}, 0)
		check(t, err)
		if w := shards[0].GetExtents()[0].GetWindowRows(); w != want {
			t.Errorf("windows of %d rows of %d columns, want %d", w, columns, want)
		}
	}
}

func TestWindowsOfWideRows(t *testing.T) {
	tests := []struct{ rowBytes, want int64 }{
		{1000, 4194}, // 4 MiB
		{16 << 10, 256},
		{128 << 10, 256},
		{1 << 20, 32}, // 32 MiB, eight times as much as asked for
		{24 << 20, 1},
		{100 << 20, 1},
	}
	for _, test := range tests {
		g := uniform(8192, 8192*test.rowBytes)
		shards, _, err := plan.Shards(plan.Config{}, program(source("id", pb.Kind_INT64, false)),
			[]plan.File{makeFile(t, "file:///a", 1, schema(), g)}, 0)
		check(t, err)
		if w := shards[0].GetExtents()[0].GetWindowRows(); w != test.want {
			t.Errorf("windows of %d rows of %d bytes, want %d", w, test.rowBytes, test.want)
		}
	}
}
