"""Prints what pyarrow and DuckDB make of a file that `penstock read` wrote."""

import sys

import duckdb
import pyarrow.parquet as pq

table = pq.read_table(sys.argv[1])
(rows,) = duckdb.execute(f"select count(*) from '{sys.argv[1]}'").fetchone()
print(table.num_rows, rows, table.column_names[0], table.column_names[1], table.schema.field("cat_0").type)
