"""Calls of Python functions: what they get in each style, and what becomes of what they return."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable
from typing import Any

import cloudpickle
import numpy as np
import pyarrow as pa
import pytest

from penstock._op_call import Function, Made, Mistake, Sparing, load, user_traceback
from penstock._op_values import Declared

pytestmark = pytest.mark.pure

NUMBERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "float16", "float32", "float64"]


def function(call: Any, *outs: Declared, style: str = "arrow", **entry: Any) -> Function:
    whole: Any = {"call": call, **entry}
    return Function(whole, style, outs or [Declared("int64")], "tokenize")


def returns(result: Any, declared: Declared, rows: int = 3) -> pa.Array:
    """What a call becomes that returns this."""
    [made] = function(lambda _: result, declared).call([pa.nulls(rows)], rows).results
    assert made.type == declared.arrow()
    assert len(made) == rows
    made.validate(full=True)
    return made


def column(kind: str, nulls: bool) -> pa.Array:
    """Three rows, at the borders of their type."""
    if kind == "bool":
        values: list[Any] = [True, False, True]
    elif kind.startswith("float"):
        values = [float(np.finfo(kind).max), -0.5, float("inf")]
    else:
        values = [int(np.iinfo(kind).min), int(np.iinfo(kind).max), 1]
    if nulls:
        values[1] = None
    return pa.array(values, pa.float64() if kind.startswith("float") else None).cast(Declared(kind).arrow())


class Tensor:
    """As torch's are: what has a gradient does not become an array."""

    def __init__(self, values: Any, requires_grad: bool = True) -> None:
        self.values, self.requires_grad = values, requires_grad

    def detach(self) -> Tensor:
        return Tensor(self.values, requires_grad=False)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if self.requires_grad:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        return np.asarray(self.values, dtype)


def test_tensors_with_gradients_are_values() -> None:
    pairs = Declared("float32", list=True, shape=(2,))
    wanted = [[1.0, 2.0]] * 3
    assert returns(Tensor(wanted), pairs).to_pylist() == wanted
    assert returns([Tensor([1.0, 2.0])] * 3, pairs).to_pylist() == wanted


@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("kind", [*NUMBERS, "bool"])
def test_what_arrow_arrays_hold_stays_bit_for_bit_in_every_form(kind: str, nulls: bool) -> None:
    scalar = column(kind, nulls)
    forms: list[Any] = [scalar, pa.chunked_array([scalar[:1], scalar[1:]]), scalar.to_pylist()]
    if kind != "float16":  # of which Arrow makes no dictionaries everywhere
        forms.append(scalar.dictionary_encode())
    if not nulls:
        forms += [scalar.to_numpy(zero_copy_only=False), pa.concat_arrays([scalar, scalar])[3:]]
    for form in forms:
        assert returns(form, Declared(kind)).equals(scalar)
    rows = [scalar.to_pylist(), None, []]
    lists = pa.array(rows, pa.list_(scalar.type))
    large, views = (pa.array(rows, make(scalar.type)) for make in (pa.large_list, pa.list_view))
    for form in (lists, large, views, rows):
        assert returns(form, Declared(kind, list=True)).equals(lists)
    nested = pa.array([[rows[0], None], [], None], pa.list_(lists.type))
    for form in (nested, pa.array(nested.to_pylist(), pa.large_list(pa.list_view(scalar.type)))):
        assert returns(form, Declared(kind, list=True, nested=1)).equals(nested)


@pytest.mark.parametrize(("found", "wanted"), list(itertools.product([*NUMBERS, "bool"], NUMBERS)))
def test_numbers_convert_as_they_are_or_not_at_all(found: str, wanted: str) -> None:
    """Every pair of types: values that fit come through, and one that does not is an error with its row."""
    fits = np.array([0, 1, 1]).astype(found)
    for result in (fits, fits.tolist(), pa.array(fits)):
        made = returns(result, Declared(wanted))
        assert made.to_numpy().tolist() == np.array([0, 1, 1]).astype(wanted).tolist()
    if wanted.startswith("float") or found == "bool":
        return
    much = np.array([0, 1, 0.5 if found.startswith("float") else np.iinfo(found).max]).astype(found)
    if not found.startswith("float") and np.iinfo(found).max <= np.iinfo(wanted).max:
        assert returns(much, Declared(wanted)).to_pylist() == much.tolist()
        return
    for result in (much, much.tolist(), pa.array(much)):
        with pytest.raises(Mistake, match=rf"result: found \w+ in row 2 of the call, wanted {wanted}"):
            returns(result, Declared(wanted))


def test_text_and_bytes() -> None:
    text, data = ["é", None, ""], [b"\xff", None, b""]
    for make in (pa.string, pa.large_string, pa.string_view):
        assert returns(pa.array(text, make()), Declared("binary", text=True)).to_pylist() == text
        assert returns(pa.array(text, make()), Declared("binary")).to_pylist() == ["é".encode(), None, b""]
    for make in (pa.binary, pa.large_binary, pa.binary_view):
        assert returns(pa.array(data, make()), Declared("binary")).to_pylist() == data
    for result in (text, np.array(text, object), [text, text, None]):
        declared = Declared("binary", list=result[0] == text, text=True)
        assert returns(result, declared).to_pylist() == list(result)
    assert returns(np.array(["a", "bc", ""]), Declared("binary", text=True)).to_pylist() == ["a", "bc", ""]
    assert returns(np.array([b"a", b"bc", b""]), Declared("binary")).to_pylist() == [b"a", b"bc", b""]
    with pytest.raises(Mistake, match="found binary in row 0 of the call, wanted string"):
        returns(pa.array(data), Declared("binary", text=True))


TENSOR = np.arange(18, dtype=np.float32).reshape(3, 2, 3)


@pytest.mark.parametrize(
    "result",
    [
        TENSOR, TENSOR.astype(">f4"), TENSOR[::-1][::-1], TENSOR.reshape(3, 6), list(TENSOR), TENSOR.tolist(),
        pa.FixedShapeTensorArray.from_numpy_ndarray(TENSOR),
        pa.FixedShapeTensorArray.from_numpy_ndarray(np.transpose(TENSOR.transpose(0, 2, 1).copy(), (0, 2, 1))),
        pa.FixedSizeListArray.from_arrays(pa.array(TENSOR.reshape(-1)), 6),
        pa.FixedSizeListArray.from_arrays(pa.FixedSizeListArray.from_arrays(pa.array(TENSOR.reshape(-1)), 3), 2),
        pa.array(TENSOR.reshape(3, 6).tolist()),
    ],
    ids=str,
)  # fmt: skip
def test_tensors_of_one_shape_in_every_form(result: Any) -> None:
    made = returns(result, Declared("float32", list=True, shape=(2, 3)))
    assert made.to_pylist() == TENSOR.reshape(3, 6).tolist()


def test_tensors_may_have_null_rows_and_no_rows() -> None:
    declared = Declared("float32", list=True, shape=(2, 3))
    storage = pa.array(
        [TENSOR[0].reshape(-1).tolist(), None, TENSOR[2].reshape(-1).tolist()], pa.list_(pa.float32(), 6)
    )
    tensors = pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.float32(), [2, 3]), storage)
    for result in (tensors, storage, [TENSOR[0], None, TENSOR[2]], [TENSOR[0].tolist(), None, TENSOR[2].tolist()]):
        assert returns(result, declared).to_pylist() == storage.to_pylist()
    empty: list[Any] = [TENSOR[:0], [], pa.array([])]
    for nothing in empty:
        assert returns(nothing, declared, rows=0).to_pylist() == []


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (TENSOR.transpose(0, 2, 1), r"there are 3 values where shape \[2, 3\] has 2"),
        (TENSOR[:, :1], "row 0 of the call.*there are 1 values where"),
        ([TENSOR[0], TENSOR[1], TENSOR[2].reshape(-1)[:5]], "found an? .*is no array|row 2 of the call"),
        ([list(range(6)), list(range(6)), list(range(5))], r"row 2 of the call.*there are 5 values where .* has 6"),
        ([[[1, 2, 3], None]] * 3, "null inside a tensor"),
        (np.zeros((3, 1, 2, 3)), "lists of 3 levels, where 2 are due"),
        (np.zeros(3), "these are no lists"),
    ],
)
def test_what_is_no_tensor_of_the_shape_is_told(result: Any, says: str) -> None:
    with pytest.raises(Mistake, match=says):
        returns(result, Declared("float32", list=True, shape=(2, 3)))


@pytest.mark.parametrize(
    ("result", "declared", "says"),
    [
        (pa.array([1, 2]), Declared("int64"), "found 2 values for 3 rows; return one for each row"),
        (7, Declared("int64"), "found a int, which is no array of int64: it is neither an array nor a list"),
        (np.int64(7), Declared("int64"), "it is a single value"),
        (None, Declared("int64"), "found None"),
        ("abc", Declared("binary", text=True), "found a str"),
        (["1", "2", "3"], Declared("int64"), "found string, wanted int64: these do not convert by themselves"),
        ([1, 2, 3], Declared("binary", text=True), "found int64, wanted string"),
        ([1, 2, 3], Declared("bool"), "found int64, wanted bool"),
        ([1, 2, 3], Declared("int64", list=True), "found int64, wanted list<int64>: these are no lists"),
        ([[1], [2], [3]], Declared("int64"), "found list<item: int64>, wanted int64"),
        ([1, "2", 3], Declared("int64"), "found a list of 3, which is no array of int64"),
        ([1, 2.5, None], Declared("int64"), "in row 1 of the call, wanted int64"),
        ([[1], [], [2, 1 << 40]], Declared("int32", list=True), "in row 2 of the call, wanted list<int32>"),
        (np.array(["2026-01-01"] * 3, "M8[s]"), Declared("int64"), r"found timestamp\[s\], wanted int64"),
    ],
)
def test_a_mistake_says_what_was_found_and_what_is_wanted(result: Any, declared: Declared, says: str) -> None:
    with pytest.raises(Mistake, match=says):
        returns(result, declared)


def test_the_row_of_a_mistake() -> None:
    told = function(lambda x: x, Declared("int8"))
    for row in range(50):
        values = [1] * 50
        values[row] = 300
        with pytest.raises(Mistake, match=f"in row {row} of the call"):
            told.call([pa.array(values)], 50)
        assert told.row == row
    told.call([pa.array([1])], 1)
    assert told.row is None


def two(a: Any, b: Any) -> tuple[Any, Any]:
    return b, a


@pytest.mark.parametrize("style", ["arrow", "numpy", "rows"])
def test_several_results_come_in_order_or_by_name(style: str) -> None:
    calls: list[Callable[..., Any]] = [two, lambda a, b: list(two(a, b)), lambda a, b: {"first": a, "second": b}]
    for call, results in itertools.product(calls, (["second", "first"], [])):
        called = function(call, Declared("float32"), Declared("int8"), style=style, results=results)
        if not results and call is calls[2]:
            with pytest.raises(Mistake, match="returned a dict; return a tuple of 2"):
                called.call([pa.array([1, 2]), pa.array([0.5, 1])], 2)
            continue
        second, first = called.call([pa.array([1, 2]), pa.array([0.5, 1])], 2).results
        assert (second.to_pylist(), first.to_pylist()) == ([0.5, 1], [1, 2])
    for call in (lambda a, b: a, lambda a, b: (a, b, b), lambda a, b: {"first": a}, lambda a, b: None):
        with pytest.raises(Mistake, match=r"tokenize returned .*; return "):
            function(call, Declared("int8"), Declared("int8"), style=style, results=["first", "second"]).call(
                [pa.array([1]), pa.array([2])], 1
            )


def test_tables_are_results_by_name() -> None:
    outs, data = (Declared("int8"), Declared("int16")), {"b": [3], "a": [2]}
    for result in (pa.table(data), pa.RecordBatch.from_pydict(data)):
        made = function(lambda _, r=result: r, *outs, results=["a", "b"]).call([pa.array([1])], 1).results
        assert [m.to_pylist() for m in made] == [[2], [3]]


def test_what_functions_by_numpy_get() -> None:
    got: list[Any] = []

    def keep(*arrays: Any) -> Any:
        got[:] = arrays
        return np.zeros(len(arrays[0]))

    call = function(keep, Declared("float32"), style="numpy").call
    columns = [pa.array([1, 2], pa.int32()), pa.array([1.5, None]).cast(pa.float16()), pa.array(["é", None])]
    columns += [pa.array([b"\xff", None]), pa.array([True, False]), pa.array([[1, 2], None])]
    columns += [
        pa.array([["a", None], []]),
        pa.array([[[1], [2, 3]], []]),
        pa.array([[1.5, None], []], pa.list_(pa.float32())),
    ]
    call(columns, 2)
    assert [a.dtype for a in got] == ["int32", "float16", object, object, bool, object, object, object, object]
    assert np.isnan(got[1][1]) and np.isnan(got[8][0][1])
    assert got[2].tolist() == ["é", None]
    assert got[3].tolist() == [b"\xff", None]
    assert (got[5][0].tolist(), got[5][1]) == ([1, 2], None)
    assert got[6][0].tolist() == ["a", None]
    assert [a.tolist() for a in got[7][0]] == [[1], [2, 3]]


@pytest.mark.parametrize("values", [[1, None], [True, None], [None, [1, None], []], [[], [[2], [1, None]], None]])
def test_nulls_that_numpy_has_not_are_an_error_that_says_what_to_do(values: list[Any]) -> None:
    def total(price: Any) -> Any:
        return price

    told = function(total, style="numpy")
    with pytest.raises(Mistake, match=r"the input price of tokenize has a null in row 1 .*fill_null.*by=\"arrow\""):
        told.call([pa.array(values)], len(values))
    assert told.row == 1


def spared(call: Callable[[Any], Any], values: Any, declared: Declared, kind: str = "map") -> tuple[Made, list[int]]:
    """What a function by arrays makes where rows may be left out, and which are."""
    left: list[int] = []

    def may(row: int, _: BaseException) -> bool:
        left.append(row)
        return True

    whole: Any = {"call": call}
    made = Function(whole, "numpy", [declared], "f", kind).call(
        [pa.array(values)], len(values), None, Sparing(may, lambda: None)
    )
    return made, left


@pytest.mark.parametrize(
    ("call", "kind", "says"),
    [
        (lambda x: np.array([x.mean()]), "map", "found 1 values for 4 rows"),
        (lambda x: x[:1], "map", "found 1 values for 4 rows"),
        (lambda _: "oops", "map", "which is no array"),
        (lambda x: x[:1] > 0, "filter", "returned 1 bools for 4 rows"),
        (lambda x: [[0] * len(x), x[:1]], "flat_map", "found 1 values for 4 parents"),
    ],
)
def test_a_result_that_is_wrong_as_a_whole_is_an_error_though_rows_may_be_left_out(
    call: Callable[[Any], Any], kind: str, says: str
) -> None:
    """Of one row each it would fit."""
    with pytest.raises(Mistake, match=says):
        spared(call, [1.0, 2.0, 3.0, 4.0], Declared("float64"), kind)


def test_by_arrays_rows_are_left_out_that_raise_or_whose_values_do_not_fit() -> None:
    def picky(x: Any) -> Any:
        if (x == 3).any():
            raise ValueError("3")
        return x

    made, left = spared(picky, [1, 2, 3, 300, 4, -300, 5], Declared("int8"))
    assert made.results[0].to_pylist() == [1, 2, 4, 5]
    assert sorted(left) == [2, 3, 5]
    made, left = spared(lambda x: [len(row) for row in x], [[1], [None, 2], [], None, [3, 4]], Declared("int8"))
    assert left == [1, 3]
    assert made.results[0].to_pylist() == [1, 0, 2]


def test_functions_by_rows_get_python_values() -> None:
    got: list[Any] = []

    def keep(*values: Any) -> str:
        got.append(values)
        return str(len(got))

    columns = [
        pa.array([1, 2], pa.int8()),
        pa.array([0.5, None], pa.float32()),
        pa.array([[1], None]),
        pa.array(["a", None]),
    ]
    [made] = function(keep, Declared("binary", text=True), style="rows").call(columns, 2).results
    assert got == [(1, 0.5, [1], "a"), (2, None, None, None)]
    assert type(got[0][0]) is int and type(got[0][1]) is float
    assert made.to_pylist() == ["1", "2"]


class Add:
    made = 0

    def __init__(self, first: int, *, second: int) -> None:
        type(self).made += 1
        self.both = first + second

    def __call__(self, x: Any) -> Any:
        return [v + self.both for v in x.to_pylist()]


def test_a_class_is_made_once_with_its_arguments_and_a_function_gets_its_keywords() -> None:
    Add.made = 0
    called = function(Add, args=(1,), kwargs={"second": 2})
    for _ in range(3):
        assert called.call([pa.array([1])], 1).results[0].to_pylist() == [4]
    assert Add.made == 1
    scaled = function(lambda x, by: [v * by for v in x.to_pylist()], kwargs={"by": 5})
    assert scaled.call([pa.array([3])], 1).results[0].to_pylist() == [15]


def test_what_a_function_raises_passes_through_with_the_users_frames_alone() -> None:
    def inner(x: int) -> int:
        raise KeyError(f"no {x}")

    def outer(x: int) -> int:
        try:
            return inner(x) if x == 7 else x
        except KeyError as err:
            raise ValueError("bad row") from err

    called = function(outer, style="rows")
    with pytest.raises(ValueError, match="bad row") as caught:
        called.call([pa.array([1, 7])], 2)
    assert called.row == 1
    text = user_traceback(caught.value)
    assert text.endswith("ValueError: bad row") and "KeyError: 'no 7'" in text
    assert "in inner" in text and "in outer" in text
    assert "src/penstock/_op_call.py" not in text


def test_a_bundle_is_loaded() -> None:
    entries = [{"call": lambda x: x, "args": (), "kwargs": {}}, {"call": Add, "args": (1,), "kwargs": {"second": 2}}]
    made = [Function(entry, "arrow", [Declared("int64")], "f") for entry in load(cloudpickle.dumps(entries))]
    assert [each.call([pa.array([1])], 1).results[0].to_pylist() for each in made] == [[1], [4]]
    with pytest.raises(pickle.UnpicklingError):
        load(b"no pickle")
