"""Writes Parquet as other tools do, one dataset a folder: every codec, page version and encoding, with and without
statistics, nulls at every level, nested types, empty row groups, no rows, files that differ in columns."""

import decimal
import os
import sys

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

out = sys.argv[1]
rng = np.random.default_rng(1)


def with_nulls(values):
    return pa.array(values, mask=rng.random(len(values)) < 0.1)


def ids():
    if rng.random() < 0.05:
        return None
    return [None if rng.random() < 0.05 else int(x) for x in rng.integers(0, 1000, rng.integers(0, 6))]


def table(rows):
    lists = [ids() for _ in range(rows)]
    return pa.table(
        {
            "label": pa.array(rng.integers(0, 2, rows), pa.int32()),
            "f32": with_nulls(rng.random(rows).astype("float32")),
            "f64": with_nulls(rng.random(rows)),
            "f16": pa.array(rng.random(rows).astype("float16")),
            "i8": pa.array(rng.integers(-100, 100, rows), pa.int8()),
            "i16": with_nulls(rng.integers(-100, 100, rows).astype("int16")),
            "i64": with_nulls(rng.integers(-(10**12), 10**12, rows)),
            "u16": pa.array(rng.integers(0, 2**16 - 1, rows), pa.uint16()),
            "u32": pa.array(rng.integers(0, 2**32 - 1, rows), pa.uint32()),
            "u64": pa.array(rng.integers(0, 2**63 - 1, rows), pa.uint64()),
            "bool": with_nulls(rng.random(rows) < 0.5),
            "text": with_nulls(np.array([f"text {x}" for x in rng.integers(0, 50, rows)])),
            "ids": pa.array(lists, pa.list_(pa.int64())),
            "ids32": pa.array(lists, pa.list_(pa.int32())),
            "floats": pa.array([rng.random(rng.integers(0, 4)).tolist() for _ in range(rows)], pa.list_(pa.float32())),
            "texts": pa.array([["a", None, "b"]] * rows),
            "time": pa.array(rng.integers(0, 10**9, rows), pa.timestamp("us")),
            "date": pa.array(rng.integers(0, 10000, rows).astype("int32"), pa.date32()),
            "decimal": pa.array([decimal.Decimal(int(x)) / 100 for x in rng.integers(0, 10000, rows)], pa.decimal128(10, 2)),
            "struct": pa.array([{"a": int(x), "b": float(x)} for x in rng.integers(0, 100, rows)]),
            "map": pa.array(
                [[(f"k{i}", float(i)) for i in range(int(n))] for n in rng.integers(0, 4, rows)], pa.map_(pa.string(), pa.float32())
            ),
        }
    )


def folder(name):
    path = os.path.join(out, name)
    os.makedirs(path, exist_ok=True)
    return path


def write(name, t, file="a.parquet", **options):
    pq.write_table(t, os.path.join(folder(name), file), **options)


for version in ["1.0", "2.0"]:
    for dictionary in [True, False]:
        for codec in ["none", "snappy", "zstd", "gzip", "lz4", "brotli"]:
            write(
                f"pyarrow-{codec}-v{version[0]}-{'dictionary' if dictionary else 'plain'}",
                table(1500),
                data_page_version=version,
                use_dictionary=dictionary,
                compression=codec,
                row_group_size=700,
                data_page_size=4096,
                write_statistics=codec != "gzip",
                write_page_checksum=codec == "zstd",
            )

write(
    "pyarrow-delta",
    table(2000).select(["label", "i64", "f32", "f64", "i16", "text"]),
    use_dictionary=False,
    column_encoding={
        "label": "DELTA_BINARY_PACKED",
        "i64": "DELTA_BINARY_PACKED",
        "i16": "DELTA_BINARY_PACKED",
        "f32": "BYTE_STREAM_SPLIT",
        "f64": "BYTE_STREAM_SPLIT",
        "text": "DELTA_BYTE_ARRAY",
    },
)
write("no-rows", table(5).slice(0, 0))
write("one-column", table(100).select(["f32"]))
t = table(500)
write("differing-columns", t.drop_columns(["f64", "ids"]), "a.parquet")
write("differing-columns", t.drop_columns(["i16", "label"]), "b.parquet")
with pq.ParquetWriter(os.path.join(folder("empty-row-groups"), "a.parquet"), t.schema) as writer:
    for part in (t.slice(0, 100), t.slice(0, 0), t.slice(100, 100), t.slice(0, 0)):
        writer.write_table(part)

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "float16", "float32", "float64"]


def numbers(dtype, *shape):
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype.startswith("float"):
        x = rng.normal(size=shape).astype(dtype)
        x.flat[0] = np.nan
        return x
    return np.frombuffer(rng.bytes(int(np.prod(shape)) * np.dtype(dtype).itemsize), dtype).reshape(shape)


def gaps(rows, p=0.1):
    """Rows of which some are null, as are some elements of lists at each level."""
    return [None if rng.random() < p else gaps(x, p) if isinstance(x, list) else x for x in rows]


def lists(rows, most, dtype):
    return [list(numbers(dtype, int(n))) if n else [] for n in rng.integers(0, most, rows)]


def shapes(rows):
    """A column for each way to a tensor of fixed shape, to a padded one, and to null elements that stay."""
    t = {f"s_{d}": with_nulls(numbers(d, rows)) for d in DTYPES}
    for d in DTYPES:
        t[f"v_{d}"] = pa.FixedSizeListArray.from_arrays(pa.array(numbers(d, rows * 3)), 3)
        t[f"raw_{d}"] = pa.array([numbers(d, 2).tobytes() for _ in range(rows)], pa.binary())
    t["raw_bfloat16"] = with_nulls(np.array([numbers("float32", 2).view("uint16")[1::2].tobytes() for _ in range(rows)], object))
    rows_of_two = pa.FixedSizeListArray.from_arrays(pa.array(numbers("int16", rows * 6)), 2)
    t["grid"] = pa.FixedSizeListArray.from_arrays(rows_of_two, 3)
    t["folded"] = pa.FixedShapeTensorArray.from_numpy_ndarray(numbers("float32", rows, 2, 3))
    t["flat"] = pa.array(list(numbers("uint32", rows, 4)), pa.list_(pa.uint32()))
    nested = [[[float(x) for x in pair] for pair in row] for row in rng.integers(0, 99, (rows, 2, 2))]
    t["nested"] = pa.array(gaps(nested), pa.list_(pa.list_(pa.float32())))
    t["deep"] = pa.array(rng.integers(0, 99, (rows, 2, 1, 3)).tolist(), pa.list_(pa.list_(pa.list_(pa.uint8()))))
    t["items"] = pa.array(gaps(lists(rows, 12, "int64")), pa.list_(pa.int64()))
    t["shorts"] = pa.array(gaps(lists(rows, 9, "int16")), pa.list_(pa.int16()))
    t["flags"] = pa.array(gaps(lists(rows, 9, "bool")), pa.list_(pa.bool_()))
    t["halves"] = pa.array(gaps(lists(rows, 9, "float16")), pa.list_(pa.float16()))
    t["kept"] = pa.array(gaps(lists(rows, 6, "int32")), pa.list_(pa.int32()))
    t["kept_floats"] = pa.array(gaps(lists(rows, 6, "float32")), pa.list_(pa.float32()))
    return pa.table(t)


write("shapes", shapes(1500), "a.parquet", row_group_size=700, data_page_size=4096)
write("shapes", shapes(1500).drop_columns(["s_int8", "nested", "shorts"]), "b.parquet", data_page_version="2.0", use_dictionary=False)

def feature_maps(rows):
    """Maps of lists and of maps, with keys that stand twice, and nulls at every level."""

    def keyed(keys, values):
        entries = [[(keys[k], v) for k, v in zip(rng.integers(0, len(keys), 9), vs)] for vs in values]
        return [None if rng.random() < 0.1 else row for row in entries]

    def bags(dtype):
        return [gaps(lists(int(n), 5, dtype)) for n in rng.integers(0, 5, rows)]

    def scored():
        return [[list(enumerate(x)) if x is not None else None for x in bag] for bag in bags("float32")]

    return pa.table({
        "label": rng.integers(0, 2, rows),
        "bags": pa.array(keyed([1, -2, 3], bags("int64")), pa.map_(pa.int64(), pa.list_(pa.int64()))),
        "shorts": pa.array(keyed(["x", "y.z"], bags("int16")), pa.map_(pa.string(), pa.list_(pa.int16()))),
        "ranked": pa.array(keyed(["a.b", "c"], scored()), pa.map_(pa.string(), pa.map_(pa.int32(), pa.float32()))),
    })


write("maps", feature_maps(1200), "a.parquet", row_group_size=500, data_page_size=1024)
write("maps", feature_maps(700).drop_columns(["shorts"]), "b.parquet", data_page_version="2.0", use_dictionary=False)

rows = """select (i % 2)::int as label, case when i % 7 = 0 then null else random()::float end as x, i::bigint as id,
    [i, i + 1, null, i * 3]::bigint[] as ids, 's' || (i % 100) as s, i % 3 = 0 as b, random() as y,
    date '2020-01-01' + (i % 100)::int as d from range(5000) t(i)"""
for codec in ["snappy", "zstd", "gzip", "uncompressed", "lz4", "brotli"]:
    for version in ["v1", "v2"]:
        path = os.path.join(folder(f"duckdb-{codec}-{version}"), "a.parquet")
        duckdb.execute(
            f"copy ({rows}) to '{path}' (format parquet, compression {codec}, row_group_size 2048, parquet_version {version})"
        )
