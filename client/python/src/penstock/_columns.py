"""Which column of a session's batches is what: dense, sparse, a label and so on, and which arrays of a batch it has.

It stands between the form of the rows (_flat) and the batch. Nothing changes once it is made.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TypeAlias

import pyarrow as pa

from penstock._flat import Form

Part: TypeAlias = int
"""An array of a batch: which of its form's parts."""


class Columns:
    """What the columns of a session's batches are, read from their form once."""

    def __init__(self, form: Form) -> None:
        self.dense: Part | None = None
        self.dense_names: tuple[str, ...] = ()
        self.sparse: dict[str, tuple[Part, ...]] = {}  # values, offsets and, if there are some, weights
        self.labels: dict[str, Part] = {}
        self.bytes: dict[str, tuple[str, Part, Part]] = {}  # its name, data and offsets
        self.images: dict[str, Part] = {}
        self.shapes: dict[Part, tuple[int, ...]] = {}  # of a row in arrays that are not flat
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
            self.bytes[column.name] = column.name, parts["values"], parts["offsets"]
        elif layout == "image":
            self.images[column.name] = parts["values"]
            self.shapes[parts["values"]] = tuple(int(n) for n in metadata[b"penstock.shape"].split(b","))
        elif column.name in ("_file", "_row"):
            self.provenance[column.name] = parts["values"]
