"""Which column of a session's batches is what: dense, sparse, a label and so on, and which arrays of a batch it has.

It stands between the form of the rows (_flat) and the batch. Nothing changes once it is made.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import pyarrow as pa

from penstock._flat import Form

Part: TypeAlias = int
"""An array of a batch: which of its form's parts."""


class PaddedColumn(NamedTuple):
    """A column of layout padded: its arrays, and where the padding lies."""

    values: Part
    lengths: Part
    left: bool


class Columns:
    """What the columns of a session's batches are, read from their form once."""

    def __init__(self, form: Form) -> None:
        self.dense: Part | None = None
        self.dense_names: tuple[str, ...] = ()
        self.sparse: dict[str, tuple[Part, ...]] = {}  # values, offsets and, if there are some, weights
        self.labels: dict[str, Part] = {}
        self.bytes: dict[str, tuple[str, Part, Part, Part | None]] = {}  # its name, data, offsets and, of lists, rows'
        self.images: dict[str, Part] = {}
        self.tensors: dict[str, Part] = {}
        self.padded: dict[str, PaddedColumn] = {}
        self.shapes: dict[Part, tuple[int, ...]] = {}  # of a row in arrays that are not flat
        self.own: dict[Part, str] = {}  # dtypes that lie in others: "bool" in uint8, "bfloat16" in uint16
        self.provenance: dict[str, Part] = {}
        of: dict[str, dict[str, Part]] = {}
        for (name, what), part in form.index.items():
            of.setdefault(name, {})[what] = part
        for f in form.schema:
            self._add(f, of[f.name])

    def _add(self, column: pa.Field, parts: Mapping[str, Part]) -> None:
        metadata = column.metadata or {}
        layout = metadata.get(b"penstock.layout", b"").decode()
        if layout == "dense":
            self.dense, self.dense_names = parts["values"], tuple(json.loads(metadata[b"penstock.names"]))
            self.shapes[parts["values"]] = (len(self.dense_names),)
        elif layout == "sparse":
            self.sparse[column.name] = tuple(parts[what] for what in ("values", "offsets", "weights") if what in parts)
        elif layout == "label":
            self.labels[column.name] = parts["values"]
        elif layout == "bytes":
            self.bytes[column.name] = column.name, parts["values"], parts["offsets"], parts.get("rows")
        elif layout == "image":
            self.images[column.name] = parts["values"]
            self.shapes[parts["values"]] = shape_of(metadata)
        elif layout in ("tensor", "padded"):
            values, dtype = parts["values"], metadata[b"penstock.dtype"].decode()
            if shape := shape_of(metadata):
                self.shapes[values] = shape
            if dtype in ("bool", "bfloat16"):
                self.own[values] = dtype
            if layout == "tensor":
                self.tensors[column.name] = values
            else:
                left = metadata[b"penstock.side"] == b"left"
                self.padded[column.name] = PaddedColumn(values, parts["lengths"], left)
        elif column.name in ("_file", "_row", "_part"):
            self.provenance[column.name] = parts["values"]


def shape_of(metadata: Mapping[bytes, bytes]) -> tuple[int, ...]:
    """That of a row, of a column that says it."""
    return tuple(int(n) for n in metadata[b"penstock.shape"].split(b",") if n)
