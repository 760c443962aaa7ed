"""Rows as flat arrays: what the buffers of an Arrow record in tensor layout hold, one array for each.

Batches come as Flat (_session/rows.py), and become tensors of it (batch.py). Arrow's own objects, of which a record
with many columns has hundreds, are made only where they are asked for. Everything is a view, and keeps its memory
alive, but for the bools and the offsets of a record. Nothing changes once it is made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"

OFFSET = np.dtype(np.int32)


class Part(NamedTuple):
    """One array: of a column's offsets, values, weights, lengths or bytes, or of which byte strings are whose."""

    column: int
    dtype: np.dtype[Any]
    width: int  # bytes of a value


class Form:
    """How a schema's columns lie in flat arrays."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.parts: list[Part] = []
        self.index: dict[tuple[str, str], int] = {}  # by column and "rows", "offsets", "values", ...
        for i, f in enumerate(schema):
            self._add(i, f.name, f.type)

    def _add(self, column: int, name: str, kind: pa.DataType) -> None:
        if pa.types.is_list(kind) and pa.types.is_binary(kind.value_type):
            self.index[name, "rows"] = len(self.parts)
            self._part(column, OFFSET)
            kind = kind.value_type
        if pa.types.is_list(kind) or pa.types.is_binary(kind):
            self.index[name, "offsets"] = len(self.parts)
            self._part(column, OFFSET)
        if pa.types.is_binary(kind):
            values = [pa.uint8()]
        elif pa.types.is_list(kind) and pa.types.is_struct(kind.value_type):
            values = [kind.value_type.field(i).type for i in range(2)]
        elif pa.types.is_struct(kind):
            values = [kind.field(0).type.value_type, kind.field(1).type]
        elif pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
            values = [kind.value_type]
        else:
            values = [kind]
        second = "lengths" if pa.types.is_struct(kind) else "weights"
        for what, value in zip(("values", second), values, strict=False):
            self.index[name, what] = len(self.parts)
            self._part(column, _DTYPES[value])

    def _part(self, column: int, dtype: np.dtype[Any]) -> None:
        self.parts.append(Part(column, dtype, dtype.itemsize))


# Those of arrays and of to_pandas_dtype would import pandas, which takes longer than a first batch.
_DTYPES = {pa.from_numpy_dtype(dtype): dtype for dtype in map(np.dtype, "?bBhHiIqQefd")}


class Flat:
    """Rows of a form: an array for each of its parts. There is one more offset than rows; columns may share them."""

    __slots__ = ("_record", "form", "num_rows", "parts")

    def __init__(self, form: Form, rows: int, parts: Sequence[Array], record: pa.RecordBatch | None = None) -> None:
        self.form, self.num_rows, self.parts = form, rows, parts
        self._record = record

    @classmethod
    def of(cls, record: pa.RecordBatch) -> Flat:
        """A record's, which has no nulls."""
        form, rows = Form(record.schema), record.num_rows
        parts: list[Array] = []
        for column, f in zip(record.columns, record.schema, strict=True):
            if pa.types.is_list(f.type):
                offsets, values = _from_zero(column.offsets, rows), column.values
                if pa.types.is_binary(values.type):
                    first = column.offsets[0].as_py() if rows else 0
                    parts += [offsets, *_strings(values[first : first + offsets[-1]])]
                    continue
                several = pa.types.is_struct(values.type)
                children = [values.field(0), values.field(1)] if several else [values]
                first = column.offsets[0].as_py() if rows else 0
                parts += [offsets, *(_values(child)[first : first + offsets[-1]] for child in children)]
            elif pa.types.is_binary(f.type):
                parts += _strings(column)
            elif pa.types.is_struct(f.type):
                parts += [_values(column.field(0)), _values(column.field(1))]
            else:
                parts.append(_values(column))
        return cls(form, rows, parts, record)

    def __reduce__(self) -> tuple[Callable[[pa.RecordBatch], Flat], tuple[pa.RecordBatch]]:
        return Flat.of, (self.to_arrow(),)

    @property
    def schema(self) -> pa.Schema:
        """The record's."""
        return self.form.schema

    def to_arrow(self) -> pa.RecordBatch:
        """The same rows as a record, in the same memory."""
        if self._record is None:
            by_column: dict[int, list[Array]] = {}
            for part, array in zip(self.form.parts, self.parts, strict=True):
                by_column.setdefault(part.column, []).append(array)
            columns = [self._column(f.type, by_column[i]) for i, f in enumerate(self.schema)]
            self._record = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        return self._record

    def _column(self, kind: pa.DataType, parts: list[Array]) -> pa.Array:
        rows = self.num_rows
        if pa.types.is_list(kind) or pa.types.is_binary(kind):
            ends, *values = parts
            buffers = [None, pa.py_buffer(ends)]
            if pa.types.is_binary(kind):
                return pa.Array.from_buffers(kind, rows, [*buffers, pa.py_buffer(values[0])])
            element = kind.value_type
            if pa.types.is_binary(element):
                strings = [None, *map(pa.py_buffer, values)]
                child = pa.Array.from_buffers(element, len(values[0]) - 1, strings)
            elif pa.types.is_struct(element):
                children = [arrow(v, element.field(i).type) for i, v in enumerate(values)]
                child = pa.Array.from_buffers(element, len(values[0]), [None], children=children)
            else:
                child = arrow(values[0], element)
            return pa.Array.from_buffers(kind, rows, buffers, children=[child])
        if pa.types.is_struct(kind):
            children = [arrow(v, kind.field(i).type) for i, v in enumerate(parts)]
            return pa.Array.from_buffers(kind, rows, [None], children=children)
        return arrow(parts[0], kind)


def arrow(values: Array, kind: pa.DataType) -> pa.Array:
    """A flat array as Arrow's, of lists of one length or of their values: a view, but for bools."""
    if pa.types.is_fixed_size_list(kind):
        return pa.FixedSizeListArray.from_arrays(arrow(values, kind.value_type), type=kind)
    if pa.types.is_boolean(kind):
        return pa.array(values)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def _from_zero(ends: pa.Array, rows: int) -> Array:
    """Offsets that begin at 0."""
    given: Array = ends.to_numpy() if rows else np.zeros(1, OFFSET)
    offsets: Array = given - given[0]
    return offsets


def _strings(column: pa.Array) -> list[Array]:
    """The offsets and the bytes of an array of byte strings."""
    n = len(column)
    _, ends, data = column.buffers()
    ends = pa.Array.from_buffers(pa.int32(), n + 1, [None, ends], offset=column.offset)
    offsets = _from_zero(ends, n)
    first = ends[0].as_py() if n else 0
    return [offsets, _memory(data)[first : first + offsets[-1]]]


def _values(flat: pa.Array) -> Array:
    """The values of an array of numbers or bools, or of lists of one length."""
    if pa.types.is_fixed_size_list(flat.type):
        width = flat.type.list_size
        return _values(flat.values)[flat.offset * width :][: len(flat) * width]
    if pa.types.is_boolean(flat.type):
        bools: Array = flat.to_numpy(zero_copy_only=False)
        return bools
    dtype, data = _DTYPES[flat.type], flat.buffers()[1]
    return _memory(data)[flat.offset * dtype.itemsize :][: len(flat) * dtype.itemsize].view(dtype)


class _Memory:
    """A buffer as NumPy sees memory: writable, which tensors are, though Arrow's own buffers say that they are not."""

    def __init__(self, buffer: pa.Buffer) -> None:
        self._buffer = buffer
        self.__array_interface__ = {
            "data": (buffer.address, False), "shape": (buffer.size,), "typestr": "|u1", "version": 3
        }  # fmt: skip


def _memory(buffer: pa.Buffer | None) -> Array:
    return np.empty(0, np.uint8) if buffer is None or buffer.size == 0 else np.asarray(_Memory(buffer))
