"""Joins received rows to a batch: one copy, made without the GIL, into a block that batches before it gave back.

All columns of a batch lie in one block, each from an aligned address on. It is not given again before the last array,
tensor or buffer that sees it is gone.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from penstock._flat import BOOL, LONG, NARROW, OFFSET, Array, Flat, Form, Longs, Offsets, indices
from penstock._session.blocks import ALIGNMENT, Blocks, pool

_KEPT = 4  # free blocks of all sessions: what one had at its end, the next one begins with
_LARGEST_HEAP = (32 << 20) - (64 << 10)  # what glibc still takes from its heap: a little less than 32 MiB
_LARGE = 256 << 10  # bytes of a piece
_MOST_VALUES = np.iinfo(OFFSET).max


class Slice(NamedTuple):
    """Rows low to high."""

    rows: Flat
    low: int
    high: int


class TooLargeError(Exception):
    """A column has more values than offsets can count."""


class Rebatcher:
    """Makes batches of the rows of one session."""

    def __init__(self) -> None:
        self._blocks = pool("batches", _KEPT)
        _keep_freed_memory()

    def join(self, slices: Sequence[Slice]) -> Flat:
        """The rows of slices of one form, in memory of their own. Raises TooLargeError."""
        return join(slices, self._blocks)


def join(slices: Sequence[Slice], blocks: Blocks) -> Flat:
    """The rows of slices of one form, in a block. Raises TooLargeError."""
    form = slices[0].rows.form
    rows = sum(s.high - s.low for s in slices)
    where, offsets = _offsets(slices)
    lows, highs = np.stack([o[:, 0] for o in offsets]), np.stack([o[:, -1] for o in offsets])
    totals = (highs - lows).sum(axis=0, dtype=np.int64)
    if totals.max(initial=0) > _MOST_VALUES:
        at = int(totals.argmax())
        column = form.schema.field(form.ragged[where.index(at)]).name
        raise TooLargeError(f"column {column!r} would have {totals[at]} values; a batch has room for {_MOST_VALUES}")
    runs = _runs(form, slices, where, lows, highs)
    counts = (runs.ends - runs.begins).sum(axis=0)
    pitch = _aligned((rows + 1) * OFFSET.itemsize)
    spans = [_aligned(size) for size in (counts * form.items).tolist()]
    begins = list(itertools.accumulate(spans, initial=len(totals) * pitch))
    memory = blocks.take(begins.pop()).data  # NumPy's views of a view would forget it
    ends = np.frombuffer(memory, OFFSET, len(totals) * pitch // OFFSET.itemsize)
    ends = ends.reshape(len(totals), pitch // OFFSET.itemsize)[:, : rows + 1]
    _join_offsets(offsets, lows, highs - lows, ends)
    made = [np.frombuffer(memory, p.dtype, n, at) for p, n, at in zip(form.parts, counts.tolist(), begins, strict=True)]
    _join_values(form, slices, runs, made)
    return Flat(form, rows, made, ends, where)


def _offsets(slices: Sequence[Slice]) -> tuple[tuple[int, ...], list[Offsets]]:
    """The offsets of each slice's rows, and which of them a column has: columns share what they share in all slices."""
    cut = [s.rows.offsets[:, s.low : s.high + 1] for s in slices]
    where = slices[0].rows.where
    if all(s.rows.where == where for s in slices):
        return where, cut
    places: dict[tuple[int, ...], int] = {}
    where = tuple(places.setdefault(at, len(places)) for at in zip(*(s.rows.where for s in slices), strict=True))
    return where, [o[[at[i] for at in places]] for i, o in enumerate(cut)]


def _join_offsets(offsets: Sequence[Offsets], lows: Array, counts: Array, out: Offsets) -> None:
    out[:, 0] = 0
    begin = 0
    before = np.zeros(len(out), OFFSET)
    for given, low, count in zip(offsets, lows, counts, strict=True):
        end = begin + given.shape[1] - 1
        np.add(given[:, 1:], (before - low)[:, None], out=out[:, begin + 1 : end + 1])
        begin, before = end, before + count


class _Runs(NamedTuple):
    """Which values of each part the slices have: [slices, parts]."""

    begins: Longs
    ends: Longs


def _runs(form: Form, slices: Sequence[Slice], where: tuple[int, ...], lows: Offsets, highs: Offsets) -> _Runs:
    each = np.maximum(form.widths, 1)
    of = np.append(indices(where), lows.shape[1])[form.list_of]  # -1, of those whose rows are alike, is the last
    begins = np.column_stack([lows, [s.low for s in slices]])[:, of] * each
    ends = np.column_stack([highs, [s.high for s in slices]])[:, of] * each
    return _Runs(begins, ends)


def _join_values(form: Form, slices: Sequence[Slice], runs: _Runs, out: Sequence[Array]) -> None:
    """Joins the values of each part.

    NumPy makes an array of each piece, and gives the interpreter away while it copies: for small ones both take longer
    than the copy.
    """
    given = [s.rows.packed for s in slices]
    bodies = [p.body for p in given if p is not None]
    sizes = np.stack([form.items if p is None else p.sizes for p in given])
    starts = np.stack([0 * form.items if p is None else p.begins for p in given])
    froms, tos = (starts + runs.begins * sizes).T.tolist(), (starts + runs.ends * sizes).T.tolist()
    narrow = np.any(sizes < form.items, axis=0).tolist()
    for i, (p, made) in enumerate(zip(form.parts, out, strict=True)):
        if p.dtype == BOOL or made.nbytes >= _LARGE * len(slices):
            pieces = [s.rows.lies(i)[a:b] for s, a, b in zip(slices, *(r[:, i].tolist() for r in runs), strict=True)]
            np.concatenate(pieces, out=made)
            continue
        memory = bodies if len(bodies) == len(slices) else [s.rows.memory(i) for s in slices]
        if narrow[i]:
            _widen(memory, froms[i], tos[i], sizes[:, i].tolist(), made)
        else:
            _copy(memory, froms[i], tos[i], made)


def _copy(memory: Sequence[memoryview], froms: Sequence[int], tos: Sequence[int], out: Array) -> None:
    """Joins pieces of memory."""
    view, begin = out.view(np.uint8).data, 0
    for m, a, b in zip(memory, froms, tos, strict=True):
        end = begin + b - a
        view[begin:end] = m[a:b]
        begin = end


def _widen(
    memory: Sequence[memoryview], froms: Sequence[int], tos: Sequence[int], sizes: Sequence[int], out: Array
) -> None:
    """Joins values of so many bytes each: those of one size together, which are widened out of the caches then."""
    pieces = [m[a:b] for m, a, b in zip(memory, froms, tos, strict=True)]
    begin = first = 0
    for last, size in enumerate([*sizes[1:], 0], 1):
        if size != sizes[first]:
            values = np.frombuffer(b"".join(pieces[first:last]), NARROW.get(sizes[first], LONG))
            out[begin : begin + len(values)] = values
            begin, first = begin + len(values), last


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


@functools.cache
def _keep_freed_memory() -> None:
    """Has the C library's allocator keep what messages free, as those of gRPC.

    glibc learns from what is freed: once it saw a mapped array of almost 32 MiB go, it takes such from its heap, and
    keeps up to twice as much free at the heap's end. An array of this size, which is never touched, costs nothing;
    settings of the program's own (MALLOC_*, mallopt) have precedence.
    """
    pa.allocate_buffer(_LARGEST_HEAP, memory_pool=pa.system_memory_pool())
