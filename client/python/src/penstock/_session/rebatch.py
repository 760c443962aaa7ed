"""Joins received rows to a batch: one copy, made without the GIL, into memory that batches before it gave back.

Large columns of rows of one size (dense, images) lie in blocks that are used again; all else comes from the C library's
allocator, which keeps freed memory where Arrow's own gives it back. Neither is given again before the last array,
tensor or buffer that sees it is gone.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from penstock._session.blocks import Block, Blocks

LARGE = 1 << 20  # bytes of a column that gets a block
_KEPT = 2  # free blocks of a column: one to be filled while one comes back
_LARGEST_HEAP = (32 << 20) - (64 << 10)  # what glibc still takes from its heap: a little less than 32 MiB


class Rebatcher:
    """Makes batches of the rows of one session."""

    def __init__(self) -> None:
        self._widths: list[int] | None = None  # bytes of a row of each column; 0 where rows differ
        self._blocks: dict[int, Blocks] = {}  # by column
        self._pool = _pool()

    def join(self, records: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        """The rows of records of the session's schema, without nulls: contiguous and in memory of their own."""
        schema, rows = records[0].schema, sum(r.num_rows for r in records)
        if self._widths is None:
            self._widths = [_row_bytes(f.type) for f in schema]
        large = [i for i, width in enumerate(self._widths) if rows * width >= LARGE]
        if not large:
            return pa.concat_batches(records, self._pool)
        columns = {i: self._join_large(i, [r.column(i) for r in records]) for i in large}
        rest = [i for i in range(len(schema)) if i not in columns]
        if rest:
            joined = pa.concat_batches([r.select(rest) for r in records], self._pool)
            columns.update(zip(rest, joined.columns, strict=True))
        return pa.RecordBatch.from_arrays([columns[i] for i in range(len(schema))], schema=schema)

    def _join_large(self, index: int, parts: Sequence[pa.Array]) -> pa.Array:
        kind = parts[0].type
        pieces = [_plain_bytes(p) for p in parts]
        memory = self._blocks.setdefault(index, Blocks(_KEPT)).take(sum(p.nbytes for p in pieces))
        np.concatenate(pieces, out=memory)
        buffer = pa.py_buffer(memory)
        values = pa.Array.from_buffers(kind.value_type, sum(map(len, parts)) * kind.list_size, [None, buffer])
        return pa.FixedSizeListArray.from_arrays(values, type=kind)


def _row_bytes(kind: pa.DataType) -> int:
    """Bytes of a row of a fixed-size list; 0 of all others."""
    return kind.list_size * kind.value_type.bit_width // 8 if pa.types.is_fixed_size_list(kind) else 0


def _plain_bytes(part: pa.Array) -> Block:
    """The values of a fixed-size list as bytes, which need no alignment: a view."""
    values, width = part.values, _row_bytes(part.type)
    begin = part.offset * width + values.offset * part.type.value_type.bit_width // 8
    return np.frombuffer(values.buffers()[1], np.uint8, len(part) * width, begin)


@functools.cache
def _pool() -> pa.MemoryPool:
    """The C library's allocator, made to keep what batches and messages free.

    glibc learns from what is freed: once it saw a mapped array of almost 32 MiB go, it takes such from its heap, and
    keeps up to twice as much free at the heap's end. gRPC's messages gain by that, too. An array of this size, which is
    never touched, costs nothing; settings of the program's own (MALLOC_*, mallopt) have precedence.
    """
    pool = pa.system_memory_pool()
    pa.allocate_buffer(_LARGEST_HEAP, memory_pool=pool)
    return pool
