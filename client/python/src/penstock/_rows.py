"""Rows at hand as an Arrow file: what penstock.Transforms is called with.

Columns get the types that the schema has, where Python's values have none of their own. Everything is pure, but for
looks at files.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from penstock._times import counted, has_texts, is_time
from penstock.errors import DataError, UsageError


def format_of(format: str) -> str:  # noqa: A002
    """That of arrays, with "auto" decided."""
    if format != "auto":
        return format
    return "torch" if "torch" in sys.modules else "numpy"


def schema_of(given: Any) -> pa.Schema:
    """A schema, or that of a file."""
    if isinstance(given, pa.Schema):
        return given
    if not isinstance(given, (str, os.PathLike)):
        raise UsageError(f"schema= is a {type(given).__name__}; give an Arrow schema, or a file of the training's data")
    path = Path(given)
    try:
        if path.suffix.lower() in (".arrow", ".feather", ".ipc"):
            with pa.memory_map(os.fspath(path)) as source:
                return pa.ipc.open_file(source).schema
        import pyarrow.parquet

        return pyarrow.parquet.read_schema(path)
    except (OSError, pa.ArrowException) as err:
        raise UsageError(
            f"schema={os.fspath(given)!r}: {err}; give a Parquet or Arrow file on this machine, or an Arrow schema"
        ) from err


def record(rows: Any, schema: pa.Schema | None) -> pa.RecordBatch:
    """Rows as one record batch."""
    if isinstance(rows, pa.RecordBatch):
        return rows
    if isinstance(rows, pa.Table):
        return _one(rows)
    if isinstance(rows, Mapping):
        return _of_columns(rows, schema)
    if isinstance(rows, Sequence) and not isinstance(rows, (str, bytes)) and all(isinstance(r, Mapping) for r in rows):
        if not rows and schema is not None:
            return none_of(schema)
        names = dict.fromkeys(name for row in rows for name in row)
        return _of_columns({name: [row.get(name) for row in rows] for name in names}, schema, len(rows))
    raise UsageError(
        f"rows are a {type(rows).__name__}; give an Arrow table or record batch, a dict of columns, or a list of dicts"
    )


def _one(table: pa.Table) -> pa.RecordBatch:
    batches = table.combine_chunks().to_batches()
    if len(batches) > 1:
        raise DataError(f"the table's {len(table)} rows do not fit into one record batch; give fewer at once")
    return batches[0] if batches else none_of(table.schema)


def none_of(schema: pa.Schema) -> pa.RecordBatch:
    """No rows."""
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)


def _of_columns(columns: Mapping[str, Any], schema: pa.Schema | None, rows: int = 0) -> pa.RecordBatch:
    arrays = {name: _array(name, values, schema) for name, values in columns.items()}
    lengths = {name: len(values) for name, values in arrays.items()}
    if len(set(lengths.values())) > 1:
        each = ", ".join(f"{name} {n}" for name, n in lengths.items())
        raise DataError(f"columns have different numbers of rows: {each}; give equally many of each")
    if not arrays and rows:
        raise DataError(f"{rows} rows have no columns; give those that the spec names")
    return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


def _array(name: str, values: Any, schema: pa.Schema | None) -> pa.Array:
    """A column; Python's values become the schema's type."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pa.Array):
        return values
    if isinstance(values, (str, bytes, Mapping)) or not hasattr(values, "__len__") or getattr(values, "ndim", 1) == 0:
        raise DataError(
            f"column {name} is one {type(values).__name__}; give a list of values, or a list of rows, each a dict"
        )
    i = -1 if schema is None else schema.get_field_index(name)
    kind = None if schema is None or i < 0 else schema.field(i).type
    if hasattr(values, "__array__"):  # torch's tensors are such, too
        values = np.asarray(values)
        if values.ndim > 1:
            values = list(values)
    try:
        return _typed(values, kind)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as err:
        wanted = "" if kind is None else f", which in training is {kind}"
        raise DataError(f"column {name}{wanted}: {_row(values, kind)}{err}; give values of its type") from None


def _typed(values: Any, kind: pa.DataType | None) -> pa.Array:
    """Values as a type's. Arrow would cut the fractions off that floats have, where it is asked for integers.

    Floats stay floats in place of decimals: these are read as the nearest float64 in training, too.
    Texts may stand for dates and times.
    """
    if kind is not None and _leaf(kind, is_time) and (not isinstance(values, np.ndarray) or has_texts(values)):
        values = [counted(value, kind) for value in values]
    if kind is not None and pa.types.is_decimal(kind) and _floats(values):
        return pa.array([float(value) if isinstance(value, Decimal) else value for value in values], pa.float64())
    if kind is not None and _floats(values) and _leaf(kind, pa.types.is_integer):
        return pa.array(values).cast(kind)
    return pa.array(values, kind)


def _floats(values: Any) -> bool:
    """Whether Python's values, or what is in lists of them, have a float. To infer a type takes Arrow far longer."""
    return not isinstance(values, np.ndarray) and any(
        isinstance(value, (float, np.floating)) or (isinstance(value, (list, tuple, dict)) and _floats(_inner(value)))
        for value in values
    )


def _inner(value: Any) -> Any:
    return value.values() if isinstance(value, dict) else value


def _leaf(kind: pa.DataType, is_such: Callable[[pa.DataType], bool]) -> bool:
    """Whether values of a type, or of what it is made of, are such."""
    inner = [kind.field(i).type for i in range(kind.num_fields)]
    return bool(is_such(kind)) or any(_leaf(each, is_such) for each in inner)


def _row(values: Any, kind: pa.DataType | None) -> str:
    """The first row whose value cannot be had by itself."""
    for row, value in enumerate(values):
        try:
            _typed([value], kind)
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            return f"row {row}: "
    return ""


def file_of(rows: pa.RecordBatch) -> pa.Buffer:
    """An Arrow file of rows."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, rows.schema) as file:
        file.write_batch(rows)
    return sink.getvalue()
