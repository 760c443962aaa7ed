"""penstock.check: calls an op's function as workers do, cut in several ways, and says what does not repeat.

Workers call a function once for each window of rows, and where a window ends depends on the files. Values that depend
on that, or that differ from call to call, would differ between epochs, and after a job was restored.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from penstock import _op_draws, _op_pictures
from penstock._op import Op, Transform
from penstock._op_call import Column, Function, Made, Mistake
from penstock.errors import NotRepeatable, SpecError, UsageError

_SHOWN = 60  # characters of a value


def check(op: Op | Transform, table: Any, *, tolerance: float = 0.0) -> pa.Table:
    """Runs an op of a Python function on a table as workers do, several times and cut in several ways.

        penstock.check(tokenize("text"), pa.table({"text": ["a b", None, ""]}))

    It runs on all rows twice, on each half, on each row by itself, and on all in reverse. All must give the same
    values. An op that draws random numbers by itself, or that counts its rows, does not; one with rng=True gets seeds
    by the numbers of the rows here. That is no error where training does not need its values to repeat: the number of
    the rows and their order do so anyway.

    Args:
        op: an op with the names of its inputs, as in transforms=; or without them: it gets all columns, in their order.
        table: the rows: an Arrow table or record batch, or a mapping of names to arrays or lists. Decoded pictures
            are uint8 arrays of NumPy in such a mapping: one of shape (rows, height, width, channels) for pictures of
            one size, else a list with an array of shape (height, width, channels), or None, for each row.
        tolerance: by how much floats may differ, absolutely or as a part of the larger. A model's do, in their last
            digits, with the number of rows that it gets at once: give 1e-5.

    Returns:
        What it made of the whole table, as an Arrow table. That of a filter or a flat_map begins with the column
        "parents": of which row each is, from 0 on.

    Raises:
        NotRepeatable: some values differ. The message has each kind of difference with a row and both values.
        SpecError: these are no rows that the op can have, or what it makes is not as out= says.
    """
    inputs = _inputs(op, table)
    try:
        return _checked(op, inputs, tolerance)
    except Mistake as err:
        raise SpecError(f"{_named(op).name}: {err}") from None


def _checked(op: Op | Transform, inputs: list[Column], tolerance: float) -> pa.Table:
    function, names, rows = _named(op).made(), _outs(op), len(inputs[0])
    seeds = _op_draws.some(rows)
    made = function.call(inputs, rows, seeds)
    whole = _placed(made, rows)
    others = [
        ("calls with the same rows differ", _placed(function.call(inputs, rows, seeds), rows)),
        *((what, _cut(function, inputs, rows, size)) for what, size in _cuts(rows)),
        ("the rows in reverse differ", _backwards(function, inputs, rows)),
    ]
    wrong = [_difference(what, names, rows, (whole, other), tolerance) for what, other in others]
    told = [line for line in wrong if line]
    if told:
        raise NotRepeatable(
            "\n".join([f"{_named(op).name} does not repeat:", *told])
            + "\nlet a result depend on its own row alone, and draw what is random from what rng=True gives it; if "
            "floats differ in their last digits alone, as a model's do, give tolerance=1e-5"
        )
    if made.parents is None:
        return pa.table(whole.results, names=names)
    return pa.table([pa.array(whole.parents), *whole.results], names=["parents", *names])


class _Placed(NamedTuple):
    """What an op made, and of which rows that is."""

    results: list[pa.Array]
    parents: np.ndarray[Any, np.dtype[np.int32]]


def _placed(made: Made, rows: int) -> _Placed:
    return _Placed(made.results, np.arange(rows, dtype=np.int32) if made.parents is None else made.parents)


def _cuts(rows: int) -> list[tuple[str, int]]:
    """Ways to cut, and how many rows a call gets."""
    ways = [("halves differ from the whole", math.ceil(rows / 2)), ("single rows differ from the whole", 1)]
    return [(what, size) for what, size in ways if 0 < size < rows]


def _named(op: Op | Transform) -> Op:
    found = op.python if isinstance(op, Transform) else op
    if not isinstance(found, Op):
        raise UsageError(
            f"check: found {op!r:.80}; give an op of a Python function, as penstock.op(f, out=...) makes it"
        )
    return found


def _outs(op: Op | Transform) -> list[str]:
    outs: Sequence[tuple[str, Any]] = op.outs
    if isinstance(op, Op) and op.only is not None:
        outs = [("result", op.only)]
    return [name for name, _ in outs]


def _inputs(op: Op | Transform, table: Any) -> list[Column]:
    """The input columns, as workers hand them over."""
    columns = _columns(table)
    wanted: Sequence[str] = op.inputs if isinstance(op, Transform) else list(columns)
    missing = [name for name in wanted if name not in columns]
    if missing or not wanted:
        raise SpecError(f"{_named(op).name}: the table has no column {', '.join(missing)}; it has {', '.join(columns)}")
    if len({len(columns[name]) for name in wanted}) > 1:
        raise SpecError(f"{_named(op).name}: columns {', '.join(wanted)} have different numbers of rows")
    return [_as_workers_do(columns[name]) for name in wanted]


def _columns(table: Any) -> dict[str, Any]:
    """All columns by their names. Pictures, which Arrow has no arrays for, come in a mapping alone."""
    pictures, order = {}, None
    if isinstance(table, pa.RecordBatch):
        table = pa.Table.from_batches([table])
    elif isinstance(table, Mapping):
        found = {name: _op_pictures.given(column) for name, column in table.items()}
        pictures = {name: column for name, column in found.items() if column is not None}
        order = list(table)
        table = pa.table({name: column for name, column in table.items() if name not in pictures})
    elif not isinstance(table, pa.Table):
        raise UsageError(
            f"check: found a {type(table).__name__}; give an Arrow table, or a dict of columns by their names"
        )
    plain = {name: table.column(name) for name in table.column_names}
    return {name: pictures.get(name, plain.get(name)) for name in order or plain}


def _as_workers_do(column: Any) -> Column:
    """A column in the form that workers have: plain text and bytes, lists of any length, counts in place of times."""
    if isinstance(column, _op_pictures.Pictures):
        return column
    column = column.combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # of no rows
        column = pa.array([], column.type)
    try:
        return column.cast(_kind(column.type))
    except pa.ArrowException:
        raise SpecError(
            f"check: columns of {column.type} are none that workers have; give numbers, text or lists"
        ) from None


def _kind(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _kind(kind.value_type)
    if pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind):
        return pa.list_(_kind(kind.value_type))
    if pa.types.is_large_string(kind) or str(kind) == "string_view":
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind) or str(kind) == "binary_view":
        return pa.binary()
    if pa.types.is_temporal(kind):
        return pa.int32() if kind.bit_width == 32 else pa.int64()
    return pa.float64() if pa.types.is_decimal(kind) else kind


def _cut(function: Function, columns: list[Column], rows: int, size: int) -> _Placed:
    parts, parents, seeds = [], [], _op_draws.some(rows)
    for at in range(0, rows, size):
        count = min(size, rows - at)
        cut = [column[at : at + size] for column in columns]
        part = _placed(function.call(cut, count, seeds[at : at + size]), count)
        parts.append(part.results)
        parents.append(part.parents + np.int32(at))
    return _Placed([pa.concat_arrays(each) for each in zip(*parts, strict=True)], np.concatenate(parents))


def _backwards(function: Function, columns: list[Column], rows: int) -> _Placed:
    """What the rows in reverse become, in the order of the rows."""
    order = pa.array(range(rows - 1, -1, -1), pa.int64())
    seeds = _op_draws.some(rows)[::-1].copy()
    made = _placed(function.call([column.take(order) for column in columns], rows, seeds), rows)
    parents = rows - 1 - made.parents
    back = np.argsort(parents, kind="stable")
    return _Placed([result.take(pa.array(back)) for result in made.results], parents[back])


def _difference(what: str, names: list[str], rows: int, runs: tuple[_Placed, _Placed], tolerance: float) -> str:
    """What to say of two runs; "" if they are equal, NaN counting as equal to itself."""
    became = [np.bincount(each.parents, minlength=rows) for each in runs]
    for row in np.flatnonzero(became[0] != became[1])[:1]:
        return f"  {what}: row {row} becomes {_many(became[0][row])}, and {_many(became[1][row])}"
    for name, a, b in zip(names, runs[0].results, runs[1].results, strict=True):
        if a.equals(b):
            continue
        for at, (x, y) in enumerate(zip(a.to_pylist(), b.to_pylist(), strict=True)):
            if apart := _apart(x, y, tolerance):
                place, x, y = apart
                return f"  {what}: {name}{place} of row {runs[0].parents[at]} is {_shown(x)}, and {_shown(y)}"
    return ""


def _many(count: int) -> str:
    return "a row" if count == 1 else f"{count or 'no'} rows"


def _apart(x: Any, y: Any, tolerance: float) -> tuple[str, Any, Any] | None:
    """The first values that differ, and where in a list they are; None if all are the same."""
    if isinstance(x, list) and isinstance(y, list) and len(x) == len(y):
        for at, (a, b) in enumerate(zip(x, y, strict=True)):
            if found := _apart(a, b, tolerance):
                return f"[{at}]{found[0]}", *found[1:]
        return None
    if isinstance(x, float) and isinstance(y, float):
        same = (math.isnan(x) and math.isnan(y)) or math.isclose(x, y, rel_tol=tolerance, abs_tol=tolerance)
    else:
        same = bool(x == y)
    return None if same else ("", x, y)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
