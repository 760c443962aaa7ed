"""Writes tables twice into a folder: NAME.parquet, and NAME.KIND.arrow as Arrow's files of several kinds."""

import datetime
import decimal
import pathlib
import sys

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq

out = pathlib.Path(sys.argv[1])
ROWS = 500


def column(kind, value, nulls=7):
    return pa.array([None if nulls and i % nulls == 3 else value(i) for i in range(ROWS)], kind)


day = datetime.date(2020, 1, 1)
scalars = pa.table({
    "large_text": column(pa.large_string(), lambda i: "x" * (i % 11)),
    "large_bytes": column(pa.large_binary(), lambda i: bytes([i % 256] * (i % 5))),
    "date64": column(pa.date64(), lambda i: day + datetime.timedelta(days=i)),
    "seconds": column(pa.timestamp("s"), lambda i: 1_500_000_000 + i),
    "zoned": column(pa.timestamp("us", "Europe/Berlin"), lambda i: i * 1_000_003),
    "time_s": column(pa.time32("s"), lambda i: datetime.time(i % 24, i % 60, 5)),
    "time_ns": column(pa.time64("ns"), lambda i: i * 1_000),
    "duration": column(pa.duration("ms"), lambda i: i),
    "decimal": column(pa.decimal128(38, 10), lambda i: decimal.Decimal(i * 7919 - 10_000).scaleb(-6)),
    "nothing": pa.nulls(ROWS),
    # A null of numpy's, NaT, stands there as the least integer.
    "not_a_time": pa.array(np.where(np.arange(ROWS) % 7 == 3, np.datetime64("NaT"), np.datetime64("2020-01-01", "s")), pa.timestamp("s")),
    "last": column(pa.int16(), lambda i: i - 250, nulls=0),
    "half": column(pa.float16(), lambda i: np.float16(i / 7)),
})
lists = pa.table({
    "large": column(pa.large_list(pa.int32()), lambda i: list(range(i % 4))),
    "fixed": column(pa.list_(pa.float32(), 3), lambda i: [i / 3, None, -i]),
    "empty": pa.array([[None] * (i % 3) if i % 4 else None for i in range(ROWS)], pa.list_(pa.null())),
    "map": column(pa.map_(pa.int32(), pa.large_string()), lambda i: [(k, str(i * k)) for k in range(i % 4)]),
    "structs": column(pa.list_(pa.struct([("a", pa.int8()), ("b", pa.string())])), lambda i: [{"a": i % 100, "b": None}] * (i % 3)),
    "fixed_struct": column(
        pa.struct([("v", pa.list_(pa.int64(), 2)), ("w", pa.struct([("x", pa.bool_())]))]),
        lambda i: {"v": [i, i + 1], "w": None if i % 5 == 0 else {"x": i % 2 == 0}},
    ),
})
def nested(kind, value):
    """Lists of lists, with nulls and empty ones at every level."""
    inner = lambda i: None if i % 5 == 2 else [None if (i + k) % 7 == 3 else value(i + k) for k in range(i % 3)]
    return column(pa.list_(pa.list_(kind)), lambda i: [inner(i + j) for j in range(i % 4)])


shapes = pa.table({
    "lists": nested(pa.uint8(), lambda i: i % 256), "texts": nested(pa.string(), str), "halves": nested(pa.float16(), np.float16),
    "large": nested(pa.uint16(), lambda i: i).cast(pa.large_list(pa.large_list(pa.uint16()))),
    "grid": column(pa.list_(pa.list_(pa.int8(), 3), 2), lambda i: None if i % 3 == 0 else [[i % 100, None, 1], [4, 5, 6]]),
    "rows_of_3": column(pa.list_(pa.list_(pa.int16(), 3)), lambda i: [[i, None, 1]] * (i % 3)),
    "pairs": column(pa.list_(pa.list_(pa.uint32()), 2), lambda i: [None if i % 4 else [i] * (i % 3), []]),
    "tensor": pa.ExtensionArray.from_storage(
        pa.fixed_shape_tensor(pa.int8(), [2, 3]), pa.array([[i % 100] * 6 for i in range(ROWS)], pa.list_(pa.int8(), 6))
    ),
    "deep": column(pa.list_(pa.large_list(pa.list_(pa.list_(pa.bool_())))), lambda i: [[[[True, None], None], []], None] * (i % 3)),
    "in": column(pa.struct([("x", pa.list_(pa.list_(pa.int64(), 2), 1))]), lambda i: {"x": None if i % 5 == 0 else [[i, -i]]}),
    "nothing": pa.array([[[None], []], None, [None]] * (ROWS // 3) + [[]] * (ROWS % 3), pa.list_(pa.list_(pa.null()))),
    "structs": column(pa.list_(pa.list_(pa.struct([("a", pa.int8())]))), lambda i: [[{"a": 1}]]),
    "maps": column(pa.list_(pa.map_(pa.string(), pa.int8())), lambda i: [[("a", 1)]]),
    "end": column(pa.int8(), lambda i: i % 100),
})
def ids(i):
    return None if i % 5 == 3 else [None if (i + k) % 6 == 1 else (i * k) % 100 for k in range(i % 4)]


feature_tables = pa.table({  # in which keys stand twice, and have dots
    "first": column(pa.int16(), lambda i: i),
    "ids": column(pa.map_(pa.int64(), pa.list_(pa.int32())), lambda i: [(k % 3, ids(i + k)) for k in range(i % 6)]),
    "large": column(pa.map_(pa.large_string(), pa.large_list(pa.large_string())), lambda i: [(str(k), [str(i)] * k) for k in range(i % 4)]),
    "fixed": column(pa.map_(pa.int32(), pa.list_(pa.float32(), 2)), lambda i: [(k, None if i % 3 == 1 else [i, None]) for k in range(i % 4)]),
    "scores": column(
        pa.map_(pa.string(), pa.map_(pa.int64(), pa.float32())),
        lambda i: [(f"{k % 2}.x", None if (i + k) % 7 == 2 else [(j, None if j == 1 else i / 3) for j in range((i + k) % 4)]) for k in range(i % 5)],
    ),
    "lists": column(pa.map_(pa.int64(), pa.map_(pa.int32(), pa.list_(pa.int8()))), lambda i: [(1, [(j, ids(j)) for j in range(i % 3)])]),
    "in": column(pa.struct([("m", pa.map_(pa.int64(), pa.list_(pa.bool_())))]), lambda i: {"m": None if i % 4 == 1 else [(2, [True, None])]}),
    "structs": column(pa.map_(pa.int64(), pa.list_(pa.struct([("a", pa.int8())]))), lambda i: [(1, [{"a": 1}])]),
    "end": column(pa.int8(), lambda i: i % 100),
})
words = ["apple", "pear", "", "quince", "medlar"]


def dictionary(index, values):
    codes = pa.array([None if i % 9 == 4 else i % len(values) for i in range(ROWS)], index)
    return pa.DictionaryArray.from_arrays(codes, values)


in_list = pa.ListArray.from_arrays(
    pa.array([min(i, ROWS) for i in range(ROWS + 1)], pa.int32()), dictionary(pa.int8(), pa.array(words))
)
dictionaries = pa.table({
    "text": dictionary(pa.int8(), pa.array(words)),
    "wide": dictionary(pa.uint32(), pa.array(words)),
    "ints": dictionary(pa.int16(), pa.array([5, -7, 1 << 40])),
    "bytes": dictionary(pa.int8(), pa.array([5, 250, 17], pa.uint8())),
    "holes": dictionary(pa.int32(), pa.array(["a", None, "c"])),
    "list": in_list,
    "struct": pa.StructArray.from_arrays([dictionary(pa.int8(), pa.array(words))], ["d"]),
    "plain": column(pa.int64(), lambda i: i),
})
# What stands between columns that can be read and cannot itself: its arrays and buffers are passed over.
union = pa.UnionArray.from_sparse(
    pa.array([i % 2 for i in range(ROWS)], pa.int8()), [column(pa.int32(), lambda i: i), column(pa.string(), str)]
)
dense = pa.UnionArray.from_dense(
    pa.array([0] * ROWS, pa.int8()), pa.array(range(ROWS), pa.int32()), [column(pa.int32(), lambda i: i)]
)
runs = pa.RunEndEncodedArray.from_arrays(pa.array([ROWS // 2, ROWS], pa.int32()), pa.array(["a", "b"]))
readable = {"first": column(pa.int32(), lambda i: i), "after": column(pa.string(), str), "end": column(pa.float64(), float)}
odd = pa.table({
    "first": readable["first"], "union": union, "dense": dense,
    "views": column(pa.string_view(), lambda i: str(i) * 9), "after": readable["after"], "runs": runs,
    "bytes": column(pa.binary_view(), lambda i: b"x" * (i % 40)),
    "lists": column(pa.list_(pa.list_(pa.struct([("a", pa.int8())]))), lambda i: [[{"a": 1}], []]),
    "decimal": column(pa.decimal256(60, 2), decimal.Decimal), "end": readable["end"],
})


def write(name, table, twin=None):
    pq.write_table(twin or table, out / f"{name}.parquet", row_group_size=190)
    V4, V5 = pa.ipc.MetadataVersion.V4, pa.ipc.MetadataVersion.V5
    kinds = {
        "v5": pa.ipc.IpcWriteOptions(metadata_version=V5),
        "v4": pa.ipc.IpcWriteOptions(metadata_version=V4),
        "legacy": pa.ipc.IpcWriteOptions(metadata_version=V4, use_legacy_format=True),
        "zstd": pa.ipc.IpcWriteOptions(compression="zstd"),
        "lz4": pa.ipc.IpcWriteOptions(compression="lz4"),
        "deltas": pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True),
    }
    for kind, options in kinds.items():
        if name == "odd" and kind in ("v4", "legacy"):  # which pyarrow does not write
            continue
        with pa.OSFile(str(out / f"{name}.{kind}.arrow"), "wb") as sink:
            with pa.ipc.new_file(sink, table.schema, options=options) as w:
                w.write_table(table, max_chunksize=130)
    if name != "odd":
        feather.write_feather(table, out / f"{name}.feather.arrow", chunksize=77)


write("scalars", scalars)
write("lists", lists)
write("shapes", shapes)
write("feature_tables", feature_tables)
holes = dictionaries.column_names.index("holes")  # which Parquet has only as values
write("dictionaries", dictionaries, dictionaries.set_column(holes, "holes", dictionaries["holes"].combine_chunks().dictionary_decode()))
write("slices", pa.concat_tables([scalars.slice(13, 200), scalars.slice(400, 31)]))
write("odd", odd, pa.table(readable))

# A dictionary that grows from batch to batch.
schema = pa.schema([("text", pa.dictionary(pa.int32(), pa.string()))])
batches = [
    pa.record_batch([pa.DictionaryArray.from_arrays(pa.array([0, n, None], pa.int32()), pa.array(words[: n + 1]))], schema=schema)
    for n in range(len(words))
]
plain = pa.table({"text": pa.concat_arrays([b.column(0).dictionary_decode() for b in batches])})
pq.write_table(plain, out / "growing.parquet")
with pa.OSFile(str(out / "growing.deltas.arrow"), "wb") as sink:
    with pa.ipc.new_file(sink, schema, options=pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)) as w:
        for b in batches:
            w.write_batch(b)
