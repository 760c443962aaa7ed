"""One Python function of a session's code, called with Arrow arrays: styles, and results of exactly the declared types.

It runs in the processes that workers keep for functions, in penstock.check, and where a loader tries its functions. It
needs pyarrow and numpy alone.
"""

from __future__ import annotations

import inspect
import math
import os
import pickle
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Array: TypeAlias = "np.ndarray[Any, Any]"

_KINDS = {
    "bool": pa.bool_(), "int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64(),
    "uint8": pa.uint8(), "uint16": pa.uint16(), "uint32": pa.uint32(),
    "float16": pa.float16(), "float32": pa.float32(), "float64": pa.float64(), "binary": pa.binary(),
}  # fmt: skip


class Entry(TypedDict, total=False):
    """What a session's code has of one function."""

    call: Any  # a function, a class, or another object that can be called
    args: tuple[Any, ...]  # of the class's constructor
    kwargs: dict[str, Any]  # of the constructor, or of each call of a function
    results: list[str]  # their names, where the op gives them


class Declared(NamedTuple):
    """The declared type of a result."""

    kind: str  # as spec.proto names it, in lower case
    list: bool = False
    nested: int = 0  # levels of lists that the elements are
    shape: tuple[int, ...] = ()  # each row is a tensor of it, as a list of all its values
    text: bool = False

    def arrow(self) -> pa.DataType:
        """The type of the Arrow arrays that results become."""
        kind = pa.string() if self.text else _KINDS[self.kind]
        for _ in range(self.nested + self.list):
            kind = pa.list_(kind)
        return kind

    def __str__(self) -> str:
        kind = "string" if self.text else self.kind
        if self.shape:
            return f"{kind} tensors of shape {list(self.shape)}"
        levels = self.nested + self.list
        return "list<" * levels + kind + ">" * levels


class Mistake(Exception):
    """A function returned what is not as it was declared, or its style cannot hold what it is to get."""


MOST = 1024  # rows that a flat_map makes of one, on average over a call, where it does not say
_PARENTS = "parents"  # of which rows results are, as flat_maps by arrays name it


class Made(NamedTuple):
    """What a call makes."""

    results: list[pa.Array]  # exactly of the declared types; a filter makes none
    parents: Array | None = None  # of maps; else int32, never falling: of which input row each output row is


def load(bundle: bytes) -> list[Entry]:
    """The functions of a session's code, in its order."""
    entries: list[Entry] = pickle.loads(bundle)
    return entries


class Function:
    """A function, ready to be called. A class is made here.

    Args:
        entry: of the session's code.
        style: how it gets its inputs: "arrow", "numpy" or "rows".
        outs: what it makes.
        name: for messages.
        kind: which rows it makes: "map", "filter" or "flat_map".
        most: rows that a flat_map makes at most, for each row of a call.
    """

    def __init__(
        self, entry: Entry, style: str, outs: Sequence[Declared], name: str, kind: str = "map", most: int = MOST
    ) -> None:
        self.name = name
        self.row: int | None = None  # at which the last call failed, if that is known
        self._outs, self._most = tuple(outs), most
        self._call, self._kwargs = entry["call"], dict(entry.get("kwargs") or {})
        if inspect.isclass(self._call):
            self._call, self._kwargs = self._call(*entry.get("args", ()), **self._kwargs), {}
        named = entry.get("results") or []
        self._results = named if len(named) == len(self._outs) else []
        self._style = style
        self._make = {"map": self._map, "filter": self._filter, "flat_map": self._flat_map}[kind]

    def call(self, columns: list[pa.Array], rows: int) -> Made:
        """What becomes of columns of so many rows."""
        self.row = None
        return self._make(columns, rows)

    def _map(self, columns: list[pa.Array], rows: int) -> Made:
        if self._style == "rows":
            results: Sequence[Any] = [[] for _ in self._outs]
            for returned in self._each(columns):
                for made, value in zip(results, self._split(returned), strict=True):
                    made.append(value)
        else:
            results = self._split(self._whole(columns))
        return Made([self._made(place, result, rows) for place, result in enumerate(results)])

    def _filter(self, columns: list[pa.Array], rows: int) -> Made:
        if self._style == "rows":
            return Made([], np.flatnonzero([self._truth(value) for value in self._each(columns)]).astype(np.int32))
        returned = self._whole(columns)
        mask = _perhaps(returned, "bool")
        if mask is None or not (pa.types.is_boolean(mask.type) or mask.null_count == len(mask)):
            raise Mistake(
                f"{self.name} returned {_found(returned)}; return an array of bools with one for each row, which says "
                "whether it stays"
            )
        if len(mask) != rows:
            raise Mistake(
                f"{self.name} returned {len(mask)} bools for {rows} rows; return one for each, in their order"
            )
        stays = pc.fill_null(mask.cast(pa.bool_()), False).to_numpy(zero_copy_only=False)
        return Made([], np.flatnonzero(stays).astype(np.int32))

    def _truth(self, value: Any) -> bool:
        """Whether a row stays, by what was returned for it; None is not true."""
        if isinstance(value, pa.BooleanScalar):
            value = value.as_py()
        if value is None or isinstance(value, (bool, np.bool_)):
            return bool(value)
        raise Mistake(f"{self.name} returned {_found(value)}; return True for a row that stays, and False for others")

    def _flat_map(self, columns: list[pa.Array], rows: int) -> Made:
        if self._style == "rows":
            parents, results = self._outputs(columns, rows)
        else:
            first, *results = self._split(self._whole(columns), _PARENTS)
            parents = self._parents(first, rows)
        return Made([self._made(i, result, len(parents), parents) for i, result in enumerate(results)], parents)

    def _outputs(self, columns: list[pa.Array], rows: int) -> tuple[Array, list[Any]]:
        """What becomes of rows, one after the other."""
        parents: list[int] = []
        results: list[list[Any]] = [[] for _ in self._outs]
        for returned in self._each(columns):
            if isinstance(returned, (str, bytes, Mapping)) or not hasattr(returned, "__iter__"):
                raise Mistake(
                    f"{self.name} returned {_found(returned)}; return a list of what the row becomes, [] for nothing, "
                    "or yield each"
                )
            row = self.row or 0
            for output in returned:
                if len(parents) == self._most * rows:
                    raise self._too_many(np.array([*parents, row]), rows)
                parents.append(row)
                for made, value in zip(results, self._split(output), strict=True):
                    made.append(value)
        return np.array(parents, np.int32), results

    def _parents(self, result: Any, rows: int) -> Array:
        """Of which rows results are, as a function by arrays says it."""
        found = _perhaps(result, "int64")
        if found is not None and len(found) == 0:  # of any type, as np.array([]) is of floats
            return np.zeros(0, np.int32)
        if found is None or found.null_count or not pa.types.is_integer(found.type):
            raise Mistake(
                f"{_PARENTS}: found {_found(result)}; return first of all an array of ints without nulls: of which "
                "input row each output row is"
            )
        parents: Array = found.to_numpy(zero_copy_only=False)
        outside, falls = (parents < 0) | (parents >= rows), parents[1:] < parents[:-1]
        if outside.any():
            at = int(outside.argmax())
            raise Mistake(f"{_PARENTS}: output row {at} is of row {parents[at]}; the call has rows 0 to {rows - 1}")
        if falls.any():
            at = int(falls.argmax()) + 1
            raise Mistake(
                f"{_PARENTS}: output row {at} is of row {parents[at]}, behind one of row {parents[at - 1]}; return "
                "them in the order of the input rows"
            )
        if len(parents) > self._most * rows:
            raise self._too_many(parents, rows)
        return parents.astype(np.int32)

    def _too_many(self, parents: Array, rows: int) -> Mistake:
        """About the row of which the most became, where a call makes too many."""
        became = np.bincount(parents, minlength=rows)
        self.row = int(became.argmax())
        return Mistake(
            f"it became {became[self.row]} rows or more, and all {rows} of the call {len(parents)} or more; at most "
            f"{self._most} for each may become of them: make fewer, or allow more by most="
        )

    def _whole(self, columns: list[pa.Array]) -> Any:
        """What it returns for whole columns."""
        if self._style == "arrow":
            return self._call(*columns, **self._kwargs)
        arrays = []
        for place, column in enumerate(columns):
            self._check_holes(column, place)
            arrays.append(column.to_numpy(zero_copy_only=False))
        return self._call(*arrays, **self._kwargs)

    def _each(self, columns: list[pa.Array]) -> Iterator[Any]:
        """What it returns for each row, which is self.row meanwhile."""
        for row, values in enumerate(zip(*map(_values, columns), strict=True)):
            self.row = row
            yield self._call(*values, **self._kwargs)
        self.row = None

    def _split(self, result: Any, *first: str) -> Sequence[Any]:
        """What a call returned, as one object for each result, behind those that come first."""
        if isinstance(result, (pa.RecordBatch, pa.Table)):
            result = dict(zip(result.column_names, result.columns, strict=True))
        elif type(result).__name__ == "DataFrame":  # of pandas or polars, which are not imported here
            result = {name: result[name] for name in result.columns}
        many, names = len(first) + len(self._outs), [*first, *self._results] if self._results else []
        wanted = ", ".join(names)
        if isinstance(result, Mapping) and names:
            if set(result) != set(names):
                found = ", ".join(map(str, result)) or "nothing"
                raise Mistake(f"{self.name} returned {found}; return {wanted}" + (", which out= names" * (not first)))
            return [result[name] for name in names]
        if many == 1:
            return [result]
        if not isinstance(result, (tuple, list)) or len(result) != many:
            raise Mistake(
                f"{self.name} returned {_found(result)}; return a tuple of {many}"
                + (f" ({wanted}, in this order), or a dict of these names" if wanted else "")
                + (f", of which the first are the {first[0]}" if first and not wanted else "")
            )
        return result

    def _check_holes(self, column: pa.Array, place: int) -> None:
        """Refuses nulls that NumPy's arrays cannot have: it has NaN for floats, and None for text, bytes and lists."""
        leaf = column
        while pa.types.is_list(leaf.type):
            leaf = leaf.flatten()
        if leaf.null_count == 0 or not (pa.types.is_integer(leaf.type) or pa.types.is_boolean(leaf.type)):
            return
        where = ""
        if leaf is column:
            self.row = column.is_null().index(True).as_py()
            where = f" in row {self.row} of the call"
        raise Mistake(
            f"{self._input(place)} of {self.name} has a null{where}, and NumPy has none for {leaf.type}; put "
            'penstock.fill_null(...) before it, or take Arrow arrays, with by="arrow"'
        )

    def _input(self, place: int) -> str:
        try:
            names = list(inspect.signature(self._call).parameters)
        except (TypeError, ValueError):
            names = []
        return f"the input {names[place]}" if place < len(names) else f"input {place + 1}"

    def _made(self, place: int, result: Any, rows: int, parents: Array | None = None) -> pa.Array:
        """A result as the Arrow array that was declared."""
        declared = self._outs[place]
        what = self._results[place] if self._results else "the result" if len(self._outs) == 1 else f"result {place}"
        try:
            found = _arrow_of(result, declared)
        except (TypeError, ValueError, OverflowError, pa.ArrowException) as err:
            raise Mistake(
                f"{what}: found {_found(result)}, which is no array of {declared}: {err}; return an Arrow or NumPy "
                "array, or a list, with a value for each row"
            ) from None
        due, output = ("row", "") if parents is None else ("parent", "output ")
        if len(found) != rows:
            raise Mistake(f"{what}: found {len(found)} values for {rows} {due}s; return one for each {due}, in order")
        try:
            return _cast(found, declared)
        except (ValueError, pa.ArrowException) as err:
            bad = _first_bad(found, declared)
            where = "" if bad is None else f" in {output}row {bad} of the call"
            self.row = bad if bad is None or parents is None else int(parents[bad])
            raise Mistake(
                f"{what}: found {found.type}{where}, wanted {declared}: {err}; return that, or declare in out= what it "
                "makes"
            ) from None


def _values(column: pa.Array) -> Iterable[Any]:
    """The rows of a column as Python values."""
    plain = column.null_count == 0 and (pa.types.is_integer(column.type) or pa.types.is_floating(column.type))
    values: Iterable[Any] = column.to_numpy(zero_copy_only=False).tolist() if plain else column.to_pylist()
    return values


def _found(result: Any) -> str:
    """A returned object, in few words."""
    if isinstance(result, np.ndarray):
        return f"a NumPy array of {result.dtype} and shape {list(result.shape)}"
    if isinstance(result, (pa.Array, pa.ChunkedArray)):
        return f"an Arrow array of {result.type}"
    if isinstance(result, (tuple, list)):
        return f"a {type(result).__name__} of {len(result)}"
    return "None" if result is None else f"a {type(result).__name__}"


def _arrow_of(result: Any, declared: Declared) -> pa.Array:
    """A returned object as an Arrow array, of whatever type it has by itself."""
    if isinstance(result, pa.ChunkedArray) or hasattr(result, "__arrow_c_stream__"):
        chunked = result if isinstance(result, pa.ChunkedArray) else pa.chunked_array(result)
        result = chunked.combine_chunks()  # of no chunks an empty array
    if isinstance(result, pa.FixedShapeTensorArray):
        return _of_tensors(result)
    if isinstance(result, pa.ExtensionArray):
        return result.storage
    if isinstance(result, pa.Array):
        return result
    if hasattr(result, "__arrow_c_array__") or type(result).__module__.startswith("pandas."):
        return pa.array(result)
    if hasattr(result, "__array__"):
        return _of_numpy(np.ma.asanyarray(result), declared)
    if isinstance(result, (list, tuple)):
        return pa.array([_element(value, declared.shape) for value in result])
    raise TypeError("it is neither an array nor a list")


def _perhaps(result: Any, kind: str) -> pa.Array | None:
    """A returned object as an array, if it is one."""
    try:
        return _arrow_of(result, Declared(kind))
    except (TypeError, ValueError, OverflowError, pa.ArrowException):
        return None


def _of_tensors(array: pa.FixedShapeTensorArray) -> pa.Array:
    """Tensors of fixed shape as nested lists of that shape, in row-major order."""
    shape, order = list(array.type.shape), array.type.permutation
    if order and list(order) != sorted(order):
        if array.null_count:
            raise ValueError("it has nulls and a permutation; give it one of these")
        return _of_array(np.ascontiguousarray(array.to_numpy_ndarray()))
    _, values, valid = _opened(array.storage)
    return _shaped(values, shape, len(array), valid)


def _of_numpy(array: Array, declared: Declared) -> pa.Array:
    if array.ndim == 0:
        raise TypeError("it is a single value")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if array.dtype.kind in "OT":  # objects, and NumPy's strings of any length
        return pa.array([_element(value, declared.shape) for value in array.tolist()])
    return _of_array(array)


def _of_array(array: Array) -> pa.Array:
    """An array of any number of dimensions, those beyond the first as lists."""
    values = pa.array(array.reshape(-1))
    return values if array.ndim == 1 else _shaped(values, array.shape[1:], array.shape[0], None)


def _shaped(values: pa.Array, shape: Sequence[int], rows: int, valid: Array | None) -> pa.Array:
    """The values of tensors of one shape as lists of lists; rows that are not valid have none."""
    present = rows if valid is None else int(valid.sum())
    for place in range(len(shape) - 1, 0, -1):
        lists = present * math.prod(shape[:place])
        values = _lists(np.full(lists, shape[place]), values, None)
    return _lists(np.full(rows, shape[0]) if valid is None else np.where(valid, shape[0], 0), values, valid)


def _lists(lengths: Array, values: pa.Array, valid: Array | None) -> pa.Array:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    if offsets[-1] >= 1 << 31:
        raise ValueError(f"it has {offsets[-1]} values, and a call can return 2147483647 at most")
    mask = None if valid is None else pa.array(~valid)
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), values, mask=mask)


def _element(value: Any, shape: tuple[int, ...]) -> Any:
    """A row's value as Arrow's own conversion takes it: its lists have one dimension."""
    if isinstance(value, np.generic) or not hasattr(value, "__array__"):
        return value
    array = np.asarray(value)
    if array.ndim == 0:
        return array.item()
    if shape and array.shape == shape:
        return array.reshape(-1)
    return array if array.ndim == 1 else array.tolist()


def _cast(array: pa.Array, declared: Declared) -> pa.Array:
    """An array as the declared type, if no value changes but for floats, which are rounded."""
    if declared.shape:
        array = _flattened(array, declared.shape)
    return _as(array, declared.arrow())


def _as(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type == kind:
        return array
    if pa.types.is_null(array.type):
        return pa.nulls(len(array), kind)
    if pa.types.is_dictionary(array.type):
        return _as(array.dictionary_decode(), kind)
    if pa.types.is_list(kind):
        lengths, values, valid = _opened(array)
        return _lists(lengths, _as(values, kind.value_type), valid)
    if _family(array.type) not in _TAKES.get(_family(kind), ()):
        raise ValueError("these do not convert by themselves")
    if pa.types.is_boolean(array.type) and pa.types.is_float16(kind):
        array = array.cast(pa.float32())
    return array.cast(kind)  # safe: an error where it would overflow, or cut off


def _opened(array: pa.Array) -> tuple[Array, pa.Array, Array | None]:
    """Lists of any of Arrow's forms: the length of each (of null ones 0), the values of all, and which are not null."""
    if not _is_list(array.type):
        raise ValueError("these are no lists")
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    valid = None if array.null_count == 0 else array.is_valid().to_numpy(zero_copy_only=False)
    return lengths, array.flatten(), valid


def _flattened(array: pa.Array, shape: tuple[int, ...]) -> pa.Array:
    """Rows of one shape as lists of all their values."""
    if pa.types.is_null(array.type):
        return array
    levels, kind = 0, array.type
    while _is_list(kind):
        levels, kind = levels + 1, kind.value_type
    if levels == 0:
        raise ValueError("these are no lists")
    if levels not in (1, len(shape)):
        raise ValueError(f"these are lists of {levels} levels, where {len(shape)} are due")
    count = math.prod(shape)
    lengths, values, valid = _opened(array)
    present = lengths if valid is None else lengths[valid]
    for size in shape if levels > 1 else (count,):
        wrong = present != size
        if wrong.any():
            raise ValueError(f"there are {present[wrong][0]} values where shape {list(shape)} has {size}")
        if not _is_list(values.type):
            break
        present, values, holes = _opened(values)
        if holes is not None:
            raise ValueError("there is a null inside a tensor; a whole row may be null")
    return _lists(np.full(len(array), count) if valid is None else np.where(valid, count, 0), values, valid)


def _is_list(kind: pa.DataType) -> bool:
    named: list[Callable[[pa.DataType], bool]] = [
        pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list, pa.types.is_list_view,
        pa.types.is_large_list_view,
    ]  # fmt: skip
    return any(is_it(kind) for is_it in named)


_TAKES = {"number": ("number", "bool"), "bool": ("bool",), "bytes": ("bytes",)}


def _family(kind: pa.DataType) -> str:
    """What converts into each other: text does not become a number by itself, nor a number text."""
    if pa.types.is_boolean(kind):
        return "bool"
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return "number"
    bytes_ = ("string", "large_string", "string_view", "binary", "large_binary", "binary_view")
    return "bytes" if str(kind) in bytes_ or pa.types.is_fixed_size_binary(kind) else str(kind)


def _first_bad(array: pa.Array, declared: Declared) -> int | None:
    """The first row that does not convert; None if that is the type's fault."""

    def fails(rows: pa.Array) -> bool:
        try:
            _cast(rows, declared)
        except (ValueError, pa.ArrowException):
            return True
        return False

    if fails(array[:0]):
        return None
    low, high = 0, len(array)  # rows before low convert, and those before high do not
    while high - low > 1:
        middle = (low + high) // 2
        if fails(array[low:middle]):
            high = middle
        else:
            low = middle
    return low


_OWN = str(Path(__file__).parent) + os.sep


def user_traceback(err: BaseException) -> str:
    """The traceback of what a function raised, less the frames of this package."""
    told = traceback.TracebackException.from_exception(err)
    seen: set[int] = set()
    each: traceback.TracebackException | None = told
    while each is not None and id(each) not in seen:
        seen.add(id(each))
        frames = [frame for frame in each.stack if not frame.filename.startswith(_OWN)]
        each.stack = traceback.StackSummary.from_list(frames)
        each = each.__cause__ or each.__context__
    return "".join(told.format()).rstrip()


__all__ = ["MOST", "Declared", "Entry", "Function", "Made", "Mistake", "load", "user_traceback"]
