"""Compares a fitted file with what DuckDB computes of the data: prints how many statistics it compared."""

import json
import math
import sys

import duckdb
import pyarrow.parquet as pq

folder = sys.argv[1]
db = duckdb.connect()
# A table: of a file DuckDB believes the bounds, which leave out NaNs, and finds none.
db.execute(f"create table data as from '{folder}/data.parquet'")
fitted = pq.read_table(f"{folder}/fitted.parquet")
meta = json.loads(fitted.schema.metadata[b"penstock.fitted"])
rows = fitted.to_pylist()
LISTS = ("ints", "floats", "texts")


def value(row):
    found = [row[k] for k in ("int", "float", "text", "bytes") if row[k] is not None]
    assert len(found) <= 1, row
    return found[0] if found else None


def plain(v):
    return int(v) if isinstance(v, bool) else v


def same(got, want, what, tolerance=0.0):
    close = isinstance(want, float) and got is not None and tolerance and math.isclose(got, want, rel_tol=tolerance)
    assert got == plain(want) or close, f"{what}: {got!r}, DuckDB has {want!r}"


compared = 0
for stat in meta["statistics"]:
    of, name = stat["of"], stat["statistic"]
    mine = rows[: stat["rows"]]
    rows = rows[stat["rows"] :]
    elements = f"(select unnest({of}) v from data)" if of in LISTS else f"(select {of} v from data)"
    isfloat = stat["kind"].startswith("float")
    real = f"(select {'v + 0' if isfloat else 'v'} v from {elements} where v is not null {'and not isnan(v)' if isfloat else ''})"
    one = lambda sql: db.sql(sql).fetchall()[0]
    if name == "moments":
        got = {r["name"]: r for r in mine}
        # null rows of lists are no elements; they count as no nulls here either
        same(got["values"]["count"], one(f"select count(*) from {real}")[0], stat["identity"])
        same(got["nulls"]["count"], one(f"select count(*) from {elements} where v is null")[0], stat["identity"])
        nans = one(f"select count(*) from {elements} where isnan(v)")[0] if isfloat else 0
        same(got["nans"]["count"], nans, stat["identity"])
        if of == "infinite":
            assert got["mean"]["float"] is None and got["infinite"]["count"] > 0
        else:
            cast = "v::int" if stat["kind"] == "bool" else "v"
            mean, std = one(f"select avg({cast}), stddev_pop({cast}) from {real}")
            same(value(got["mean"]), mean, stat["identity"], 1e-12)
            same(value(got["std"]), std, stat["identity"], 1e-9)
        least, most = one(f"select min(v), max(v) from {real}")
        same(value(got["min"]), least, stat["identity"])
        same(value(got["max"]), most, stat["identity"])
    elif name == "quantiles":
        shares = [r["name"] for r in mine if "/" not in r["name"]]
        for r in mine:
            if "/" in r["name"]:  # DuckDB has no fractions: the least value that enough are not greater than
                i, parts = r["name"].split("/")
                want = one(f"select min(v) from (select v, count(*) over (order by v) c, count(*) over () n from {real}) "
                           f"where c * {parts} >= n * {i}")[0]
            else:
                want = one(f"select quantile_disc(v, {r['name']}) from {real}")[0]
            same(value(r), want, stat["identity"] + " " + r["name"])
    elif name == "most_frequent":
        want = db.sql(f"select v, count(*) c from {real} group by v order by c desc, v limit 1").fetchall() or [(None, 0)]
        want = want[0]
        same(value(mine[0]), want[0], stat["identity"])
        same(mine[0]["count"], want[1], stat["identity"])
    else:
        limit = f"limit {stat['max_size']}" if "max_size" in stat else ""
        want = db.sql(f"select v, count(*) c from {real} group by v having c >= {stat.get('min_count', 0)} "
                      f"order by c desc, v {limit}").fetchall()
        got = [(value(r), r["count"]) for r in mine]
        assert [r["id"] for r in mine] == list(range(len(mine)))
        assert got == [(plain(v), c) for v, c in want], f"{stat['identity']}: {got[:9]}, DuckDB has {want[:9]}"
    compared += 1
assert not rows
print(compared)
