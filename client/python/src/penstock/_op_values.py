"""The declared type of a result of a function, and what was returned for it as an Arrow array of exactly that type."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Array: TypeAlias = "np.ndarray[Any, Any]"

_KINDS = {
    "bool": pa.bool_(), "int8": pa.int8(), "int16": pa.int16(), "int32": pa.int32(), "int64": pa.int64(),
    "uint8": pa.uint8(), "uint16": pa.uint16(), "uint32": pa.uint32(),
    "float16": pa.float16(), "float32": pa.float32(), "float64": pa.float64(), "binary": pa.binary(),
}  # fmt: skip


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


def values(column: pa.Array) -> Iterable[Any]:
    """The rows of a column as Python values."""
    plain = column.null_count == 0 and (pa.types.is_integer(column.type) or pa.types.is_floating(column.type))
    values: Iterable[Any] = column.to_numpy(zero_copy_only=False).tolist() if plain else column.to_pylist()
    return values


def described(result: Any) -> str:
    """A returned object, in few words."""
    if isinstance(result, np.ndarray):
        return f"a NumPy array of {result.dtype} and shape {list(result.shape)}"
    if isinstance(result, (pa.Array, pa.ChunkedArray)):
        return f"an Arrow array of {result.type}"
    if isinstance(result, (tuple, list)):
        return f"a {type(result).__name__} of {len(result)}"
    return "None" if result is None else f"a {type(result).__name__}"


def arrow_of(result: Any, declared: Declared) -> pa.Array:
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
        return _of_numpy(np.ma.asanyarray(_detached(result)), declared)
    if isinstance(result, (list, tuple)):
        return pa.array([_element(value, declared.shape) for value in result])
    raise TypeError("it is neither an array nor a list")


def perhaps(result: Any, kind: str) -> pa.Array | None:
    """A returned object as an array, if it is one."""
    try:
        return arrow_of(result, Declared(kind))
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
    array = np.asarray(_detached(value))
    if array.ndim == 0:
        return array.item()
    if shape and array.shape == shape:
        return array.reshape(-1)
    return array if array.ndim == 1 else array.tolist()


def _detached(value: Any) -> Any:
    """A tensor of torch's without its gradient: with one NumPy cannot have it."""
    return value.detach() if getattr(value, "requires_grad", False) else value


def cast(array: pa.Array, declared: Declared) -> pa.Array:
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


def first_bad(array: pa.Array, declared: Declared) -> int | None:
    """The first row that does not convert; None if that is the type's fault."""

    def fails(rows: pa.Array) -> bool:
        try:
            cast(rows, declared)
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
