package reference

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
)

// writer writes the same rows with many options of pyarrow and DuckDB, a folder for each set of columns, and into
// rows.json what a reader must make of them.
const writer = `
import sys, os, json, decimal, datetime, uuid
import pyarrow as pa, pyarrow.parquet as pq, numpy as np, duckdb
out, n = sys.argv[1], 3000
rng = np.random.default_rng(7)
def nulls(values, p=0.2): return [None if rng.random() < p else v for v in values]
half = rng.integers(0, 0x7c00, n).astype("uint16").view("float16")
half[:2] = [np.float16(5e-06), np.float16(-0.0)]
ints = lambda low, high: [int(x) for x in rng.integers(low, high, n)]
lists = nulls([nulls(int(x) for x in rng.integers(-2**40, 2**40, rng.integers(0, 5))) for _ in range(n)])
def nest(levels):
    if levels == 0: return int(rng.integers(0, 100))
    return nulls([nest(levels - 1) for _ in range(rng.integers(0, 4))])
def nested(levels): return nulls([nest(levels) for _ in range(n)])
def nest6(levels): return nulls([nest(levels) for _ in range(6)])
def scored(): return nulls([list(zip(map(int, rng.permutation(50)[:rng.integers(0, 4)]), nulls([0.5, 1.5, -2.0, 3.0]))) for _ in range(6)])
bools = nulls([bool(i // 50 % 3 or x) for i, x in enumerate(rng.integers(0, 2, n))])
decimals = [decimal.Decimal(x) / 1000 for x in ints(-10**9, 10**9)]
days = ints(-30000, 30000)
times = ints(-10**17, 10**17)
texts = nulls(["s%d" % x * int(x % 4) for x in ints(0, 500)])
data = dict(i8=(nulls(ints(-128, 128)), pa.int8()), u16=(ints(0, 2**16), pa.uint16()), u32=(nulls(ints(0, 2**32)), pa.uint32()),
    u64=([int(x) for x in rng.integers(0, 2**64, n, dtype="uint64")], pa.uint64()), i64=(nulls(ints(-2**62, 2**62)), pa.int64()),
    b=(bools, pa.bool_()), run=([i < 2999 for i in range(n)], pa.bool_()), f16=(half, pa.float16()), f32=(nulls(float(np.float32(x)) for x in rng.random(n)), pa.float32()),
    f64=(nulls(rng.random(n).tolist()), pa.float64()), s=(texts, pa.string()), fixed=(nulls(rng.bytes(5) for _ in range(n)), pa.binary(5)),
    uuid=([rng.bytes(16) for _ in range(n)], pa.binary(16)), dec9=(nulls(decimals), pa.decimal128(9+1, 3)), dec38=(nulls(decimals), pa.decimal128(38, 3)),
    d=(nulls(days), pa.date32()), t=(nulls(times), pa.timestamp("ns")), ids=(lists, pa.list_(pa.int64())),
    st=([None if x is None else dict(a=x, l=None if i % 5 == 0 else [x], n=dict(z=None if i % 2 else x)) for i, x in enumerate(nulls(ints(0, 9)))],
        pa.struct([("a", pa.int32()), ("l", pa.list_(pa.int32())), ("n", pa.struct([("z", pa.int64())]))])),
    m=(nulls([[(j, None if j == 3 else x) for j in range(x)] for x in ints(0, 6)]), pa.map_(pa.int32(), pa.int64())),
    bags=(nulls([[(int(k), x) for k, x in zip(rng.permutation(6), nest6(1)[:i % 6])] for i in range(n)]), pa.map_(pa.int64(), pa.list_(pa.int64()))),
    deep=(nulls([[("a.%d" % k, x) for k, x in enumerate(nest6(2)[:i % 4])] for i in range(n)]), pa.map_(pa.string(), pa.list_(pa.list_(pa.int64())))),
    ranked=(nulls([[("k.%d" % k, x) for k, x in zip(rng.permutation(4), scored()[:i % 4])] for i in range(n)]),
        pa.map_(pa.string(), pa.map_(pa.int64(), pa.float32()))),
    ll=(nested(2), pa.list_(pa.list_(pa.int16()))), lll=(nested(3), pa.list_(pa.list_(pa.list_(pa.int64())))),
    fixed2=(nulls([nulls([i, -i]) for i in range(n)]), pa.list_(pa.float32(), 2)),
    grid=(nulls([nulls([nulls([i % 256, 2, 3]), [4, 5, 6]]) for i in range(n)]), pa.list_(pa.list_(pa.uint8(), 3), 2)),
    boxes=([[dict(x=1)]] * n, pa.list_(pa.struct([("x", pa.int32())]))))
schema = pa.schema([(name, t) for name, (_, t) in data.items()])
table = pa.table([pa.array(v, t) if name not in ("d", "t") else pa.array(v, pa.int32() if name == "d" else pa.int64()).cast(t) for name, (v, t) in data.items()], schema=schema)
def value(name, v):
    if v is None: return None
    if isinstance(v, bytes): return v.hex()
    if isinstance(v, str): return v.encode().hex()
    if name == "u64": return v - 2**64 if v >= 2**63 else v
    if isinstance(v, (bool, np.bool_)): return int(v)
    if isinstance(v, (decimal.Decimal, np.float16)): return float(v)
    return v
rows = {}
for name, (v, _) in data.items():
    if name == "boxes": continue
    if name == "st":
        rows["st.a"] = [x["a"] if x else None for x in v]
        rows["st.l"] = [x["l"] if x else None for x in v]
        rows["st.n.z"] = [x["n"]["z"] if x else None for x in v]
    elif name == "m":
        rows["m.key"] = [x if x is None else [k for k, _ in x] for x in v]
        rows["m.value"] = [x if x is None else [w for _, w in x] for x in v]
        for key in (0, 3, 7): rows["m.%d" % key] = [dict(x or []).get(key) for x in v]
    elif name in ("bags", "deep", "ranked"):
        wanted = dict(bags=(0, 3, 5, 9), deep=("a.0", "a.2", "a"), ranked=("k.0", "k.3", "none"))[name]
        rows[name + ".key"] = [x if x is None else [value(name, k) for k, _ in x] for x in v]
        sides = [("", lambda x: x)]
        if name == "ranked": sides = [(".key", lambda x: x and [i for i, _ in x]), (".value", lambda x: x and [s for _, s in x])]
        for side, take in sides:
            rows[name + ".value" + side] = [x if x is None else [take(w) for _, w in x] for x in v]
            for key in wanted: rows["%s.%s%s" % (name, key, side)] = [take(dict(x or []).get(key)) for x in v]
    elif name in ("ids", "ll", "lll", "fixed2", "grid"): rows[name] = v
    else: rows[name] = [value(name, x) for x in v]
def folder(name, columns):
    os.makedirs(out + "/" + name)
    with open(out + "/" + name + "/rows.json", "w") as f: json.dump({c: rows[c] for c in columns}, f)
folder("all", rows)
options = dict(row_group_size=1100, data_page_size=2048)
for codec in ["none", "snappy", "zstd", "gzip", "lz4", "brotli"]:
    for version in ["1.0", "2.0"]:
        for dictionary in [True, False]:
            pq.write_table(table, "%s/all/%s-%s-%s.parquet" % (out, codec, version, dictionary), compression=codec, data_page_version=version,
                use_dictionary=dictionary, write_page_checksum=codec == "zstd", write_page_index=codec == "gzip", write_statistics=codec != "lz4", **options)
pq.write_table(table, out + "/all/int96.parquet", use_deprecated_int96_timestamps=True, store_schema=False, **options)
pq.write_table(table, out + "/all/legacy.parquet", use_compliant_nested_type=False, store_decimal_as_integer=True, **options)
w = pq.ParquetWriter(out + "/all/empty-groups.parquet", schema)
for part in (table.slice(0, 0), table.slice(0, 100), table.slice(0, 0), table.slice(100), table.slice(0, 0)): w.write_table(part)
w.close()
flat = ["i8", "u16", "u32", "u64", "i64", "b", "f16", "f32", "f64", "s", "fixed", "dec9", "dec38", "d", "t"]
integers = ["i8", "u16", "u32", "u64", "i64", "d", "t"]
folder("flat", flat)
for name, encodings in {
    "delta": {**{c: "DELTA_BINARY_PACKED" for c in integers}, "s": "DELTA_LENGTH_BYTE_ARRAY", "b": "RLE"},
    "prefix": {"s": "DELTA_BYTE_ARRAY", "fixed": "DELTA_BYTE_ARRAY"},
    "split": {c: "BYTE_STREAM_SPLIT" for c in integers + ["f16", "f32", "f64", "fixed", "dec38"]},
}.items():
    for version in ["1.0", "2.0"]:
        pq.write_table(table.select(flat), "%s/flat/%s-%s.parquet" % (out, name, version), use_dictionary=False, column_encoding=encodings, data_page_version=version, compression="lz4", **options)
duck = ["i8", "u16", "u32", "i64", "b", "run", "f32", "f64", "s", "dec9", "dec38", "d", "ids", "ll", "lll", "st.a", "st.l", "st.n.z", "m.key", "m.value", "m.0", "m.3", "m.7",
    *[c for c in rows if c.split(".")[0] in ("bags", "deep", "ranked")]]
folder("duckdb", duck)
con = duckdb.connect()
con.register("t", table.select(sorted({c.split(".")[0] for c in duck})))
for codec in ["uncompressed", "snappy", "zstd", "gzip", "lz4", "brotli"]:
    for version in ["v1", "v2"]:
        con.execute("copy (select * from t) to '%s/duckdb/%s-%s.parquet' (format parquet, compression %s, parquet_version %s, row_group_size 2048)" % (out, codec, version, codec, version))
`

// Every column of every file that others wrote is read as what they put in.
func TestFilesWrittenByOthers(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("python3", "-c", writer, dir).CombinedOutput(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("python3 with pyarrow and duckdb: %v\n%s", err, out)
		}
		t.Skipf("no files of pyarrow and duckdb, which python3 needs for it: %v\n%s", err, out)
	}
	files, err := filepath.Glob(dir + "/*/*.parquet")
	if err != nil || len(files) != 24+3+6+12 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	wanted := map[string]map[string][]any{}
	for _, path := range files {
		folder := filepath.Dir(path)
		if wanted[folder] == nil {
			wanted[folder] = readRows(t, folder+"/rows.json")
		}
		t.Run(strings.TrimPrefix(path, dir+"/"), func(t *testing.T) { compareFile(t, path, wanted[folder]) })
	}
}

func readRows(t *testing.T, path string) map[string][]any {
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.UseNumber()
	var rows map[string][]any
	if err := d.Decode(&rows); err != nil {
		t.Fatal(err)
	}
	return rows
}

// compareFile reads all wanted columns of a file together.
func compareFile(t *testing.T, path string, want map[string][]any) {
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	in := &Interpreter{store: memoryStore{"mem://a": b}}
	f, err := in.openFile(t.Context(), &pb.File{Uri: "mem://a", Size: int64(len(b))}, nil)
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]column{}
	for _, c := range f.columns {
		have[c.name] = c
	}
	all := &scan{file: f}
	fill, kinds := map[string]filler{}, map[string]column{}
	for name := range want {
		c, key := have[name], ""
		if !c.supported() {
			c, key, _ = (&resolver{columns: have}).mapKey(name)
		}
		if !c.supported() {
			t.Fatalf("column %s is not supported", name)
		}
		kinds[name] = c
		if fill[name], err = all.bind(c, key); err != nil {
			t.Fatal(err)
		}
	}
	if shape := have["grid"].shape; want["grid"] != nil && !slices.Equal(shape, []int32{2, 3}) &&
		!strings.HasSuffix(path, "int96.parquet") { // which has no schema of Arrow's
		t.Errorf("grid has shape %v", shape)
	}
	row, bad := 0, 0
	err = all.rows(t.Context(), func(int64) {}, func() error {
		for name, fill := range fill {
			var c cell
			if err := fill(&c); err != nil {
				return err
			}
			if got, want := shown(&c, kinds[name]), wantShown(want[name][row], kinds[name]); got != want && bad < 10 {
				bad++
				t.Errorf("%s row %d: got %s; want %s", name, row, got, want)
			}
		}
		row++
		return nil
	})
	if err != nil || row != 3000 {
		t.Fatalf("%d rows: %v", row, err)
	}
}

// shown prints a cell as wantShown prints what it should be.
func shown(c *cell, col column) string {
	if c.null {
		return "null"
	}
	var out []string
	for i := range c.count(col.typ.Kind) {
		switch {
		case c.isGone(i):
			out = append(out, "null")
		case holdingOf(col.typ.Kind) == storedInts:
			out = append(out, fmt.Sprint(c.ints[i]))
		case holdingOf(col.typ.Kind) == storedFloats:
			out = append(out, fmt.Sprint(c.floats[i]))
		default:
			out = append(out, fmt.Sprintf("%x", c.texts[i]))
		}
	}
	if !col.typ.List {
		return out[0]
	}
	for _, lengths := range slices.Backward(c.inner) {
		var lists []string
		for _, n := range lengths {
			if n < 0 {
				lists = append(lists, "null")
				continue
			}
			lists = append(lists, fmt.Sprint(out[:n]))
			out = out[n:]
		}
		out = lists
	}
	return fmt.Sprint(out)
}

func wantShown(v any, col column) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case []any:
		out := []string{}
		for _, x := range v {
			out = append(out, wantShown(x, col))
		}
		return fmt.Sprint(out)
	case json.Number:
		if holdingOf(col.typ.Kind) == storedFloats {
			if x, err := v.Float64(); err == nil {
				return fmt.Sprint(x)
			}
		}
	}
	return fmt.Sprint(v)
}
