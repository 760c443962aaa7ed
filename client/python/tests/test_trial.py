"""Functions that cannot work are told before a session is opened, and others are not. What they print is shown."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock
from penstock import _binary, _trial
from penstock.errors import DataError

pytestmark = pytest.mark.fleet


@pytest.fixture(autouse=True)
def binary(penstock_binary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(_binary.VARIABLE, str(penstock_binary))


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """A thousand rows, of which one has a text that is no number."""
    texts = [None if row == 1 else "x" if row == 900 else str(row) for row in range(1000)]
    pq.write_table(pa.table({"id": pa.array(range(1000)), "text": texts}), tmp_path / "rows.parquet")
    return tmp_path / "rows.parquet"


@penstock.op(out={"text": penstock.string}, by="rows")
def dotted(text: str) -> str:
    return text + "."


@penstock.op(out={"n": penstock.int64}, by="rows")
def number(text: str) -> int:
    return int(text)


@penstock.op(out={"n": penstock.int64})
def as_text(text: pa.Array) -> pa.Array:
    return text


@penstock.op(out={"n": penstock.int64, "m": penstock.int64})
def too_few(text: pa.Array) -> Any:
    return (text,)


@penstock.op(out={"n": penstock.int64})
def imports(text: pa.Array) -> Any:
    import no_such_module  # type: ignore[import-not-found]

    return no_such_module.of(text)


@penstock.op(kind="filter", by="rows")
def none(text: str) -> bool:
    return False


class Reads:
    def __init__(self, path: str) -> None:
        self.words = Path(path).read_text()

    def __call__(self, text: pa.Array) -> pa.Array:
        return text


reads = penstock.op(Reads, out={"n": penstock.int64}, args=("/no/such/file",))


def load(rows: Path, *transforms: Any, **data: Any) -> penstock.DataLoader:
    return penstock.DataLoader(
        str(rows), transforms=[penstock.fill_null("text", "7"), *transforms],
        features=penstock.label("id") + penstock.tensor("n"), batch_size=100, data=penstock.Data(**data),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("transforms", "words"),
    [
        (
            [dotted("text"), number("text")],  # what the op before it made
            [r"rows\.parquet, the first rows: transforms\[2\] \(python number\): row 0 fails: ValueError: ", "'0.'"],
        ),
        ([as_text("text")], [r"\(python as_text\): n: found string, wanted int64"]),
        ([too_few("text")], [r"\(python too_few\): too_few returned a tuple of 1; return a tuple of 2 \(n, m,"]),
        (
            [none("text"), imports("text")],  # which gets no row
            [r"\(python imports\) fails whatever rows it gets: ModuleNotFoundError", "import no_such_module"],
        ),
        ([reads("text")], [r"\(python Reads\) cannot be made: FileNotFoundError", "in __init__"]),
    ],
)
def test_a_function_that_cannot_work_is_told_when_the_loop_begins(
    rows: Path, transforms: list[Any], words: list[str]
) -> None:
    with load(rows, *transforms) as loader, pytest.raises(DataError) as raised:
        iter(loader)
    for word in [*words, "No session was opened"]:
        raised.match(word)


def trial(loader: penstock.DataLoader, *, here: bool = True) -> None:
    """Tries a loader's functions."""
    opening = loader._opening
    assert opening.spec is not None and opening.code is not None
    with contextlib.closing(_trial.Trial(json.loads(opening.spec), opening.code, here=here)) as made:
        made.check()


def test_what_may_work_all_the_same_is_no_error(rows: Path) -> None:
    with pytest.warns(UserWarning, match="cannot be made: FileNotFoundError(.|\n)*the workers may have"):
        trial(load(rows, reads("text")), here=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trial(load(rows, none("text"), number("text")))  # it is never called
        trial(load(rows, number("text")))  # whose first rows are good
        trial(load(rows, dotted("text"), number("text"), on_error={"skip": 3}))
        trial(load(rows.with_name("no.parquet"), number("text")))  # the master says that there is none
    with pytest.raises(DataError):  # nothing is left out here
        trial(load(rows, dotted("text"), number("text")))


def test_what_went_well_is_not_tried_again(rows: Path, tmp_path: Path) -> None:
    file = tmp_path / "calls"

    def noted(text: pa.Array) -> pa.Array:
        with file.open("a") as out:
            out.write(f"{len(text)} ")
        return pa.array([1] * len(text))

    op = penstock.op(noted, out={"n": penstock.int64})
    for _ in range(2):
        trial(load(rows, op("text")))
    assert file.read_text() == "16 "


@penstock.op(out={"n": penstock.int64})
def talks(text: pa.Array) -> pa.Array:
    print("so many:", len(text))
    return pa.array([1] * len(text))


def test_what_functions_print_is_shown(rows: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with load(rows, talks("text"), try_functions=False) as loader:
        next(iter(loader))
    assert capsys.readouterr().out == "talks: so many: 1000\n"  # all of it has come once the fleet has ended


MODULE = """
import penstock

@penstock.op(out={"n": penstock.int64}, by="rows")
def length(text, *, more=0):
    return len(text) + more

@penstock.op(out={"n": penstock.int64}, by="rows")
def number(text):
    return int(text + ".")
"""
SPEC = """
dataset: {{uri: rows.parquet}}
features: [{{tensor: n}}]
transforms:
  - {{op: fill_null, in: text, value: "7"}}
  - {{op: python, call: "tried.features:{call}", in: text, out: {{n: int64}}}}
batch_size: 100
"""


def test_functions_by_name(rows: Path, monkeypatch: pytest.MonkeyPatch, penstock_binary: Path) -> None:
    """A loader tries them where its fleet is here, and `penstock validate` with an interpreter."""
    (rows.parent / "tried").mkdir()
    (rows.parent / "tried" / "features.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(rows.parent))
    number = penstock.op("tried.features:number", out={"n": penstock.int64})
    with load(rows, number("text")) as loader, pytest.raises(DataError, match=r"\(python number\): row 0 fails"):
        iter(loader)

    def validate(call: str) -> str:
        (rows.parent / "spec.yaml").write_text(SPEC.format(call=call))
        flags = [f"--python=default={sys.executable}", *(f"--python-path=default={p}" for p in sys.path if p)]
        command = [str(penstock_binary), "validate", "spec.yaml", *flags]
        done: subprocess.CompletedProcess[str] = subprocess.run(
            command, cwd=rows.parent, capture_output=True, text=True, check=False
        )
        assert done.returncode == (1 if done.stderr else 0)
        return done.stdout + done.stderr

    assert "hint: the Python functions were called with the first rows, and did not fail" in validate("length")
    assert "(python number): row 0 fails: ValueError" in validate("number")
    assert "tried.features has no function long; nearest: length" in validate("long")
