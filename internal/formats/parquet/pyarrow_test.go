package parquet_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// writer makes files as other tools do: one for each set of options, all of the same rows.
const writer = `
import sys, decimal, datetime
import pyarrow as pa, pyarrow.parquet as pq
schema = pa.schema([
    pa.field("label", pa.int32(), nullable=False),
    pa.field("u32", pa.uint32()),
    pa.field("half", pa.float16()),
    pa.field("price", pa.decimal128(20, 3)),
    pa.field("at", pa.timestamp("ns", tz="UTC")),
    pa.field("name", pa.large_string()),
    pa.field("cat", pa.dictionary(pa.int8(), pa.string())),
    pa.field("ids", pa.list_(pa.field("element", pa.int64(), nullable=False)), nullable=False),
    pa.field("big", pa.large_list(pa.float32())),
    pa.field("fixed", pa.list_(pa.float32(), 2)),
    pa.field("grid", pa.list_(pa.list_(pa.uint8(), 3), 2)), pa.field("ragged", pa.list_(pa.list_(pa.int16(), 3))),
    pa.field("image", pa.fixed_shape_tensor(pa.int8(), [2, 1])),
    pa.field("in", pa.struct([pa.field("points", pa.list_(pa.field("element", pa.int32()), 2))])),
    pa.field("user", pa.struct([pa.field("age", pa.int16()), pa.field("in", pa.struct([pa.field("x", pa.bool_())]))])),
    pa.field("scores", pa.map_(pa.int64(), pa.float32())),
    pa.field("none", pa.null()),
    pa.field("empty", pa.list_(pa.null())),
    pa.field("boxes", pa.list_(pa.struct([pa.field("x", pa.int32())]))),
])
rows = [dict(label=i, u32=2**32-1-i, half=None, price=decimal.Decimal(i) / 8, at=i, name=str(i), cat="a", ids=[i] * (i % 3),
             big=None, fixed=[0, 1], grid=[[1, 2, 3]] * 2, ragged=[], image=[i, 1],
             **{"in": dict(points=[1, 2])}, user=dict(age=i, **{"in": dict(x=True)}), scores=[(i, 0.5)], none=None, empty=[], boxes=[]) for i in range(100)]
table = pa.Table.from_pylist(rows, schema=schema)
turned = pa.fixed_shape_tensor(pa.int8(), [2, 1], permutation=[1, 0])
table = table.append_column("turned", pa.ExtensionArray.from_storage(turned, pa.array([[1, 2]] * 100, turned.storage_type)))
for name, options in {
    "v1": dict(data_page_version="1.0"),
    "v2": dict(data_page_version="2.0", compression="zstd"),
    "plain": dict(use_dictionary=False, compression="none"),
    "nostats": dict(write_statistics=False),
    "groups": dict(row_group_size=30),
    "legacy": dict(version="1.0", use_deprecated_int96_timestamps=True),
    "index": dict(write_page_index=True, write_page_checksum=True, store_schema=False),
}.items():
    pq.write_table(table, sys.argv[1] + "/" + name + ".parquet", **options)
pq.write_table(table.slice(0, 0), sys.argv[1] + "/empty.parquet")
pq.ParquetWriter(sys.argv[1] + "/nogroups.parquet", table.schema).close()
`

// pyarrowSchema is that of pyarrow's files.
const pyarrowSchema = `label int32: label 0/0 row 0 list 0
u32 int64 of uint32: u32 1/0 row 1 list 0
half float32 of float16: half 1/0 row 1 list 0
price float64: price 1/0 row 1 list 0
at int64: at 1/0 row 1 list 0
name binary: name 1/0 row 1 list 0
cat binary: cat 1/0 row 1 list 0
ids list<int64>: ids.list.element 1/1 row 0 list 1
big list<float32>: big.list.element 3/1 row 1 list 2
fixed list<float32> [2]: fixed.list.element 3/1 row 1 list 2
grid list<list<int32>> of uint8 [2 3]: grid.list.element.list.element 5/2 row 1 list 2 null 3 list 4
ragged list<list<int32>> of int16: ragged.list.element.list.element 5/2 row 1 list 2 null 3 list 4
image list<int32> of int8 [2 1]: image.list.element 3/1 row 1 list 2
in.points list<int32> [2]: in.points.list.element 4/1 row 2 list 3
user.age int32 of int16: user.age 2/0 row 2 list 0
user.in.x bool: user.in.x 3/0 row 3 list 0
scores map<int64>float32: scores.key_value.key 2/1 row 1 list 2 scores.key_value.value 3/1 row 1 list 2
scores.key list<int64>: scores.key_value.key 2/1 row 1 list 2
scores.value list<float32>: scores.key_value.value 3/1 row 1 list 2
none unsupported: without a type: whoever wrote it saw only nulls
empty unsupported: a list without a type: whoever wrote it saw no element
boxes.x list<int32>: boxes.list.element.x 4/1 row 1 list 2
turned list<int32> of int8 [2]: turned.list.element 3/1 row 1 list 2`

func TestPyarrow(t *testing.T) {
	dir := pyarrowFiles(t)
	for name, want := range map[string]struct {
		rows   int64
		groups int
		stats  bool
	}{
		"v1": {100, 1, true}, "v2": {100, 1, true}, "plain": {100, 1, true}, "nostats": {100, 1, false},
		"groups": {100, 4, true}, "legacy": {100, 1, true}, "index": {100, 1, true}, "empty": {0, 1, false},
		"nogroups": {0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join(dir, name+".parquet"))
			if err != nil {
				t.Fatal(err)
			}
			f := load(t, data)
			schema := pyarrowSchema
			switch name {
			case "legacy": // the oldest version of the format has no uint32
				schema = strings.ReplaceAll(schema, "u32 int64 of uint32", "u32 int64")
			case "index": // without Arrow's schema
				schema = regexp.MustCompile(` \[.*\]`).ReplaceAllString(schema, "")
			}
			if got := describe(f); got != schema {
				t.Errorf("schema:\n%s\nwant:\n%s", got, schema)
			}
			if f.Rows != want.rows || len(f.RowGroups) != want.groups {
				t.Errorf("%d rows in %d row groups, want %d in %d", f.Rows, len(f.RowGroups), want.rows, want.groups)
			}
			for i, g := range f.RowGroups {
				if got := g.Chunks[0].Stats.Min != nil; got != want.stats {
					t.Errorf("row group %d: label has statistics: %v, want %v", i, got, want.stats)
				}
			}
		})
	}
}

// TestPlainLength: how long texts are that a dictionary has shortened.
func TestPlainLength(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(pyarrowFiles(t), "v1.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	f := load(t, data)
	for i, c := range f.RowGroups[0].Chunks {
		want := map[string]int64{"name": 10 + 2*90, "cat": 100}[strings.Join(f.Leaves[i].Path, ".")]
		if c.Plain != want {
			t.Errorf("%v: %d bytes, want %d", f.Leaves[i].Path, c.Plain, want)
		}
	}
}

// pyarrowFiles returns a folder of files made by pyarrow.
func pyarrowFiles(t *testing.T) string {
	t.Helper()
	if out, err := exec.Command("python3", "-c", "import pyarrow").CombinedOutput(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("python3 with pyarrow is missing: %s", out)
		}
		t.Skip("python3 with pyarrow is missing: pip install pyarrow")
	}
	dir := t.TempDir()
	if out, err := exec.Command("python3", "-c", writer, dir).CombinedOutput(); err != nil {
		t.Fatalf("pyarrow: %v\n%s", err, out)
	}
	return dir
}
