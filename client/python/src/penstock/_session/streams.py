"""The streams: one thread for each open piece reads it to its end, moving from worker to worker.

pyarrow's do_get returns only with the first message, and cannot be cancelled before. So it runs in a thread of its
own, which is left behind when a worker does not answer; what such a thread gets in the end is thrown away. An open
stream is cancelled from outside when it is silent for too long, or not wanted any more.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from google.protobuf.message import DecodeError
from pyarrow import flight

from penstock._pb import stream_pb2 as pb
from penstock._session.bell import Bell
from penstock._session.core import THREADS, Core, Value
from penstock._session.failures import refused_shard
from penstock._session.layout import Layout, LayoutError
from penstock._session.masters import backoff
from penstock._session.piece import Piece, StreamError
from penstock._session.position import Position
from penstock._session.workers import ERRORS, WorkerError, Workers, read_error

# In how many rounds running all candidates must refuse a shard for good until the session fails: other workers may
# be candidates by then.
REFUSALS = 3
BUSY = "RESOURCE_EXHAUSTED"
BUSY_PATIENCE = 30.0  # seconds; where trainers share a fleet, workers are busy now and then
_log = logging.getLogger("penstock")


@dataclass(frozen=True)
class Record:
    """A checked record that came from a worker."""

    batch: pa.RecordBatch
    worker: str
    bytes: int  # memory that it keeps


@dataclass(frozen=True)
class Broken:
    """A stream that had begun, and broke."""

    worker: str
    cursor: Position
    cause: str
    at: float


class Opening:
    """One do_get, in a thread of its own."""

    def __init__(self, opens: Callable[[], flight.FlightStreamReader], tell: Callable[[], None]) -> None:
        self._opens, self._tell = opens, tell
        self._lock = threading.Lock()
        self._abandoned = False
        self._reader: flight.FlightStreamReader | None = None
        self._error: BaseException | None = None
        self.done = False
        self.thread = threading.Thread(target=self._run, name=THREADS + "open", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self._reader = self._opens()
        except BaseException as e:
            self._error = e
        with self._lock:
            self.done, abandoned = True, self._abandoned
        if abandoned:
            self._error = None  # its traceback holds this object
            if self._reader is not None:
                self._reader.cancel()
        self._tell()

    def take(self) -> flight.FlightStreamReader | None:
        """The reader, or None if it is not there: then whatever comes later is thrown away. Raises do_get's error."""
        with self._lock:
            self._abandoned = not self.done
            if self._abandoned:
                return None
        try:
            if self._error is not None:
                raise self._error
            return self._reader
        finally:
            self._error = None  # its traceback holds this object


class Flight:
    """A piece's stream over its workers. run is its thread's; cancel and watch may be called from any."""

    def __init__(self, core: Core, workers: Workers, piece: Piece, strays: set[threading.Thread]) -> None:
        self._core, self._workers, self._piece, self._strays = core, workers, piece, strays
        self._room = Bell()
        self._fresh = Bell()
        self._cancelled = False
        self._reader: flight.FlightStreamReader | None = None
        self._deadline: float | None = None  # until which the worker must send something
        self._silent = False
        self._broken: Broken | None = None
        self._since = time.monotonic()  # no row has come
        piece.cancel, piece.notify, piece.renewed = self.cancel, self._room.ring, self._fresh.ring
        self.thread = threading.Thread(target=core.guard, args=(self.run,), name=THREADS + "stream", daemon=True)

    def cancel(self) -> None:
        """Ends the stream, whatever it waits for. Never blocks."""
        self._cancelled = True
        reader = self._reader
        if reader is not None:
            reader.cancel()
        self._room.ring()
        self._fresh.ring()

    def watch(self, now: float) -> None:
        """Ends the attempt at a worker that is silent for too long."""
        deadline, reader = self._deadline, self._reader
        if deadline is not None and now > deadline and reader is not None:
            self._silent = True
            reader.cancel()

    def run(self) -> None:
        """Reads the piece to its end."""
        p, round_, refused = self._piece, 0, 0
        while not self._cancelled:
            self._fresh.clear()  # it is these candidates that are tried now
            candidates = p.grant.workers
            last: WorkerError | None = None
            permanent = 0
            for name, address in candidates:
                before = p.received
                error = self._read(name, address, round_)
                if error is None or self._cancelled:
                    return
                self._note(error)
                if last is None or not error.stranger:  # a worker's own words say more
                    last = error
                if p.received != before:
                    round_ = refused = permanent = 0
                    self._since = time.monotonic()
                permanent += error.refusal
            refused = refused + 1 if last is not None and permanent == len(candidates) else 0
            if refused == REFUSALS and last is not None:
                self._core.fail(refused_shard(self._core.config, p, last))
                return
            self._say_unserved(last)
            self._fresh.wait(backoff(round_, 2.0))
            round_ += 1

    def _note(self, e: WorkerError) -> None:
        with self._core.lock:
            self._core.worker_errors[e.address] = e

    def _say_unserved(self, last: WorkerError | None) -> None:
        core, p = self._core, self._piece
        why = "the fleet has no workers" if last is None else str(last)
        code = "" if last is None else last.code
        message = f"no worker serves shard {p.shard} ({p.grant.file}); trying on: {why}"
        if code == BUSY and time.monotonic() - self._since < BUSY_PATIENCE:
            _log.debug("session %s, rank %d: %s", core.config.session, core.config.rank, message)
            return
        with core.lock:
            due = core.unserved.due(code)
        if not due:
            return
        about: dict[str, Value] = {
            "shard": str(p.shard),
            "file": p.grant.file,
            "workers": len(p.grant.workers),
            "cause": why,
        }
        core.say("no_worker", message, logging.WARNING, metadata=about)

    def _read(self, name: str, address: str, round_: int) -> WorkerError | None:
        """Streams from one worker, from behind the last row received. None: the piece needs no more."""
        patience = self._core.config.stream_timeout * 2 ** min(round_, 10)
        self._silent = False
        client = None
        began = False
        try:
            client = self._workers.client(address)
            self._reader = self._open(client, patience)
            began = True
            layout = self._core.agree(self._reader.schema)
            self._count(name, 1)
            try:
                self._receive(self._reader, layout, name, patience)
            finally:
                self._count(name, -1)
        except TimeoutError as e:
            error = WorkerError(name, address, str(e), "DEADLINE_EXCEEDED")
        except LayoutError as e:
            error = WorkerError(name, address, str(e), "FAILED_PRECONDITION")
        except (StreamError, DecodeError) as e:
            error = WorkerError(name, address, str(e), "UNKNOWN")
        except ERRORS as e:
            code, words = ("DEADLINE_EXCEEDED", _silence(patience)) if self._silent else read_error(e)
            error = WorkerError(name, address, words, code)
            if code == "UNAVAILABLE" and client is not None:
                self._workers.forget(address, client)
        else:
            return None
        finally:
            self._deadline = None
            reader, self._reader = self._reader, None
            if reader is not None:
                reader.cancel()
        if began and self._broken is None:  # an exception would hold the stream and its connection
            self._broken = Broken(name, self._piece.received, str(error), time.monotonic())
        return error

    def _open(self, client: flight.FlightClient, patience: float) -> flight.FlightStreamReader:
        """Opens a stream at the piece's cursor."""
        with self._core.lock:
            at, ticket = self._piece.received, self._piece.grant.ticket
        request = pb.StreamRequest(ticket=ticket, program=self._core.info.program, window=at.window, k=at.k)
        wire, options = flight.Ticket(request.SerializeToString()), self._workers.options()
        opening = Opening(lambda: client.do_get(wire, options), self._room.ring)
        deadline = time.monotonic() + patience
        while not opening.done and not self._cancelled and time.monotonic() < deadline:
            self._room.wait(min(1.0, deadline - time.monotonic()))
        reader = opening.take()
        if reader is None:
            self._strays.add(opening.thread)
            raise TimeoutError(_silence(patience))
        return reader

    def _receive(self, reader: flight.FlightStreamReader, layout: Layout, worker: str, patience: float) -> None:
        """Takes in records until the piece is complete, or not wanted any more."""
        size, first = 0, True
        while self._await_room(size):
            self._deadline = time.monotonic() + patience
            try:
                chunk = reader.read_chunk()
            except StopIteration:
                complete = self._end(first)
            else:
                self._deadline = None
                record, meta = _check(chunk, layout, worker)
                size = record.bytes
                complete = self._push(record, meta, first)
                first = False
            if self._broken is not None:
                self._resumed(self._broken, worker)
            if complete:
                return

    def _await_room(self, size: int) -> bool:
        """Waits until a message of about that size may be received within the budget. False: the piece is done."""
        core, p = self._core, self._piece
        while True:
            with core.lock:
                if self._cancelled or p.gone or p.complete:
                    return False
                if core.ledger.may_receive(p, size, core.config.budget):
                    return True
            self._room.wait(1.0)

    def _push(self, record: Record, meta: pb.BatchMeta, first: bool) -> bool:
        core, p = self._core, self._piece
        with core.lock:
            if self._cancelled or p.gone or p.complete:
                return True
            complete = core.ledger.push(p, record, meta, first)
            core.moved(p)
            if p.shard.epoch == core.ledger.epoch:
                core.progress = time.monotonic()
            core.tell_ready()
        core.filled.ring()
        return complete

    def _end(self, first: bool) -> bool:
        """The stream ended well: the piece is complete."""
        core, p = self._core, self._piece
        with core.lock:
            if not self._cancelled and not p.gone:
                core.ledger.end(p, first)
                core.moved(p)
        core.filled.ring()
        return True

    def _resumed(self, b: Broken, worker: str) -> None:
        """A broken stream went on with a worker, perhaps the same."""
        self._broken = None
        if b.worker != worker:
            with self._core.lock:
                self._core.failovers += 1
        pause = time.monotonic() - b.at
        p = self._piece
        how = f"at {b.cursor}, from {b.worker} to {worker}, after {pause:.3f} s: {b.cause}"
        message = f"stream of shard {p.shard} resumed {how}"
        about = {"from": b.worker, "to": worker, "shard": str(p.shard), "file": p.grant.file, "cursor": str(b.cursor)}
        self._core.say("stream_resumed", message, metadata={**about, "pause": pause, "cause": b.cause})

    def _count(self, worker: str, n: int) -> None:
        with self._core.lock:
            by = self._core.streams_by_worker
            by[worker] += n
            if by[worker] == 0:
                del by[worker]


def _silence(patience: float) -> str:
    return f"sent nothing for {patience:g} s"


def _check(chunk: Any, layout: Layout, worker: str) -> tuple[Record, pb.BatchMeta]:
    """A received record and where its rows belong, both checked."""
    if chunk.data is None or chunk.app_metadata is None:
        raise StreamError("a message is no record with app_metadata: is this a Penstock worker?")
    meta = pb.BatchMeta.FromString(chunk.app_metadata.to_pybytes())
    batch = chunk.data
    layout.check(batch)
    if batch.num_rows != meta.rows:
        raise StreamError(f"record has {batch.num_rows} rows; its app_metadata says {meta.rows}")
    return Record(batch, worker, batch.get_total_buffer_size()), meta


class Streams:
    """Opens a stream whenever a slot is free, and watches that workers do not fall silent."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.workers = Workers(core.config.security)
        self._flights: list[Flight] = []  # of this object's thread, until it ended
        self._strays: set[threading.Thread] = set()

    def run(self) -> None:
        """Works until the session ends, then ends all streams."""
        core = self._core
        tick = min(1.0, core.config.stream_timeout / 4)
        try:
            while not core.closing.is_set():
                core.slot.wait(tick)
                if core.abandoned:
                    core.close()
                self._tend()
        finally:
            for f in self._flights:
                f.cancel()

    def _tend(self) -> None:
        """Forgets streams that ended, ends those that are silent, and opens those that there is a slot for."""
        self._flights = [f for f in self._flights if f.thread.is_alive()]
        self._strays.difference_update(t for t in list(self._strays) if not t.is_alive())
        now = time.monotonic()
        for f in self._flights:
            f.watch(now)
        while self._start():
            pass

    def _start(self) -> bool:
        """Opens the next piece, if a slot is free."""
        core = self._core
        with core.lock:
            p = None if core.closing.is_set() else core.ledger.startable()
            if p is None:
                return False
            p.open = True
            f = Flight(core, self.workers, p, self._strays)
            more = core.ledger.wants_more()
        if more:
            core.wake.ring()
        f.thread.start()
        self._flights.append(f)
        return True

    def join(self, deadline: float) -> list[threading.Thread]:
        """Waits for the streams' threads, after run has ended; returns those that hang inside a worker's silence."""
        for f in self._flights:
            f.thread.join(max(0.0, deadline - time.monotonic()))
        strays = list(self._strays)  # a stream that does not end in time may still add to them
        for t in strays:
            t.join(max(0.0, deadline - time.monotonic()))
        return [t for t in (*(f.thread for f in self._flights), *strays) if t.is_alive()]
