"""Writes tables/: small Iceberg tables, and beside their metadata an expected.json of what others read at each version.

    python3 -m venv venv
    venv/bin/pip install pyspark==3.5.5 fastavro==1.13.1 'pyiceberg[pyarrow,pyiceberg-core,sql-sqlite]==0.12.0'
    curl -O https://repo1.maven.org/maven2/org/apache/iceberg/iceberg-spark-runtime-3.5_2.12/1.10.1/iceberg-spark-runtime-3.5_2.12-1.10.1.jar
    TZ=UTC SPARK_JARS=$PWD/iceberg-spark-runtime-3.5_2.12-1.10.1.jar venv/bin/python generate.py

All are written below FOLDER, whose paths stay in their metadata, and copied from there. Rows are what pyiceberg reads.
Those of tables that Spark writes (spark.py) are what Spark reads, and pyiceberg must agree.
"""

from __future__ import annotations

import decimal
import json
import math
import shutil
import subprocess
import sys
import uuid
from datetime import UTC, date, datetime, time
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable, Table
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

TABLES = Path(__file__).parent / "tables"
FOLDER = Path("/tmp/golden")
# Tables that are refused, and a word of the reason.
REFUSED = {"equality": "equality", "outside": "elsewhere.parquet"}


def create(catalog: SqlCatalog, name: str, schema: Schema, **properties: str) -> Table:
    """A table in FOLDER."""
    location = f"file://{FOLDER}/db/{name}"
    return catalog.create_table(("db", name), schema, location=location, properties=properties)


def types(catalog: SqlCatalog) -> None:
    """Every type, required columns, nulls, NaN."""
    kinds = {
        "flag": (BooleanType(), [True, False, None]),
        "small": (IntegerType(), [2**31 - 1, -(2**31), None]),
        "big": (LongType(), [2**63 - 1, -(2**63), None]),
        "f": (FloatType(), [math.nan, -math.inf, None]),
        "d": (DoubleType(), [math.nan, 1e300, None]),
        "price": (
            DecimalType(38, 10),
            [decimal.Decimal("1234567890123456789012345678.0123456789"), decimal.Decimal("-1E-10"), None],
        ),
        "day": (DateType(), [date(2024, 2, 29), date(1, 1, 1), None]),
        "hour": (TimeType(), [time(23, 59, 59, 999999), time(0), None]),
        "wall": (TimestampType(), [datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2024, 2, 29), None]),
        "at": (
            TimestamptzType(),
            [datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), datetime(9999, 1, 1, tzinfo=UTC), None],
        ),
        "text": (StringType(), ["é\U0010ffff" * 20, "", None]),
        "raw": (BinaryType(), [b"\x00\xff", b"", None]),
        "four": (FixedType(4), [b"abcd", b"\xff\xff\xff\xff", None]),
        "key": (UUIDType(), [uuid.UUID(int=1).bytes, uuid.UUID(int=2**128 - 1).bytes, None]),
    }
    fields = [NestedField(1, "id", LongType(), required=True)]
    fields += [NestedField(i + 2, name, kind) for i, (name, (kind, _)) in enumerate(kinds.items())]
    inner = StructType(
        NestedField(52, "k", StringType(), required=True), NestedField(53, "vs", ListType(54, LongType(), True))
    )
    fields += [
        NestedField(30, "point", StructType(NestedField(31, "x", DoubleType()), NestedField(32, "n", IntegerType()))),
        NestedField(40, "map", MapType(41, StringType(), 42, DoubleType(), False)),
        NestedField(50, "deep", ListType(51, inner, False)),
    ]
    table = create(catalog, "types", Schema(*fields))
    columns = {"id": [1, 2, 3]} | {name: values for name, (_, values) in kinds.items()}
    columns |= {
        "point": [{"x": 0.5, "n": 1}, {"x": None, "n": None}, None],
        "map": [[("k", 1.5), ("l", None)], [], None],
        "deep": [[{"k": "x", "vs": [1, 2]}, None, {"k": "y", "vs": []}], [], []],
    }
    schema = table.schema().as_arrow()
    table.append(pa.table({f.name: pa.array(columns[f.name], f.type) for f in schema}, schema=schema))


def evolved(catalog: SqlCatalog) -> None:
    """Columns that come, go, move, are renamed and widened; an overwrite; deletes that write files anew."""
    table = create(
        catalog, "evolved", Schema(NestedField(1, "id", IntegerType()), NestedField(2, "text", StringType()))
    )

    def append(**columns: object) -> None:
        table.append(pa.table({f.name: pa.array(columns[f.name], f.type) for f in table.schema().as_arrow()}))

    append(id=[1, 2, None], text=["a", None, "c"])
    with table.update_schema() as u:
        u.rename_column("text", "words").update_column("id", LongType()).add_column("f", FloatType())
    append(id=[2**40], words=["d"], f=[math.nan])
    with table.update_schema() as u:
        u.add_column("text", LongType()).move_first("f").update_column("f", DoubleType())
    append(f=[0.1], id=[5], words=["e"], text=[5])
    table.delete("id = 2")
    with table.update_schema() as u:
        u.delete_column("words")
    with table.update_spec() as u:
        u.add_field("id", BucketTransform(4), "b")
    append(f=[6.0, 7.0], id=[6, 7], text=[None, 7])
    table.append(table.schema().as_arrow().empty_table())
    table.overwrite(pa.table({"f": [8.0], "id": pa.array([8], pa.int64()), "text": pa.array([8], pa.int64())}))


def migrated(catalog: SqlCatalog) -> None:
    """Files of others, without ids: some have the partition's column."""
    fields = [
        NestedField(1, "id", LongType()),
        NestedField(2, "part", StringType()),
        NestedField(3, "s", StructType(NestedField(4, "a", LongType()))),
    ]
    table = create(catalog, "migrated", Schema(*fields))
    with table.update_spec() as u:
        u.add_field("part", IdentityTransform(), "part")
    files = []
    for i in range(2):
        files.append(FOLDER / "db" / "migrated" / "old" / f"{i}.parquet")
        files[-1].parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"id": [i], "part": [f"p{i}"], "s": [{"a": i}]}), files[-1])
    table.add_files([f"file://{f}" for f in files])
    with table.update_schema() as u:
        u.rename_column("id", "key").rename_column("s.a", "b")
    table.append(pa.table({"key": [7], "part": ["p0"], "s": [{"b": 7}]}))


def outside(catalog: SqlCatalog) -> None:
    """A file that lies beside the table."""
    table = create(catalog, "outside", Schema(NestedField(1, "id", LongType())))
    other = FOLDER / "db" / "elsewhere.parquet"
    pq.write_table(pa.table({"id": [1]}), other)
    table.add_files([f"file://{other}"])


def equality(catalog: SqlCatalog) -> None:
    """Deletes by equality, as Flink writes them: the commit is written here, by the specification."""
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "text", StringType()))
    table = create(catalog, "equality", schema)
    table.append(pa.table({"id": [1, 2, 3], "text": ["a", "b", "c"]}))
    root = FOLDER / "db" / "equality"
    deletes = root / "data" / "delete.parquet"
    field = pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})
    pq.write_table(pa.table([[2]], schema=pa.schema([field])), deletes)

    metadata_file = Path(table.metadata_location.removeprefix("file://"))
    metadata = json.loads(metadata_file.read_text())
    last = metadata["snapshots"][-1]
    list_file = Path(last["manifest-list"].removeprefix("file://"))
    with list_file.open("rb") as f:
        lists = fastavro.reader(f)
        list_schema, manifests = lists.writer_schema, list(lists)
    with Path(manifests[0]["manifest_path"].removeprefix("file://")).open("rb") as f:
        entries = fastavro.reader(f)
        entry_schema, entry, about = entries.writer_schema, next(entries), dict(entries.metadata)

    snapshot = last["snapshot-id"] + 1
    entry |= {"status": 1, "snapshot_id": snapshot, "sequence_number": None, "file_sequence_number": None}
    entry["data_file"] |= dict.fromkeys(
        ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
    )
    entry["data_file"] |= {
        "content": 2,
        "file_path": f"file://{deletes}",
        "equality_ids": [1],
        "record_count": 1,
        "file_size_in_bytes": deletes.stat().st_size,
    }
    about = {k: v for k, v in about.items() if not k.startswith("avro.")} | {"content": "deletes"}
    manifest = root / "metadata" / "deletes-m0.avro"
    with manifest.open("wb") as f:
        fastavro.writer(f, entry_schema, [entry], metadata=about)
    added = manifests[0] | {
        "manifest_path": f"file://{manifest}",
        "manifest_length": manifest.stat().st_size,
        "content": 1,
        "sequence_number": 2,
        "min_sequence_number": 2,
        "added_snapshot_id": snapshot,
        "added_rows_count": 1,
    }
    new_list = root / "metadata" / f"snap-{snapshot}.avro"
    with new_list.open("wb") as f:
        fastavro.writer(f, list_schema, [*manifests, added])
    at = last["timestamp-ms"] + 1
    metadata["snapshots"].append(
        last
        | {
            "snapshot-id": snapshot,
            "parent-snapshot-id": last["snapshot-id"],
            "sequence-number": 2,
            "timestamp-ms": at,
            "manifest-list": f"file://{new_list}",
            "summary": {"operation": "delete"},
        }
    )
    metadata["current-snapshot-id"] = metadata["refs"]["main"]["snapshot-id"] = snapshot
    metadata["snapshot-log"].append({"snapshot-id": snapshot, "timestamp-ms": at})
    metadata["last-sequence-number"], metadata["last-updated-ms"] = 2, at
    (metadata_file.parent / f"00002-{uuid.UUID(int=2)}.metadata.json").write_text(json.dumps(metadata))


def plain(value: object) -> object:
    """A value as JSON has it."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, (date, datetime, time)):
        return value.isoformat()
    if isinstance(value, uuid.UUID):
        return value.bytes.hex()
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return f"{value:f}" if isinstance(value, decimal.Decimal) else value


def kind(t: pa.DataType) -> str:
    """The type's name in Go's library."""
    if isinstance(t, pa.UuidType):
        return "FIXED_SIZE_BINARY"
    for has, name in (
        (pa.types.is_map, "MAP"),
        (pa.types.is_list, "LIST"),
        (pa.types.is_large_list, "LIST"),
        (pa.types.is_struct, "STRUCT"),
        (pa.types.is_decimal, "DECIMAL"),
        (pa.types.is_timestamp, "TIMESTAMP"),
        (pa.types.is_date32, "DATE32"),
        (pa.types.is_time64, "TIME64"),
        (pa.types.is_boolean, "BOOL"),
        (pa.types.is_fixed_size_binary, "FIXED_SIZE_BINARY"),
    ):
        if has(t):
            return name
    names = {
        "string": "STRING",
        "large_string": "STRING",
        "float": "FLOAT32",
        "double": "FLOAT64",
        "large_binary": "BINARY",
    }
    return names.get(str(t), str(t).upper())


def newest_metadata(root: Path) -> Path:
    """The metadata file that is current."""
    files = list((root / "metadata").glob("*.metadata.json"))
    return max(files, key=lambda f: int(f.name.lstrip("v").split(".")[0].split("-")[0]))


def ordered(rows: list[object]) -> list[object]:
    """Rows as JSON has them."""
    return sorted((plain(row) for row in rows), key=lambda row: json.dumps(row, sort_keys=True))


def lenient(value: object) -> object:
    """A value with [] for null: pyiceberg reads null lists of structs as empty ones."""
    if isinstance(value, dict):
        return {k: [] if v is None else lenient(v) for k, v in value.items()}
    return [lenient(v) for v in value] if isinstance(value, list) else value


def expect(root: Path) -> None:
    """Writes expected.json."""
    table = StaticTable.from_metadata(f"file://{newest_metadata(root)}")
    by_spark = FOLDER / f"{root.name}.json"
    spark = json.loads(by_spark.read_text()) if by_spark.exists() else None
    versions: dict[str, object] = {}
    current = table.current_snapshot()
    for snapshot in sorted(table.snapshots(), key=lambda s: (s.sequence_number or 0, s.timestamp_ms)):
        name = str(snapshot.snapshot_id)
        if root.name in REFUSED and snapshot == current:
            versions[name] = {"refused": REFUSED[root.name]}
            continue
        scan = table.scan(snapshot_id=snapshot.snapshot_id)
        schema = pa.schema(scan.projection().as_arrow())
        files = len(list(scan.plan_files()))
        rows = ordered(scan.to_arrow().to_pylist())
        if spark:
            theirs, rows = rows, ordered(spark[name])
            if ordered(lenient(theirs)) != ordered(lenient(rows)):
                sys.exit(f"{root.name} at {name}:\npyiceberg {theirs}\n    Spark {rows}")
        versions[name] = {"files": files, "columns": {f.name: kind(f.type) for f in schema}, "rows": rows}
    gone = {str(s.parent_snapshot_id) for s in table.snapshots() if s.parent_snapshot_id} - versions.keys()
    versions |= {name: {"refused": str(current.snapshot_id)} for name in gone}  # of those that are left
    names = {name: str(ref.snapshot_id) for name, ref in table.refs().items()}
    for entry in table.history():
        at = datetime.fromtimestamp(entry.timestamp_ms / 1000, UTC)
        if str(entry.snapshot_id) in versions:
            names[at.isoformat(timespec="milliseconds")] = str(entry.snapshot_id)
    out = {"newest": str(current.snapshot_id), "names": names, "versions": versions}
    (root / "expected.json").write_text(json.dumps(out, ensure_ascii=False, indent=1) + "\n")


def main() -> None:
    """Writes all tables anew."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    subprocess.run([sys.executable, Path(__file__).with_name("spark.py"), FOLDER], check=True)
    catalog = SqlCatalog("golden", uri="sqlite:///:memory:", warehouse=f"file://{FOLDER}")
    catalog.create_namespace("db")
    for make in (types, evolved, migrated, outside, equality):
        make(catalog)
    shutil.rmtree(TABLES, ignore_errors=True)
    TABLES.mkdir()
    for root in sorted(p for p in (FOLDER / "db").iterdir() if p.is_dir()):
        expect(root)
        shutil.copytree(root, TABLES / root.name, ignore=shutil.ignore_patterns("*.crc", "_SUCCESS"))


if __name__ == "__main__":
    main()
