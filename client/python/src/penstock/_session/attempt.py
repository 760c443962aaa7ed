"""One stream of a piece from one worker, in a thread of its own.

pyarrow's do_get returns only with the first message, and cannot be cancelled before. A thread that waits in it is left
behind where its attempt was ended; what it gets in the end is thrown away. An open stream is cancelled from outside.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import Protocol

from google.protobuf.message import DecodeError

from penstock._flat import Flat
from penstock._pb import stream_pb2 as pb
from penstock._session.bell import Bell
from penstock._session.core import THREADS, Core
from penstock._session.hedging import Worker
from penstock._session.layout import Layout, LayoutError
from penstock._session.links import LinkError
from penstock._session.messages import Incoming, MessageError
from penstock._session.piece import Miscount, Piece, StreamError
from penstock._session.position import Position
from penstock._session.stream import Stream
from penstock._session.workers import ERRORS, WorkerError, Workers, read_error


@dataclass(frozen=True)
class Record:
    """A checked record that came from a worker."""

    batch: Flat
    worker: str
    bytes: int  # memory that it keeps


class Race(Protocol):
    """What an attempt belongs to. Its functions are called from the attempt's thread."""

    def took(self, attempt: Attempt, cursor: Position) -> None:
        """The attempt moved the piece's cursor on from here. The lock is held."""

    def going(self, attempt: Attempt) -> None:
        """The attempt brought rows. The lock is not held."""

    def ended(self) -> None:
        """An attempt has ended."""


class Attempt:
    """A stream from one worker. Its attributes are its race's to read, with the session's lock or without."""

    def __init__(self, core: Core, workers: Workers, piece: Piece, worker: Worker, race: Race, second: bool) -> None:
        self._core, self._workers, self._piece, self._race = core, workers, piece, race
        self.name, self.address = worker
        self.second = second  # beside one that was late
        self.waits: float | None = time.monotonic()  # since when, for a message that there is room for
        self.began = False  # the worker answered
        self.begun = False  # a record came
        self.moved = False  # the cursor
        self.over = False  # nothing that comes is taken any more
        self.done = False  # the thread is at its end
        self.error: WorkerError | None = None  # why, unless the piece needs no more
        self.room = Bell()
        self._stream: Stream | None = None
        self.thread = threading.Thread(target=core.guard, args=(self._run,), name=THREADS + "stream", daemon=True)

    def end(self) -> None:
        """Ends the attempt, whatever it waits for. Never blocks; any thread may call."""
        self.over = True
        stream = self._stream
        if stream is not None:
            stream.cancel()
        self.room.ring()

    def silence(self, now: float) -> float:
        """For how long the worker has sent nothing, though there is room."""
        waits = self.waits
        return 0.0 if waits is None else now - waits

    def fails(self, words: str, code: str) -> WorkerError:
        """The error of this attempt, in words that may be the worker's."""
        return WorkerError(self.name, self.address, words, code)

    def _run(self) -> None:
        try:
            self.error = self._read()
        finally:
            self.done = True
            self._race.ended()

    def _read(self) -> WorkerError | None:
        """Streams from behind the last row received. None: the piece needs no more, or the attempt was ended."""
        connection = None
        try:
            connection = self._workers.connection(self.address)
            stream = self._stream = Stream(connection)
            if self.over:  # end may have been called before there was a stream
                return None
            schema = stream.open(self._request)
            if schema is not None:
                self.began = True
                self._count(1)
                try:
                    self._receive(stream, self._core.agree(schema))
                finally:
                    self._count(-1)
        except (LayoutError, Miscount) as e:
            return self.fails(str(e), "INVALID_ARGUMENT")
        except (StreamError, MessageError, DecodeError) as e:
            return self.fails(str(e), "UNKNOWN")
        except LinkError as e:
            return None if self.over else self.fails(str(e), "UNAVAILABLE")
        except ERRORS as e:
            code, words = read_error(e)
            if code == "UNAVAILABLE" and connection is not None:
                self._workers.forget(self.address, connection)
            return None if self.over else self.fails(words, code)
        finally:
            opened, self._stream = self._stream, None
            if opened is not None:
                opened.close()
        return None

    def _request(self, narrow: bool) -> bytes:
        """For a stream at the piece's cursor; narrow: int64 values of fewer bytes are understood."""
        with self._core.lock:
            at, ticket = self._piece.received, self._piece.grant.ticket
        return pb.StreamRequest(
            ticket=ticket, program=self._core.info.program, window=at.window, k=at.k,
            compression=self._core.config.compression, narrow=narrow,
        ).SerializeToString()  # fmt: skip

    def _receive(self, stream: Stream, layout: Layout) -> None:
        """Takes in records until the piece is complete, or the attempt is over."""
        size = 0
        while self._await_room(size):
            received = stream.next()
            waited, self.waits = self.silence(time.monotonic()), None
            if received is None:
                self._end()
            else:
                record, meta = check(received, layout, self.name)
                size = record.bytes
                self._push(record, meta, waited)
            if self.moved:
                self._race.going(self)
            if received is None:
                return

    def _await_room(self, size: int) -> bool:
        """Waits until a message of about that size may be received within the budget. False: no more is wanted."""
        core, p = self._core, self._piece
        while True:
            with core.lock:
                if self.over or p.complete:
                    return False
                if core.ledger.may_receive(p, size, core.config.budget):
                    if self.begun or self.waits is None:  # for the first message it waits since it was begun
                        self.waits = time.monotonic()
                    return True
                self.waits = None
            self.room.wait(1.0)

    def _push(self, record: Record, meta: pb.BatchMeta, waited: float) -> None:
        core, p = self._core, self._piece
        with core.lock:
            if self.over or p.complete:
                return
            before = p.received
            core.ledger.push(p, record, meta, not self.begun)
            core.hedging.note(self.begun, waited)
            self.begun = True
            if p.received != before:
                self.moved = True
                self._race.took(self, before)
            core.moved(p)
            if p.shard.epoch == core.ledger.reading:
                core.progress = time.monotonic()
            making, tell = core.fill()
            core.tell_ready()
        if making is not None:
            core.filled.ring()
        if tell:
            core.ready.ring()

    def _end(self) -> None:
        """The stream ended well: the piece is complete."""
        core, p = self._core, self._piece
        with core.lock:
            if self.over or p.complete:
                return
            before = p.received
            core.ledger.end(p, not self.begun)
            self.moved = True
            self._race.took(self, before)
            core.moved(p)
        core.filled.ring()

    def _count(self, n: int) -> None:
        with self._core.lock:
            by = self._core.streams_by_worker
            by[self.name] += n
            if by[self.name] == 0:
                del by[self.name]


def check(received: Incoming, layout: Layout, worker: str) -> tuple[Record, pb.BatchMeta]:
    """Received rows and where they belong, both checked."""
    rows = received.rows
    if rows is None or received.meta is None:
        raise StreamError("a message is no record with app_metadata: is this a Penstock worker?")
    meta = pb.BatchMeta.FromString(received.meta)
    if not isinstance(rows, Flat):
        layout.check(rows)
        rows = Flat.of(rows, layout.form)
    if rows.num_rows != meta.rows:
        raise StreamError(f"record has {rows.num_rows} rows; its app_metadata says {meta.rows}")
    return Record(rows, worker, received.bytes), meta
