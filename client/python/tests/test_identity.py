"""The identity of functions: equal in all runs, and another one once they would do something else."""

from __future__ import annotations

import concurrent.futures
import importlib
import itertools
import json
import linecache
import os
import subprocess
import sys
import threading
import types
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock import _identity
from penstock.errors import SpecError

PROGRAM = Path(__file__).parent / "identity_program.py"
RUNS = 20

numbers = itertools.count()


def run(program: Path, seed: str) -> Any:
    environ = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    return json.loads(subprocess.run([sys.executable, program], env=environ, check=True, capture_output=True).stdout)


@pytest.mark.slow
def test_an_identity_is_the_same_in_every_run_and_wherever_the_file_lies(tmp_path: Path) -> None:
    elsewhere = tmp_path / "another_name.py"
    elsewhere.write_text(
        "# lines that\n# move others\n\n" + PROGRAM.read_text().replace('"""A class."""', '"""Of one."""')
    )
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        runs = [pool.submit(run, PROGRAM, str(seed) if seed else "random") for seed in range(RUNS)]
        moved = pool.submit(run, elsewhere, "random").result()
        first, *others = [each.result() for each in runs]
    assert len({each["digest"] for each in first["functions"]}) == len(first["functions"])
    assert first["python"] == f"{sys.version_info.major}.{sys.version_info.minor}"
    assert first["distributions"] == [f"numpy=={np.__version__}", f"pyarrow=={pa.__version__}"]
    assert others == [first] * (RUNS - 1)
    assert moved == first


def module(text: str, **given: Any) -> types.ModuleType:
    """A module of the user's."""
    name = f"mine_{next(numbers)}"
    made = types.ModuleType(name)
    vars(made).update(given)
    file = f"/somewhere/{name}.py"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    exec(compile(text, file, "exec"), vars(made))
    sys.modules[name] = made
    return made


def digest(
    text: str, name: str = "f", *, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None, **given: Any
) -> str:
    call = getattr(module(text, **given), name)
    return str(_identity.of([("f", {"call": call, "args": args, "kwargs": kwargs or {}})])["digest"])


BASE = """
import math
LIMIT = 10
WORDS = ["a", "b"]
def helper(x, by=2):
    return x * by + LIMIT
class Base:
    factor = 3
    def scale(self, x):
        return x * self.factor
class Rule(Base):
    def __init__(self, words=()):
        self.words = words
    def __call__(self, x):
        return self.scale(helper(x)), "text", self.words
def outer(k):
    def inner(x):
        return x + k
    return inner
added = outer(5)
class Holder:
    value = 1
holder = Holder()
def f(x, *, times=4):
    def nested(y):
        return y + 1
    return nested(helper(x)) + times + len(WORDS) + Rule(WORDS)(x) + added(x) + math.sqrt(x) + holder.value
"""

SAME = {
    "comments": ("def f(x", "# a comment\n\n\ndef f(x"),
    "a docstring": ("def f(x, *, times=4):\n", 'def f(x, *, times=4):\n    """Says it."""\n'),
    "a docstring in what it calls": ("def helper(x, by=2):\n", 'def helper(x, by=2):\n    "Says it."\n'),
    "a docstring of a class": ("class Rule(Base):\n", 'class Rule(Base):\n    """Says it."""\n'),
    "annotations": ("def helper(x, by=2)", "def helper(x: int, by: int = 2) -> int"),
    "what it does not refer to": ("LIMIT = 10", "LIMIT = 10\nOTHER = 12"),
}
OTHER = {
    "a constant": ("return y + 1", "return y + 2"),
    "a constant's type": ("return y + 1", "return y + 1.0"),
    "code": ("times + len", "times - len"),
    "a default": ("times=4", "times=5"),
    "a default of what it calls": ("by=2", "by=3"),
    "a global of what it calls": ("LIMIT = 10", "LIMIT = 11"),
    "the order of a list": ('["a", "b"]', '["b", "a"]'),
    "a base class's attribute": ("factor = 3", "factor = 4"),
    "a base class's method": ("x * self.factor", "x / self.factor"),
    "a method's text": ('"text"', '"texts"'),
    "a closure": ("outer(5)", "outer(6)"),
    "a function of a library": ("math.sqrt(x)", "math.exp(x)"),
    "an attribute of an object": ("holder = Holder()", "holder = Holder(); holder.value = 2"),
    "a class attribute": ("value = 1", "value = 7"),
    "its name": ("def f(x", "def g(x"),
}


@pytest.mark.pure
@pytest.mark.parametrize("change", SAME)
def test_what_changes_nothing_keeps_the_identity(change: str) -> None:
    old, new = SAME[change]
    assert BASE.count(old) == 1
    assert digest(BASE.replace(old, new)) == digest(BASE)


@pytest.mark.pure
@pytest.mark.parametrize("change", OTHER)
def test_what_changes_something_changes_the_identity(change: str) -> None:
    old, new = OTHER[change]
    assert BASE.count(old) == 1
    assert digest(BASE.replace(old, new), "g" if change == "its name" else "f") != digest(BASE)


@pytest.mark.pure
def test_of_a_notebook_counts_the_code_whatever_runs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """As under `python -m pytest`, whose file is the main module's."""
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["pytest"])
    of = [digest(f"def f(x): return x + {n}\nf.__module__ = '__main__'") for n in (1, 2)]
    assert of[0] != of[1]


@pytest.mark.pure
def test_arguments_are_of_the_identity() -> None:
    text = "class C:\n    def __init__(self, *a, **k): pass\n    def __call__(self, x): return x\n"
    given: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((), {}), ((1,), {}), ((1.0,), {}), ((True,), {}), (("1",), {}), ((b"1",), {}), (([1],), {}), (((1,),), {}),
        ((), {"a": 1}), ((), {"b": 1}), ((1, 2), {}), ((None,), {}), (({1: 2},), {}), (({2: 1},), {}),
        ((np.zeros(2),), {}), ((np.zeros((2, 1)),), {}), ((np.zeros(2, "f4"),), {}), ((np.ones(2),), {}),
        ((pa.array([1]),), {}), ((pa.array([2]),), {}), ((pa.array([1], "int8"),), {}), ((1j,), {}), ((-0.0,), {}),
        ((0.0,), {}), ((float("nan"),), {}), ((np.float32(0),), {}),
    ]  # fmt: skip
    digests = [digest(text, "C", args=args, kwargs=kwargs) for args, kwargs in given]
    assert len(set(digests)) == len(given)
    again = [digest(text, "C", args=args, kwargs=kwargs) for args, kwargs in given]
    assert again == digests


@pytest.mark.pure
def test_equal_arrays_are_equal_however_they_lie_in_memory() -> None:
    text = "def f(x): return DATA"
    whole = pa.array([1, None, 3, 4])
    for forms in (
        [whole, pa.concat_arrays([pa.array([0]), whole])[1:], pa.array([1, None, 3, 4])],
        [pa.chunked_array([whole]), pa.chunked_array([whole[:1], whole[1:]])],
        [np.arange(4), np.arange(8)[::2] // 2, np.arange(4).copy()],
    ):
        assert len({digest(text, DATA=form) for form in forms}) == 1


@pytest.mark.pure
def test_of_a_module_of_the_users_counts_what_is_referred_to() -> None:
    def using(helper: str) -> str:
        mine = module(helper)
        vars(mine)["__name__"] = "helpers"
        return digest("def f(x): return helpers.used(x)", helpers=mine)

    base = "def used(x): return x + other()\ndef other(): return 1\ndef unused(): return 2\n"
    assert using(base) == using(base.replace("return 2", "return 3"))
    assert using(base) != using(base.replace("return 1", "return 3"))


@pytest.mark.pure
@pytest.mark.parametrize(
    "line", ["from .inner import one", "from . import inner", "from mine_of import inner", "import mine_of.inner"]
)
def test_modules_of_the_users_count_that_a_function_imports(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = {"from .inner import one": "one()", "import mine_of.inner": "mine_of.inner.one()"}.get(line, "inner.one()")
    found: list[Any] = []
    for value in (1, 2, 1):
        folder = tmp_path / str(len(found)) / "mine_of"
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text("")
        (folder / "inner.py").write_text(f"def one(): return {value}\n")
        (folder / "outer.py").write_text(f"def f(x):\n    {line}\n    return x + {one}\n")
        with monkeypatch.context() as patch:
            patch.syspath_prepend(folder.parent)
            call = importlib.import_module("mine_of.outer").f
            found.append(_identity.of([("f", {"call": call})])["digest"])
        for name in [name for name in sys.modules if name.partition(".")[0] == "mine_of"]:
            del sys.modules[name]
    assert found[0] != found[1]
    assert found[0] == found[2]


def test_packages_count_by_their_versions_and_not_in_the_digests_of_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    call = module(
        "import numpy as np\ndef f(x):\n    import pyarrow.compute as pc\n    return np.add(pc.add(x, 1), 2)\n"
    ).f
    before = _identity.of([("f", {"call": call})])
    assert before["distributions"] == [f"numpy=={np.__version__}", f"pyarrow=={pa.__version__}"]
    monkeypatch.setattr("importlib.metadata.version", {"numpy": "9.9+cu1", "pyarrow": pa.__version__}.__getitem__)
    _identity.distribution.cache_clear()
    after = _identity.of([("f", {"call": call})])
    _identity.distribution.cache_clear()
    assert after["distributions"] == ["numpy==9.9", f"pyarrow=={pa.__version__}"]
    assert after["functions"] == before["functions"]
    assert after["digest"] != before["digest"]


@pytest.mark.pure
def test_the_identity_of_all_depends_on_their_order() -> None:
    made = module("def f(x): return 1\ndef g(x): return 2\n")
    both: list[tuple[str, Any]] = [("f", {"call": made.f}), ("g", {"call": made.g})]
    assert _identity.of(both)["digest"] != _identity.of(both[::-1])["digest"]
    assert _identity.of(both)["functions"] == _identity.of(both[::-1])["functions"][::-1]


@pytest.mark.pure
@pytest.mark.parametrize(
    ("text", "given", "says"),
    [
        ("def f(x): return g(x)\ndef g(x): return LOCK", {"LOCK": threading.Lock()},
         r"f: f > the global g > g > the global LOCK is a _thread.lock, and .* cannot be told; make it in"),
        ("def f(x, pool=POOL): return x", {"POOL": pa.default_memory_pool()}, "f: f is a pyarrow.lib.*MemoryPool"),
        ("f = lambda x: OUT", {"OUT": sys.__stdout__}, r"<lambda> > the global OUT is a _io.TextIOWrapper"),
        ("class f:\n  lock = LOCK\n  def __call__(self, x): pass", {"LOCK": threading.Lock()}, "f > .lock is a _t"),
        ("f = (lambda k: lambda x: k)(GEN)", {"GEN": (i for i in [1])}, "k of its closure is a generator"),
    ],
)  # fmt: skip
def test_what_has_no_identity_is_named_with_the_way_to_it(text: str, given: dict[str, Any], says: str) -> None:
    with pytest.raises(SpecError, match=says):
        digest(text, **given)


@pytest.mark.pure
def test_objects_of_packages_count_by_what_they_are_made_of() -> None:
    """Such as torch.no_grad(), which a method is decorated with."""
    text = "def f(x): return RNG.integers(x)"
    of = [digest(text, RNG=np.random.default_rng(seed)) for seed in (1, 2, 1)]
    assert of[0] == of[2] != of[1]


@pytest.mark.pure
def test_arguments_without_an_identity_are_named() -> None:
    with pytest.raises(SpecError, match=r"f: its args= is a _thread.lock.*in the __init__ of a class"):
        digest("class C: pass", "C", args=(threading.Lock(),))


@pytest.mark.pure
def test_what_is_nested_too_deeply_is_an_error() -> None:
    deep: list[Any] = []
    for _ in range(10_000):
        deep = [deep]
    with pytest.raises(SpecError, match="nested too deeply"):
        digest("def f(x): return DEEP", DEEP=deep)
