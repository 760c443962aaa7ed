"""Files whose columns have no type, since whoever wrote them saw only nulls, beside files that have one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock import errors
from penstock.loader import DataLoader
from tests.conftest import Fleet

FEATURES = (
    penstock.dense("x", default=7)
    + penstock.dense("user.age")
    + penstock.sparse("ids", "scores.5")
    + penstock.bytes_("word")
    + penstock.label("label")
)


@pytest.fixture(params=["typed first", "untyped first"])
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Rows 0 to 3 have values, 4 to 7 nulls without a type, and 8 to 11 nothing but a label."""
    typed = {
        "label": [0, 1, 2, 3],
        "x": pa.array([0, 1, None, 3], pa.int32()),
        "user": [{"age": 30}, None, {"age": None}, {"age": 33}],
        "ids": [[1], [2, 3], [], None],
        "scores": pa.array([[(5, 50)], [], None, [(6, 60)]], pa.map_(pa.int64(), pa.int64())),
        "word": ["a", None, "cc", ""],
    }
    untyped = {
        "label": [4, 5, 6, 7],
        "x": pa.nulls(4),
        "user": pa.nulls(4),
        "ids": pa.array([[], None, [None], []], pa.list_(pa.null())),
        "scores": pa.nulls(4),
        "word": pa.nulls(4),
    }
    files = [typed, untyped, {"label": [8, 9, 10, 11]}]
    if request.param == "untyped first":
        files = [untyped, typed, files[2]]
    folder = tmp_path / "data"
    folder.mkdir()
    for i, columns in enumerate(files):
        pq.write_table(pa.table(columns), folder / f"{i}.parquet", row_group_size=2)
    return folder


def read(fleet: Fleet, folder: Path, where: str = "") -> dict[int, tuple[object, ...]]:
    out: dict[int, tuple[object, ...]] = {}
    with DataLoader(
        str(folder), features=FEATURES, batch_size=3, format="numpy", filter=where, master=fleet.master
    ) as loader:
        for b in loader:
            ids, scores = b.sparse["ids"], b.sparse["scores.5"]
            words = list(b.bytes["word"])
            for i, label in enumerate(np.asarray(b.label).tolist()):
                ragged = [np.asarray(r.values)[r.offsets[i] : r.offsets[i + 1]].tolist() for r in (ids, scores)]
                out[label] = (*np.asarray(b.dense)[i].tolist(), *ragged, words[i])
    return out


def test_they_go_together(shared_fleet: Fleet, folder: Path) -> None:
    rows = read(shared_fleet, folder)
    nan = float("nan")
    want = {
        0: (0.0, 30.0, [1], [50], b"a"),
        1: (1.0, nan, [2, 3], [], b""),
        2: (nan, nan, [], [], b"cc"),
        3: (3.0, 33.0, [], [], b""),
        **{i: (nan, nan, [], [], b"") for i in range(4, 8)},
        **{i: (7.0, nan, [], [], b"") for i in range(8, 12)},
    }
    assert {i: repr(row) for i, row in sorted(rows.items())} == {i: repr(row) for i, row in want.items()}


@pytest.mark.parametrize(
    ("where", "labels"),
    [
        ("x is null", {2, 4, 5, 6, 7}),
        ("x == 7", set(range(8, 12))),
        ("x < 7", {0, 1, 3}),
        ("word is not null", {0, 2, 3}),
    ],
)
def test_filters_see_nulls(shared_fleet: Fleet, folder: Path, where: str, labels: set[int]) -> None:
    assert read(shared_fleet, folder, where).keys() == labels


def test_alone_they_have_no_type(shared_fleet: Fleet, tmp_path: Path) -> None:
    pq.write_table(pa.table({"label": [1], "x": pa.nulls(1)}), tmp_path / "0.parquet")
    loader = DataLoader(str(tmp_path), features=penstock.dense("x"), batch_size=1, master=shared_fleet.master)
    with loader, pytest.raises(errors.SpecError, match="x cannot be a feature: it is without a type"):
        next(iter(loader))
