"""Writes tables/spark-widened, a table whose columns were widened, with an expected.json of what Spark reads of it.

    python3 -m venv venv && venv/bin/pip install pyspark==4.0.1 deltalake==1.6.6 pyarrow==26.0.1 pandas
    venv/bin/python widened.py

Java 17 must be there. Spark fetches delta-spark_2.13 4.0.0 from Maven. Run it after generate.py, which removes tables/.
"""

import json
import shutil

import pyarrow as pa
from generate import TABLES, kind, plain
from pyspark.sql import SparkSession

# Columns: name, type, type that it is widened to.
COLUMNS = [
    ("id", "int", None),
    ("byte_short", "tinyint", "smallint"),
    ("byte_int", "tinyint", "int"),
    ("int_long", "int", "bigint"),
    ("int_double", "int", "double"),
    ("float_double", "float", "double"),
    ("int_decimal", "int", "decimal(14, 3)"),
    ("long_decimal", "bigint", "decimal(22, 1)"),
    ("decimal_decimal", "decimal(6, 2)", "decimal(20, 4)"),
    ("day_time", "date", "timestamp_ntz"),
    ("part", "int", "double"),
]
# Nested ones, and the path of what is widened.
NESTED = [
    ("inner", "struct<a: int, day: date>", {"inner.a": "double", "inner.day": "timestamp_ntz"}),
    ("floats", "array<int>", {"floats.element": "double"}),
    ("by_key", "map<string, int>", {"by_key.value": "double"}),
]
OLD = [
    ("1, 1Y, 1Y, 1, 1, 0.1F, 1, 1L, 1.25, DATE'2024-02-29', 1, named_struct('a', 1, 'day', DATE'2000-01-01'), "
    "array(1, null), map('k', 1)"),
    ("2, -128Y, -128Y, -2147483648, -2147483648, -16777216F, -2147483648, -9223372036854775807L, -9999.99, "
    "DATE'1582-10-15', 2, null, array(), map()"),
    "3, null, null, null, null, null, null, null, null, null, 1, named_struct('a', null, 'day', null), null, null",
    ("4, 127Y, 127Y, 2147483647, 2147483647, 1.5E38F, 2147483647, 9223372036854775807L, 9999.99, "
    "DATE'9999-12-31', 2, named_struct('a', -5, 'day', DATE'1969-12-31'), array(7, -8), map('k', -3)"),
]
NEW = [
    ("5, 32767S, 2147483647, 9223372036854775807L, 0.1D, 0.1D, 12345678901.234, 100000000000000000000.5, 1234567.1234, "
    "TIMESTAMP_NTZ'2024-02-29 12:34:56.789', 1.5, "
    "named_struct('a', 0.5D, 'day', TIMESTAMP_NTZ'2000-01-01 01:02:03'), array(0.25D), map('k', 0.125D)"),
]


def main() -> None:
    """Writes the table anew."""
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.jars.packages", "io.delta:delta-spark_2.13:4.0.0")
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
        .getOrCreate()
    )
    path = TABLES / "spark-widened"
    shutil.rmtree(path, ignore_errors=True)
    table = f"delta.`{path}`"
    columns = [f"{name} {of}" for name, of, _ in [*COLUMNS, *NESTED]]
    properties = "'delta.enableTypeWidening' = 'true', 'delta.feature.timestampNtz' = 'supported'"
    spark.sql(f"CREATE TABLE {table} ({', '.join(columns)}) USING delta PARTITIONED BY (part) TBLPROPERTIES ({properties})")
    expected = {}

    def expect() -> None:
        version = spark.sql(f"DESCRIBE HISTORY {table} LIMIT 1").collect()[0]["version"]
        frame = spark.sql(f"SELECT * FROM {table}")
        rows: pa.Table = frame.toArrow()
        expected[f"v{version}"] = {
            "files": len(frame.inputFiles()),
            "columns": {f.name: kind(f.type) for f in rows.schema},
            "rows": sorted((plain(row) for row in rows.to_pylist()), key=json.dumps),
        }

    spark.sql(f"INSERT INTO {table} VALUES {', '.join(f'({row})' for row in OLD)}")
    expect()
    changes = {name: to for name, _, to in COLUMNS if to}
    for of in NESTED:
        changes |= of[2]
    for name, to in changes.items():
        spark.sql(f"ALTER TABLE {table} CHANGE COLUMN {name} TYPE {to}")
    expect()
    spark.sql(f"INSERT INTO {table} VALUES {', '.join(f'({row})' for row in NEW)}")
    expect()
    newest = max(expected, key=lambda v: int(v[1:]))
    text = json.dumps({"newest": newest, "versions": expected}, ensure_ascii=False, indent=1)
    (path / "expected.json").write_text(text + "\n")
    for checksum in path.rglob("*.crc"):
        checksum.unlink()
    (path / "_delta_log/_staged_commits").rmdir()


if __name__ == "__main__":
    main()
