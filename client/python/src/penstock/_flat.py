"""Rows as flat arrays: what the buffers of an Arrow record in tensor layout hold, one array for each.

Batches come as Flat (_session/session.py), and become tensors of it (batch.py). Arrow's own objects, of which a record
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
    """One array of values: of a column, of its weights, or its bytes."""

    column: int
    dtype: np.dtype[Any]
    ragged: int  # the column's number among those whose rows differ; -1: they do not


class Form:
    """How a schema's columns lie in flat arrays."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.parts: list[Part] = []
        self.index: dict[tuple[str, str], int] = {}  # parts by column and "values" or "weights"
        self.jagged: dict[str, int] = {}  # numbers of the columns whose rows differ
        self.ragged: list[int] = []  # these columns
        for i, f in enumerate(schema):
            self._add(i, f.name, f.type)

    def _add(self, column: int, name: str, kind: pa.DataType) -> None:
        ragged = -1
        if pa.types.is_list(kind) or pa.types.is_binary(kind):
            ragged = self.jagged[name] = len(self.ragged)
            self.ragged.append(column)
        if pa.types.is_binary(kind):
            values = [pa.uint8()]
        elif pa.types.is_list(kind) and pa.types.is_struct(kind.value_type):
            values = [kind.value_type.field(i).type for i in range(2)]
        elif pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind):
            values = [kind.value_type]
        else:
            values = [kind]
        for what, value in zip(("values", "weights"), values, strict=False):
            self.index[name, what] = len(self.parts)
            self.parts.append(Part(column, _dtype(value), ragged))


def _dtype(kind: pa.DataType) -> np.dtype[Any]:
    dtype: np.dtype[Any] = pa.array([], kind).to_numpy(zero_copy_only=False).dtype  # to_pandas_dtype needs pandas
    return dtype


class Flat:
    """Rows of a form: the values of each of its parts, and the offsets of columns whose rows differ."""

    __slots__ = ("_record", "form", "num_rows", "offsets", "parts")

    def __init__(
        self,
        form: Form,
        rows: int,
        parts: Sequence[Array],
        offsets: Sequence[Array],
        record: pa.RecordBatch | None = None,
    ) -> None:
        self.form, self.num_rows, self.parts = form, rows, parts
        self.offsets = offsets  # rows + 1 of each; columns may share them
        self._record = record

    @classmethod
    def of(cls, record: pa.RecordBatch, form: Form | None = None) -> Flat:
        """A record's. It has no nulls, and is of the form's schema."""
        form, rows = form or Form(record.schema), record.num_rows
        offsets = [np.zeros(rows + 1, OFFSET) for _ in form.ragged]
        parts: list[Array] = []
        for column, f in zip(record.columns, record.schema, strict=True):
            if pa.types.is_list(f.type):
                ends, values = column.offsets, column.values
                first, last = _from_zero(ends, offsets[form.jagged[f.name]])
                several = pa.types.is_struct(values.type)
                for child in [values.field(0), values.field(1)] if several else [values]:
                    parts.append(_values(child)[first:last])
            elif pa.types.is_binary(f.type):
                _, ends, data = column.buffers()
                ends = pa.Array.from_buffers(pa.int32(), rows + 1, [None, ends], offset=column.offset)
                first, last = _from_zero(ends, offsets[form.jagged[f.name]])
                parts.append(_memory(data)[first:last] if last > first else np.empty(0, np.uint8))
            elif pa.types.is_fixed_size_list(f.type):
                width = f.type.list_size
                parts.append(_values(column.values)[column.offset * width :][: rows * width])
            else:
                parts.append(_values(column))
        return cls(form, rows, parts, offsets, record)

    def __reduce__(self) -> tuple[Callable[[pa.RecordBatch], Flat], tuple[pa.RecordBatch]]:
        return Flat.of, (self.to_arrow(),)

    @property
    def schema(self) -> pa.Schema:
        """The record's."""
        return self.form.schema

    @property
    def nbytes(self) -> int:
        """Of all arrays."""
        return sum(array.nbytes for array in (*self.parts, *self.offsets))

    def to_arrow(self) -> pa.RecordBatch:
        """The same rows as a record, in the same memory."""
        if self._record is None:
            by_column: dict[int, list[Array]] = {}
            for part, values in zip(self.form.parts, self.parts, strict=True):
                by_column.setdefault(part.column, []).append(values)
            ragged = dict(zip(self.form.ragged, self.offsets, strict=True))
            columns = [self._column(f.type, by_column[i], ragged.get(i)) for i, f in enumerate(self.schema)]
            self._record = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        return self._record

    def _column(self, kind: pa.DataType, parts: list[Array], offsets: Array | None) -> pa.Array:
        rows, values = self.num_rows, parts[0]
        if offsets is not None:
            ends = pa.py_buffer(offsets)
            if pa.types.is_binary(kind):
                return pa.Array.from_buffers(kind, rows, [None, ends, pa.py_buffer(values)])
            element = kind.value_type
            if pa.types.is_struct(element):
                children = [arrow(v, element.field(i).type) for i, v in enumerate(parts)]
                child = pa.Array.from_buffers(element, len(values), [None], children=children)
            else:
                child = arrow(values, element)
            return pa.Array.from_buffers(kind, rows, [None, ends], children=[child])
        if pa.types.is_fixed_size_list(kind):
            return pa.FixedSizeListArray.from_arrays(arrow(values, kind.value_type), type=kind)
        return arrow(values, kind)


def arrow(values: Array, kind: pa.DataType) -> pa.Array:
    """A flat array as Arrow's: a view, but for bools."""
    if pa.types.is_boolean(kind):
        return pa.array(values)
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


def _from_zero(ends: pa.Array, out: Array) -> tuple[int, int]:
    """Fills in offsets that begin at 0; returns the first and the last as they were."""
    if len(ends) == 0 or len(out) == 1:
        return 0, 0
    given = ends.to_numpy()
    np.subtract(given, given[0], out=out)
    return int(given[0]), int(given[-1])


def _values(flat: pa.Array) -> Array:
    """The values of an array of numbers or bools."""
    if pa.types.is_boolean(flat.type):
        bools: Array = flat.to_numpy(zero_copy_only=False)
        return bools
    dtype, data = _dtype(flat.type), flat.buffers()[1]
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
