"""Writes one table into argv[1] in the many ways of pyarrow and DuckDB; plain.parquet is the one to compare with."""

import decimal
import os
import random
import sys

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 1500
random.seed(7)
out = sys.argv[1]


def column(value, nulls=0.1):
    return [None if random.random() < nulls else value() for _ in range(ROWS)]


def values(value, nulls=0.1):
    return lambda: [None if random.random() < nulls else value() for _ in range(random.randrange(0, 9))]


def text():
    return "common-prefix-%d" % random.randrange(60)


def pairs():
    return [(random.choice("abcd"), random.choice([None, 1.5, 2.25, -3.0])) for _ in range(random.randrange(0, 5))]


def entries(key):
    return lambda: list({key(): value for _, value in pairs()}.items())


def keyed(key, value):
    return lambda: list({key(): random.choice([None, value()]) for _ in range(random.randrange(0, 5))}.items())


integer = lambda: random.choice([0, 1, -1, 5, 2**31 - 1, -(2**31), random.randrange(-10**6, 10**6)])
wide = lambda: random.choice([0, -1, 2**63 - 1, -(2**63), random.randrange(-10**15, 10**15), 42])
real = lambda: random.choice([0.0, -0.5, 1e10, random.random(), 3.25])
half = lambda: np.float16(random.choice([0.0, -1.5, 65504, 6e-8, random.random()]))
unscaled = lambda: decimal.Decimal(random.randrange(-10**17, 10**17)).scaleb(-4)

schema = pa.schema([
    pa.field("i32", pa.int32()), pa.field("i64", pa.int64()), pa.field("u32", pa.uint32()), pa.field("f32", pa.float32()),
    pa.field("f64", pa.float64()), pa.field("flag", pa.bool_()), pa.field("text", pa.string()),
    pa.field("blob", pa.binary()), pa.field("required", pa.int64(), nullable=False), pa.field("dec", pa.decimal128(18, 4)),
    pa.field("ids", pa.list_(pa.int64())), pa.field("names", pa.list_(pa.string())), pa.field("flags", pa.list_(pa.bool_())),
    pa.field("reals", pa.list_(pa.float32())), pa.field("when", pa.timestamp("ns")), pa.field("ints", pa.list_(pa.int32())),
    pa.field("doubled", pa.map_(pa.string(), pa.float32())),
    pa.field("scores", pa.map_(pa.string(), pa.float32())), pa.field("counts", pa.map_(pa.int64(), pa.float64())),
    pa.field("bags", pa.map_(pa.int64(), pa.list_(pa.int64()))),
    pa.field("ranked", pa.map_(pa.string(), pa.map_(pa.int64(), pa.float32()))),
    pa.field("user", pa.struct([("age", pa.int32()), ("tags", pa.list_(pa.string()))])),
    pa.field("items", pa.list_(pa.struct([("id", pa.int64()), ("score", pa.float32())]))),
    pa.field("i8", pa.int8()), pa.field("u8", pa.uint8()), pa.field("i16", pa.int16()), pa.field("u16", pa.uint16()),
    pa.field("f16", pa.float16()), pa.field("bytes", pa.list_(pa.uint8())), pa.field("halves", pa.list_(pa.float16())),
    pa.field("grid", pa.list_(pa.list_(pa.int16()))), pa.field("deep", pa.list_(pa.list_(pa.list_(pa.string())))),
])
person = lambda: {"age": random.choice([None, 3, 77]), "tags": random.choice([None, values(text)()])}
table = pa.table({
    "i32": column(integer), "i64": column(wide), "u32": column(lambda: random.randrange(2**32)), "f32": column(real),
    "f64": column(real), "flag": column(lambda: random.random() < 0.3), "text": column(text),
    "blob": column(lambda: random.randbytes(random.randrange(5))), "required": column(wide, 0), "dec": column(unscaled),
    "ids": column(values(wide)), "names": column(values(text)), "flags": column(values(lambda: random.random() < 0.9)),
    "reals": column(values(real)), "when": column(lambda: random.randrange(-10**18, 10**18)),
    "ints": column(values(integer, 0), 0), "scores": column(entries(lambda: random.choice("abcd"))),
    "counts": column(entries(lambda: random.randrange(4))),
    "bags": column(keyed(lambda: random.randrange(4), values(wide))),
    "ranked": column(keyed(lambda: random.choice(["a", "b.c", "d"]), keyed(lambda: random.randrange(99), real))),
    "user": column(person),
    "doubled": column(pairs), "items": column(values(lambda: {"id": wide(), "score": random.choice([None, real()])})),
    "i8": column(lambda: random.randrange(-128, 128)), "u8": column(lambda: random.randrange(256)),
    "i16": column(lambda: random.choice([-2**15, 2**15 - 1, 7])), "u16": column(lambda: random.randrange(2**16), 0),
    "f16": column(half), "bytes": column(values(lambda: random.randrange(256))), "halves": column(values(half)),
    "grid": column(values(values(lambda: random.randrange(-2**15, 2**15)))), "deep": column(values(values(values(text)))),
}, schema=schema)


def write(name, rows=table, **options):
    pq.write_table(rows, os.path.join(out, name + ".parquet"), **options)


write("plain", use_dictionary=False, compression="none", version="2.6", row_group_size=ROWS)
for codec in ["none", "snappy", "zstd", "gzip", "brotli", "lz4"]:
    for version in ["1.0", "2.0"]:
        write(f"{codec}_v{version[0]}", compression=codec, data_page_version=version, write_page_checksum=True,
              data_page_size=2000, write_batch_size=64, row_group_size=700, write_page_index=codec == "zstd")
write("limit", dictionary_pagesize_limit=300, data_page_size=500, write_batch_size=32)
write("defaults")
write("no_schema", store_schema=False)
write("item", use_compliant_nested_type=False)
write("int96", use_deprecated_int96_timestamps=True)
write("decimal_integers", store_decimal_as_integer=True)
delta = {c: "DELTA_BINARY_PACKED" for c in ["i32", "i64", "u32", "required", "ids.list.element", "ints.list.element", "when",
                                          "i8", "u8", "i16", "u16", "bytes.list.element", "grid.list.element.list.element"]}
split = {c: "BYTE_STREAM_SPLIT" for c in ["i32", "i64", "f32", "f64", "reals.list.element", "dec", "u8", "i16", "f16", "halves.list.element"]}
for version in ["1.0", "2.0"]:
    common = dict(use_dictionary=False, data_page_version=version, write_batch_size=64, data_page_size=1000)
    write(f"delta_length_v{version[0]}", column_encoding=delta | {"text": "DELTA_LENGTH_BYTE_ARRAY",
          "names.list.element": "DELTA_LENGTH_BYTE_ARRAY", "flag": "RLE", "flags.list.element": "RLE"}, **common)
    write(f"delta_bytes_v{version[0]}", column_encoding=delta | {"text": "DELTA_BYTE_ARRAY", "dec": "DELTA_BYTE_ARRAY", "f16": "DELTA_BYTE_ARRAY", "halves.list.element": "DELTA_BYTE_ARRAY",
          "names.list.element": "DELTA_BYTE_ARRAY", "blob": "DELTA_BYTE_ARRAY"}, **common)
    write(f"split_v{version[0]}", column_encoding=split, **common)
# In doubled, keys stand more than once, which DuckDB refuses; half floats it has not.
duckdb.register("t", table.drop(["doubled", "f16", "halves"]))
for codec in ["uncompressed", "snappy", "zstd", "gzip", "lz4_raw", "brotli"]:
    for version in ["v1", "v2"]:
        path = os.path.join(out, f"duckdb_{codec}_{version}.parquet")
        duckdb.sql(f"COPY (SELECT * FROM t) TO '{path}' (FORMAT parquet, CODEC '{codec}', PARQUET_VERSION {version}, ROW_GROUP_SIZE 2048)")
write("empty", rows=table.slice(0, 0))
