"""Functions by name: what is found, what is refused, how a module is told from another one, and what a spec says."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock
from penstock import _named, _offered, _source, _values
from penstock._op_call import Mistake
from penstock.errors import SpecError
from penstock.groups import Data

MODULE = """
import pyarrow.compute as pc
import penstock
from helpers_of_named import up

@penstock.op(out={"size": penstock.int32, "upper": penstock.string}, memory=1 << 28, timeout=2.5)
def describe(text, *, plus=0):
    return pc.add(pc.utf8_length(text), plus), up(text)

@penstock.op(kind="filter", by="rows")
def short(text):
    return len(text) < 3

half = penstock.op(lambda price: pc.divide(price, 2), out=penstock.float32, name="halved")
alias = penstock.op("mypkg_named.features:half", out=penstock.float32)

def not_marked(text): ...
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Has the package of functions, and is on this process's path."""
    made = tmp_path_factory.mktemp("modules")
    (made / "mypkg_named").mkdir()
    (made / "mypkg_named" / "__init__.py").write_text("")
    (made / "mypkg_named" / "features.py").write_text(MODULE)
    (made / "helpers_of_named.py").write_text("import pyarrow.compute\nup = pyarrow.compute.utf8_upper\n")
    sys.path.insert(0, str(made))
    importlib.invalidate_caches()
    yield made
    sys.path.remove(str(made))
    for name in [name for name in sys.modules if name.startswith(("mypkg_named", "helpers_of_named"))]:
        del sys.modules[name]


DESCRIBE = "mypkg_named.features:describe"


@pytest.mark.parametrize(
    ("call", "modules", "says"),
    [
        ("os:system", ["mypkg_named.*"], "os is not among the modules that functions by name may be of here: mypkg"),
        ("os:system", ["*"], "os:system is a builtin_function_or_method that penstock.op has not marked"),
        ("mypkg_named.features:describe", ["mypkg_named"], "nearest: mypkg_named; have workers list it"),
        ("mypkg_namedx:describe", ["mypkg_named.*"], "is not among the modules"),
        (
            "mypkg_named.feature:describe",
            ["*"],
            "there is no module mypkg_named.feature; nearest: mypkg_named.features",
        ),
        ("mypkg_named.features:describ", ["*"], "nearest: describe; mypkg_named.features has describe, half, short"),
        ("mypkg_named.features:not_marked", ["*"], "put @penstock.op(...) before it"),
        ("mypkg_named.features:alias", ["*"], "is a Named that penstock.op has not marked"),
        ("mypkg_named.features:__builtins__", ["*"], "is a dict that penstock.op has not marked"),
        ("mypkg_named.features:half.function", ["*"], "names no function"),
        ("mypkg_named/features:half", ["*"], "names no function"),
        ("__main__:half", ["*"], "the program itself is not on workers"),
    ],
)
def test_what_is_no_function_by_name(folder: Path, call: str, modules: list[str], says: str) -> None:
    with pytest.raises(_named.Absent) as refused:
        _named.find(call, modules)
    assert says in str(refused.value)


def test_modules_that_are_not_listed_are_not_imported(folder: Path) -> None:
    (folder / "hostile_named.py").write_text("raise SystemExit('it ran')")
    with pytest.raises(_named.Absent):
        _named.find("hostile_named:f", ["mypkg_named.*"])


def test_functions_are_found_where_they_are_listed(folder: Path) -> None:
    for modules in (["mypkg_named.features"], ["mypkg_named.*"], ["os", "*"]):
        assert _named.find(DESCRIBE, modules).name == "describe"
    assert _named.listed(["mypkg_named.features", "*"]) == [
        f"mypkg_named.features:{name}" for name in ("describe", "half", "short")
    ]


PROGRAM = """
import json, sys
from penstock._offered import Offered
print(json.dumps(Offered(sys.argv[1:], ["*"]).identity))
"""


def identity(folder: Path, *calls: str) -> dict[str, Any]:
    """Of functions in a new process, as workers have it."""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    done = subprocess.run([sys.executable, "-c", PROGRAM, *calls], env=environ, capture_output=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_an_identity_is_that_of_the_files(folder: Path, tmp_path: Path) -> None:
    first = identity(folder, DESCRIBE)
    assert [f["name"] for f in first["functions"]] == [DESCRIBE]
    assert {d.partition("==")[0] for d in first["distributions"]} == {"numpy", "pyarrow"}
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    (copy / "mypkg_named" / ".editor").write_text("of no account")
    assert identity(copy, DESCRIBE) == first
    for file in ("mypkg_named/words.txt", "helpers_of_named.py"):
        with (copy / file).open("a") as changed:
            changed.write("# ")
        changed_now = identity(copy, DESCRIBE)
        assert changed_now["digest"] != first["digest"], file
        assert changed_now["functions"] != first["functions"], file
        first = changed_now


@pytest.mark.parametrize("function", ["pyarrow.compute.utf8_upper", "math.sqrt", "functools.partial(print, 1)"])
def test_what_a_library_defines_is_known_by_its_version(tmp_path: Path, function: str) -> None:
    text = f"import functools, math, penstock, pyarrow.compute\nf = penstock.op({function}, out=penstock.string)\n"
    (tmp_path / "marks_others.py").write_text(text)
    found = identity(tmp_path, "marks_others:f")
    assert {d.partition("==")[0] for d in found["distributions"]} == {"numpy", "pyarrow"}
    (tmp_path / "marks_others.py").write_text(text + "# ")
    assert identity(tmp_path, "marks_others:f")["functions"] != found["functions"]


def test_what_is_offered(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offered = _offered.Offered([DESCRIBE, "mypkg_named.features:half", DESCRIBE], ["mypkg_named.*"])
    marks = offered.marks()
    assert marks[0] == {
        "function": {
            "name": "describe", "call": DESCRIBE, "style": "ARROW", "kind": "MAP", "memory": 1 << 28,
            "timeout_ms": 2500,
        },
        "results": [
            {"name": "size", "type": {"kind": "INT32"}}, {"name": "upper", "type": {"kind": "BINARY"}, "text": True},
        ],
    }  # fmt: skip
    assert marks[1]["function"]["name"] == "halved"
    assert marks[1]["results"] == [{"type": {"kind": "FLOAT32"}}]
    assert not offered.stale()
    digests = [f["digest"] for f in offered.identity["functions"]]
    assert digests[0] == digests[2] != digests[1]
    assert offered.difference(digests) == ""
    assert "mypkg_named.features differs here: the files of mypkg_named" in offered.difference(digests[::-1][1:] * 2)
    assert offered.entry(2, DESCRIBE, {"plus": {"int": "2"}})["kwargs"] == {"plus": 2}
    with pytest.raises(Mistake, match="unexpected keyword argument 'pluss'"):
        offered.entry(0, DESCRIBE, {"pluss": {"int": "2"}})
    with pytest.raises(Mistake, match="function 1 is mypkg_named"):
        offered.entry(1, DESCRIBE, {})
    monkeypatch.setattr(_offered, "MOST_BYTES", 10)
    with pytest.raises(Mistake, match="keep data outside"):
        offered.stale()


def test_values_come_back() -> None:
    values: tuple[Any, ...] = (True, 3, -(1 << 62), 0.5, float("inf"), "a", [1, 2], [0.5, 1.0], ["a", 1, True], [])
    for value in values:
        assert _values.from_message(json.loads(json.dumps(_values.value_of(value, "it")))) == value


def test_ops_by_name(folder: Path) -> None:
    op = penstock.op(
        DESCRIBE, out={"size": penstock.int32, "upper": penstock.string}, by="arrow", kwargs={"plus": 1}, threads=2
    )
    again = penstock.op(DESCRIBE, out={"size": penstock.int32, "upper": penstock.string}, kwargs={"plus": 1})
    plain = penstock.op(DESCRIBE, out={"size": penstock.int32, "upper": penstock.string}, name="plain")
    spec, _, code = _source.spec_of(
        None, "data", penstock.tensor("size"), 10, Data(),
        {"transforms": [op("text"), again("other"), plain("third")], "python": "torch"},
    )  # fmt: skip
    assert spec is not None
    assert code is None
    assert "code" not in spec
    assert spec["python"] == "torch"
    functions = [t["python"] for t in spec["transforms"]]
    assert [f["index"] for f in functions] == [0, 0, 1]
    assert functions[0] == {
        "name": "describe", "index": 0, "call": DESCRIBE, "kind": "MAP", "style": "ARROW", "threads": 2,
        "args": {"plus": {"int": 1}},
    }  # fmt: skip
    assert functions[2] == {"name": "plain", "index": 1, "call": DESCRIBE, "kind": "MAP"}
    assert penstock.check(op("text"), {"text": ["a", "bc"]}).to_pydict() == {"size": [2, 3], "upper": ["A", "BC"]}
    short = penstock.op("mypkg_named.features:short", kind="filter")
    assert penstock.check(short("text"), {"text": ["abc", "a"]}).to_pydict() == {"parents": [1]}
    assert penstock.op("mypkg_named.features:half", out=penstock.float32).function(pa.array([3.0])).to_pylist() == [1.5]


def test_ops_by_name_that_make_no_sense(folder: Path) -> None:
    op: Any = penstock.op  # without its types
    outs = {"size": penstock.int32, "upper": penstock.string}
    for says, make in {
        "names no function": lambda: op("a b:c", out=outs),
        "say what it makes": lambda: op(DESCRIBE),
        'gets its inputs behind it, as penstock.op("': lambda: op(DESCRIBE, "text", out=outs),
        "deterministic=; its mark says that": lambda: op(DESCRIBE, out=outs, deterministic=True),
        "lower=; its own arguments stand in kwargs=": lambda: op(DESCRIBE, out=outs, lower=True),
        "kwargs['plus']: found a dict": lambda: op(DESCRIBE, out=outs, kwargs={"plus": {}}),
        "found no input": lambda: [op(DESCRIBE, out=outs)()],
        'and its mark says kind="map"': lambda: penstock.check(op(DESCRIBE, kind="filter")("text"), {"text": ["a"]}),
        "and its mark says out=": lambda: penstock.check(
            op(DESCRIBE, out={"size": penstock.int64})("text"), {"text": ["a"]}
        ),
        "there is no module nowhere_named": lambda: penstock.check(
            op("nowhere_named:f", out=outs)("text"), {"text": ["a"]}
        ),
    }.items():
        with pytest.raises(SpecError) as refused:
            make()  # type: ignore[no-untyped-call]
        assert says in str(refused.value)


def test_functions_are_all_by_name_or_none() -> None:
    named = penstock.op(DESCRIBE, out=penstock.int32)
    own = penstock.op(lambda text: text, out=penstock.string, name="own")
    with pytest.raises(SpecError, match="describe is by name, and own is a function of this program"):
        penstock.DataLoader("data", features=penstock.tensor("text"), batch_size=1, transforms=[named("a"), own("b")])
