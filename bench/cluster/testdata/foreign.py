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

rows = """select (i % 2)::int as label, case when i % 7 = 0 then null else random()::float end as x, i::bigint as id,
    [i, i + 1, null, i * 3]::bigint[] as ids, 's' || (i % 100) as s, i % 3 = 0 as b, random() as y,
    date '2020-01-01' + (i % 100)::int as d from range(5000) t(i)"""
for codec in ["snappy", "zstd", "gzip", "uncompressed", "lz4", "brotli"]:
    for version in ["v1", "v2"]:
        path = os.path.join(folder(f"duckdb-{codec}-{version}"), "a.parquet")
        duckdb.execute(
            f"copy ({rows}) to '{path}' (format parquet, compression {codec}, row_group_size 2048, parquet_version {version})"
        )
