"""Side tables on the worker of this machine: joins beside DuckDB's, and what is said where there can be none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import penstock
from penstock import DataLoader, _binary
from penstock._onbox import LocalFleet
from penstock.errors import Error, SpecError

pytestmark = pytest.mark.fleet

ROWS, ITEMS = 4_000, 3_000


@pytest.fixture(autouse=True)
def binary(penstock_binary: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(_binary.VARIABLE, str(penstock_binary))
    return penstock_binary


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ratings, and items of which most ids have several rows: in no order, with nulls, and as new as each other."""
    import duckdb  # which the other Pythons lack

    folder, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(7)

    def some(values: Any, share: float) -> pa.Array:
        return pa.array(values, mask=rng.random(len(values)) < share)

    ratings = pa.table({
        "row": np.arange(ROWS), "item": some(rng.integers(-5, 900, ROWS).astype("int32"), 0.05),
        "shop": some(rng.choice(["a", "b", "é", ""], ROWS), 0.1),
        "at": pa.array(rng.integers(0, 500, ROWS) * 1000, mask=rng.random(ROWS) < 0.05).cast(pa.timestamp("ms")),
        "history": pa.array([rng.integers(0, 950, n).tolist() for n in rng.integers(0, 5, ROWS)], pa.list_(pa.int64())),
    })  # fmt: skip
    (folder / "ratings").mkdir()
    pq.write_table(ratings, folder / "ratings" / "0.parquet", row_group_size=1500)
    items = pa.table({
        "place": np.arange(ITEMS), "item": some(rng.integers(0, 900, ITEMS), 0.02),
        "shop": some(rng.choice(["a", "b", "é", ""], ITEMS), 0.02),
        "since": pa.array(rng.integers(0, 500, ITEMS) * 1_000_000, mask=rng.random(ITEMS) < 0.02).cast(
            pa.timestamp("us")
        ),
        "price": some(rng.random(ITEMS).astype("float32"), 0.1),
    })  # fmt: skip
    pq.write_table(items, folder / "items.parquet", row_group_size=700)
    duckdb.sql(f"""copy (select distinct on (item) item as id, place, price from '{folder}/items.parquet'
        where item is not null order by item, place) to '{folder}/firsts.parquet'""")
    return folder


@pytest.fixture(scope="module")
def warm() -> Iterator[None]:
    fleet = LocalFleet()
    yield
    fleet.close()


def load(data: Path, *transforms: penstock.Transform, features: penstock.Features) -> DataLoader:
    return DataLoader(
        data / "ratings", features=penstock.label("row") + features, transforms=list(transforms), format="numpy",
        batch_size=512, epochs=1, last_batch="uneven",
    )  # fmt: skip


def read(loader: DataLoader) -> dict[int, dict[str, Any]]:
    rows: dict[int, dict[str, Any]] = {}
    for batch in loader:
        for row in batch.to_arrow().to_pylist():
            assert row["row"] not in rows
            rows[row["row"]] = row
    return rows


def test_joins_are_duckdbs(data: Path, warm: None) -> None:
    """Missing, repeated and null keys; rows at the very time, and after it, which would leak; one key and two."""
    import duckdb  # which the other Pythons lack

    items = str(data / "items.parquet")
    columns = ["place", "price"]
    loader = load(
        data,
        penstock.lookup("item", items, columns, default=-7, duplicates="first", out="first_{}"),
        penstock.lookup(["item", "at"], items, columns, as_of="since", out="then_{}", default=-7),
        penstock.lookup(["item", "shop", "at"], items, columns, as_of="since", max_age="90s", out="pair_{}"),
        penstock.lookup("history", str(data / "firsts.parquet"), "place", key="id", default=-1, out="places"),
        *[penstock.fill_null(f"{kind}_place", value=-9) for kind in ("first", "then", "pair")],
        *[penstock.fill_null(f"{kind}_price", value=-9) for kind in ("first", "then", "pair")],
        features=penstock.label("first_place", "then_place", "pair_place", "first_price", "then_price", "pair_price")
        + penstock.sparse("places"),
    )
    rows = read(loader)
    sql = duckdb.connect()
    sql.sql(f"create view items as from '{items}'")
    sql.sql(f"create view ratings as from '{data}/ratings/0.parquet'")
    check_first(sql, rows, data)
    check_newest(sql, rows)
    check_history(sql, rows, data)


def same(found: float, place: float | None, missing: float) -> bool:
    return bool(np.float32(found) == np.float32(missing if place is None else place))


def check_first(sql: Any, rows: dict[int, dict[str, Any]], data: Path) -> None:
    joined = sql.sql(f"""select r.row, r.item, f.place, f.price from ratings r
        left join '{data}/firsts.parquet' f on f.id = r.item""").fetchall()
    assert len(joined) == len(rows) == ROWS
    for row, item, place, price in joined:
        missing = -9 if item is None else -7
        assert same(rows[row]["first_place"], place, missing), (row, item)
        assert same(rows[row]["first_price"], price, -9 if place is not None else missing), (row, item)


def check_newest(sql: Any, rows: dict[int, dict[str, Any]]) -> None:
    for kind, more, otherwise in (
        ("then", "", -7),
        ("pair", "and i.shop = r.shop and i.since >= r.at - interval 90 seconds", -9),
    ):
        joined = sql.sql(f"""select r.row, r.item is null or r.at is null, max(struct_pack(since, place, price))
            from ratings r left join items i on i.item = r.item and i.since <= r.at {more} and i.since is not null
            group by all""").fetchall()
        assert len(joined) == ROWS
        found = 0
        for row, never, newest in joined:
            place = price = None
            if newest is not None and newest["since"] is not None:
                place, price, found = newest["place"], newest["price"], found + 1
            missing = -9 if never else otherwise
            assert same(rows[row][f"{kind}_place"], place, missing), (kind, row)
            assert same(rows[row][f"{kind}_price"], price, -9 if place is not None else missing), (kind, row)
        assert found > ROWS / 20


def check_history(sql: Any, rows: dict[int, dict[str, Any]], data: Path) -> None:
    places = dict(sql.sql(f"select id, place from '{data}/firsts.parquet'").fetchall())
    for row, history in sql.sql("select row, history from ratings").fetchall():
        assert rows[row]["places"] == [places.get(item, -1) for item in history]


def test_a_leak_in_time_would_show(data: Path, warm: None, tmp_path: Path) -> None:
    """Each rating has a row of its own item's that tells its outcome a microsecond later: none is ever seen."""
    ratings = pq.read_table(data / "ratings")
    micros = ratings["at"].cast(pa.timestamp("us")).cast(pa.int64())
    at = micros.to_numpy(zero_copy_only=False)
    leak = pa.table({
        "item": ratings["item"], "since": pc.add(micros, 1).cast(pa.timestamp("us")), "outcome": ratings["row"],
    })  # fmt: skip
    pq.write_table(leak, tmp_path / "leak.parquet")
    loader = load(
        data,
        penstock.lookup(["item", "at"], str(tmp_path / "leak.parquet"), "outcome", as_of="since", default=-1),
        penstock.fill_null("outcome", value=-1),
        features=penstock.label("outcome"),
    )
    rows, seen = read(loader), 0
    for row, found in rows.items():
        outcome = found["outcome"]
        assert outcome == -1 or at[outcome] < at[row]
        seen += outcome >= 0
    assert seen > ROWS / 2


def test_refusals(data: Path, warm: None, tmp_path: Path) -> None:
    items = str(data / "items.parquet")
    for words, transform in (
        ("no column prize; nearest: price", penstock.lookup("item", items, "prize")),
        ("transforms[0].table", penstock.lookup("item", str(tmp_path / "nothing.parquet"), "price")),
        ("want both to be ints, or both to be text", penstock.lookup("shop", items, "price", key="item")),
        ("default: want a value", penstock.lookup("item", items, "price", default="much")),
        ("max_age", penstock.lookup(["item", "at"], items, "price", as_of="since", max_age="soon")),
        ("found it without as_of", penstock.lookup("item", items, "price", max_age=3)),
        ("missing: row is plain ints", penstock.lookup(["item", "row"], items, "price", as_of="since")),
    ):
        with pytest.raises(SpecError if "nothing" not in str(transform) else Error) as refused:
            read(load(data, transform, features=penstock.label("price")))
        assert words in str(refused.value)
    with pytest.raises(Error, match=r"the key item .* is in row .* and again in row"):
        read(load(data, penstock.lookup("item", items, "place", default=0), features=penstock.label("place")))


def test_what_was_trained_is_served(warm: None, tmp_path: Path) -> None:
    """By the pinned spec, until the table is written again."""
    rows, items = tmp_path / "rows.parquet", tmp_path / "items.parquet"
    pq.write_table(pa.table({"item": np.arange(100)}), rows)
    pq.write_table(pa.table({"id": np.arange(50), "price": np.arange(50, dtype="float32")}), items)
    options: dict[str, Any] = {"features": penstock.dense("price"), "batch_size": 100, "format": "numpy"}
    price = penstock.lookup("item", items, "price", key="id", default=-1)
    with DataLoader(rows, transforms=price, **options) as loader:
        trained, pinned = next(iter(loader)).dense, loader.pinned_spec()
    with penstock.Transforms(pinned, format="numpy") as serve:
        assert serve(pq.read_table(rows)).dense.tobytes() == trained.tobytes()

    own = penstock.op(lambda price: price, out=penstock.float32, name="own")
    with DataLoader(rows, transforms=[price, own("price")], **options) as loader:
        next(iter(loader))
        pins = loader.pinned_spec()
    mine: dict[str, Any] = {"features": options["features"], "transforms": [price, own("price")], "pinned": pins}
    with penstock.Transforms(**mine, format="numpy") as serve:
        assert serve(pq.read_table(rows)).dense.tobytes() == trained.tobytes()

    pq.write_table(pa.table({"id": np.arange(51), "price": np.arange(51, dtype="float32")}), items)
    says = r"transforms\[0\].table: .*items.parquet is a file of .* pinned to one of"
    with pytest.raises(SpecError, match=says):
        penstock.Transforms(pinned, schema=rows)
    with pytest.raises(SpecError, match=says):
        penstock.Transforms(**mine, schema=rows)
    with DataLoader(spec=pinned) as loader, pytest.raises(SpecError, match=says):
        next(iter(loader))
