"""Types of results, as people give them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock
from penstock import _types
from penstock._op_values import Declared
from penstock._types import Type, type_of
from penstock.errors import SpecError

pytestmark = pytest.mark.pure

NUMBERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "float16", "float32", "float64"]


@pytest.mark.parametrize("name", [*NUMBERS, "bool_", "string", "binary"])
def test_a_type_is_what_its_own_arrow_type_and_its_words_say(name: str) -> None:
    of: Type = getattr(_types, name)
    for made in (of, of.list(), of.list().list(), of.list().list().list()):
        assert type_of(made, "") is made
        assert type_of(made.declared().arrow(), "") == made
        assert eval(repr(made), {"penstock": penstock}) == made
        assert type_of(str(made.declared()), "") == made  # "list<int32>"
    assert of.list() != of


@pytest.mark.parametrize("name", NUMBERS)
def test_numpy_names_numbers_too(name: str) -> None:
    of = getattr(_types, name)
    given: list[Any] = [name, np.dtype(name), getattr(np, name), np.dtype(name).newbyteorder(">")]
    for each in given:
        assert type_of(each, "") == of
    assert type_of(np.dtype((name, (2, 3))), "") == of.tensor(2, 3)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (bool, penstock.bool_), (int, penstock.int64), (float, penstock.float64), (str, penstock.string),
        (bytes, penstock.binary), (np.str_, penstock.string), (np.dtype("S8"), penstock.binary),
        (np.bool_, penstock.bool_), (pa.large_string(), penstock.string), (pa.binary(8), penstock.binary),
        (pa.large_list(pa.string_view()), penstock.string.list()), (pa.float16(), penstock.float16),
        (pa.list_(pa.float32(), 6), penstock.float32.tensor(6)),
        (pa.list_(pa.list_(pa.float32(), 3), 2), penstock.float32.tensor(2, 3)),
        (pa.fixed_shape_tensor(pa.uint8(), [2, 3]), penstock.uint8.tensor(2, 3)),
        (" list< list<int32> > ", penstock.int32.list().list()),
    ],
    ids=str,
)  # fmt: skip
def test_what_else_names_a_type(given: Any, wanted: Type) -> None:
    assert type_of(given, "") == wanted


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("int33", r"f: out\[\"a\"\]: found 'int33'; give penstock.int32, .float32, .string or another"),
        ("uint64", "give penstock.int64, the widest there is"),
        (np.dtype("M8[s]"), "return the counts"),
        (pa.timestamp("us"), "return the counts"),
        (pa.struct([("a", pa.int8())]), "found StructType"),
        (pa.list_(pa.list_(pa.int8(), 2)), "found ListType"),
        (None, "found None; give"),
        (complex, "found <class 'complex'>"),
        (object(), "found <object"),
    ],
)
def test_what_names_none_is_told_with_its_place(given: Any, says: str) -> None:
    with pytest.raises(SpecError, match=says):
        type_of(given, 'f: out["a"]')


def test_lists_and_tensors_have_bounds() -> None:
    deepest = penstock.int8
    for _ in range(8):
        deepest = deepest.list()
    wrong: list[Callable[[], Type]] = [
        deepest.list, penstock.int8.tensor(2).list, penstock.int8.tensor, partial(penstock.string.tensor, 2),
        partial(penstock.int8.list().tensor, 2), partial(penstock.int8.tensor, 2, 0),
        partial(penstock.int8.tensor, 1 << 20, 1 << 20), partial(penstock.int8.tensor, 2.5),  # type: ignore[arg-type]
    ]  # fmt: skip
    for make in wrong:
        with pytest.raises(SpecError):
            make()


def test_messages_and_declarations() -> None:
    assert penstock.int32.message("a") == {"name": "a", "type": {"kind": "INT32"}}
    assert penstock.string.list().list().message("a") == {
        "name": "a", "type": {"kind": "BINARY", "list": True, "nested": 1}, "text": True,
    }  # fmt: skip
    assert penstock.uint8.tensor(3, 2).message("a") == {
        "name": "a", "type": {"kind": "UINT8", "list": True}, "shape": [3, 2],
    }  # fmt: skip
    assert penstock.uint8.tensor(3, 2).declared() == Declared("uint8", list=True, shape=(3, 2))
    assert penstock.binary.declared() == Declared("binary")
