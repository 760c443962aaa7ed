"""Writes tables/: small Delta tables, and beside each log an expected.json of what deltalake reads at each version.

    python3 -m venv venv && venv/bin/pip install deltalake==1.6.6 pyarrow==26.0.1
    git clone https://github.com/delta-io/delta    # at bb1057f4367f555b01e299fd1690d85aafc0ac4c
    venv/bin/python generate.py delta/connectors/golden-tables/src/main/resources/golden

Tables whose names begin with spark- were written by Spark with Delta Lake's own library, and are copied from there
(Apache License 2.0), without checksum files. The others are written here.
"""

import decimal
import json
import math
import shutil
import sys
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder, write_deltalake

TABLES = Path(__file__).parent / "tables"
SPARK = [
    "data-reader-escaped-chars",
    "data-reader-timestamp_ntz-name-mode",
    "dv-with-columnmapping",
    "kernel-timestamp-partition-col-ISO8601",
    "log-replay-dv-key-cases",
    "multi-part-checkpoint",
    "only-checkpoint-files",
    "table-with-columnmapping-mode-id",
    "table-with-columnmapping-mode-name",
    "type-widening-nested",
    "v2-checkpoint-json",
    "v2-checkpoint-parquet",
]
# Versions that are refused, and a word of the reason.
REFUSED = {"cleaned": {"v0": "is gone", "v1": "is gone"}}


def evolved() -> None:
    """Appends, a column that comes, a delete, an empty commit, an overwrite, a checkpoint."""
    path = TABLES / "evolved"
    every = {
        "id": pa.array([1, 2, 3, 4], pa.int64()),
        "small": pa.array([1, -2, None, 127], pa.int8()),
        "short": pa.array([1, -2, None, 32767], pa.int16()),
        "int": pa.array([1, -2, None, 2**31 - 1], pa.int32()),
        "float": pa.array([0.1, -2.5, None, math.inf], pa.float32()),
        "double": pa.array([0.1, -2.5, None, 1e300], pa.float64()),
        "flag": pa.array([True, False, None, True]),
        "text": pa.array(["a", "é" * 40, None, "\U0010ffff" * 40]),
        "raw": pa.array([b"\x00\xff", b"", None, b"x"], pa.binary()),
        "day": pa.array([date(2024, 2, 29), date(1969, 12, 31), None, date(1, 1, 1)]),
        "at": pa.array([datetime(2024, 2, 29, 1, 2, 3, 456789, UTC), None, None, None], pa.timestamp("us", "UTC")),
        "price": pa.array([decimal.Decimal("12.34"), decimal.Decimal("-0.01"), None, None], pa.decimal128(20, 2)),
        "list": pa.array([[1, 2], [], None, [None]], pa.list_(pa.int64())),
        "struct": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}, {"a": 3, "b": None}]),
        "map": pa.array([[("k", 1)], [], None, [("k", None)]], pa.map_(pa.string(), pa.int64())),
    }
    write_deltalake(path, pa.table(every))
    write_deltalake(path, pa.table({"id": [5, 6], "text": ["b", "c"]}), mode="append", schema_mode="merge")
    more = pa.table({"id": [7, 8], "text": ["d", None], "added": pa.array([1.5, None], pa.float64())})
    write_deltalake(path, more, mode="append", schema_mode="merge")
    DeltaTable(path).delete("id = 2 or id = 7")
    DeltaTable(path).alter.set_table_properties({"delta.appendOnly": "false"})
    DeltaTable(path).create_checkpoint()
    write_deltalake(path, pa.table({"id": [9], "text": ["e"]}), mode="append", schema_mode="merge")
    DeltaTable(path).optimize.compact()
    write_deltalake(path, pa.table({"id": [10], "other": ["f"]}), mode="overwrite", schema_mode="overwrite")


def partitioned() -> None:
    """Partition values of many types, of odd characters, and null; two writers that meet."""
    path = TABLES / "partitioned"
    kinds = {
        "text": pa.array(["a b/c%25=d", "é?#", None, "."]),
        "num": pa.array([1, -2, None, 2**62], pa.int64()),
        "day": pa.array([date(2024, 2, 29), date(1969, 12, 31), None, date(2000, 1, 1)]),
        "flag": pa.array([True, False, None, True]),
        "price": pa.array([decimal.Decimal("1.20"), decimal.Decimal("0.50"), None, decimal.Decimal("12345.67")]),
        "at": pa.array(
            [datetime(2024, 2, 29, 1, 2, 3, 456789, UTC), datetime(1969, 1, 1, tzinfo=UTC), None, None],
            pa.timestamp("us", "UTC"),
        ),
    }
    rows = pa.table({"id": pa.array([1, 2, 3, 4], pa.int64()), **kinds})
    write_deltalake(path, rows, partition_by=list(kinds))
    one, two = DeltaTable(path), DeltaTable(path)
    write_deltalake(one, rows.slice(0, 1), mode="append")
    write_deltalake(two, rows.slice(1, 1), mode="append")
    DeltaTable(path).create_checkpoint()
    DeltaTable(path).delete("num = 1")


def cleaned() -> None:
    """A log whose first commits are gone, and a table whose removed files are."""
    path = TABLES / "cleaned"
    for i in range(4):
        write_deltalake(path, pa.table({"id": [i]}), mode="overwrite" if i == 2 else "append")
        if i == 2:
            DeltaTable(path).create_checkpoint()
    for version in range(2):
        (path / "_delta_log" / f"{version:020}.json").unlink()
    DeltaTable(path).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)


def plain(value: object) -> object:
    """A value as JSON has it."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, (date, datetime)):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return str(value) if isinstance(value, decimal.Decimal) else value


def kind(t: pa.DataType) -> str:
    """The type's name in Go's library."""
    for has, name in (
        (pa.types.is_map, "MAP"),
        (pa.types.is_list, "LIST"),
        (pa.types.is_struct, "STRUCT"),
        (pa.types.is_decimal, "DECIMAL"),
        (pa.types.is_timestamp, "TIMESTAMP"),
        (pa.types.is_date32, "DATE32"),
        (pa.types.is_boolean, "BOOL"),
    ):
        if has(t):
            return name
    names = {"string": "STRING", "large_string": "STRING", "string_view": "STRING", "binary_view": "BINARY"}
    names |= {"float": "FLOAT32", "double": "FLOAT64", "large_binary": "BINARY"}
    return names.get(str(t), str(t).upper())


def read(table: DeltaTable) -> pa.Table:
    """All rows, by deltalake; of tables with features that it has not, by pyarrow, as the type that the column has now."""
    try:
        return pa.table(QueryBuilder().register("t", table).execute("select * from t").read_all())
    except Exception as e:
        if "Unsupported table features" not in str(e):
            raise
        schema = pa.schema(table.schema().to_arrow())
        return pa.concat_tables(pq.read_table(uri.removeprefix("file://")).cast(schema) for uri in table.file_uris())


def expect(path: Path) -> None:
    """Writes expected.json."""
    newest = DeltaTable(path).version()
    refused = REFUSED.get(path.name, {})
    out: dict[str, object] = {"newest": f"v{newest}"}
    versions = {}
    for version in range(newest + 1):
        name = f"v{version}"
        if name in refused:
            versions[name] = {"refused": refused[name]}
            continue
        table = DeltaTable(path, version=version)
        rows = read(table)
        versions[name] = {
            "files": len(table.file_uris()),
            "columns": {f.name: kind(f.type) for f in rows.schema},
            "rows": sorted((plain(row) for row in rows.to_pylist()), key=json.dumps),
        }
    out["versions"] = versions
    text = json.dumps(out, ensure_ascii=False, indent=1)
    (path / "expected.json").write_text(text + "\n")


def main(golden: Path) -> None:
    """Writes all tables anew."""
    shutil.rmtree(TABLES, ignore_errors=True)
    TABLES.mkdir()
    for name in SPARK:
        shutil.copytree(golden / name, TABLES / f"spark-{name}", ignore=shutil.ignore_patterns("*.crc"))
    evolved()
    partitioned()
    cleaned()
    for path in sorted(TABLES.iterdir()):
        expect(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
