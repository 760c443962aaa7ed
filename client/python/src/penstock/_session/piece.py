"""One granted run of positions inside a shard, and how far its rows came: the twin of client/piece.go.

    taken - rows in queue - received - rows to come - end

Pure bookkeeping without I/O and time. The session's lock guards every piece.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from penstock._pb import control_pb2
from penstock._pb import stream_pb2 as pb
from penstock._session.position import Interval, Position

MAX_WINDOW = (1 << 32) - 1


class StreamError(Exception):
    """A stream sent what does not follow the rows before it: rows would be lost."""


class Miscount(Exception):
    """A stream has other rows than were counted when its block was planned: all batches behind them would shift."""


class Received(Protocol):
    """A checked record that came from a worker."""

    @property
    def bytes(self) -> int:
        """Memory that it keeps."""

    @property
    def worker(self) -> str:
        """Who sent it."""

    @property
    def batch(self) -> Any:
        """The Arrow record batch."""


@dataclass
class Chunk:
    """Rows low to high of a record, of one window: from position start up to end."""

    record: Received
    low: int
    high: int
    start: Position
    end: Position
    seq: int  # order of arrival

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return self.high - self.low


@dataclass(frozen=True)
class Grant:
    """A run of positions that the master says this rank holds, with what opens its stream."""

    interval: Interval
    raw: bytes
    ticket: pb.SignedTicket
    workers: tuple[tuple[str, str], ...]  # (name, address), best first
    file: str
    # Order deterministic: the rows lie in a lane, which has `first` rows of the epoch before them.
    lane: int = 0
    first: int = 0
    rows: int = 0


def _nothing() -> None:
    """What a piece without a stream calls."""


@dataclass(eq=False)
class Piece:
    """A run of positions of one shard. `cancel` and `renewed` tell its stream, and must not block."""

    shard: Position  # where its shard starts
    taken: Position  # rows before it went into batches
    received: Position  # rows before it came from a worker; the cursor at which a stream reopens
    end: Position
    grant: Grant
    row: int = 0  # order deterministic: rows of the lane before `taken`
    queue: deque[Chunk] = field(default_factory=deque)
    bytes: int = 0  # of the queue
    open: bool = False  # has a stream, or had one and its rows are not all taken
    gone: bool = False  # dropped: not held any more, or parked
    refused: control_pb2.RefusedStream | None = None  # by every worker, because of the data
    cancel: Callable[[], None] = _nothing  # ends the stream
    notify: Callable[[], None] = _nothing  # tells it that the queue got shorter
    renewed: Callable[[], None] = _nothing  # tells it that the candidates changed

    @classmethod
    def of(cls, interval: Interval, grant: Grant) -> Piece:
        """A piece that has not begun."""
        return cls(interval.start.shard_start(), interval.start, interval.start, interval.end, grant, grant.first)

    @property
    def complete(self) -> bool:
        """Whether all of its rows came."""
        return self.received >= self.end

    @property
    def finished(self) -> bool:
        """Whether all of its rows came and were taken."""
        return self.complete and not self.queue

    def place(self, meta: pb.BatchMeta, first: bool) -> tuple[int, int, Position]:
        """Which rows, low to high, of an incoming batch are the piece's and new, and the cursor behind them.

        first tells that it is the first batch of its stream. A gap raises StreamError.
        """
        cur, window, k, rows = self.received, meta.window, meta.k, meta.rows
        if window == MAX_WINDOW:
            self._gap(meta, "no such window")
        if window < cur.window:
            return 0, 0, cur  # all of it came before
        if k > cur.k if window == cur.window else k != 0:
            self._gap(meta, "rows are missing")
        if window > cur.window and cur.k > 0 and not first:
            self._gap(meta, "the window before was not ended")
        if window == cur.window and k + rows < cur.k and meta.last:
            self._gap(meta, "the window ends before rows that came from another worker")
        low = min(cur.k - k, rows) if window == cur.window else 0
        after = self.shard._replace(window=window, k=k + rows)
        if meta.last:
            after = self.shard._replace(window=window + 1)
        if after < cur:
            return 0, 0, cur
        return low, max(low, self._rows_before(window, k, rows)), min(after, self.end)

    def _gap(self, meta: pb.BatchMeta, why: str) -> None:
        rows = f"rows {meta.k} to {meta.k + meta.rows}"
        raise StreamError(f"batch of window {meta.window}, {rows}, does not follow {self.received}: {why}")

    def _rows_before(self, window: int, k: int, rows: int) -> int:
        """How many of a batch's rows, from row k of a window, lie before the end."""
        if self.end.shard_start() != self.shard or window < self.end.window:
            return rows
        if window > self.end.window or k >= self.end.k:
            return 0
        return min(rows, self.end.k - k)

    def push(
        self, record: Received, meta: pb.BatchMeta, low: int, high: int, after: Position, seq: int
    ) -> Interval | None:
        """Queues a placed batch. Without rows it only moves the cursor, and returns what then needs no hand-over."""
        if low == high:
            return self.skip(after)
        start = self.shard._replace(window=meta.window, k=meta.k + low)
        self.queue.append(Chunk(record, low, high, start, after, seq))
        self.bytes += record.bytes
        self.received = after
        return None

    def skip(self, to: Position) -> Interval | None:
        """Moves the received cursor over positions without rows."""
        self.received = to
        if self.queue:
            self.queue[-1].end = to
            return None
        passed = Interval(self.taken, to)
        self.taken = to
        return passed if passed.start < to else None

    def take(self, rows: int) -> tuple[Chunk, Interval]:
        """Moves up to so many rows off the head of the queue; also the interval that they were."""
        head, start = self.queue[0], self.taken
        if rows < head.rows:
            cut = head.low + rows
            chunk = Chunk(head.record, head.low, cut, head.start, head.end, head.seq)
            head.low, head.start = cut, head.start._replace(k=head.start.k + rows)
            self.taken = head.start
        else:
            chunk = self.queue.popleft()
            self.taken = chunk.end
            self.bytes -= chunk.record.bytes
        self.row += chunk.rows
        return chunk, Interval(start, self.taken)

    def trim(self, to: Position) -> Interval | None:
        """Gives up all from `to` on, which lies behind taken; returns, like push, what needs no hand-over."""
        if to >= self.end:
            return None
        self.end = to
        if self.received < to:
            return None
        while self.queue:
            last = self.queue[-1]
            keep = self._rows_before(last.start.window, last.start.k, last.rows)
            if keep > 0:
                last.high = last.low + keep
                break
            self.queue.pop()
            self.bytes -= last.record.bytes
        return self.skip(to)

    def renew(self, grant: Grant) -> None:
        """Takes over a newer ticket."""
        changed = self.grant.workers != grant.workers
        self.grant = grant
        if changed:
            self.renewed()

    def drop(self) -> None:
        """Ends the piece: its stream stops, and its queued rows are forgotten."""
        self.gone = True
        self.queue.clear()
        self.bytes = 0
        self.cancel()
