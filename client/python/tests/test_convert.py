"""What `penstock convert` makes of nested columns is what pyarrow reads of them before and after."""

from __future__ import annotations

import datetime
import decimal
import random
import subprocess
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROWS = 5000


def nested(seed: int) -> pa.Table:
    """Columns of every shape, with nulls at every level."""
    drawn = random.Random(seed)

    def maybe(make: Callable[[], Any]) -> Any:
        return None if drawn.random() < 0.2 else make()

    def some(make: Callable[[], Any]) -> list[Any]:
        return [make() for _ in range(drawn.randrange(4))]

    def number() -> int:
        return drawn.randrange(100)

    def text() -> str:
        return drawn.choice("abc") * number()

    def amount() -> decimal.Decimal:
        return decimal.Decimal(number()) / 100

    def moment() -> datetime.datetime:
        return datetime.datetime(2026, 1, 2) + datetime.timedelta(microseconds=number())

    def pair() -> dict[str, Any]:
        return {"a": maybe(number), "t": maybe(moment), "s": maybe(text)}

    fields = pa.struct([("a", pa.int32()), ("t", pa.timestamp("us")), ("s", pa.string())])
    shapes: dict[str, tuple[pa.DataType, Callable[[], Any]]] = {
        "texts": (pa.list_(pa.string()), lambda: some(lambda: maybe(text))),
        "lists": (pa.list_(pa.list_(pa.int64())), lambda: some(lambda: maybe(lambda: some(lambda: maybe(number))))),
        "struct": (fields, pair),
        "structs": (pa.list_(fields), lambda: some(lambda: maybe(pair))),
        "scores": (pa.map_(pa.int64(), pa.float32()), lambda: some(lambda: (number(), maybe(drawn.random)))),
        "ids": (
            pa.map_(pa.string(), pa.list_(pa.int64())),
            lambda: some(lambda: (text(), maybe(lambda: some(lambda: maybe(number))))),
        ),
        "weighted": (
            pa.map_(pa.int64(), pa.map_(pa.int64(), pa.float64())),
            lambda: some(lambda: (number(), maybe(lambda: some(lambda: (number(), maybe(drawn.random)))))),
        ),
        "price": (pa.decimal128(7, 2), amount),
        "amount": (pa.decimal256(50, 2), amount),
        "local": (pa.timestamp("us"), moment),
        "utc": (pa.timestamp("ms", "UTC"), moment),
    }
    columns = {name: pa.array([maybe(make) for _ in range(ROWS)], typ) for name, (typ, make) in shapes.items()}
    return pa.table(columns)


def foreign(rows: int) -> dict[str, pa.Array]:
    """Columns of types that Arrow has and Parquet has not, each with nulls."""
    numbers = pa.array([None if i % 7 == 0 else i % 50 for i in range(rows)], pa.int64())
    texts = numbers.cast(pa.string())
    return {
        "codes": texts.dictionary_encode(),
        "coded": pa.ListArray.from_arrays(pa.array(range(rows + 1), pa.int32()), texts.dictionary_encode()),
        "large": pa.LargeListArray.from_arrays(pa.array(range(rows + 1), pa.int64()), texts.cast(pa.large_string())),
        "seconds": numbers.cast(pa.timestamp("s")),
        "days": numbers.cast(pa.int32()).cast(pa.date32()).cast(pa.date64()),
        "halves": numbers.cast(pa.float16()),
    }


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_nested_columns_pass_through(kind: str, tmp_path: Path, penstock_binary: Path) -> None:
    table = nested(7)
    source, out = tmp_path / f"in.{kind}", tmp_path / "out.parquet"
    if kind == "parquet":
        pq.write_table(table, source, row_group_size=1700, store_decimal_as_integer=True)
    else:
        for name, values in foreign(table.num_rows).items():
            table = table.append_column(name, values)
        with pa.OSFile(str(source), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=1700)
    command: list[str | Path] = [
        penstock_binary,
        "convert",
        source,
        "--out",
        out,
        "--row-group-rows",
        "2000",
        "--verify",
    ]
    subprocess.run(command, check=True, capture_output=True)
    made = pq.read_table(out)
    assert made.column_names == table.column_names
    for name in table.column_names:
        # pyarrow calls the elements of lists and maps by other names than Arrow's files do
        assert made[name].to_pylist() == table[name].to_pylist(), name


VALUES = ["007", "a/b é%2F+=", "", "..", None, "null", "*?[x]"]


@pytest.mark.tools
def test_partitions_are_read_by_others(tmp_path: Path, penstock_binary: Path) -> None:
    """pyarrow and DuckDB find each row in its partition, and a session chooses files by it."""
    import duckdb  # which the other Pythons lack
    import pyarrow.dataset as ds

    rows = 3000
    drawn = random.Random(3)
    day = datetime.date(2026, 1, 1)
    table = pa.table(
        {
            "id": range(rows),
            "a text": [drawn.choice(VALUES) for _ in range(rows)],
            "day": [day + datetime.timedelta(days=drawn.randrange(3)) for _ in range(rows)],
            "n": pa.array([drawn.choice([None, -1, 2]) for _ in range(rows)], pa.int64()),
            "at": [datetime.datetime(2026, 1, 2, 3, 4, drawn.randrange(2), 500_000) for _ in range(rows)],
            "ids": [[i] * (i % 4) for i in range(rows)],
        }
    )
    source, out = tmp_path / "in.parquet", tmp_path / "out"
    pq.write_table(table, source)
    arranged = ["--partition-by", "day,a text,n,at", "--sort-by", "id:desc", "--verify"]
    subprocess.run([penstock_binary, "convert", source, "--out", out, *arranged], check=True)
    keys = ["day", "a text", "n", "at"]
    hive = ds.partitioning(pa.schema([table.schema.field(key) for key in keys]), flavor="hive")
    found = ds.dataset(out, partitioning=hive)
    assert found.to_table().sort_by("id").select(table.column_names).equals(table)
    for fragment in found.get_fragments():
        ids = fragment.to_table(columns=["id"]).column("id").to_pylist()
        assert ids == sorted(ids, reverse=True)
    types = "{'day': DATE, 'a text': VARCHAR, 'n': BIGINT, 'at': TIMESTAMP}"
    columns = ", ".join(f'"{name}"' for name in table.column_names)
    files = f"read_parquet('{out}/**/*.parquet', hive_partitioning=true, hive_types={types})"
    seen = duckdb.sql(f"SELECT {columns} FROM {files} ORDER BY id")
    assert seen is not None
    assert seen.fetchall() == [tuple(row.values()) for row in table.to_pylist()]

    spec = tmp_path / "spec.yaml"
    spec.write_text(
        f"dataset: {{uri: {out}/, partitions: \"day = '2026-01-02' and `a text` = '007' and n < 0\"}}\n"
        "features: [{dense: id}]\nbatch_size: 100\n"
    )
    chosen = tmp_path / "chosen.parquet"
    subprocess.run([penstock_binary, "read", spec, chosen, "--local", "--output", "parquet"], check=True)
    want = [
        row["id"] for row in table.to_pylist()
        if (row["day"], row["a text"], row["n"]) == (day + datetime.timedelta(days=1), "007", -1)
    ]  # fmt: skip
    assert want
    assert sorted(pq.read_table(chosen).column("id").to_pylist()) == want


@pytest.mark.tools
def test_statistics_and_page_indexes(tmp_path: Path, penstock_binary: Path) -> None:
    """pyarrow finds page indexes and the bounds that columns have, and DuckDB filters by them as pyarrow does."""
    import duckdb  # which the other Pythons lack

    drawn, rows = random.Random(3), 50_000
    table = pa.table(
        {
            "sorted": pa.array(range(rows), pa.int64()),
            "unsigned": pa.array([drawn.randrange(1 << 64) for _ in range(rows)], pa.uint64()),
            "price": pa.array(
                [decimal.Decimal(drawn.randrange(-999, 999)) / 100 for _ in range(rows)], pa.decimal128(7, 2)
            ),
            "score": pa.array(
                [drawn.choice([float("nan"), drawn.gauss(0, 1), -0.0]) for _ in range(rows)], pa.float32()
            ),
            "word": pa.array([None if i % 3 else chr(97 + i % 26) for i in range(rows)], pa.string()),
            "long": pa.array([chr(228 + i % 9) * 50 + str(i) for i in range(rows)], pa.string()),
            "none": pa.nulls(rows, pa.float32()),
            "ids": pa.array([[i, -i] if i % 50 == 0 else None for i in range(rows)], pa.list_(pa.int64())),
        }
    )
    source, out = tmp_path / "in.parquet", tmp_path / "out.parquet"
    pq.write_table(table, source)
    subprocess.run([penstock_binary, "convert", source, "--out", out, "--verify"], check=True, capture_output=True)
    group = pq.ParquetFile(out).metadata.row_group(0)
    bounds = {}
    for i in range(group.num_columns):
        chunk = group.column(i)
        assert chunk.has_offset_index
        assert chunk.has_column_index
        assert chunk.statistics.has_null_count
        if chunk.statistics.has_min_max:
            bounds[chunk.path_in_schema] = (chunk.statistics.min, chunk.statistics.max)
    for name in ("sorted", "unsigned", "price", "word"):
        assert bounds.pop(name) == (
            min(table[name].drop_null().to_pylist()),
            max(table[name].drop_null().to_pylist()),
        ), name
    low, high = bounds.pop("long")
    assert low <= min(table["long"].to_pylist())
    assert high >= max(table["long"].to_pylist())
    assert max(len(low.encode()), len(high.encode())) <= 64
    low, high = bounds.pop("score")
    numbers = [x for x in table["score"].to_pylist() if x == x]
    assert (low, high) == (min(numbers), max(numbers))
    assert group.column(4).statistics.null_count == table["word"].null_count
    for condition in (
        "sorted between 30000 and 30009",
        "unsigned > 9223372036854775808",
        "price < -9.5",
        "score > 3 and score < 100",
        "word = 'q'",
        "long > 'ì'",
        "none is not null",
    ):
        read = "select sorted from read_parquet(?) where " + condition + " order by 1"
        found = duckdb.execute(read, [str(out)]).fetchall()
        assert found == duckdb.execute(read, [str(source)]).fetchall()
        assert found or condition.startswith("none"), condition
