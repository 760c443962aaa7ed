"""Decodes a Parquet file by pyarrow and DuckDB, one thread each, and prints the CPU seconds of each one's best way as JSON.

readers.py FILE BYTES TURNS COLUMN... (BYTES: of the columns, whose reading from the page cache is not counted)
readers.py --write FROM TO (the same rows, as pyarrow writes them)
"""

import json
import os
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

pa.set_cpu_count(1)
pa.set_io_thread_count(1)


def pyarrow_groups(data, columns):
    file = pq.ParquetFile(pa.BufferReader(data))
    for i in range(file.num_row_groups):
        file.read_row_group(i, columns=list(columns), use_threads=False)


def pyarrow_batches(data, columns, rows):
    file = pq.ParquetFile(pa.BufferReader(data))
    for batch in file.iter_batches(batch_size=rows, columns=list(columns), use_threads=False):
        del batch


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


def duckdb_select(path, expressions):
    return "SELECT " + ", ".join(expressions) + " FROM read_parquet('" + path.replace("'", "''") + "')"


def duckdb_arrow(connection, path, columns):
    reader = connection.sql(duckdb_select(path, map(quoted, columns))).to_arrow_reader(65536)
    for batch in reader:
        del batch


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


def ways(reader, path, data, columns):
    """What could be called decoding."""
    if reader == "pyarrow":
        return [
            lambda: pyarrow_groups(data, columns),
            lambda: pyarrow_batches(data, columns, 8192),
            lambda: pyarrow_batches(data, columns, 65536),
        ]
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET enable_progress_bar = false")
    schema = pq.read_schema(pa.BufferReader(data))
    full = without_nulls(pq.read_metadata(pa.BufferReader(data)))
    kinds = [schema.field(c).type for c in columns]
    return [
        lambda: duckdb_arrow(connection, path, columns),
        lambda: duckdb_sums(connection, path, columns, kinds),
        lambda: duckdb_counts(connection, path, columns, kinds, full),
    ]


def seconds(way):
    start = time.process_time()
    way()
    return time.process_time() - start


def reading(path, size):
    """The time that reading so many bytes from the page cache takes."""
    buffer = bytearray(1 << 20)
    with open(path, "rb", buffering=0) as f:
        start = time.process_time()
        while size > 0 and (n := f.readinto(buffer)):
            size -= n
        return time.process_time() - start


def main(path, stored, turns, *columns):
    with open(path, "rb") as f:
        data = f.read()
    took = {}
    for reader in ("pyarrow", "duckdb"):
        took[reader] = min(seconds(way) for way in ways(reader, path, data, columns) for _ in range(int(turns)))
    took["duckdb"] -= min(reading(path, int(stored)) for _ in range(int(turns)))
    print(json.dumps(took))


if sys.argv[1] == "--write":
    pq.write_table(pq.read_table(sys.argv[2]), sys.argv[3], row_group_size=65536)
else:
    main(*sys.argv[1:])
