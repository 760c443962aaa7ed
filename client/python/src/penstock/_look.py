"""What a loader gives, without reading: the schema of its batches, and some first rows as a table.

Tables are shown as text and, in notebooks, as HTML, as those of datasets are (_dataset.py). Everything is immutable,
and made of Arrow's schemas and records in tensor layout (docs/internals/tensors.md).
"""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from penstock._columns import shape_of

_C = TypeVar("_C")

_LONGEST = 40  # characters of a value that are shown


class Column(NamedTuple):
    """A feature of a loader's batches.

    Attributes:
        name: as the batch has it.
        layout: where it is: "dense" (a column of batch.dense), "sparse", "label", "bytes", "image", "tensor", "padded"
            or "provenance".
        dtype: of its values, as NumPy and ml_dtypes name it.
        shape: of a row's values; () is one value, (None,) any number.
        weighted: whether each value has a float32 beside it.
    """

    name: str
    layout: str
    dtype: str
    shape: tuple[int | None, ...] = ()
    weighted: bool = False  # each value has a float32 beside it


class ByName(tuple[_C, ...], Generic[_C]):
    """What has names, in its order; [name] is one of them. It is shown as a table."""

    _kind = "column"

    @property
    def names(self) -> tuple[str, ...]:
        """Of all, in their order."""
        return tuple(column.name for column in self)  # type: ignore[attr-defined]

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return super().__getitem__(key)
        if key not in self.names:
            raise KeyError(f"no {self._kind} is called {key!r}; there are: {', '.join(self.names)}")
        return super().__getitem__(self.names.index(key))

    def _cells(self) -> list[tuple[str, ...]]:
        """The table, its head first."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return aligned(self._cells())

    def _repr_html_(self) -> str:
        return html_table(self._cells())


class Schema(ByName[Column]):
    """The features of a loader's batches, in their order; schema[name] is one by its name."""

    _kind = "feature"

    @classmethod
    def of(cls, schema: pa.Schema) -> Schema:
        """Of batches in tensor layout."""
        return cls(column for f in schema for column in _columns(f))

    def _cells(self) -> list[tuple[str, ...]]:
        return [("feature", "layout", "values"), *((c.name, c.layout, _shown_type(c)) for c in self)]


def _columns(f: pa.Field) -> list[Column]:
    metadata = f.metadata or {}
    layout = metadata.get(b"penstock.layout", b"provenance").decode()
    kind = f.type
    if layout == "dense":
        return [Column(name, layout, "float32") for name in json.loads(metadata[b"penstock.names"])]
    if layout == "sparse":
        weighted = pa.types.is_struct(kind.value_type)
        value = kind.value_type.field(0).type if weighted else kind.value_type
        return [Column(f.name, layout, _dtype(value), (None,), weighted)]
    if layout == "bytes":
        return [Column(f.name, layout, "uint8", (None, None) if pa.types.is_list(kind) else (None,))]
    if layout == "image":
        return [Column(f.name, layout, _dtype(kind.value_type), shape_of(metadata))]
    if layout in ("tensor", "padded"):
        return [Column(f.name, layout, metadata[b"penstock.dtype"].decode(), shape_of(metadata))]
    return [Column(f.name, layout, _dtype(kind))]


def _dtype(kind: pa.DataType) -> str:
    return str(pa.array([], kind).to_numpy(zero_copy_only=False).dtype)


def _shown_type(c: Column) -> str:
    shape = "".join(f", {'any' if n is None else n}" for n in c.shape)
    return f"{c.dtype} [rows{shape}]" + (", weighted" if c.weighted else "")


class Rows:
    """Some rows as loader.peek() found them: table is an Arrow table with a column for each feature."""

    __slots__ = ("schema", "table")

    def __init__(self, schema: pa.Schema, records: Sequence[pa.RecordBatch]) -> None:
        self.schema = Schema.of(schema)
        self.table = _table(schema, records)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __repr__(self) -> str:
        if not len(self):
            return f"no rows of {', '.join(self.table.column_names)}"
        return aligned(self._cells())

    def _repr_html_(self) -> str:
        return html_table(self._cells())

    def _cells(self) -> list[tuple[str, ...]]:
        values = map(_values, self.schema, self.table.columns)
        columns = [[_shown(value) for value in column] for column in values]
        return [tuple(self.table.column_names), *zip(*columns, strict=True)]


def _values(column: Column, found: pa.ChunkedArray) -> list[Any]:
    """What people read in place of bits, and of rows of several dimensions."""
    if column.layout not in ("tensor", "padded"):
        return found.to_pylist()  # type: ignore[no-any-return]
    whole = found.combine_chunks()
    rows = whole.field(0) if column.layout == "padded" else whole
    flat = (rows.flatten() if column.shape else rows).to_numpy(zero_copy_only=False)
    if column.dtype == "bfloat16":
        flat = (flat.astype(np.uint32) << 16).view(np.float32)
    elif column.dtype == "bool":
        flat = flat.astype(bool)
    return flat.reshape(len(rows), *column.shape).tolist()  # type: ignore[no-any-return]


def _table(schema: pa.Schema, records: Sequence[pa.RecordBatch]) -> pa.Table:
    whole = pa.Table.from_batches(records, schema).combine_chunks()
    names: list[str] = []
    arrays: list[pa.ChunkedArray] = []
    for f, column in zip(schema, whole.columns, strict=True):
        flat = column.combine_chunks()
        if (f.metadata or {}).get(b"penstock.layout") == b"dense":
            dense = json.loads(f.metadata[b"penstock.names"])
            values = flat.flatten()
            names += dense
            arrays += [values[j :: len(dense)] for j in range(len(dense))]
        else:
            names.append(f.name)
            arrays.append(flat)
    return pa.table(arrays, names=names)


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, bytes):
        text = repr(value)[1:]
    elif isinstance(value, list):
        text = f"[{', '.join(map(_shown, value[:_LONGEST]))}]"
    elif isinstance(value, dict):  # a value and its weight
        text = ": ".join(map(_shown, value.values()))
    else:
        text = str(value)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Rows of text as a table, a line each."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def html_table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of text as a table of HTML, the first as its head."""
    head, *others = ([html.escape(cell) for cell in row] for row in rows)
    lines = ["<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in others]
    return f"<table><tr>{''.join(f'<th>{cell}</th>' for cell in head)}</tr>{''.join(lines)}</table>"
