"""Functions with rng=True on this machine's worker: what a row draws depends on the row, the epoch and the op alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock import DataLoader

pytestmark = [pytest.mark.fleet, pytest.mark.usefixtures("fleet_of_this_machine")]

FILES, PER_FILE, GROUP = 2, 21, 8  # rows of a file and of a row group
ROWS = FILES * PER_FILE


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rows")
    for file in range(FILES):
        table = pa.table({"id": pa.array(range(file * PER_FILE, (file + 1) * PER_FILE), pa.int64())})
        pq.write_table(table, folder / f"{file}.parquet", row_group_size=GROUP)
    return folder


@penstock.op(out={"a": penstock.float64}, by="rows", rng=True)
def by_rows(id: int, rng: np.random.Generator) -> float:  # noqa: A002
    return float(rng.random())


@penstock.op(out={"b": penstock.int64}, by="numpy", rng=True)
def by_arrays(id: Any, seeds: Any) -> Any:  # noqa: A002
    return (seeds >> np.uint64(1)).astype(np.int64)


@penstock.op(kind="flat_map", by="rows", rng=True, out={"part": penstock.int32})
def repeat(id: int, rng: np.random.Generator) -> list[int]:  # noqa: A002
    return list(range(rng.integers(4)))


@penstock.op(out={"c": penstock.float64}, by="rows", rng=True)
def behind(part: int, rng: np.random.Generator) -> float:
    return float(rng.random())


Row = tuple[int, int]  # its id, and the part


def load(rows: Path, *transforms: penstock.Transform, names: tuple[str, ...], **more: Any) -> DataLoader:
    given: dict[str, Any] = {"batch_size": 5, "epochs": 2, "last_batch": "uneven", "seed": 7, **more}
    return DataLoader(
        rows, features=penstock.label("id") + penstock.tensor(*names), transforms=list(transforms), format="numpy",
        data=penstock.Data(provenance=True), **given,
    )  # fmt: skip


def read(batches: Any, names: tuple[str, ...]) -> dict[Row, list[Any]]:
    found: dict[Row, list[Any]] = {}
    for batch in batches:
        parts = batch.parts if "part" in names else np.zeros(batch.valid, int)
        for i in range(batch.valid):
            row = int(batch.label[i]), int(parts[i])
            assert row not in found
            found[row] = [batch.tensors[name][i].item() for name in names]
    return found


MAPS, MAPPED = (by_rows("id"), by_arrays("id")), ("a", "b")
MANY, MADE = (repeat("id"), behind("part")), ("part", "c")


@pytest.mark.parametrize(("ops", "names"), [(MAPS, MAPPED), (MANY, MADE)], ids=["map", "flat_map"])
def test_rows_draw_the_same_however_they_are_read(rows: Path, ops: Any, names: tuple[str, ...]) -> None:
    with load(rows, *ops, names=names) as loader:
        epochs = [read(loader, names), read(loader, names)]
    if ops is MAPS:
        assert set(epochs[0]) == {(row, 0) for row in range(ROWS)}
    else:
        assert set(epochs[0]) != set(epochs[1])  # of some rows others become
    first, second = epochs
    both = set(first) & set(second)
    assert not [row for row in both if first[row][-1] == second[row][-1]]
    assert len({values[-1] for values in first.values()}) == len(first)
    for more in ({"shuffle": True, "batch_size": 1}, {"order": "deterministic"}, {"filter": "id % 3 == 1"}):
        with load(rows, *ops, names=names, **more) as loader:
            for wanted in epochs:
                chosen = {row: made for row, made in wanted.items() if "filter" not in more or row[0] % 3 == 1}
                assert read(loader, names) == chosen
    with load(rows, *ops, names=names, seed=8) as loader:
        other = read(loader, names)
    assert not [row for row in set(first) & set(other) if first[row][-1] == other[row][-1]]


@pytest.mark.parametrize(("ops", "names"), [(MAPS, MAPPED), (MANY, MADE)], ids=["map", "flat_map"])
def test_what_is_drawn_is_equal_after_resuming(rows: Path, ops: Any, names: tuple[str, ...]) -> None:
    options: dict[str, Any] = {"names": names, "shuffle": True, "order": "deterministic", "epochs": 1, "batch_size": 3}
    states, taken = [], []
    with load(rows, *ops, **options) as loader:
        states.append(loader.state_dict())
        for batch in loader:
            taken.append(read([batch], names))
            states.append(loader.state_dict())
    for at in range(0, len(taken), 4):
        with load(rows, *ops, **options) as loader:
            loader.load_state_dict(states[at])
            rest = read(loader, names)
        assert rest == {row: made for batch in taken[at:] for row, made in batch.items()}


def test_ops_draw_apart_from_each_other(rows: Path) -> None:
    twice = penstock.op(by_arrays.function, out=penstock.int64, by="numpy", rng=True, name="seeds")
    with load(rows, twice("id", out="x"), twice("id", out="y"), names=("x", "y")) as loader:
        found = read(loader, ("x", "y"))
    assert not [row for row, (x, y) in found.items() if x == y]
