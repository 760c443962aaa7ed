"""penstock.fit of what Python functions make, by value and by name, here and by a fleet, beside counts by hand."""

from __future__ import annotations

import collections
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock import _binary
from tests.conftest import REPOSITORY

if TYPE_CHECKING:
    from tests.conftest import Fleet

ROWS = 400
TEXTS = [None if i % 9 == 4 else " ".join(f"w{i * k % 13}" for k in range(1, 1 + i % 5)) for i in range(ROWS)]

MODULE = """
import penstock

@penstock.op(out={"half": penstock.int64}, by="rows")
def halve(x, *, by=2):
    return None if x % 7 == 0 else x // by

@penstock.op(kind="filter", by="numpy")
def odd(x):
    return x % 2 == 1

@penstock.op(out={"x": penstock.int64}, by="numpy")
def moved(x):
    return x + 14
"""


@pytest.fixture(autouse=True)
def binary(penstock_binary: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(_binary.VARIABLE, str(penstock_binary))
    return penstock_binary


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    pq.write_table(pa.table({"x": range(ROWS), "text": TEXTS}), tmp_path / "rows.parquet", row_group_size=50)
    return tmp_path / "rows.parquet"


@penstock.op(out={"word": penstock.string, "length": penstock.float64}, kind="flat_map", by="rows", most=8)
def split(text: str | None) -> list[dict[str, Any]]:
    return [{"word": word, "length": None if word == "w0" else len(word)} for word in (text or "").split()]


@penstock.op(kind="filter", by="numpy")
def early(x: Any) -> Any:
    return x < ROWS - 100


BY_VALUE = [
    early("x"),
    split("text"),
    penstock.map_id("word", vocabulary="fit"),
    penstock.fill_null("length", penstock.Fit("mean")),
    penstock.scale_to_z_score("length", of="fit"),
]


def check_by_value(rows: Path, fitted: penstock.Fitted, **options: Any) -> None:
    """What is fitted and read, beside what the functions make by hand."""
    made = [m for text in TEXTS[: ROWS - 100] for m in split.function(text)]
    assert fitted.rows == len(made) and fitted.passes == 2
    counts = collections.Counter(m["word"] for m in made)
    ids = {word: 2 + i for i, word in enumerate(sorted(counts, key=lambda w: (-counts[w], w)))}
    lengths = [m["length"] for m in made if m["length"] is not None]
    filled = np.array([sum(lengths) / len(lengths) if m["length"] is None else m["length"] for m in made])
    with penstock.DataLoader(
        rows, features=penstock.sparse("word") + penstock.label("length"), transforms=BY_VALUE, fitted=fitted,
        batch_size=10_000, epochs=1, last_batch="uneven", format="numpy", **options,
    ) as loader:  # fmt: skip
        (batch,) = list(loader)
    assert batch.sparse["word"].values.tolist() == [ids[m["word"]] for m in made]
    np.testing.assert_allclose(batch.labels["length"], (filled - filled.mean()) / filled.std(), rtol=1e-12)


def test_functions_of_this_program(rows: Path, tmp_path: Path) -> None:
    fitted = penstock.fit(rows, transforms=BY_VALUE, out=tmp_path / "fitted.parquet")
    check_by_value(rows, fitted)
    other = penstock.op(
        lambda text: [], out={"word": penstock.string, "length": penstock.float64}, kind="flat_map", by="rows",
        name="split",
    )  # fmt: skip
    with (
        penstock.DataLoader(
            rows, features=penstock.sparse("word"), transforms=[BY_VALUE[0], other("text"), *BY_VALUE[2:]],
            fitted=fitted, batch_size=10,
        ) as loader,
        pytest.raises(penstock.errors.SpecError, match="has no vocabulary"),
    ):  # fmt: skip
        next(iter(loader))


def test_a_fleet_runs_functions_of_this_program(fleet: Fleet, rows: Path, tmp_path: Path) -> None:
    path = [str(REPOSITORY / "client/python"), *(f for f in sys.path if Path(f).is_dir())]
    flags = [f"--python=default={sys.executable}", *(f"--python-path=default={f}" for f in path)]
    fleet.start(workers=0, master_flags=["--code=by-value"])
    fleet.add_worker("--code=by-value", *flags)
    fitted = penstock.fit(rows, transforms=BY_VALUE, out=tmp_path / "fitted.parquet", master=fleet.master)
    check_by_value(rows, fitted, master=fleet.master)


def test_a_fleet_that_runs_none(fleet: Fleet, rows: Path, tmp_path: Path) -> None:
    fleet.start(workers=1)
    with pytest.raises(penstock.errors.Error, match="--code"):
        penstock.fit(rows, transforms=BY_VALUE, out=tmp_path / "fitted.parquet", master=fleet.master)
    assert list(tmp_path.glob("*fitted*")) == []


def test_functions_by_name(rows: Path, tmp_path: Path, binary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python package, by its own interpreter, and the command, by one that is named, come to the same."""
    (tmp_path / "code" / "mypkg_fit").mkdir(parents=True)
    (tmp_path / "code" / "mypkg_fit" / "features.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path / "code")
    halve = penstock.op("mypkg_fit.features:halve", out={"half": penstock.int64}, kwargs={"by": 3})
    odd = penstock.op("mypkg_fit.features:odd", kind="filter")
    moved = penstock.op("mypkg_fit.features:moved", out={"x": penstock.int64})
    transforms = [
        odd("x"), penstock.fill_null("x", 0), moved("x"), halve("x"),
        penstock.fill_null("half", penstock.Fit("median")),
    ]  # fmt: skip
    fitted = penstock.fit(rows, transforms=transforms, out=tmp_path / "fitted.parquet")
    halves = sorted((x + 14) // 3 for x in range(1, ROWS, 2) if x % 7)
    (found,) = fitted.statistics
    assert fitted.rows == ROWS // 2 and found.values["0.5"] == halves[(len(halves) + 1) // 2 - 1]

    spec = tmp_path / "spec.yaml"
    spec.write_text(
        f"dataset: {{uri: {rows}}}\nfeatures: [{{label: half}}]\nbatch_size: 10\nfitted: {tmp_path}/named.parquet\n"
        "transforms:\n- {op: python, call: 'mypkg_fit.features:odd', in: x, kind: filter}\n"
        "- {op: fill_null, in: x, value: 0}\n"
        "- {op: python, call: 'mypkg_fit.features:moved', in: x, out: {x: int64}}\n"
        "- {op: python, call: 'mypkg_fit.features:halve', in: x, out: {half: int64}, args: {by: 3}}\n"
        "- {op: fill_null, in: half, value: {fit: median}}\n"
    )
    flags = [f"--python-path=default={f}" for f in sys.path if Path(f).is_dir()]
    for command in ("fit", "read"):
        done = subprocess.run(
            [binary, command, spec, "--local", f"--python=default={sys.executable}", *flags, "--output=json"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert f'"rows":{ROWS // 2}' in done.stdout.replace(" ", "")
    again = penstock.fit(spec=spec)
    assert again.statistics == fitted.statistics
    done = subprocess.run([binary, "fit", spec, "--local"], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "--python default=python3" in done.stderr
