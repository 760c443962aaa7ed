"""Decodes Parquet files by pyarrow and DuckDB, one thread each. Requests and answers are lines of JSON (python.go)."""

import hashlib
import json
import os
import sys
import time

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

pa.set_cpu_count(1)
pa.set_io_thread_count(1)


def pyarrow_groups(data, columns, see):
    file = pq.ParquetFile(pa.BufferReader(data))
    for i in range(file.num_row_groups):
        see(file.read_row_group(i, columns=columns, use_threads=False))


def pyarrow_batches(data, columns, see, rows):
    file = pq.ParquetFile(pa.BufferReader(data))
    for batch in file.iter_batches(batch_size=rows, columns=columns, use_threads=False):
        see(pa.Table.from_batches([batch]))


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def duckdb_select(path, expressions):
    return "SELECT " + ", ".join(expressions) + " FROM read_parquet('" + path.replace("'", "''") + "')"


def duckdb_arrow(connection, path, columns, see):
    reader = connection.sql(duckdb_select(path, map(quoted, columns))).to_arrow_reader(65536)
    for batch in reader:
        see(pa.Table.from_batches([batch]))


def size(column, kind):
    """The cheapest number that needs all values of a column that is none itself."""
    if pa.types.is_boolean(kind):
        return f"{column}::TINYINT"
    if pa.types.is_list(kind):
        return f"len({column})"
    if pa.types.is_map(kind):
        return f"cardinality({column})"
    return f"strlen({column})" if pa.types.is_string(kind) else f"octet_length({column})"


def summed(column, kind):
    """What needs all values of a column."""
    number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    return f"sum({quoted(column) if number else size(quoted(column), kind)})"


def duckdb_sums(connection, path, columns, kinds):
    """All columns are decoded into DuckDB's vectors and summed up, which takes some time itself."""
    connection.sql(duckdb_select(path, [summed(c, kind) for c, kind in zip(columns, kinds)])).fetchall()


def duckdb_counts(connection, path, columns, kinds, full):
    """All columns are decoded into DuckDB's vectors, of which only the nulls are looked at.

    full: those without any, which DuckDB would count by the footer alone. They are summed up.
    """
    values = [summed(c, kind) if c in full else f"count({quoted(c)})" for c, kind in zip(columns, kinds)]
    connection.sql(duckdb_select(path, values)).fetchall()


def without_nulls(footer):
    """The columns that have no nulls, as the footer says."""
    nulls = {}
    for g in range(footer.num_row_groups):
        for c in range(footer.num_columns):
            chunk = footer.row_group(g).column(c)
            known = chunk.statistics is not None and chunk.statistics.has_null_count
            path = chunk.path_in_schema
            nulls[path] = nulls.get(path, 0) + (chunk.statistics.null_count if known else 1)
    return {path for path, count in nulls.items() if count == 0}


def flat(array):
    """What becomes the bytes of a column's parts, as digest.go describes them: values, then bytes."""
    t = array.type
    if pa.types.is_string(t) or pa.types.is_binary(t) or pa.types.is_large_string(t) or pa.types.is_large_binary(t):
        array = pc.fill_null(array.cast(pa.large_binary()), b"")
        joined = b"".join(array.to_pylist()) if array.offset else array.buffers()[2]
        lengths = pc.binary_length(array).to_numpy(zero_copy_only=False).astype("<i4")
        return lengths, b"" if joined is None else memoryview(joined)[: int(lengths.sum(dtype=np.int64))]
    zero = False if pa.types.is_boolean(t) else 0
    return pc.fill_null(array, zero).to_numpy(zero_copy_only=False), b""


class Digests:
    def __init__(self):
        self.columns = {}

    def see(self, table):
        for name, column in zip(table.column_names, table.columns):
            for array in column.chunks:
                if pa.types.is_map(array.type):
                    first, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
                    for suffix, entries in ((".key", array.keys), (".value", array.items)):
                        self.add(name + suffix, array, entries if len(entries) == end - first else entries.slice(first, end - first))
                elif pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
                    self.add(name, array, array.flatten())
                else:
                    self.add(name, array, None)

    def add(self, name, array, elements):
        parts = self.columns.setdefault(name, [hashlib.sha256() for _ in range(5)])
        valid = lambda a: a.is_valid().to_numpy(zero_copy_only=False).astype("u1")
        parts[0].update(valid(array))
        if elements is not None:
            offsets = array.offsets.to_numpy(zero_copy_only=False)
            lengths = np.diff(offsets) * valid(array)
            parts[1].update(lengths.astype("<i4"))
            parts[2].update(valid(elements))
        values, data = flat(array if elements is None else elements)
        parts[3].update(np.ascontiguousarray(values))
        parts[4].update(data)

    def sums(self):
        return {name: [p.hexdigest()[:24] for p in parts] for name, parts in self.columns.items()}


class Readers:
    """The ways of both readers; the file's bytes stay in memory until the next file."""

    def __init__(self):
        self.path, self.data = None, None
        self.connection = duckdb.connect(config={"threads": 1})
        self.connection.execute("SET enable_progress_bar = false")

    def ways(self, reader, path, columns):
        if path != self.path:
            with open(path, "rb") as f:
                self.path, self.data = path, f.read()
        schema = pq.read_schema(pa.BufferReader(self.data))
        full = without_nulls(pq.read_metadata(pa.BufferReader(self.data)))
        kinds = [schema.field(c).type for c in columns]
        if reader == "pyarrow":
            return {
                "read_row_group": lambda see: pyarrow_groups(self.data, columns, see),
                "iter_batches of 8192": lambda see: pyarrow_batches(self.data, columns, see, 8192),
                "iter_batches of 65536": lambda see: pyarrow_batches(self.data, columns, see, 65536),
            }
        return {
            "arrow batches": lambda see: duckdb_arrow(self.connection, path, columns, see),
            "sums": lambda see: duckdb_sums(self.connection, path, columns, kinds),
            "counts": lambda see: duckdb_counts(self.connection, path, columns, kinds, full),
        }


def seconds(way):
    start = time.process_time()
    way(lambda table: None)
    return time.process_time() - start


def reading(path, size):
    """The time that reading so many bytes from the page cache takes."""
    buffer = bytearray(1 << 20)
    with open(path, "rb", buffering=0) as f:
        start = time.process_time()
        while size > 0 and (n := f.readinto(buffer)):
            size -= n
        return time.process_time() - start


def handle(readers, request):
    if request["reader"] == "write":
        pq.write_table(pq.read_table(request["file"]), request["to"], row_group_size=65536)
        return {}
    ways = readers.ways(request["reader"], request["file"], request["columns"])
    if request.get("digest"):
        digests = Digests()
        next(iter(ways.values()))(digests.see)
        return {"digests": digests.sums()}
    took = {how: seconds(way) for how, way in ways.items()}
    if request["reader"] == "duckdb":
        took = {how: s - reading(request["file"], request["bytes"]) for how, s in took.items()}
    return {"seconds": took}


def main():
    readers = Readers()
    answer = {"versions": {"pyarrow": pa.__version__, "duckdb": duckdb.__version__, "python": sys.version.split()[0]}}
    while True:
        print(json.dumps(answer), flush=True)
        line = sys.stdin.readline()
        if not line:
            return
        try:
            answer = handle(readers, json.loads(line))
        except Exception as e:
            answer = {"error": f"{type(e).__name__}: {e}"}


os.environ.setdefault("OMP_NUM_THREADS", "1")
main()
