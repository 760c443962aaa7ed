"""Rows as flat arrays: what the buffers of an Arrow record in tensor layout hold, one array for each.

Records come as Flat from workers (_session/messages.py), are joined to it (_session/rebatch.py), and become tensors of
it (batch.py). Arrow's own objects, of which a record with many columns has hundreds, are made only where they are asked
for; of what came in a message, so are arrays. Everything is a view, and keeps its memory alive; but for what is packed:
bools, narrow values, and offsets of a record that was cut out of a larger one. Nothing changes once it is made.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Longs: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
Offsets: TypeAlias = "np.ndarray[tuple[int, int], np.dtype[np.int32]]"

OFFSET = np.dtype(np.int32)
BOOL = np.dtype(np.bool_)
LONG = np.dtype(np.int64)
NARROW = {size: np.dtype(f"<u{size}") for size in (1, 2, 4)}  # what int64 values may be, by their bytes


class Part(NamedTuple):
    """One array of values: of a column, of its weights, or its bytes."""

    column: int
    dtype: np.dtype[Any]
    width: int  # values of a row; 0: rows differ
    ragged: int  # then: the column's number among those whose rows differ; else -1
    buffer: int  # of a message: where its values are
    node: int  # of a message: which counts its values; -1: none


class Form:
    """How a schema's columns lie in flat arrays, and in a message's buffers and nodes."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.parts: list[Part] = []
        self.ragged: list[int] = []  # columns whose rows differ
        self._offsets: list[int] = []  # the buffers of their offsets
        self.whole: list[tuple[int, int]] = []  # nodes that have so many entries for each row
        self.alike: list[tuple[int, int]] = []  # nodes that have as many entries as others
        self.columns: list[int] = []  # of each node
        self.buffers = 0
        self.index: dict[tuple[str, str], int] = {}  # parts by column and "values" or "weights"
        self.jagged: dict[str, int] = {}  # numbers of the columns whose rows differ
        for i, f in enumerate(schema):
            self._add(i, f.name, f.type)
        self.sized, self.sizes = np.array(self.whole, np.int64).reshape(-1, 2).T
        self.offsets = np.array(self._offsets, np.int64)  # the buffers of their offsets
        self.each = tuple(range(len(self.ragged)))
        # The same as parts, one array for each of their fields.
        self.at = np.array([p.buffer for p in self.parts], np.int64)
        self.items = np.array([p.dtype.itemsize for p in self.parts], np.int64)
        self.bits = np.array([1 if p.dtype == BOOL else 8 * p.dtype.itemsize for p in self.parts], np.int64)
        self.long = np.array([p.dtype == LONG for p in self.parts], np.bool_)
        self.widths = np.array([p.width for p in self.parts], np.int64)
        self.list_of = np.array([p.ragged for p in self.parts], np.int64)
        # Of those parts whose rows differ.
        self.varying = np.flatnonzero(self.widths == 0)
        self.counted = np.array([p.node for p in self.parts if p.width == 0], np.int64)

    def _add(self, column: int, name: str, kind: pa.DataType) -> None:
        node = self._node(column)
        self.whole.append((node, 1))
        self._buffer()  # of its validity, as the first of each node's
        if pa.types.is_list(kind) or pa.types.is_binary(kind):
            self.jagged[name] = len(self.ragged)
            self.ragged.append(column)
            self._offsets.append(self._buffer())
        if pa.types.is_list(kind):
            self._add_values(column, name, kind.value_type, len(self.ragged) - 1)
        elif pa.types.is_binary(kind):
            self._part(name, "values", Part(column, np.dtype(np.uint8), 0, len(self.ragged) - 1, self._buffer(), -1))
        elif pa.types.is_fixed_size_list(kind):
            child = self._node(column)
            self.whole.append((child, kind.list_size))
            self._buffer()
            dtype = _dtype(kind.value_type)
            self._part(name, "values", Part(column, dtype, kind.list_size, -1, self._buffer(), child))
        else:
            self._part(name, "values", Part(column, _dtype(kind), 1, -1, self._buffer(), node))

    def _add_values(self, column: int, name: str, kind: pa.DataType, ragged: int) -> None:
        """The values of lists, or their values and weights."""
        node = self._node(column)
        self._buffer()
        if not pa.types.is_struct(kind):
            self._part(name, "values", Part(column, _dtype(kind), 0, ragged, self._buffer(), node))
            return
        for i, part in enumerate(("values", "weights")):
            child = self._node(column)
            self.alike.append((child, node))
            self._buffer()
            self._part(name, part, Part(column, _dtype(kind.field(i).type), 0, ragged, self._buffer(), child))

    def _node(self, column: int) -> int:
        self.columns.append(column)
        return len(self.columns) - 1

    def _buffer(self) -> int:
        self.buffers += 1
        return self.buffers - 1

    def _part(self, name: str, what: str, part: Part) -> None:
        self.index[name, what] = len(self.parts)
        self.parts.append(part)


@functools.lru_cache(32)
def indices(where: tuple[int, ...]) -> Longs:
    """Numbers of offsets, to look up by."""
    return np.array(where, np.int64)


def _dtype(kind: pa.DataType) -> np.dtype[Any]:
    dtype: np.dtype[Any] = pa.array([], kind).to_numpy(zero_copy_only=False).dtype  # to_pandas_dtype needs pandas
    return dtype


class Packed:
    """The values of a form's parts as they lie in a message.

    int64 values may be narrow: unsigned, of fewer bytes. Bools are bits.
    """

    __slots__ = ("begins", "body", "counts", "form", "sizes")

    def __init__(self, form: Form, body: memoryview, begins: Longs, counts: Longs, sizes: Longs) -> None:
        self.form, self.body = form, body
        self.begins = begins  # of each part, in the body
        self.counts = counts  # of its values
        self.sizes = sizes  # the bytes of one

    def lies(self, part: int) -> Array:
        """A part's values as they lie there: a view, but for bools."""
        dtype, n, at = self.form.parts[part].dtype, int(self.counts[part]), int(self.begins[part])
        if dtype == BOOL:
            bits = np.frombuffer(self.body, np.uint8, (n + 7) // 8, at)
            return np.unpackbits(bits, count=n, bitorder="little").view(BOOL)
        size = int(self.sizes[part])
        return np.frombuffer(self.body, dtype if size == dtype.itemsize else NARROW[size], n, at)

    def arrays(self) -> list[Array]:
        """The values of all parts, each of its type."""
        return [self.lies(i).astype(p.dtype, copy=False) for i, p in enumerate(self.form.parts)]


class Flat:
    """Rows of a form: the values of each of its parts, and the offsets of columns whose rows differ."""

    __slots__ = ("_parts", "_record", "form", "num_rows", "offsets", "packed", "where")

    def __init__(
        self, form: Form, rows: int, parts: Sequence[Array] | Packed, offsets: Offsets, where: tuple[int, ...],
        record: pa.RecordBatch | None = None,
    ) -> None:  # fmt: skip
        self.form, self.num_rows = form, rows
        self.packed = parts if isinstance(parts, Packed) else None
        self._parts = None if isinstance(parts, Packed) else parts
        self.offsets = offsets  # [n, rows + 1]
        self.where = where  # which of them a column has: some have the same
        self._record = record

    @classmethod
    def of(cls, record: pa.RecordBatch, form: Form | None = None) -> Flat:
        """A record's. It has no nulls, and is of the form's schema."""
        form, rows = form or Form(record.schema), record.num_rows
        offsets = np.zeros((len(form.ragged), rows + 1), OFFSET)
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
        return cls(form, rows, parts, offsets, tuple(range(len(form.ragged))), record)

    def __reduce__(self) -> tuple[Callable[[pa.RecordBatch], Flat], tuple[pa.RecordBatch]]:
        return Flat.of, (self.to_arrow(),)

    @property
    def schema(self) -> pa.Schema:
        """The record's."""
        return self.form.schema

    @property
    def parts(self) -> Sequence[Array]:
        """The values of each part."""
        if self._parts is None:
            assert self.packed is not None
            self._parts = self.packed.arrays()
        return self._parts

    def lies(self, part: int) -> Array:
        """A part's values; narrow ones of a message as they lie there."""
        return self.parts[part] if self.packed is None else self.packed.lies(part)

    def memory(self, part: int) -> memoryview:
        """Where a part's values lie: the body that the message had, or they alone."""
        return self.parts[part].view(np.uint8).data if self.packed is None else self.packed.body

    @property
    def nbytes(self) -> int:
        """Of all arrays, those that columns share counted once."""
        return sum(part.nbytes for part in self.parts) + self.offsets.nbytes

    def to_arrow(self) -> pa.RecordBatch:
        """The same rows as a record, in the same memory."""
        if self._record is None:
            by_column: dict[int, list[Array]] = {}
            for part, values in zip(self.form.parts, self.parts, strict=True):
                by_column.setdefault(part.column, []).append(values)
            ragged = {column: self.offsets[where] for column, where in zip(self.form.ragged, self.where, strict=True)}
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
