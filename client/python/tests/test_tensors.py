"""Tensors of fixed shape and padded features of every dtype, from Parquet files through a fleet to arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock.features import DTYPES
from penstock.loader import DataLoader

if TYPE_CHECKING:
    from tests.conftest import Fleet

ROWS = 13  # of two files
LENGTH = 3  # of padded features
BATCH = 5
OF_COLUMNS = [dtype for dtype in DTYPES if dtype != "bfloat16"]


def bits(dtype: str) -> np.dtype[Any]:
    """What values of a dtype are in NumPy without ml_dtypes."""
    return np.dtype("uint16" if dtype == "bfloat16" else dtype)


def values(dtype: str, row: int) -> np.ndarray[Any, Any]:
    """Six values of a row: the least and the greatest, and others."""
    of = bits(dtype)
    if dtype == "bool":
        return np.array([i % (2 + row % 3) == 0 for i in range(6)], of)
    limits: Any = np.iinfo(of) if of.kind in "iu" else np.finfo(of)
    return np.array([row, limits.max, row + 1, limits.min, row % 5, row % 7], of)


def some(row: int) -> int:
    """How many values the row has in columns that become padded ones."""
    return (row * 4) % 6


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files of which the columns DTYPE, DTYPE_list, DTYPE_fixed, DTYPE_nested, DTYPE_some and DTYPE_raw say it."""
    folder = tmp_path_factory.mktemp("shapes")
    for file, rows in enumerate((range(8), range(8, ROWS))):
        columns = {"row": pa.array(rows, pa.int64())}
        for dtype in DTYPES:
            all_rows = [values(dtype, row) for row in rows]
            columns[f"{dtype}_raw"] = pa.array([v.tobytes() for v in all_rows], pa.binary())
            if dtype in OF_COLUMNS:
                kind = pa.from_numpy_dtype(bits(dtype))
                lists = [list(v) for v in all_rows]
                columns[dtype] = pa.array([v[0] for v in lists], kind)
                columns[f"{dtype}_list"] = pa.array(lists, pa.list_(kind))
                columns[f"{dtype}_fixed"] = pa.array(lists, pa.list_(kind, 6))
                columns[f"{dtype}_nested"] = pa.array([[v[:3], v[3:]] for v in lists], pa.list_(pa.list_(kind)))
                given = [v[: some(row)] for v, row in zip(lists, rows, strict=True)]
                columns[f"{dtype}_some"] = pa.array(given, pa.list_(kind))
        pq.write_table(pa.table(columns), folder / f"{file}.parquet", row_group_size=3)
    return folder


def features() -> penstock.Features:
    of = penstock.label("row") + penstock.tensor(*OF_COLUMNS)
    for dtype in DTYPES:
        of += penstock.tensor(f"{dtype}_raw", shape=(2, 3), dtype=dtype)
    for dtype in OF_COLUMNS:
        of += penstock.tensor(f"{dtype}_list", f"{dtype}_nested", shape=(2, 3)) + penstock.tensor(f"{dtype}_fixed")
        of += penstock.padded(f"{dtype}_some", length=LENGTH, value=dtype == "bool" or 7, side="right")
    return of


def check(batches: Iterable[penstock.Batch]) -> Iterator[int]:
    """Compares all arrays of batches with what was written; yields the rows that they have."""
    for batch in batches:
        rows = batch.label[: batch.valid].tolist()
        for dtype in DTYPES:
            want = np.stack([values(dtype, row) for row in rows]) if rows else np.empty((0, 6), bits(dtype))
            kinds = ("raw", "list", "nested") if dtype in OF_COLUMNS else ("raw",)
            for kind in kinds:
                check_array(batch, f"{dtype}_{kind}", want.reshape(-1, 2, 3))
            if dtype in OF_COLUMNS:
                check_array(batch, dtype, want[:, 0])
                check_array(batch, f"{dtype}_fixed", want)
                check_padded(batch, dtype, rows, want)
        yield from rows


def check_array(batch: penstock.Batch, name: str, want: np.ndarray[Any, Any]) -> None:
    got = batch.tensors[name]
    assert got.shape == (len(batch), *want.shape[1:])
    got = got.view(np.uint16) if name.startswith("bfloat16") else got
    assert got.dtype == want.dtype, name
    np.testing.assert_array_equal(got[: batch.valid], want, err_msg=name)
    assert not got[batch.valid :].any(), "padding is zeros"


def check_padded(batch: penstock.Batch, dtype: str, rows: list[int], all_values: np.ndarray[Any, Any]) -> None:
    got = batch.padded[f"{dtype}_some"]
    want = np.full((len(batch), LENGTH), True if dtype == "bool" else 7, bits(dtype))
    lengths = np.zeros(len(batch), np.int32)
    for i, row in enumerate(rows):
        last = all_values[i][: some(row)][-LENGTH:]
        want[i, : len(last)], lengths[i] = last, len(last)
    assert (got.values.dtype, got.lengths.dtype) == (want.dtype, np.int32)
    np.testing.assert_array_equal(got.values, want)
    np.testing.assert_array_equal(got.lengths, lengths)
    np.testing.assert_array_equal(got.mask, np.arange(LENGTH) < lengths[:, None])


def test_every_dtype_and_padding_of_batches(shared_fleet: Fleet, shapes: Path) -> None:
    with DataLoader(
        shapes, features=features(), batch_size=BATCH, last_batch="pad", epochs=1, format="numpy",
        master=shared_fleet.master,
    ) as loader:  # fmt: skip
        batches = list(loader)
    assert [len(batch) for batch in batches] == [BATCH] * 3
    assert sorted(check(batches)) == list(range(ROWS))


def test_every_row_is_resumed_at(shared_fleet: Fleet, shapes: Path) -> None:
    options: dict[str, Any] = {
        "features": features(), "batch_size": 1, "epochs": 1, "format": "numpy", "master": shared_fleet.master,
    }  # fmt: skip
    with DataLoader(shapes, **options) as loader:
        whole = [(batch, loader.state_dict()) for batch in loader]
    read = list(check(batch for batch, _ in whole))
    assert sorted(read) == list(range(ROWS))
    for done, (_, state) in enumerate(whole, 1):
        with DataLoader(shapes, **options) as resumed:
            resumed.load_state_dict(state)
            assert sorted([*read[:done], *check(resumed)]) == list(range(ROWS))


def test_nulls(shared_fleet: Fleet, tmp_path: Path) -> None:
    table = pa.table({
        "e": pa.array([[1.5, None], None, [2, 3]], pa.list_(pa.float32())),
        "ids": pa.array([[1, None, 2, 3], None, []], pa.list_(pa.int16())),
    })  # fmt: skip
    pq.write_table(table, tmp_path / "nulls.parquet")
    options: dict[str, Any] = {"batch_size": 3, "epochs": 1, "format": "numpy", "master": shared_fleet.master}
    kept = penstock.tensor("e", shape=2, default=-1) + penstock.padded("ids", length=3, value=9)
    with DataLoader(tmp_path, features=kept, **options) as loader:
        (batch,) = loader
    assert batch.tensors["e"].tolist() == [[1.5, -1], [-1, -1], [2, 3]]
    assert batch.padded["ids"].values.tolist() == [[9, 2, 3], [9, 9, 9], [9, 9, 9]]
    assert batch.padded["ids"].lengths.tolist() == [3, 0, 0]
    renamed = penstock.cast("ids", to="int64", out="same")
    omitted = penstock.padded("ids", length=3, nulls="omit") + penstock.sparse("same", nulls="keep", value=-1)
    with DataLoader(tmp_path, features=omitted, transforms=renamed, **options) as loader:
        (batch,) = loader
    assert batch.padded["ids"].values.tolist() == [[1, 2, 3], [0, 0, 0], [0, 0, 0]]
    assert batch.sparse["same"].values.tolist() == [1, -1, 2, 3]
    refused = penstock.tensor("e", shape=2)
    with (
        DataLoader(tmp_path, features=refused, **options) as loader,
        pytest.raises(penstock.errors.DataError, match=r"nulls\.parquet.* row 0"),
    ):
        list(loader)


@pytest.mark.fleet
@pytest.mark.parametrize("kind", ["numpy", "arrow"])
def test_lists_of_byte_strings(shared_fleet: Fleet, tmp_path: Path, kind: str) -> None:
    """They cross row groups and batches, have nulls in every place, and one file lacks a column of them."""
    rows = 500
    tags = [None if i % 7 == 0 else [None if j == 3 else f"é{i}" * j for j in range(i % 6)] for i in range(rows)]
    raw = [[bytes([i % 256]) * j] * (j % 3) for i in range(rows) for j in (i % 11,)]
    columns = {
        "row": pa.array(range(rows)),
        "tags": pa.array(tags, pa.list_(pa.string())),
        "raw": pa.array(raw, pa.list_(pa.binary())),
        "scores": pa.array([[(f"k{j}", j / 2) for j in range(i % 3)] for i in range(rows)], pa.map_(pa.string(), "f4")),
    }
    table = pa.table(columns)
    pq.write_table(table.slice(0, 200), tmp_path / "0.parquet", row_group_size=33, data_page_size=256)
    pq.write_table(table.slice(200).drop_columns("raw"), tmp_path / "1.parquet", use_dictionary=False)
    loader = DataLoader(
        tmp_path, batch_size=64, format=kind, last_batch="pad", shuffle=True, master=shared_fleet.master,
        features=penstock.label("row") + penstock.bytes_("tags", "scores.key")
        + penstock.bytes_("raw", default=["none", ""]),
    )  # fmt: skip
    seen = {}
    with loader:
        for batch in loader:
            assert [len(batch.bytes[name]) for name in ("tags", "raw")] == [len(batch)] * 2
            assert list(batch.bytes["tags"])[batch.valid :] == [[]] * (64 - batch.valid)
            strings = batch.bytes["tags"]
            data, ends, first = (np.asarray(a) for a in (strings.data, strings.offsets, strings.row_offsets))
            for i, row in enumerate(np.asarray(batch.label)[: batch.valid].tolist()):
                cut = [bytes(data[ends[j] : ends[j + 1]]) for j in range(first[i], first[i + 1])]
                assert strings[i] == cut
                seen[row] = (cut, batch.bytes["raw"][i], batch.bytes["scores.key"][i])
    assert seen == {
        i: (
            [(tag or "").encode() for tag in tags[i] or []],
            raw[i] if i < 200 else [b"none", b""],
            [b"k%d" % j for j in range(i % 3)],
        )
        for i in range(rows)
    }
