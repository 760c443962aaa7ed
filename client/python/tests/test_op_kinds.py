"""Functions that choose rows, and that make several of one: what they return, and what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock
from penstock._op_call import Function, Made, Mistake
from penstock._op_values import Declared
from penstock.errors import NotRepeatable, SpecError

pytestmark = pytest.mark.pure

INT, TEXT, LIST = Declared("int64"), Declared("binary", text=True), Declared("int32", list=True)


def made(call: Callable[..., Any], *outs: Declared, kind: str, by: str, values: Any, **more: Any) -> Made:
    """What a call makes of one column."""
    column = pa.array(values)
    entry: Any = {"call": call, "results": more.pop("results", [])}
    found = Function(entry, by, outs, "f", kind, **more).call([column], len(column))
    assert found.parents is not None and found.parents.dtype == np.int32
    for declared, result in zip(outs, found.results, strict=True):
        assert result.type == declared.arrow()
        assert len(result) == len(found.parents)
        result.validate(full=True)
    return found


@pytest.mark.parametrize(
    ("mask", "stays"),
    [
        (pa.array([True, False, True]), [0, 2]),
        (pa.array([True, None, False]), [0]),  # null is not true
        (pa.chunked_array([[True], [True, False]]), [0, 1]),
        (pa.array([None, None, None]), []),
        (pa.array([False, False, True, True, True])[2:], [0, 1, 2]),
        (np.array([False, True, False]), [1]),
        ([True, None, np.bool_(True)], [0, 2]),
        ((False, False, False), []),
    ],
)
def test_a_filter_keeps_what_its_mask_says(mask: Any, stays: list[int]) -> None:
    for by in ("arrow", "numpy"):
        found = made(lambda _: mask, kind="filter", by=by, values=[5, 6, 7])
        assert found.parents is not None and found.parents.tolist() == stays
    values = mask.to_pylist() if isinstance(mask, (pa.Array, pa.ChunkedArray)) else list(mask)
    found = made(lambda x: values[x - 5], kind="filter", by="rows", values=[5, 6, 7])
    assert found.parents is not None and found.parents.tolist() == stays


@pytest.mark.parametrize(
    ("by", "result", "says"),
    [
        ("arrow", [True, False], "f returned 2 bools for 3 rows; return one for each"),
        ("arrow", [0, 2, 2], "f returned a list of 3; return an array of bools"),
        ("arrow", pa.array(["a", "b", "c"]), "f returned an Arrow array of string; return an array of bools"),
        ("numpy", np.array([0, 1, 1]), "f returned a NumPy array of int64 and shape [3]; return an array of bools"),
        ("numpy", np.ones((3, 2), bool), "f returned a NumPy array of bool and shape [3, 2]; return an array of bools"),
        ("numpy", True, "f returned a bool; return an array of bools"),
        ("arrow", [], "f returned 0 bools for 3 rows"),
        ("arrow", [[1], [2], [3]], "f returned a list of 3; return an array of bools"),
        ("arrow", None, "f returned None; return an array of bools"),
        ("rows", 1, "f returned a int; return True for a row that stays"),
        ("rows", [True], "f returned a list of 1; return True for a row that stays"),
    ],
)
def test_what_is_no_mask_is_told(by: str, result: Any, says: str) -> None:
    with pytest.raises(Mistake, match=re.escape(says)):
        made(lambda _: result, kind="filter", by=by, values=[5, 6, 7])


def test_a_filter_of_no_rows() -> None:
    empty: list[Any] = [[], np.array([]), pa.array([], pa.list_(pa.int8()))]
    for none in empty:
        assert made(lambda _, r=none: r, kind="filter", by="numpy", values=pa.array([], pa.int8())).results == []
    for by in ("arrow", "numpy", "rows"):
        found = made(lambda x: x, kind="filter", by=by, values=pa.array([], pa.bool_()))
        assert found.parents is not None and found.parents.tolist() == []


def chunks(text: str) -> list[str]:
    return text.split()


def each(text: str) -> Iterator[str]:
    yield from text.split()


@pytest.mark.parametrize(
    "call",
    [
        chunks,
        each,
        lambda text: tuple(text.split()),
        lambda text: np.array(text.split()),
        lambda text: pa.array(text.split()),
    ],
)
def test_by_rows_a_function_returns_or_yields_what_a_row_becomes(call: Callable[..., Any]) -> None:
    found = made(call, TEXT, kind="flat_map", by="rows", values=["a b", "", "c", " "])
    assert found.parents is not None and found.parents.tolist() == [0, 0, 2]
    assert found.results[0].to_pylist() == ["a", "b", "c"]


@pytest.mark.parametrize("form", [tuple, list, lambda pair: {"n": pair[1], "text": pair[0]}])
def test_several_results_by_rows(form: Callable[..., Any]) -> None:
    def call(text: str) -> Iterator[Any]:
        for place, word in enumerate(text.split()):
            yield form((word, place))

    found = made(call, TEXT, INT, kind="flat_map", by="rows", values=["a b", "c"], results=["text", "n"])
    assert [result.to_pylist() for result in found.results] == [["a", "b", "c"], [0, 1, 0]]


def test_lists_and_nulls_by_rows() -> None:
    found = made(lambda x: [[x], [], None], LIST, kind="flat_map", by="rows", values=[1, 2])
    assert found.results[0].to_pylist() == [[1], [], None, [2], [], None]
    nothing = made(lambda x: [], LIST, kind="flat_map", by="rows", values=[1, 2])
    assert nothing.results[0].to_pylist() == []


def split(text: pa.Array) -> tuple[pa.Array, pa.Array]:
    words = pc.split_pattern(text, " ")
    return pc.list_parent_indices(words), words.flatten()


@pytest.mark.parametrize(
    "form",
    [
        split,
        lambda text: list(split(text)),
        lambda text: dict(zip(["text", "parents"], reversed(split(text)), strict=True)),
        lambda text: pa.table(list(split(text)), names=["parents", "text"]),
        lambda text: (split(text)[0].to_numpy().astype(np.uint8), split(text)[1].to_pylist()),
        lambda text: (pa.chunked_array([split(text)[0]]), pa.chunked_array([split(text)[1]])),
    ],
)
def test_by_arrays_the_parents_come_first(form: Callable[..., Any]) -> None:
    found = made(form, TEXT, kind="flat_map", by="arrow", values=["a b", None, "c"], results=["text"])
    assert found.parents is not None and found.parents.tolist() == [0, 0, 2]
    assert found.results[0].to_pylist() == ["a", "b", "c"]


@pytest.mark.parametrize("none", [[], np.array([]), pa.array([], pa.int32()), pa.nulls(0)])
def test_no_rows_at_all(none: Any) -> None:
    for by in ("arrow", "numpy"):
        found = made(lambda _: (none, none), INT, kind="flat_map", by=by, values=[1, 2])
        assert found.results[0].to_pylist() == []


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (([0, 0, 3], [1, 2, 3]), "parents: output row 2 is of row 3; the call has rows 0 to 2"),
        (([-1, 0], [1, 2]), "parents: output row 0 is of row -1; the call has rows 0 to 2"),
        (
            (np.array([0, 1 << 63], np.uint64), [1, 2]),
            "parents: output row 1 is of row 9223372036854775808; the call has",
        ),
        ((np.array([0, 0, 0, 1, 1, 1, 1], np.uint64), [0] * 7), "it became 4 rows or more"),
        (([0, 2, 1], [1, 2, 3]), "parents: output row 2 is of row 1, behind one of row 2; return them in the order"),
        (([0, None], [1, 2]), "parents: found a list of 2; return first of all an array of ints without nulls"),
        (([0.0, 1.0], [1, 2]), "parents: found a list of 2; return first of all an array of ints"),
        (([[0], [1]], [1, 2]), "parents: found a list of 2; return first of all an array of ints"),
        ((np.array([[0]]), [1]), "parents: found a NumPy array of int64 and shape [1, 1]; return first of all"),
        ((0, [1]), "parents: found a int; return first of all"),
        (([0, 1], [1]), "n: found 1 values for 2 parents; return one for each parent, in order"),
        (([0, 2], [1, "a"]), "n: found a list of 2, which is no array of int64"),
        (([0, 2], [1, 1.5]), "n: found double in output row 1 of the call, wanted int64"),
        (
            [1, 2, 3],
            "f returned a list of 3; return a tuple of 2 (parents, n, in this order), or a dict",
        ),
        ({"n": [1]}, "f returned n; return parents, n"),
        (
            ([0, 0, 0, 1, 1, 1, 1], [0] * 7),
            "it became 4 rows or more, and all 3 of the call 7 or more; at most 2",
        ),
    ],
)
def test_what_is_wrong_with_arrays_of_several_rows_is_told(result: Any, says: str) -> None:
    with pytest.raises(Mistake, match=re.escape(says)):
        made(lambda _: result, INT, kind="flat_map", by="arrow", values=[5, 6, 7], results=["n"], most=2)


@pytest.mark.parametrize(
    ("result", "says", "row"),
    [
        (None, "f returned None; return a list of what the row becomes, [] for nothing, or yield each", 0),
        ("abc", "f returned a str; return a list", 0),
        ({"n": 1}, "f returned a dict; return a list", 0),
        (7, "f returned a int; return a list", 0),
        ([1.5], "n: found double in output row 0 of the call, wanted int64", 0),
        ([1, 2, 3, 4, 5, 6, 7], "it became 7 rows or more, and all 3 of the call 7 or more; at most 2", 0),
        ([1, 2, 3], "it became 3 rows or more, and all 3 of the call 7 or more; at most 2", 0),
    ],
)
def test_what_is_wrong_with_a_row_is_told(result: Any, says: str, row: int) -> None:
    called = Function({"call": lambda _: result, "results": ["n"]}, "rows", [INT], "f", "flat_map", 2)
    with pytest.raises(Mistake, match=re.escape(says)):
        called.call([pa.array([5, 6, 7])], 3)
    assert called.row == row


def test_a_value_that_does_not_fit_is_of_its_row() -> None:
    called = Function({"call": lambda x: [1, x]}, "rows", [Declared("int8")], "f", "flat_map")
    with pytest.raises(Mistake, match="in output row 3 of the call"):
        called.call([pa.array([5, 600, 7])], 3)
    assert called.row == 1


def test_a_generator_that_does_not_end_is_stopped() -> None:
    def endless(x: int) -> Iterator[int]:
        while True:
            yield x

    with pytest.raises(Mistake, match="it became 7 rows or more"):
        made(endless, INT, kind="flat_map", by="rows", values=[1, 2], most=3)


def test_an_exception_in_a_generator_is_of_its_row() -> None:
    def call(x: int) -> Iterator[int]:
        yield 10 // x

    called = Function({"call": call}, "rows", [INT], "f", "flat_map")
    with pytest.raises(ZeroDivisionError):
        called.call([pa.array([5, 0, 7])], 3)
    assert called.row == 1


# The ops that are made of them.


@penstock.op(kind="filter")
def long(text: pa.Array) -> pa.Array:
    return pc.greater(pc.utf8_length(text), 2)


@penstock.op(out={"word": penstock.string, "n": penstock.int32}, by="rows", kind="flat_map", most=10)
def words(text: str | None) -> Iterator[tuple[str, int]]:
    for n, word in enumerate((text or "").split()):
        yield word, n


def test_what_a_spec_says_of_them() -> None:
    chosen, several = long("text"), words("text")
    message = chosen.message([long])
    assert message["outs"] == [] and message["python"]["kind"] == "FILTER" and "most" not in message["python"]
    message = several.message([words])
    assert [out["name"] for out in message["outs"]] == ["word", "n"]
    assert (message["python"]["kind"], message["python"]["most"]) == ("FLAT_MAP", 10)
    assert repr(long) == "penstock.op(long, by='arrow', kind='filter')"
    assert "kind='flat_map'" in repr(words)
    replaced = penstock.op(chunks, out=penstock.string, by="rows", kind="flat_map")("text")
    assert [name for name, _ in replaced.outs] == ["text"]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"kind": "explode"}, r'kind=\'explode\'; give "map", "filter" or "flat_map"'),
        ({"kind": "filter", "out": penstock.bool_}, "a filter makes no results: leave out= out"),
        ({"kind": "flat_map"}, "say what it makes"),
        ({"kind": "map"}, "say what it makes|with out="),
        ({"kind": "map", "out": penstock.int8, "most": 5}, "most=5; a map makes no more rows than it gets"),
        ({"kind": "filter", "most": 5}, "most=5; a filter makes no more rows than it gets"),
        ({"kind": "flat_map", "out": penstock.int8, "most": 0}, "most: found 0; give 1 or more"),
        ({"kind": "flat_map", "out": penstock.int8, "most": 1 << 17}, "most: found 131072; give 65536 or less"),
        ({"kind": "flat_map", "out": {"parents": penstock.int8}}, "cannot be called parents"),
    ],
)
def test_arguments_that_do_not_go_together(given: dict[str, Any], says: str) -> None:
    with pytest.raises(SpecError, match=says):
        penstock.op(chunks, **given)
    with pytest.raises(SpecError, match=says):
        penstock.op(**given)(chunks)


def test_generators_are_of_flat_maps_by_rows() -> None:
    for given in ({"kind": "flat_map"}, {"by": "rows"}):
        with pytest.raises(SpecError, match='say kind="flat_map", by="rows" for one that yields'):
            penstock.op(each, out=penstock.string, **given)  # type: ignore[call-overload]
    with pytest.raises(SpecError, match="a filter makes no results"):
        long("text", out="made")


TABLE = pa.table({"text": ["a b", "", "abc", None, "long text of five words"]})


def test_check_says_what_they_make() -> None:
    assert penstock.check(long("text"), TABLE).to_pydict() == {"parents": [0, 2, 4]}
    assert penstock.check(words("text"), TABLE).to_pydict() == {
        "parents": [0, 0, 2, 4, 4, 4, 4, 4], "word": ["a", "b", "abc", "long", "text", "of", "five", "words"],
        "n": [0, 1, 0, 0, 1, 2, 3, 4],
    }  # fmt: skip
    assert penstock.check(words("text"), TABLE[:0]).to_pydict() == {"parents": [], "word": [], "n": []}


def test_check_finds_what_depends_on_other_rows() -> None:
    half = penstock.op(lambda x: np.arange(len(x)) < len(x) / 2, by="numpy", kind="filter", name="half")
    with pytest.raises(NotRepeatable, match=r"halves differ from the whole: row \d becomes a row, and no rows"):
        penstock.check(half("x"), {"x": range(6)})

    def numbered(x: Any) -> Any:
        parents = np.repeat(np.arange(len(x)), x)
        return parents, np.arange(len(parents))

    op = penstock.op(numbered, out={"n": penstock.int64}, by="numpy", kind="flat_map")
    with pytest.raises(NotRepeatable, match="single rows differ from the whole: n of row 2 is 1, and 0"):
        penstock.check(op("x"), {"x": [0, 1, 3]})
