"""Batches as they come on a link: Arrow's IPC, of which nothing is trusted. Of what is large nothing is copied."""

from __future__ import annotations

import functools
import struct
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from penstock._flat import NARROW, OFFSET, Flat, Form, Longs, Offsets, Packed, indices
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
_NARROW = np.array([size in NARROW for size in range(max(NARROW) + 2)])  # by size
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
        memory = memoryview(message).cast("B")
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
    lengths, nulls = nodes.T
    if np.count_nonzero(nulls):
        at = int(nulls.argmax() if nulls.max() > 0 else nulls.argmin())
        raise LayoutError(
            f"record: column {form.schema.field(form.columns[at]).name!r}: {nulls[at]} nulls; tensors have none"
        )
    begins, sizes = buffers.T
    most = max(int(buffers.view(np.uint64).max(initial=0)), int((begins + sizes).max(initial=0)))  # none is negative
    if most > len(body):
        raise ValueError(f"a buffer is outside of the body of {len(body)} bytes")
    if not 0 <= rows < _MOST_ROWS or np.count_nonzero(lengths[form.sized] != rows * form.sizes):
        raise ValueError(f"its columns do not have {rows} rows")
    if any(lengths[a] != lengths[b] for a, b in form.alike):
        raise ValueError("its weights are not as many as its values")
    offsets, where = _offsets(form, rows, body, begins, sizes)
    counts = _counts(form, rows, lengths, offsets, where)
    return Flat(form, rows, Packed(form, body, begins[form.at], counts, _sizes(form, counts, sizes)), offsets, where)


def _counts(form: Form, rows: int, lengths: Longs, offsets: Offsets, where: tuple[int, ...]) -> Longs:
    """How many values each part has, at least as many as its offsets say."""
    counts: Longs = form.widths * rows
    if len(form.varying):
        ends = offsets[:, -1][indices(where)][form.list_of[form.varying]]
        given = np.where(form.counted < 0, ends, lengths[form.counted])
        outside = ends > given
        if np.count_nonzero(outside):
            column = form.schema.field(form.parts[form.varying[outside.argmax()]].column).name
            raise LayoutError(f"record: column {column!r}: its offsets are outside")
        counts[form.varying] = given
    return counts


def _sizes(form: Form, counts: Longs, sizes: Longs) -> Longs:
    """How many bytes each part's values have; int64 ones are narrow where their buffer has room for no others."""
    room = sizes[form.at]
    short = counts > room * 8 // form.bits
    if not np.count_nonzero(short):
        return form.items
    n, has = counts[short], room[short]
    size = has // n
    bad = ~form.long[short] | ~_NARROW.take(size, mode="clip") | (size * n != has)
    if bad.any():
        at = np.flatnonzero(short)[bad.argmax()]
        column = form.schema.field(form.parts[at].column).name
        raise ValueError(f"column {column!r}: a buffer of {room[at]} bytes has no {counts[at]} values")
    narrow: Longs = form.items.copy()
    narrow[short] = size
    return narrow


def _offsets(form: Form, rows: int, body: memoryview, begins: Longs, sizes: Longs) -> tuple[Offsets, tuple[int, ...]]:
    """The offsets of a message, each once, checked to rise from 0 or more; and which of them a column has."""
    size = rows + 1
    if rows == 0:  # Arrow may leave them out
        return np.zeros((1, 1), OFFSET), (0,) * len(form.offsets)
    if not len(form.offsets):
        return np.empty((0, size), OFFSET), ()
    least = int(sizes[form.offsets].min())
    if least < size * OFFSET.itemsize:
        raise ValueError(f"offsets have {least} bytes for {rows} rows")
    at = begins[form.offsets].tolist()
    places, where = list(dict.fromkeys(at)), form.each
    if len(places) < len(at):
        numbers = {place: i for i, place in enumerate(places)}
        where = tuple([numbers[place] for place in at])
    # Joined as bytes: NumPy would make an array of each.
    joined = b"".join([body[a : a + size * OFFSET.itemsize] for a in places])
    given = np.frombuffer(joined, OFFSET)
    offsets = given.reshape(len(places), size)
    falls = given[1:] < given[:-1]
    falls[rows::size] = False  # from one column's to the next one's
    if np.count_nonzero(falls) or np.count_nonzero(offsets[:, 0] < 0):
        bad = (offsets[:, 1:] < offsets[:, :-1]).any(axis=1) | (offsets[:, 0] < 0)
        column = form.schema.field(form.ragged[where.index(int(bad.argmax()))]).name
        raise LayoutError(f"record: column {column!r}: its offsets fall, or are negative")
    # Columns with one value in each row share their offsets.
    ones, pitch = _ones(size), size * OFFSET.itemsize
    likely = (offsets[:, -1] == rows).nonzero()[0].tolist()
    same = tuple([at for at in likely if joined.startswith(ones, at * pitch)]) if len(likely) > 1 else ()
    if len(same) < 2:
        return offsets, where
    where, left = _merged(where, same)
    return offsets.take(left, axis=0), where


@functools.lru_cache(16)
def _ones(size: int) -> bytes:
    """Offsets of lists of one value."""
    return np.arange(size, dtype=OFFSET).tobytes()


@functools.lru_cache(32)
def _merged(where: tuple[int, ...], same: tuple[int, ...]) -> tuple[tuple[int, ...], Longs]:
    """Which offsets columns have when some are the same; also which are left."""
    first, places = dict.fromkeys(same, same[0]), dict[int, int]()
    where = tuple([places.setdefault(first.get(at, at), len(places)) for at in where])
    return where, np.array(list(places), np.int64)


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
