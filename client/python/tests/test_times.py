"""Filters and expressions that compare dates and times with text, beside what DuckDB makes of them."""

from __future__ import annotations

import datetime
import random
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock.errors import SpecError

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.fleet, pytest.mark.usefixtures("fleet_of_this_machine")]

COLUMNS = {
    "day": pa.date32(), "s": pa.timestamp("s"), "ms": pa.timestamp("ms"), "us": pa.timestamp("us", "UTC"),
    "ns": pa.timestamp("ns"),
}  # fmt: skip
FIRST = datetime.datetime(2024, 2, 28, tzinfo=datetime.timezone.utc)


def some_time(draw: random.Random) -> datetime.datetime:
    """One of few, so that many are equal."""
    finer = draw.choice([0, 0, 1, 1000, 500_000, 1_000_000])
    return FIRST + datetime.timedelta(days=draw.randrange(3), seconds=draw.randrange(2), microseconds=finer)


def text_of(draw: random.Random, time: datetime.datetime) -> tuple[str, str]:
    """A time as we and as DuckDB read it: without a zone it is UTC."""
    sql = f"'{time.replace(tzinfo=None).isoformat(sep=' ')}'::timestamp"
    zone = draw.choice([None, 0, 90, -480])
    if zone is None:
        return time.replace(tzinfo=None).isoformat(sep=draw.choice(" T")), sql
    return time.astimezone(datetime.timezone(datetime.timedelta(minutes=zone))).isoformat(), sql


def test_times_compare_as_in_duckdb(tmp_path: Path) -> None:
    import duckdb  # which the other Pythons lack

    seed = random.randrange(1 << 32)
    draw = random.Random(seed)
    times = sorted(some_time(draw) for _ in range(200))
    data = {"row": pa.array(range(len(times)), pa.int64())}
    for name, kind in COLUMNS.items():
        values = [None if draw.random() < 0.1 else time for time in times]
        data[name] = pa.array(values, pa.timestamp("us", "UTC")).cast(kind, safe=False)
    rows = pa.table(data)
    pq.write_table(rows, tmp_path / "rows.parquet", row_group_size=20, write_page_index=True)
    tests = []
    for name in COLUMNS:
        column = f"({name} at time zone 'UTC')" if name == "us" else name
        for form in ["{} < {}", "{} <= {}", "{} > {}", "{} >= {}", "{} = {}", "{} != {}", "{} between {} and {}",
                     "{} in ({}, {})", "{} not in ({})"]:  # fmt: skip
            literals = [text_of(draw, some_time(draw)) for _ in range(2)]
            tests.append((form.format(name, *(f"'{ours}'" for ours, _ in literals)),
                          form.format(column, *(sql for _, sql in literals))))  # fmt: skip
    with duckdb.connect() as db:
        db.execute("set timezone = 'UTC'")
        db.register("rows", rows)
        wanted = [[row for (row,) in db.execute(f"select row from rows where {sql}").fetchall()] for _, sql in tests]
    transforms = [penstock.expr(f"coalesce({ours}, false)", out=f"test{i}") for i, (ours, _) in enumerate(tests)]
    features = penstock.label("row")
    for i in range(len(tests)):
        features += penstock.label(f"test{i}")
    with penstock.DataLoader(
        str(tmp_path), features=features, transforms=transforms, batch_size=200, format="numpy", epochs=1
    ) as loader:
        labels = next(iter(loader)).labels
    for i, (ours, _) in enumerate(tests):
        assert sorted(labels["row"][labels[f"test{i}"] != 0].tolist()) == sorted(wanted[i]), f"seed {seed}: {ours}"
    for i in draw.sample(range(len(tests)), 12):
        with penstock.DataLoader(
            str(tmp_path), features=penstock.label("row"), filter=tests[i][0], batch_size=200, format="numpy", epochs=1
        ) as loader:
            got = sorted(row for batch in loader for row in batch.labels["row"].tolist())
        assert got == sorted(wanted[i]), f"seed {seed}: {tests[i][0]}"
    with (
        pytest.raises(SpecError, match=r"day is a date, but is compared with 'x'; want .*'2024-01-31'"),
        penstock.DataLoader(str(tmp_path), features=penstock.label("row"), filter="day > 'x'", batch_size=1) as loader,
    ):
        next(iter(loader))
