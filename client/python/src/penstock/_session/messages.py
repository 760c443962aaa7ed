"""Batches as they come on a link: Arrow's IPC, of which nothing is trusted. Nothing is copied."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

MOST_BODY = 256 << 20  # also decompressed
# A body decompresses to LIKELY_BODY bytes, or LIKELY_RATIO for each of its own: else few bytes had much memory set
# aside. A worker sends what would compress better as it is.
LIKELY_BODY = 8 << 20
_LIKELY_RATIO = 1 << 10
_STORED = -1  # in place of a length: the buffer is not compressed

_INT16, _INT32, _INT64 = struct.Struct("<H"), struct.Struct("<i"), struct.Struct("<q")
_RECORD_BATCH = 3  # of Message.fbs: header_type
_PAIR = 2  # int64 of a node (length, nulls), and of a buffer (offset, length)


class MessageError(Exception):
    """A message that cannot be made sense of."""


class Incoming(NamedTuple):
    """A record as it came.

    meta: its app_metadata; None: it had none. bytes: of memory that it keeps. nulls: whether it may have some.
    """

    record: pa.RecordBatch | None
    meta: bytes | None
    bytes: int
    nulls: bool = True


def read(message: pa.Buffer, schema: pa.Schema) -> tuple[pa.RecordBatch, bool, bool]:
    """A record in its message's memory, and whether it may have nulls.

    Also whether it was compressed, and has memory of its own.
    """
    try:
        parsed = pa.ipc.read_message(message)
        header = _Header(memoryview(parsed.metadata))  # Arrow has checked where it points
        if header.compressed:
            header.check_lengths(parsed.body)
        return pa.ipc.read_record_batch(parsed, schema), header.nulls, header.compressed
    except (pa.ArrowException, EOFError, OSError, struct.error, ValueError, MemoryError) as e:
        raise MessageError(f"a message is no Arrow record of the stream's schema, or it is cut short: {e}") from e


class _Header:
    """What has to be known of a record before Arrow makes it."""

    def __init__(self, b: memoryview) -> None:
        self._b = b
        root = self._follow(0)
        kind, batch = self._field(root, 1), self._field(root, 2)
        if not kind or b[kind] != _RECORD_BATCH or not batch:
            raise ValueError("it has no record batch")
        batch = self._follow(batch)
        self._buffers = self._vector(self._field(batch, 2))
        self.nulls = bool(self._vector(self._field(batch, 1))[1::_PAIR].any())
        self._codec = self._field(batch, 3)

    @property
    def compressed(self) -> bool:
        """Whether the buffers are."""
        return self._codec > 0

    def check_lengths(self, body: pa.Buffer) -> None:
        """Refuses lengths behind decompression that cannot be true: memory would be set aside for them."""
        total, codec = 0, self._field(self._follow(self._codec), 0)
        most = 1 << 16 if codec and self._b[codec] else 256  # what a byte can decompress to, by ZSTD or LZ4
        view = memoryview(body)
        for at, length in self._pairs():
            if length == 0:
                continue
            if at < 0 or length < _INT64.size or at + length > len(view):
                raise ValueError(f"a buffer of {length} bytes at {at}, in a body of {len(view)}")
            packed, n = length - _INT64.size, _INT64.unpack_from(view, at)[0]
            if n == _STORED:
                n = packed
            elif n < 0 or n > packed * most:
                raise ValueError(f"a buffer claims to have {n} bytes, and is {packed} compressed")
            total += n
        if total > min(MOST_BODY, LIKELY_BODY + _LIKELY_RATIO * len(view)):
            raise ValueError(f"a body claims to have {total} bytes, of {len(view)} compressed")

    def _pairs(self) -> Iterable[tuple[int, int]]:
        values = self._buffers.tolist()
        return zip(values[::_PAIR], values[1::_PAIR], strict=True)

    def _follow(self, at: int) -> int:
        return at + int(_INT32.unpack_from(self._b, at)[0])

    def _field(self, table: int, number: int) -> int:
        """Where a table's field lies; 0: it has none."""
        vtable = table - int(_INT32.unpack_from(self._b, table)[0])
        slot = 2 * _INT16.size + number * _INT16.size
        if slot >= _INT16.unpack_from(self._b, vtable)[0]:
            return 0
        offset = int(_INT16.unpack_from(self._b, vtable + slot)[0])
        return table + offset if offset else 0

    def _vector(self, field: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """A vector of nodes or buffers."""
        if not field:
            return np.empty(0, np.int64)
        at = self._follow(field)
        n = int(_INT32.unpack_from(self._b, at)[0])
        return np.frombuffer(self._b, "<i8", n * _PAIR, at + _INT32.size)
