"""penstock.fit: what transforms ask of the data, beside the same counted by hand."""

from __future__ import annotations

import collections
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock

ROWS = 5000
GENRES = pa.list_(pa.binary())


def some_genres(r: np.random.Generator) -> list[bytes | None]:
    """A few texts, or none, of which some are null, some no UTF-8 and some long."""
    known = [b"Drama", b"", "ü\x00".encode(), b"\xff\xfe", b"Film-Noir" * 40, *(b"g%d" % i for i in range(60))]
    return [None if r.random() < 0.1 else known[r.zipf(1.3) % len(known)] for _ in range(r.integers(0, 5))]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[Any]]]:
    """A file with nulls, NaN, lists, bytes that are no text and ties; and its rows of training, column by column."""
    r = np.random.default_rng(0)

    def some(make: Any) -> list[Any]:
        return [None if r.random() < 0.1 else make() for _ in range(ROWS)]

    columns = {
        "day": pa.array(r.integers(0, 10, ROWS)),
        "word": pa.array(some(lambda: f"w{r.zipf(1.5) % 300}" if r.random() < 0.95 else "ü\x00")),
        "raw": pa.array(some(lambda: bytes([r.integers(0, 256), r.integers(200, 220)])), pa.binary()),
        "ids": pa.array(some(lambda: [int(x) for x in r.zipf(1.4, r.integers(0, 4)) % 500]), pa.list_(pa.int64())),
        "uid": pa.array(some(lambda: int(r.integers(2**63 - 900, 2**63 + 900, dtype=np.uint64))), pa.uint64()),
        "genres": pa.array(some(lambda: some_genres(r)), GENRES),
        "price": pa.array(some(lambda: math.nan if r.random() < 0.05 else r.normal()), pa.float64()),
        "count": pa.array(some(lambda: int(r.exponential(1000))), pa.int32()),
        "flag": pa.array(some(lambda: bool(r.random() < 0.7)), pa.bool_()),
    }
    path = tmp_path_factory.mktemp("fit") / "rows.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=700)
    rows = {name: column.to_pylist() for name, column in columns.items()}
    train = [i for i in range(ROWS) if rows["day"][i] < 8]
    return path, {name: [values[i] for i in train] for name, values in rows.items()}


def vocabulary(values: Iterable[Any], min_count: int = 1, max_size: int | None = None) -> dict[Any, int]:
    counts = collections.Counter(v for v in values if v is not None)
    kept = [v for v in counts if counts[v] >= min_count]
    kept.sort(key=lambda v: (-counts[v], v.encode() if isinstance(v, str) else v))
    return {v: i for i, v in enumerate(kept[:max_size])}


def test_a_fit_trains_what_is_counted_by_hand(table: tuple[Path, dict[str, list[Any]]], tmp_path: Path) -> None:
    path, train = table
    genres = penstock.map_id("genres", vocabulary="fit", min_count=3, max_size=40, buckets=2)
    transforms = [
        penstock.map_id(["word", "raw"], vocabulary="fit", min_count=2, buckets=3),
        penstock.map_id("ids", vocabulary="fit", max_size=20),
        penstock.map_id("uid", vocabulary="fit"),
        penstock.fill_null("genres", penstock.Fit("most_frequent"), out="filled"),
        penstock.map_id("filled", vocabulary="fit"),
        genres,
        penstock.map_id("day", vocabulary="fit", min_count=100_000),  # which no value has
        penstock.fill_null("count", penstock.Fit("median")),
        penstock.fill_null("flag", penstock.Fit("most_frequent")),
        penstock.expr("price * 2 + 1", out="twice"),
        penstock.fill_null("twice", penstock.Fit("mean")),
        penstock.bucketize("count", penstock.Fit("quantiles", 4), out="part"),
        penstock.cast("count", "float64"),
        penstock.scale_to_z_score("count", of="fit"),
    ]
    fitted = penstock.fit(path, transforms=transforms, filter="day < 8", out=tmp_path / "fitted.parquet")
    assert fitted.rows == len(train["day"]) and fitted.passes == 2
    again = penstock.fit(path, transforms=transforms, filter="day < 8", out=tmp_path / "again.parquet", memory=300_000)
    assert again.digest == fitted.digest

    features = penstock.sparse(["word", "raw", "ids", "uid", "genres", "filled"]) + penstock.label(
        ["part", "twice", "count", "flag", "day"]
    )
    with penstock.DataLoader(
        path, features=features, transforms=transforms, filter="day < 8", fitted=fitted, batch_size=100_000, epochs=1,
        last_batch="uneven", format="numpy",
    ) as loader:  # fmt: skip
        (batch,) = list(loader)

    flat = {name: [v for row in train[name] for v in row or []] for name in ("ids", "genres")}
    most = next(iter(vocabulary(flat["genres"])))
    columns = train | flat | {"filled": [most if v is None else v for v in flat["genres"]]}
    for name, known, buckets in (
        ("word", vocabulary(train["word"], 2), 3), ("raw", vocabulary(train["raw"], 2), 3),
        ("ids", vocabulary(flat["ids"], 1, 20), 1), ("genres", vocabulary(flat["genres"], 3, 40), 2),
        ("uid", vocabulary(train["uid"]), 1), ("filled", vocabulary(columns["filled"]), 1),
    ):  # fmt: skip
        got = batch.sparse[name].values
        values = columns[name]
        assert len(got) == len(values)
        for id_, value in zip(got, values, strict=True):
            if value is None:
                assert id_ == 0
            elif value in known:
                assert id_ == 1 + buckets + known[value]
            else:
                assert 1 <= id_ <= buckets
    with penstock.Transforms(
        transforms=genres, features=penstock.sparse("genres"), fitted=fitted, format="numpy"
    ) as serve:
        served = serve(pa.table({"genres": pa.array(train["genres"], GENRES)})).sparse["genres"]
    np.testing.assert_array_equal(served.values, batch.sparse["genres"].values)
    np.testing.assert_array_equal(served.offsets, batch.sparse["genres"].offsets)

    counts = sorted(c for c in train["count"] if c is not None)
    median = counts[(len(counts) + 1) // 2 - 1]
    filled = np.array([median if c is None else c for c in train["count"]], np.float64)
    np.testing.assert_allclose(batch.labels["count"], (filled - filled.mean()) / filled.std(), rtol=1e-12)
    borders = [sorted(filled)[math.ceil(len(filled) * q / 4) - 1] for q in (1, 2, 3)]
    np.testing.assert_array_equal(batch.labels["part"], np.searchsorted(borders, filled))
    twice = [p * 2 + 1 for p in train["price"] if p is not None and not math.isnan(p)]
    want = [math.fsum(twice) / len(twice) if p is None else p * 2 + 1 for p in train["price"]]
    np.testing.assert_allclose(batch.labels["twice"], want, rtol=1e-12)
    np.testing.assert_array_equal(batch.labels["day"], 1)
    np.testing.assert_array_equal(batch.labels["flag"], [True if f is None else f for f in train["flag"]])


def test_infinities_are_figures(tmp_path: Path) -> None:
    path, word = tmp_path / "data.parquet", "+Inf"
    pq.write_table(pa.table({"x": [-math.inf, 1.0, -math.inf], "word": [word] * 3}), path)
    transforms = penstock.fill_null(["x", "word"], penstock.Fit("most_frequent"))
    fitted = penstock.fit(
        path, transforms=[transforms, penstock.clamp("x", min=penstock.Fit("min"))], out=tmp_path / "fitted.parquet"
    )
    values = [s.values for s in fitted.statistics if s.statistic == "most_frequent"]
    assert values == [{"most_frequent": -math.inf}, {"most_frequent": word}]
    (of_x,) = [s.values for s in fitted.statistics if s.statistic == "moments"]
    assert (of_x["min"], of_x["max"], of_x["mean"], of_x["infinite"]) == (-math.inf, 1.0, None, 2)
    assert isinstance(of_x["max"], float) and isinstance(of_x["infinite"], int)


def test_a_loader_refuses_what_was_not_fitted(table: tuple[Path, dict[str, list[Any]]], tmp_path: Path) -> None:
    path, _ = table
    out = tmp_path / "fitted.parquet"
    fitted = penstock.fit(path, transforms=[penstock.scale_to_z_score("count", of="fit")], out=out)

    def read(borders: int, fitted: Any) -> None:
        with penstock.DataLoader(
            path, features=penstock.dense("count"), batch_size=100, fitted=fitted,
            transforms=[penstock.bucketize("count", penstock.Fit("quantiles", borders))],
        ) as loader:  # fmt: skip
            next(iter(loader))

    with pytest.raises(penstock.errors.SpecError, match=r"no quantiles\(count, 7\), but moments\(.count.\)"):
        read(7, fitted)
    with pytest.raises(penstock.errors.SpecError, match="is not fitted; compute it with `penstock fit`"):
        read(7, "")
    penstock.fit(path, transforms=[penstock.bucketize("count", penstock.Fit("quantiles", 7))], out=out)
    read(7, out)
    with pytest.raises(penstock.errors.SpecError, match="it was written again"):
        read(7, fitted)


def test_mistakes(table: tuple[Path, dict[str, list[Any]]], tmp_path: Path) -> None:
    path, _ = table
    out = tmp_path / "fitted.parquet"
    with pytest.raises(penstock.errors.UsageError, match="out="):
        penstock.fit(path, transforms=[])
    with pytest.raises(penstock.errors.SpecError, match="transforms: the spec asks nothing of the data"):
        penstock.fit(path, transforms=[penstock.log1p("price")], out=out)
    text = f"dataset: {{uri: {path}}}\nfeatures: {{dense: price}}\nbatch_size: 10\n"
    (tmp_path / "spec.yaml").write_text(text)
    with pytest.raises(penstock.errors.SpecError, match="transforms: the spec asks nothing of the data"):
        penstock.fit(spec=tmp_path / "spec.yaml", out=out)
    with pytest.raises(penstock.errors.SpecError, match=r"^the spec names no file to write"):
        penstock.fit(spec=text)
    with pytest.raises(penstock.errors.SpecError, match="nearest: mean"):
        penstock.fit(path, transforms=[penstock.fill_null("count", penstock.Fit("meen"))], out=out)
    with pytest.raises(penstock.errors.DataError, match="begins with _"):
        penstock.fit(
            path.parent, transforms=[penstock.scale_to_z_score("count", of="fit")], out=path.parent / "a.parquet"
        )
    with pytest.raises(penstock.errors.DataError, match="begins with _"):
        penstock.fit(
            path.parent / "*.parquet", transforms=[penstock.scale_to_z_score("count", of="fit")],
            out=path.parent / "a.parquet",
        )  # fmt: skip
    with pytest.raises(penstock.errors.SpecError) as refused:
        penstock.fit(path, transforms=[penstock.map_id("nothing", vocabulary="fit")], out=out)
    assert str(refused.value).startswith("transforms[0].in: no feature nothing")


def test_a_checkpoint_outlives_its_file(table: tuple[Path, dict[str, list[Any]]], tmp_path: Path) -> None:
    """What is written again with the same bits, and so the same digest, is the same to a state."""
    path, _ = table
    transforms = [penstock.map_id("word", vocabulary="fit")]

    def read(state: dict[str, Any] | None) -> dict[str, Any]:
        penstock.fit(path, transforms=transforms, out=tmp_path / "fitted.parquet")
        with penstock.DataLoader(
            path, features=penstock.sparse("word"), batch_size=100, transforms=transforms,
            fitted=tmp_path / "fitted.parquet",
        ) as loader:  # fmt: skip
            if state:
                loader.load_state_dict(state)
            next(iter(loader))
            return loader.state_dict()

    read(read(None))


def test_a_damaged_vocabulary_is_refused(table: tuple[Path, dict[str, list[Any]]], tmp_path: Path) -> None:
    """By the workers, which read it: its footer, which the master reads, is as it was."""
    path, _ = table
    out = tmp_path / "fitted.parquet"
    transforms = penstock.map_id("word", vocabulary="fit")
    fitted = penstock.fit(path, transforms=[transforms], out=out)
    data = bytearray(out.read_bytes())
    data[data.index(b"w1") + 1] ^= 1
    out.write_bytes(data)
    with (
        penstock.DataLoader(
            path, features=penstock.sparse("word"), batch_size=100, fitted=fitted, transforms=transforms
        ) as loader,
        pytest.raises(
            penstock.errors.Error, match=r'were written of vocabulary\("word"\); write the file again'
        ) as refused,
    ):
        next(iter(loader))
    assert str(out) in str(refused.value)
    with (
        penstock.Transforms(features=penstock.sparse("word"), transforms=transforms, fitted=fitted) as serve,
        pytest.raises(penstock.errors.Error, match="were written of vocabulary"),
    ):
        serve(pa.table({"word": ["w1"]}))
