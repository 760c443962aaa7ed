"""Compares a fitted file with what DuckDB computes of the data: prints how many statistics it compared."""

from __future__ import annotations

import json
import math
import sys
from typing import Any

import duckdb
import pyarrow.parquet as pq

LISTS = ("ints", "floats", "texts")

folder = sys.argv[1]
db = duckdb.connect()
# A table: of a file DuckDB believes the bounds, which leave out NaNs, and finds none.
db.execute(f"create table data as from '{folder}/data.parquet'")


def rows_of(sql: str) -> list[tuple[Any, ...]]:
    return db.sql(sql).fetchall()


def value(row: dict[str, Any]) -> Any:
    found = [row[k] for k in ("int", "float", "text", "bytes") if row[k] is not None]
    assert len(found) <= 1, row
    return found[0] if found else None


def plain(v: Any) -> Any:
    if isinstance(v, int) and v >= 1 << 63:  # which is the int64 of the same bits
        return v - (1 << 64)
    return int(v) if isinstance(v, bool) else v


def same(got: Any, want: Any, what: str, tolerance: float = 0.0) -> None:
    close = isinstance(want, float) and got is not None and tolerance and math.isclose(got, want, rel_tol=tolerance)
    assert got == plain(want) or close, f"{what}: {got!r}, DuckDB has {want!r}"


class Column:
    """What DuckDB selects: all elements of a column, and its values without nulls and NaNs."""

    def __init__(self, stat: dict[str, Any]) -> None:
        of = stat["of"]
        self.stat, self.what = stat, stat["identity"]
        self.floats = stat["kind"].startswith("float")
        self.elements = f"(select {f'unnest({of})' if of in LISTS else of} v from data)"
        self.values = f"(select v from {self.elements} where v is not null)"
        if self.floats:  # + 0 makes 0 of -0
            self.values = f"(select v + 0 v from {self.elements} where v is not null and not isnan(v))"

    def moments(self, mine: list[dict[str, Any]]) -> None:
        got = {r["name"]: r for r in mine}
        nans = "isnan(v)" if self.floats else "false"
        for name, source, where in (
            ("values", self.values, "true"),
            ("nulls", self.elements, "v is null"),
            ("nans", self.elements, nans),
        ):
            same(got[name]["count"], rows_of(f"select count(*) from {source} where {where}")[0][0], self.what)
        if self.stat["of"] == "infinite":
            assert got["mean"]["float"] is None
            assert got["infinite"]["count"] > 0
        else:
            number = "v::int" if self.stat["kind"] == "bool" else "v"
            mean, std = rows_of(f"select avg({number}), stddev_pop({number}) from {self.values}")[0]
            same(value(got["mean"]), mean, self.what, 1e-12)
            same(value(got["std"]), std, self.what, 1e-9)
        least, most = rows_of(f"select min(v), max(v) from {self.values}")[0]
        same(value(got["min"]), least, self.what)
        same(value(got["max"]), most, self.what)

    def quantiles(self, mine: list[dict[str, Any]]) -> None:
        ranked = f"select v, count(*) over (order by v) c, count(*) over () n from {self.values}"
        for r in mine:
            if "/" in r["name"]:  # DuckDB has no fractions: the least value that enough are not greater than
                i, parts = r["name"].split("/")
                want = rows_of(f"select min(v) from ({ranked}) where c * {parts} >= n * {i}")
            else:
                want = rows_of(f"select quantile_disc(v, {r['name']}) from {self.values}")
            same(value(r), want[0][0], f"{self.what} {r['name']}")

    def counts(self, least: int, limit: int) -> list[tuple[Any, int]]:
        found = rows_of(
            f"select v, count(*) c from {self.values} group by v having c >= {least} order by c desc, v limit {limit}"
        )
        return [(plain(v), c) for v, c in found]

    def most_frequent(self, mine: list[dict[str, Any]]) -> None:
        want = self.counts(0, 1) or [(None, 0)]
        same((value(mine[0]), mine[0]["count"]), want[0], self.what)

    def vocabulary(self, mine: list[dict[str, Any]]) -> None:
        want = self.counts(self.stat.get("min_count", 0), self.stat.get("max_size", 1 << 40))
        same([r["id"] for r in mine], list(range(len(mine))), self.what)
        same([(value(r), r["count"]) for r in mine], want, self.what)


fitted = pq.read_table(f"{folder}/fitted.parquet")
rows = fitted.to_pylist()
statistics = json.loads(fitted.schema.metadata[b"penstock.fitted"])["statistics"]
for statistic in statistics:
    count = statistic["rows"]
    getattr(Column(statistic), statistic["statistic"])(rows[:count])
    rows = rows[count:]
assert not rows
print(len(statistics))
