"""Batches as they come on a link: Arrow's IPC, of which nothing is trusted. Nothing is copied."""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from penstock._flat import BOOL, OFFSET, Array, Flat, Form, Offsets
from penstock._session.layout import LayoutError

MOST_BODY = 256 << 20  # also decompressed
# A body decompresses to LIKELY_BODY bytes, or LIKELY_RATIO for each of its own: else few bytes had much memory set
# aside. A worker sends what would compress better as it is.
LIKELY_BODY = 8 << 20
_LIKELY_RATIO = 1 << 10
_STORED = -1  # in place of a length: the buffer is not compressed

_INT16, _INT32, _INT64 = struct.Struct("<H"), struct.Struct("<i"), struct.Struct("<q")
_RECORD_BATCH = 3  # of Message.fbs: header_type
_ENVELOPE = 8  # bytes before a header: a mark and its size
_MOST_ROWS = 1 << 31
_LONG = np.dtype("<i8")
_PAIR = 2  # int64 of a node (length, nulls), and of a buffer (offset, length)


Pairs: TypeAlias = np.ndarray[tuple[int, int], np.dtype[np.int64]]


class MessageError(Exception):
    """A message that cannot be made sense of."""


class Incoming(NamedTuple):
    """Rows as they came, checked; a record is yet to be.

    meta: its app_metadata; None: it had none. bytes: of memory that it keeps.
    """

    rows: Flat | pa.RecordBatch | None
    meta: bytes | None
    bytes: int


def read(message: pa.Buffer, form: Form) -> Flat | pa.RecordBatch:
    """Rows in their message's memory; a record, with memory of its own, if it is compressed.

    Raises MessageError, or LayoutError for what is in no tensor layout.
    """
    try:
        memory = memoryview(message)
        begin = _ENVELOPE + int(_INT32.unpack_from(memory, _INT32.size)[0])
        if not _ENVELOPE < begin <= len(memory):
            raise ValueError(f"its header ends at {begin} of {len(memory)} bytes")
        header = _Header(memory[_ENVELOPE:begin])
        if not header.compressed:
            return _flat(header, memory[begin:], form)
        parsed = pa.ipc.read_message(message)
        header.check_lengths(parsed.body)
        return pa.ipc.read_record_batch(parsed, form.schema)
    except (pa.ArrowException, EOFError, OSError, struct.error, IndexError, ValueError, MemoryError) as e:
        raise MessageError(f"a message is no Arrow record of the stream's schema, or it is cut short: {e}") from e


def _flat(header: _Header, body: memoryview, form: Form) -> Flat:
    """The rows of a message that is not compressed."""
    rows, nodes, buffers = header.rows, header.nodes, header.buffers
    if nodes.shape[0] != len(form.columns) or buffers.shape[0] != form.buffers:
        raise ValueError(f"it has {len(nodes)} nodes and {len(buffers)} buffers")
    nulls = nodes[:, 1]
    if nulls.any():
        at = int(nulls.argmax() if nulls.max() > 0 else nulls.argmin())
        raise LayoutError(
            f"record: column {form.schema.field(form.columns[at]).name!r}: {nulls[at]} nulls; tensors have none"
        )
    begins, sizes = buffers.T
    if ((sizes < 0) | (sizes > len(body)) | (begins < 0) | (begins > len(body) - sizes)).any():
        raise ValueError(f"a buffer is outside of the body of {len(body)} bytes")
    if not 0 <= rows < _MOST_ROWS or (nodes[form.sized, 0] != rows * form.sizes).any():
        raise ValueError(f"its columns do not have {rows} rows")
    lengths, at, room = nodes[:, 0].tolist(), begins.tolist(), sizes.tolist()
    if any(lengths[a] != lengths[b] for a, b in form.alike):
        raise ValueError("its weights are not as many as its values")
    offsets, where = _offsets(form, rows, body, at, room)
    ends = offsets[:, -1].tolist()
    parts: list[Array] = []
    for p in form.parts:
        size, end = room[p.buffer], rows * p.width
        if p.width == 0:
            end = lengths[p.node] if p.node >= 0 else ends[where[p.ragged]]
            if ends[where[p.ragged]] > end:
                raise LayoutError(f"record: column {form.schema.field(p.column).name!r}: its offsets are outside")
        need = (end + 7) // 8 if p.dtype == BOOL else end * p.dtype.itemsize
        if not 0 <= need <= size:
            raise ValueError(f"column {form.schema.field(p.column).name!r}: a buffer of {size} bytes is too short")
        if p.dtype == BOOL:
            bits = np.frombuffer(body, np.uint8, need, at[p.buffer])
            parts.append(np.unpackbits(bits, count=end, bitorder="little").view(BOOL))
        else:
            parts.append(np.frombuffer(body, p.dtype, end, at[p.buffer]))
    return Flat(form, rows, parts, offsets, where)


def _offsets(
    form: Form, rows: int, body: memoryview, at: Sequence[int], room: Sequence[int]
) -> tuple[Offsets, tuple[int, ...]]:
    """The offsets of a message, each once, checked to rise from 0 or more; and which of them a column has."""
    size = rows + 1
    if rows == 0:  # Arrow may leave them out
        return np.zeros((1, 1), OFFSET), (0,) * len(form.offsets)
    if not form.offsets:
        return np.empty((0, size), OFFSET), ()
    least = min([room[buffer] for buffer in form.offsets])
    if least < size * OFFSET.itemsize:
        raise ValueError(f"offsets have {least} bytes for {rows} rows")
    begins = [at[buffer] for buffer in form.offsets]
    places = list(dict.fromkeys(begins))
    where = form.each
    if len(places) < len(begins):
        numbers = {place: i for i, place in enumerate(places)}
        where = tuple([numbers[begin] for begin in begins])
    given = _vectors(body, places, size)
    offsets = (given[0] if len(given) == 1 else np.concatenate(given)).reshape(len(given), size)
    falls = (offsets[:, 1:] < offsets[:, :-1]).any(axis=1) | (offsets[:, 0] < 0)
    if falls.any():
        column = form.schema.field(form.ragged[where.index(int(falls.argmax()))]).name
        raise LayoutError(f"record: column {column!r}: its offsets fall, or are negative")
    if len(given) > 1:
        return _shared(offsets, where)
    return offsets, where


def _shared(offsets: Offsets, where: tuple[int, ...]) -> tuple[Offsets, tuple[int, ...]]:
    """The same, where columns with one value in each row share their offsets."""
    size = offsets.shape[1]
    likely = np.flatnonzero(offsets[:, -1] == size - 1)
    if len(likely) < 2:
        return offsets, where
    ones = likely[(offsets[likely] == np.arange(size, dtype=OFFSET)).all(axis=1)].tolist()
    if len(ones) < 2:
        return offsets, where
    where, places = _merged(where, tuple(ones))
    return offsets[places], where


@functools.lru_cache(32)
def _merged(where: tuple[int, ...], same: tuple[int, ...]) -> tuple[tuple[int, ...], list[int]]:
    """Which offsets columns have when some are the same; also which are left."""
    first, places = dict.fromkeys(same, same[0]), dict[int, int]()
    where = tuple([places.setdefault(first.get(at, at), len(places)) for at in where])
    return where, list(places)


def _vectors(body: memoryview, places: list[int], size: int) -> list[Array]:
    """Offsets at some places."""
    whole = len(body) & -OFFSET.itemsize
    if any(at % OFFSET.itemsize for at in places) or max(places) + size * OFFSET.itemsize > whole:
        return [np.frombuffer(body, OFFSET, size, at) for at in places]
    numbers = np.frombuffer(body[:whole], OFFSET)
    return [numbers[at : at + size] for at in [place // OFFSET.itemsize for place in places]]


class _Header:
    """What has to be known of a record's header. What it says is not trusted: reading outside of it is an error."""

    def __init__(self, b: memoryview) -> None:
        self._b = b
        root = self._follow(0)
        kind, batch = self._field(root, 1), self._field(root, 2)
        if not kind or b[kind] != _RECORD_BATCH or not batch:
            raise ValueError("it has no record batch")
        batch = self._follow(batch)
        length = self._field(batch, 0)
        self.rows = int(_INT64.unpack_from(b, length)[0]) if length else 0
        self.nodes, self.buffers = self._vector(self._field(batch, 1)), self._vector(self._field(batch, 2))
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
        for at, length in self.buffers.tolist():
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

    def _vector(self, field: int) -> Pairs:
        """A vector of nodes or buffers."""
        if not field:
            return np.empty((0, _PAIR), np.int64)
        at = self._follow(field)
        n = int(_INT32.unpack_from(self._b, at)[0])
        if n < 0:
            raise ValueError(f"a vector of {n}")
        return np.frombuffer(self._b, _LONG, n * _PAIR, at + _INT32.size).reshape(n, _PAIR)
