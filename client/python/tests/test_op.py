"""Python functions as ops: how they are made, what a spec says of them, and what travels to workers."""

from __future__ import annotations

import concurrent.futures
import functools
import importlib
import itertools
import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock
from penstock import _bundle, _op_call, _source, spec
from penstock._op import Op, functions_of
from penstock.errors import NotRepeatable, SpecError, UsageError

pytestmark = pytest.mark.pure


@penstock.op(out={"tokens": penstock.int32.list()})
def tokenize(text: pa.Array) -> pa.Array:
    return pc.list_value_length(text)


@penstock.op(out=penstock.float32, by="rows", kwargs={"by": 2.0})
def scale(price: float, by: float) -> float:
    return price * by


class Score:
    def __init__(self, path: str, *, bias: float = 0.0) -> None:
        self.path, self.bias = path, bias

    def __call__(self, title: Any, price: Any) -> Any:
        return price + self.bias


score = penstock.op(Score, out={"score": penstock.float32}, by="numpy", args=("model.bin",), kwargs={"bias": 1.0})


def test_a_decorated_function_is_an_op_that_makes_transforms() -> None:
    assert isinstance(tokenize, Op)
    assert (tokenize.name, tokenize.by, tokenize.deterministic) == ("tokenize", "arrow", False)
    made = tokenize("text")
    assert (made.op, made.inputs, made.outs) == ("python", ("text",), (("tokens", penstock.int32.list()),))
    assert scale.function(3.0, by=2.0) == 6.0
    assert score("title", "price").inputs == score(["title", "price"]).inputs == ("title", "price")


def test_one_result_replaces_its_input_or_is_named() -> None:
    assert scale("price").outs == (("price", penstock.float32),)
    assert scale("price", out="twice").outs == (("twice", penstock.float32),)


def test_the_first_text_is_the_name_of_an_op_as_ever() -> None:
    made = penstock.op("hash_pair", ["a", "b"], out="c", salt=7, none=None)
    assert (made.op, made.inputs, made.out, made.params) == ("hash_pair", ("a", "b"), "c", {"salt": {"int": 7}})
    assert made.message() == {"op": "hash_pair", "in": ["a", "b"], "out": "c", "params": {"salt": {"int": 7}}}


def test_what_a_spec_says_of_functions() -> None:
    slow = penstock.op(
        out={"a": "string", "b": pa.list_(pa.float32(), 6)}, by="numpy", deterministic=True, memory=1 << 30, threads=4,
        timeout=2.5, name="slow",
    )(lambda x: (x, x))  # fmt: skip
    transforms = [penstock.log1p("price"), tokenize("text"), slow("x"), tokenize("title"), penstock.log1p("x")]
    assert functions_of(transforms) == [tokenize, slow]
    made = spec.build("/d", penstock.dense("x"), data=penstock.Data(), batch_size=8, transforms=transforms)
    assert [t["op"] for t in made["transforms"]] == ["log1p", "python", "python", "python", "log1p"]
    assert made["transforms"][1] == {
        "op": "python", "in": ["text"], "python": {"name": "tokenize", "index": 0, "style": "ARROW", "kind": "MAP"},
        "outs": [{"name": "tokens", "type": {"kind": "INT32", "list": True}}],
    }  # fmt: skip
    assert made["transforms"][2] == {
        "op": "python", "in": ["x"],
        "python": {
            "name": "slow", "index": 1, "style": "NUMPY", "kind": "MAP", "memory": 1 << 30, "threads": 4,
            "deterministic": True, "timeout_ms": 2500,
        },
        "outs": [
            {"name": "a", "type": {"kind": "BINARY"}, "text": True},
            {"name": "b", "type": {"kind": "FLOAT32", "list": True}, "shape": [6]},
        ],
    }  # fmt: skip
    assert [f["name"] for f in made["code"]["functions"]] == ["tokenize", "slow"]
    assert "code" not in spec.build("/d", penstock.dense("x"), data=penstock.Data(), batch_size=8)


async def later(x: Any) -> Any:
    return x


class NoCall:
    pass


op: Any = penstock.op  # whose types do not let mistakes through


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (op, "give the name of an op, or a function with out="),
        (lambda: op(7, out="int8"), "op: found a int; give the name of an op, or a function or a class"),
        (lambda: op(len), "len: say what it makes, as @penstock.op"),
        (lambda: op(lambda x: x), "<lambda>: say what it makes"),
        (lambda: op(len, out={}), "len: out: found {}; give the type of each result by its name"),
        (lambda: op(len, out={1: "int8"}), "len: out: found {1: 'int8'}"),
        (lambda: op(len, out={"a": "int9"}), r"len: out\['a'\]: found 'int9'; give penstock.int32"),
        (lambda: op(len, out="int9"), "len: out: found 'int9'"),
        (lambda: op(len, out="int8", by="columns"), 'len: by=\'columns\'; give "arrow", "numpy" or "rows"'),
        (lambda: op(len, out="int8", threads=0), "len: threads: found 0; give 1 or more"),
        (lambda: op(len, out="int8", memory="1GB"), "len: memory: found '1GB'; give an integer"),
        (lambda: op(len, out="int8", timeout=0), "len: timeout=0; give the seconds"),
        (lambda: op(len, out="int8", args=(1,)), "len: args= are of classes; give a function its keywords"),
        (lambda: op(Score, out="int8")("a", "b"), "Score: missing a required argument: 'path'; args= and kwargs= are"),
        (lambda: op(Score, out="int8", kwargs={"way": ""}), "Score: got an unexpected keyword argument .way.; args="),
        (lambda: op("describe", out={"a": "int8"}), "describe: out={'a': .*with its module, as \"mypkg.features:desc"),
        (lambda: op(Score, out="int8", args="x"), r"Score: args='x'; give a tuple, as args=\(...,\)"),
        (lambda: op(Score, out="int8", kwargs=[1]), r"Score: kwargs=\[1\]; give a dict"),
        (lambda: op(NoCall, out="int8"), "NoCall: the class has no method __call__; add one"),
        (lambda: op(later, out="int8"), "later: it is a coroutine or a generator"),
        (lambda: op(len, out="int8", style="rows"), "op: a function has no style=; the arguments are out, by"),
        (lambda: op(len, "a", out="int8"), "op: a function gets its inputs where the op is used"),
        (tokenize, "tokenize: found no input; give names of features"),
        (lambda: tokenize(pa.array([1])), "tokenize: found a Int64Array; .*To call it here, call tokenize.function"),
        (lambda: tokenize("a", "b"), "tokenize: too many positional arguments, where the inputs are a, b"),
        (lambda: score("title"), "Score: missing a required argument: 'price'"),
        (lambda: scale("price", "by"), "scale: multiple values for argument 'by'"),
        (lambda: tokenize("text", out="t"), "tokenize: out='t'; it names its results itself: tokens"),
        (
            lambda: op(max, out="int8")("a", "b"),
            "max: its result replaces one input, and there are 2; name it",
        ),
    ],
)
def test_mistakes_are_told_where_they_are_made(make: Any, says: str) -> None:
    with pytest.raises(SpecError, match=says):
        make()


def test_an_op_that_was_not_told_its_inputs() -> None:
    with pytest.raises(SpecError, match=r'found tokenize itself; say of what, as tokenize\("a", "b"\)'):
        penstock.DataLoader("/data", features=penstock.dense("a"), batch_size=8, transforms=[tokenize])  # type: ignore[list-item]


def test_names_of_what_has_none() -> None:
    assert penstock.op(functools.partial(functools.partial(max, 1), 2), out="int8").name == "max"
    assert penstock.op(Score("a"), out="int8").name == "Score"


def loaded(*transforms: penstock.Transform) -> list[_op_call.Entry]:
    return _op_call.load(_bundle.pickled(functions_of(transforms)))


def test_a_bundle_has_each_function_once_by_its_index() -> None:
    entries = loaded(tokenize("a"), score("a", "b"), tokenize("c"))
    assert [entry["results"] for entry in entries] == [["tokens"], ["score"]]
    assert (entries[1]["args"], entries[1]["kwargs"]) == (("model.bin",), {"bias": 1.0})
    [made] = (
        _op_call.Function(entries[1], "numpy", [penstock.float32.declared()], "Score")
        .call([pa.array(["x", "y"]), pa.array([1.0, 2.0])], 2)
        .results
    )
    assert made.to_pylist() == [2.0, 3.0]


def test_modules_of_the_users_travel_by_value_and_are_no_longer_registered_then(tmp_path: Path) -> None:
    """A program in two files, of which the process that loads the code has neither."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").write_text("")
    (tmp_path / "mine" / "words.py").write_text("COUNT = {'a': 1}\ndef count(text): return COUNT.get(text, 0)\n")
    (tmp_path / "program.py").write_text(
        textwrap.dedent("""
        import sys
        import cloudpickle
        import penstock
        from mine import words
        from mine.words import count
        from penstock import _bundle

        @penstock.op(out=penstock.int64, by="rows")
        def number(text): return count(text) + helper(text) + len(words.COUNT)

        def helper(text): return 10

        other = penstock.op(number.function, out=penstock.int64, by="rows")
        sys.stdout.buffer.write(_bundle.pickled([number, other]))
        assert cloudpickle.list_registry_pickle_by_value() == set()
    """)
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, env=environ, check=True, capture_output=True)
    assert "mine" not in sys.modules
    for entry in _op_call.load(done.stdout):
        [made] = (
            _op_call.Function(entry, "rows", [penstock.int64.declared()], "number")
            .call([pa.array(["a", "b"])], 2)
            .results
        )
        assert made.to_pylist() == [12, 11]
    assert "mine" not in sys.modules


def test_functions_with_caches_travel() -> None:
    """cloudpickle has only their names, which where the code is loaded are of nothing."""
    program = """
        import functools, sys
        import cloudpickle, penstock
        from penstock import _bundle

        @functools.lru_cache(maxsize=7)
        def fibonacci(n): return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

        @functools.cache
        def doubled(n): return 2 * n

        def both(n): return fibonacci(n) + doubled(n) + len(functools.lru_cache.__name__)

        sys.stdout.buffer.write(_bundle.pickled([penstock.op(both, out=penstock.int64, by="rows")]))
    """
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], env=environ, check=True, capture_output=True
    )
    [entry] = _op_call.load(done.stdout)
    assert [entry["call"](n) for n in (5, 10)] == [5 + 10 + 9, 55 + 20 + 9]
    assert entry["call"].__globals__["fibonacci"].cache_parameters() == {"maxsize": 7, "typed": False}
    assert entry["call"].__globals__["fibonacci"].cache_info().hits > 0


def test_threads_that_open_loaders_at_once_take_their_modules_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "of_threads.py").write_text("def one(x): return 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("of_threads")
    both, first_is_over = threading.Event(), threading.Event()

    class Slow:
        """It is pickled when the other thread is at it, too, or waits for this one."""

        def __init__(self, come: threading.Event | None, until: threading.Event, patience: float) -> None:
            self.come, self.until, self.patience = come, until, patience

        def __reduce__(self) -> tuple[Any, ...]:
            if self.come is not None:
                self.come.set()
            self.until.wait(self.patience)
            return int, ()

    def pickled(slow: Slow) -> bytes:
        kwargs = {"slow": slow, "then": module.one}
        return _bundle.pickled([penstock.op(lambda x, slow, then: then(x), out="int8", kwargs=kwargs, name="f")])

    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        first = threads.submit(pickled, Slow(None, both, 1))
        first.add_done_callback(lambda _: first_is_over.set())
        while module.__name__ not in cloudpickle.list_registry_pickle_by_value():
            assert not first.done()
        second = threads.submit(pickled, Slow(both, first_is_over, 30)).result()
    monkeypatch.undo()
    del sys.modules["of_threads"]
    [entry] = _op_call.load(second)
    assert entry["kwargs"]["then"](0) == 1
    assert "of_threads" not in sys.modules


def test_files_and_lines_of_code_travel_for_tracebacks() -> None:
    [entry] = loaded(tokenize("a"))
    code, here = entry["call"].__code__, tokenize.function.__code__
    assert (code.co_filename, code.co_firstlineno) == (here.co_filename, here.co_firstlineno)
    assert code is not here


def test_code_that_is_too_large_names_what_is_large() -> None:
    table = bytes(_bundle.LARGEST)
    large = penstock.op(lambda x: table, out="int8", name="large")
    with pytest.raises(
        SpecError, match=r"large: it and what it refers to take 16,\d+,\d+ bytes, .* 16,777,216; have the"
    ):
        loaded(tokenize("a"), large("x"))


def test_what_does_not_travel_is_named() -> None:
    lock = __import__("threading").Lock()
    locked = penstock.op(lambda x: lock, out="int8", name="locked")
    with pytest.raises(
        SpecError, match=r"locked: it cannot be sent to workers: TypeError: cannot pickle '_thread.lock'"
    ):
        loaded(tokenize("a"), locked("x"))


def test_a_module_that_does_not_travel_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "of_locks.py").write_text("import threading\nLOCK = threading.Lock()\ndef one(x): return 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("of_locks")
    whole = penstock.op(lambda x: module.one(x) + 1, out="int8", name="whole")
    with pytest.raises(
        SpecError, match=r"whole: .* the module of_locks, which has it as LOCK; .* `from of_locks import"
    ):
        loaded(whole("x"))
    one = module.one
    alone = penstock.op(lambda x, y: one(x) + y, out="int8")
    assert loaded(alone("x", "y", out="z"))[0]["call"](0, 1) == 2
    del sys.modules["of_locks"]


def test_without_cloudpickle_there_is_a_line_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(UsageError, match=r'\(tokenize\), and cloudpickle.*pip install "penstock\[op\]"'):
        loaded(tokenize("a"))
    penstock.DataLoader("/data", features=penstock.dense("a"), batch_size=8, transforms=penstock.log1p("a"))


def test_a_loader_has_the_code_of_its_transforms() -> None:
    def of(transforms: Any) -> tuple[Any, str, bytes | None]:
        return _source.spec_of(None, "/d", penstock.dense("a"), 8, penstock.Data(), {"transforms": transforms})

    message, text, code = of(t for t in [penstock.log1p("a"), tokenize("a")])
    assert message is not None
    assert (text, len(message["transforms"]), message["code"]["functions"][0]["name"]) == ("", 2, "tokenize")
    assert code is not None
    assert [entry["results"] for entry in _op_call.load(code)] == [["tokens"]]
    assert of(penstock.log1p("a"))[2] is None
    assert of(tokenize("a"))[2] is not None


TABLE = pa.table({"x": [1.0, None, 3.0, 4.0, 5.0], "text": ["a", "bb", None, "", "e"]})


def test_check_gives_what_an_op_makes_that_repeats() -> None:
    length = penstock.op(pc.utf8_length, out={"n": "int32"})
    assert penstock.check(length("text"), TABLE).to_pydict() == {"n": [1, 2, None, 0, 1]}
    assert penstock.check(length, TABLE.select(["text"])).to_pydict() == {"n": [1, 2, None, 0, 1]}
    assert penstock.check(length("t"), {"t": ["a"]}).to_pydict() == {"n": [1]}
    assert penstock.check(length("t"), {"t": pa.array([], pa.large_string())}).to_pydict() == {"n": []}
    nan = penstock.op(lambda x: np.where(np.isnan(x), np.nan, x), out=penstock.float32, by="numpy")
    assert penstock.check(nan("x"), TABLE.to_batches()[0]).column_names == ["x"]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (pa.array([["a"]], pa.large_list(pa.large_string())), pa.list_(pa.string())),
        (pa.array([[1, 2]], pa.list_(pa.int8(), 2)), pa.list_(pa.int8())),
        (pa.array(["a"]).dictionary_encode(), pa.string()),
        (pa.array([b"ab"], pa.binary(2)), pa.binary()),
        (pa.array([1], pa.timestamp("us")), pa.int64()),
        (pa.array([1], pa.date32()), pa.int32()),
        (pa.array([1.5]).cast(pa.float16()), pa.float16()),
    ],
)
def test_check_hands_columns_over_as_workers_do(given: pa.Array, wanted: pa.DataType) -> None:
    kind = penstock.op(lambda x: [str(x.type)] * len(x), out="string")
    assert penstock.check(kind("x"), {"x": given}).to_pydict() == {"x": [str(wanted)]}


def test_check_says_what_does_not_repeat() -> None:
    calls = itertools.count(1)
    counting = penstock.op(lambda x: [next(calls)] * len(x), out="int64", name="counting")
    with pytest.raises(
        NotRepeatable, match=r"counting does not repeat:\n  calls with .* differ: x of row 0 is 1, and 2"
    ):
        penstock.check(counting("x"), TABLE)
    mean = penstock.op(lambda x: pc.subtract(x, pc.mean(x)), out={"y": "float64"}, name="mean")
    with pytest.raises(NotRepeatable) as told:
        penstock.check(mean("x"), TABLE)
    assert "calls with the same rows" not in str(told.value)
    assert "halves differ from the whole: y of row 0 is -2.25, and -1.0" in str(told.value)
    assert "single rows differ from the whole: y of row 0 is -2.25, and 0.0" in str(told.value)
    running = penstock.op(lambda x: pc.cumulative_sum(x, skip_nulls=True), out="float64", name="running")
    with pytest.raises(NotRepeatable, match=r"the rows in reverse differ: x of row 0 is 1\.0, and 13\.0"):
        penstock.check(running("x"), TABLE)


def test_check_takes_floats_of_models() -> None:
    """In their last digits they depend on how many rows there are; and no model takes none."""

    def embed(x: Any) -> Any:
        assert len(x)
        return [[0.0, 1 + (len(x) > 1) * 1e-6]] * len(x)

    model = penstock.op(embed, out={"vector": penstock.float64.list()})
    with pytest.raises(
        NotRepeatable, match=r"single rows .*: vector\[1\] of row 0 is 1\.000001, and 1\.0\n.*tolerance="
    ):
        penstock.check(model("x"), TABLE)
    assert len(penstock.check(model("x"), TABLE, tolerance=1e-5)) == len(TABLE)
    with pytest.raises(NotRepeatable):
        penstock.check(model("x"), TABLE, tolerance=1e-7)


def test_check_says_what_it_cannot_run() -> None:
    with pytest.raises(UsageError, match=r"check: found Transform\(.*; give an op of a Python function"):
        penstock.check(penstock.log1p("a"), TABLE)
    with pytest.raises(UsageError, match="check: found a list; give an Arrow table"):
        penstock.check(tokenize("a"), [1])
    with pytest.raises(SpecError, match="tokenize: the table has no column a; it has x, text"):
        penstock.check(tokenize("a"), TABLE)
    with pytest.raises(SpecError, match="utf8_length: the result: found int32, wanted float32 tensors"):
        penstock.check(penstock.op(pc.utf8_length, out=penstock.float32.tensor(2))("text"), TABLE)
