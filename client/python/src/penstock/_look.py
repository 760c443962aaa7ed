"""What a loader gives, without reading: the schema of its batches, and some first rows as a table.

Everything is immutable, and made of Arrow's schemas and records in tensor layout (docs/internals/tensors.md).
"""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

_LONGEST = 40  # characters of a value that are shown


class Column(NamedTuple):
    """A feature of a loader's batches.

    Attributes:
        name: as the batch has it.
        layout: where it is: "dense" (a column of batch.dense), "sparse", "label", "bytes", "image" or "provenance".
        dtype: of its values, as NumPy names it.
        shape: of a row's values; () is one value, (None,) any number.
        weighted: whether each value has a float32 beside it.
    """

    name: str
    layout: str
    dtype: str
    shape: tuple[int | None, ...] = ()
    weighted: bool = False  # each value has a float32 beside it


class Schema(tuple[Column, ...]):
    """The features of a loader's batches, in their order; schema[name] is one by its name."""

    __slots__ = ()

    @classmethod
    def of(cls, schema: pa.Schema) -> Schema:
        """Of batches in tensor layout."""
        return cls(column for f in schema for column in _columns(f))

    @property
    def names(self) -> tuple[str, ...]:
        """Of all features."""
        return tuple(column.name for column in self)

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return super().__getitem__(key)
        for column in self:
            if column.name == key:
                return column
        raise KeyError(f"no feature is called {key!r}; there are: {', '.join(self.names)}")

    def __repr__(self) -> str:
        rows = [(c.name, c.layout, _shown_type(c)) for c in self]
        return aligned([("feature", "layout", "values"), *rows])


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
        return [Column(f.name, layout, "uint8", (None,))]
    if layout == "image":
        shape = tuple(int(n) for n in metadata[b"penstock.shape"].split(b","))
        return [Column(f.name, layout, _dtype(kind.value_type), shape)]
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
        head, *rows = ([html.escape(cell) for cell in row] for row in self._cells())
        lines = ["<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows]
        return f"<table><tr>{''.join(f'<th>{cell}</th>' for cell in head)}</tr>{''.join(lines)}</table>"

    def _cells(self) -> list[tuple[str, ...]]:
        columns = [[_shown(value) for value in column.to_pylist()] for column in self.table.columns]
        return [tuple(self.table.column_names), *zip(*columns, strict=True)]


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
