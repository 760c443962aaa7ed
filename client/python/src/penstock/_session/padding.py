"""Rows of padding: zeros, empty lists and byte strings, and -1 for provenance.

Also the schema of a program's tensors (worker/tensor/README.md), for a rank that gets no rows at all. Pure functions.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pyarrow as pa

from penstock._flat import Flat
from penstock._pb import spec_pb2
from penstock._session.blocks import Blocks
from penstock._session.rebatch import Slice, join

_LAYOUT = b"penstock.layout"
_TYPES = {
    spec_pb2.BOOL: pa.bool_(),
    spec_pb2.INT32: pa.int32(),
    spec_pb2.INT64: pa.int64(),
    spec_pb2.FLOAT32: pa.float32(),
    spec_pb2.FLOAT64: pa.float64(),
}


def padded(rows: Flat, size: int) -> Flat:
    """Rows made up to so many."""
    missing = size - rows.num_rows
    if missing == 0:
        return rows
    more = Flat.of(padding(rows.schema, missing), rows.form)
    return join([Slice(rows, 0, rows.num_rows), Slice(more, 0, missing)], Blocks(0))


def padding(schema: pa.Schema, rows: int) -> pa.RecordBatch:
    """A record of padding alone, in memory of its own."""
    columns = [_full(f.type, rows, -1 if f.name in ("_file", "_row") else 0) for f in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _full(kind: pa.DataType, rows: int, value: int) -> Any:
    if pa.types.is_fixed_size_list(kind):
        return pa.FixedSizeListArray.from_arrays(_full(kind.value_type, rows * kind.list_size, value), type=kind)
    if pa.types.is_list(kind):
        return pa.ListArray.from_arrays(
            pa.array(np.zeros(rows + 1, np.int32)), pa.array([], kind.value_type), type=kind
        )
    if pa.types.is_binary(kind):
        offsets = pa.py_buffer(np.zeros(rows + 1, np.int32))
        return pa.Array.from_buffers(kind, rows, [None, offsets, pa.py_buffer(b"")])
    return pa.repeat(pa.scalar(value).cast(kind), rows)


def planned_schema(program: spec_pb2.Program) -> pa.Schema:
    """The schema in which workers will send a program's tensors."""
    fields = [_field(output) for output in program.outputs]
    if program.provenance:
        for name, kind in [("_file", pa.int32()), ("_row", pa.int64())]:
            fields.append(pa.field(name, kind, nullable=False, metadata={_LAYOUT: b"provenance"}))
    return pa.schema(fields)


def _field(output: spec_pb2.Output) -> pa.Field:
    metadata = {_LAYOUT: spec_pb2.Layout.Name(output.layout).lower().encode()}
    if output.layout == spec_pb2.DENSE:
        metadata[b"penstock.names"] = json.dumps(
            list(output.columns), ensure_ascii=False, separators=(",", ":")
        ).encode()
        kind = pa.list_(_item(pa.float32()), len(output.slots))
    elif output.layout == spec_pb2.IMAGE:
        metadata[b"penstock.shape"] = ",".join(map(str, output.shape)).encode()
        kind = pa.list_(_item(pa.uint8()), math.prod(output.shape))
    elif output.layout == spec_pb2.BYTES:
        kind = pa.binary()
    else:
        kind = _TYPES[output.type.kind]
        if output.layout == spec_pb2.SPARSE:
            weighted = output.HasField("weights")
            fields = [pa.field("value", kind, nullable=False), pa.field("weight", pa.float32(), nullable=False)]
            kind = pa.list_(_item(pa.struct(fields) if weighted else kind))
    return pa.field(output.name, kind, nullable=False, metadata=metadata)


def _item(kind: pa.DataType) -> pa.Field:
    return pa.field("item", kind, nullable=False)
