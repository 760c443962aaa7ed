"""Functions by name on a fleet that takes no others: of one version, and of another one once that is accepted."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock.errors import Error, RestoreRefused, SpecError
from tests.conftest import Fleet

ROWS, GROUP = 240, 8

MODULE = """
import penstock

@penstock.op(out={{"made": penstock.int64}}, by="rows")
def scaled(x, *, plus=0):
    return x * {factor} + plus

@penstock.op(kind="filter", by="numpy")
def even(x):
    return x % 2 == 0
"""


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    pq.write_table(pa.table({"id": range(ROWS)}), tmp_path / "rows.parquet", row_group_size=GROUP)
    return tmp_path / "rows.parquet"


def flags(folder: Path, factor: int) -> list[str]:
    """Those of a worker that has the module in this version."""
    home = folder / str(factor)
    (home / "mypkg_fleet").mkdir(parents=True, exist_ok=True)
    (home / "mypkg_fleet" / "features.py").write_text(MODULE.format(factor=factor))
    path = [str(home), *(f for f in sys.path if Path(f).is_dir())]
    return [
        "--code=by-name", f"--python=default={sys.executable}", "--python-modules=default=mypkg_fleet.features",
        *(f"--python-path=default={f}" for f in path),
    ]  # fmt: skip


SCALED = penstock.op("mypkg_fleet.features:scaled", out={"made": penstock.int64}, kwargs={"plus": 1})
EVEN = penstock.op("mypkg_fleet.features:even", kind="filter")


def load(rows: Path, fleet: Fleet, *transforms: penstock.Transform, **options: Any) -> penstock.DataLoader:
    return penstock.DataLoader(
        rows, features=penstock.label("id") + penstock.tensor("made"), transforms=list(transforms), batch_size=6,
        epochs=1, last_batch="uneven", master=fleet.master, **options,
    )  # fmt: skip


def read(batches: Any) -> dict[int, int]:
    found: dict[int, int] = {}
    for batch in batches:
        ids = batch.label[: batch.valid].tolist()
        assert not found.keys() & set(ids)
        found |= zip(ids, batch.tensors["made"][: batch.valid].tolist(), strict=True)
    return found


def test_functions_by_name_of_a_fleet(fleet: Fleet, rows: Path, tmp_path: Path) -> None:
    fleet.start(workers=0, master_flags=["--code=by-name"])
    for factor in (10, 20, 10):
        fleet.add_worker(*flags(tmp_path, factor))
    calls = [EVEN("id"), SCALED("id")]
    with load(rows, fleet, *calls) as loader:
        batches = iter(loader)
        taken = read([next(batches)])
        state, pinned = loader.state_dict(), loader.pinned_spec()
        assert taken | read(batches) == {row: row * 10 + 1 for row in range(0, ROWS, 2)}

    own = penstock.op(lambda x: x, out={"made": penstock.int64}, name="own")
    missing = penstock.op("mypkg_fleet.features:scale", out={"made": penstock.int64})
    hostile = penstock.op("os:system", out={"made": penstock.int64})
    for op, says in {own: "by-value", missing: "nearest: scaled", hostile: "os is not among the modules"}.items():
        with load(rows, fleet, op("id")) as loader, pytest.raises(Error, match=says):
            next(iter(loader))

    for name in list(fleet.workers):
        fleet.workers.pop(name).stop()
    fleet.add_worker(*flags(tmp_path, 30))
    with load(rows, fleet, *calls) as loader:
        loader.load_state_dict(state)
        with pytest.raises(RestoreRefused, match="scaled differs"):
            next(iter(loader))
    says = "mypkg_fleet.features:even is sha256:.* pinned to sha256:"
    with penstock.DataLoader(spec=pinned, master=fleet.master) as loader, pytest.raises(SpecError, match=says):
        next(iter(loader))
    with load(rows, fleet, *calls, data=penstock.Data(accept_code_change=True)) as loader:
        loader.load_state_dict(state)
        rest = read(loader)
    assert rest == {row: row * 30 + 1 for row in range(0, ROWS, 2) if row not in taken}


def test_a_worker_does_not_start_without_its_modules(fleet: Fleet, tmp_path: Path) -> None:
    fleet.start(workers=0, master_flags=["--code=by-name"])
    with pytest.raises(RuntimeError, match="there is no module no_such_module_here"):
        fleet.add_worker(*flags(tmp_path, 10), "--python-modules=default=no_such_module_here")
