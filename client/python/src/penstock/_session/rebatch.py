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

from penstock._flat import OFFSET, Array, Flat, Form, Offsets
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
    lows = [o[:, 0] for o in offsets]
    counts = [o[:, -1] - low for o, low in zip(offsets, lows, strict=True)]
    totals = [sum(column) for column in zip(*(c.tolist() for c in counts), strict=True)]
    for i, total in enumerate(totals):
        if total > _MOST_VALUES:
            column = form.schema.field(form.ragged[where.index(i)]).name
            raise TooLargeError(f"column {column!r} would have {total} values; a batch has room for {_MOST_VALUES}")
    sizes = [totals[where[p.ragged]] if p.width == 0 else rows * p.width for p in form.parts]
    pitch = _aligned((rows + 1) * OFFSET.itemsize)
    spans = [_aligned(n * p.dtype.itemsize) for n, p in zip(sizes, form.parts, strict=True)]
    begins = list(itertools.accumulate(spans, initial=len(totals) * pitch))
    memory = blocks.take(begins.pop()).data  # NumPy's views of a view would forget it
    ends = np.frombuffer(memory, OFFSET, len(totals) * pitch // OFFSET.itemsize)
    ends = ends.reshape(len(totals), pitch // OFFSET.itemsize)[:, : rows + 1]
    _join_offsets(offsets, lows, counts, ends)
    made = [np.frombuffer(memory, p.dtype, n, at) for p, n, at in zip(form.parts, sizes, begins, strict=True)]
    _join_values(form, slices, where, offsets, made)
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


def _join_offsets(offsets: Sequence[Offsets], lows: Sequence[Array], counts: Sequence[Array], out: Offsets) -> None:
    out[:, 0] = 0
    begin = 0
    before = np.zeros(len(out), OFFSET)
    for given, low, count in zip(offsets, lows, counts, strict=True):
        end = begin + given.shape[1] - 1
        np.add(given[:, 1:], (before - low)[:, None], out=out[:, begin + 1 : end + 1])
        begin, before = end, before + count


def _join_values(
    form: Form, slices: Sequence[Slice], where: Sequence[int], offsets: Sequence[Offsets], out: Sequence[Array]
) -> None:
    firsts, lasts = [o[:, 0].tolist() for o in offsets], [o[:, -1].tolist() for o in offsets]
    for i, (p, made) in enumerate(zip(form.parts, out, strict=True)):
        if p.width:
            pieces = [s.rows.parts[i][s.low * p.width : s.high * p.width] for s in slices]
        else:
            at = where[p.ragged]
            pieces = [
                s.rows.parts[i][first[at] : last[at]] for s, first, last in zip(slices, firsts, lasts, strict=True)
            ]
        _concatenate(pieces, made)


def _concatenate(pieces: Sequence[Array], out: Array) -> None:
    """Joins pieces.

    NumPy gives the interpreter away for each of them, and has to get it back from threads that receive: for small ones
    that takes longer than the copy.
    """
    if out.nbytes >= _LARGE * len(pieces):
        np.concatenate(pieces, out=out)
        return
    to, begin = out.view(np.uint8).data, 0
    for piece in pieces:
        end = begin + piece.nbytes
        to[begin:end] = piece.view(np.uint8).data
        begin = end


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
