"""What the threads of one session share, behind one lock.

    stream threads: push records, take rows - assembler: joins them to a batch - trainer's thread: hands it over

The trainer's thread can be interrupted anywhere (a KeyboardInterrupt comes between two bytecodes), and must then have
lost nothing. So a hand-over is one assignment, of `offered`; all that follows from it is in settle, which may be done
again from its beginning, by whichever thread has the lock next.

Attributes are touched with `lock` held, unless said otherwise. Events are told without it: a handler may ask for
stats.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

import pyarrow as pa

from penstock import errors
from penstock._flat import Flat
from penstock._pb import control_pb2 as pb
from penstock._pb import spec_pb2
from penstock._session.bell import Bell
from penstock._session.checkpoint import Checkpointing
from penstock._session.config import Config
from penstock._session.hedging import Hedging
from penstock._session.lanes import Lanes
from penstock._session.layout import Layout, LayoutError
from penstock._session.ledger import Ledger, Snapshot
from penstock._session.pace import Pace
from penstock._session.piece import Chunk, Piece
from penstock._session.position import Interval, from_proto, to_proto
from penstock._session.rarely import Rarely
from penstock._session.rebatch import Slice
from penstock._session.steps import Steps
from penstock._session.workers import WorkerError
from penstock.batch import Checkpoint
from penstock.monitor import Event

log = logging.getLogger("penstock")
Value: TypeAlias = int | float | bool | str
STATE_VERSION = 1
THREADS = "penstock-"  # how the names of the package's threads begin


class Made(NamedTuple):
    """A batch that is ready. Its positions are the ledger's pending ones."""

    rows: Flat
    epoch: int
    by_worker: Mapping[str, int]


@dataclass(eq=False)
class Making:
    """Rows that were taken for the next batch."""

    epoch: int
    slices: dict[int, list[Slice]] = field(default_factory=dict)  # by lane
    rows: int = 0
    by_worker: dict[str, int] = field(default_factory=dict)

    def in_order(self) -> list[Slice]:
        """Lane by lane."""
        return [s for lane in sorted(self.slices) for s in self.slices[lane]]

    def add(self, chunk: Chunk, lane: int) -> None:
        """Appends rows without copying them."""
        self.slices.setdefault(lane, []).append(Slice(chunk.record.batch, chunk.low, chunk.high))
        self.rows += chunk.rows
        worker = chunk.record.worker
        self.by_worker[worker] = self.by_worker.get(worker, 0) + chunk.rows


class Totals(NamedTuple):
    """Counters of what was handed over."""

    rows: int = 0
    batches: int = 0
    bytes: int = 0
    by_worker: Mapping[str, int] = MappingProxyType({})

    def plus(self, made: Made) -> Totals:
        """The counters after one more batch."""
        by_worker = dict(self.by_worker)
        for worker, n in made.by_worker.items():
            by_worker[worker] = by_worker.get(worker, 0) + n
        return Totals(self.rows + made.rows.num_rows, self.batches + 1, self.bytes + made.rows.nbytes, by_worker)


@dataclass(frozen=True)
class Rows:
    """A batch, handed over: exactly batch_size rows, or the epoch's last.

    valid: how many of its rows are not padding, which is at its end.
    tensors: contiguous, in the session's tensor layout, without nulls; record is the same as Arrow has it.
    after: the state of this rank once the batch is consumed, for Session.state.
    checkpoint: of the whole job, that has its place behind this batch.
    """

    tensors: Flat
    epoch: int
    valid: int
    after: Snapshot
    checkpoint: Checkpoint | None = None

    @property
    def record(self) -> pa.RecordBatch:
        """All columns, each from offset 0."""
        return self.tensors.to_arrow()


class Offer(NamedTuple):
    """One hand-over: of a batch, of an epoch's end, or of positions without rows that a batch needs not wait for.

    Offers are told apart by identity.
    """

    rows: Rows | None
    returns: bool  # it ends a call of next
    epoch: int  # that the loop is in afterwards
    made: Made | None
    intervals: tuple[Interval, ...]
    before: Snapshot
    totals: Totals
    handed: int = 0  # batches of that epoch afterwards, where ranks count them


class Core:
    """The shared part of a Session."""

    def __init__(self, config: Config, info: pb.Session, joined: pb.JoinReply, nonce: str, lease_ends: float) -> None:
        spec = info.spec
        self.config, self.info, self.joined, self.nonce = config, info, joined, nonce
        self.batch_size = info.batch_size
        self.global_batch = self.batch_size * config.world_size if info.lanes else 0  # rows of a step of all ranks
        self.epochs = max(1, spec.epochs)
        self.lease = joined.lease_ms / 1000
        self.lease_ends = lease_ends  # time.monotonic
        self.lock = threading.Lock()
        self.ledger = _ledger(config, info, joined)
        self.epoch = self.ledger.ended  # that next reads

        self.ready = Bell()  # wakes next
        self.filled = Bell()  # wakes the assembler
        self.wake = Bell()  # wakes the control thread
        self.slot = Bell()  # wakes the thread that opens streams
        self.closing = threading.Event()  # no lock needed
        self.abandoned = False  # was closed where nothing can be waited for; no lock needed
        self.error: errors.Error | None = None  # why the session ended

        self.making: Making | None = None
        self.made: Made | None = None
        self.offered: Offer | None = None  # by next last; written by the trainer's thread alone
        self.settled: Offer | None = None
        self.totals = Totals()
        self.checkpointing = Checkpointing()

        self.layout: Layout | None = None
        self.finished = joined.closed_epochs >= self.epochs  # all epochs are closed
        self.revision = 0
        self.reply = pb.SyncReply()  # the newest
        self.failovers = self.hedges = 0
        self.hedging = Hedging(config.hedge_after)
        self.streams_by_worker: Counter[str] = Counter()
        self.unserved = Rarely(10.0)  # why no worker serves a shard
        self.worker_errors: dict[str, WorkerError] = {}  # the newest of each, by address
        self.master_error = ""  # of the Syncs that fail at present
        self.progress = 0.0  # when a row of the open epoch came last, or the first piece of it
        self.stall = self.longest_stall = self.compute = 0.0
        self.pace = Pace()

    def snapshot(self) -> Snapshot:
        """The present state."""
        return self.ledger.snapshot(self.joined.earlier.rows + self.totals.rows)

    def state(self, at: Snapshot) -> pb.State:
        """The checkpoint of this rank as of a moment."""
        c, info, base = self.config, self.info, at.base
        return pb.State(
            version=STATE_VERSION, session=c.session, generation=self.joined.generation,
            rank=c.rank, world_size=c.world_size,
            base=to_proto(base.consumed), base_version=base.version, members=base.members, departed=base.departed,
            departed_rows=base.departed_rows, skipped_row_groups=base.skipped,
            consumed=to_proto(at.consumed), closed_epochs=at.ended, handed=at.handed,
            rows=at.rows, start=at.start, global_batch=self.global_batch,
            program_digest=info.program_digest, dataset_digest=info.dataset_digest, planner_digest=info.planner_digest,
            fingerprint=info.fingerprint if info.HasField("fingerprint") else None,
        )  # fmt: skip

    def settle(self) -> None:
        """Does what follows from `offered`: each step may be done again."""
        offer = self.offered
        if offer is None or offer is self.settled:
            return
        self.ledger.hand_over(offer.intervals)
        self.ledger.enter(offer.epoch)
        self.discard()
        if self.ledger.steps is not None:
            self.ledger.steps.handed = offer.handed
        if offer.made is not None and self.made is offer.made:
            self.made = None
        self.epoch, self.totals = offer.epoch, offer.totals
        if offer.rows is not None and offer.rows.checkpoint is not None:
            self.checkpointing.take(offer.rows.after)
        self.settled = offer

    def discard(self) -> None:
        """Throws the batch in the making away if its rows are not ours any more, or in no step of their epoch."""
        if self.ledger.discard:
            self.making = self.made = None
            self.ledger.discard = False

    def fill(self) -> tuple[Making | None, bool]:
        """Takes received rows for the batch in the making; it is returned once it is whole.

        Also whether next has something to do: a batch, or positions without rows that no batch takes along. Whoever
        received rows does this, so that the assembler is woken for whole batches alone.
        """
        self.settle()
        making = self._fill()
        return making, self.made is not None or (self.making is None and bool(self.ledger.pending))

    def _fill(self) -> Making | None:
        ledger, making = self.ledger, self.making
        if self.made is not None:
            if not ledger.may_grow(self.made.rows.num_rows):
                return None
            making = _reopen(self.made)  # it was to be the epoch's last, short one; then more came
            self.made, self.making = None, making
        before = ledger.queued
        while not ledger.whole(self.rows_made()):
            taken = ledger.take(self.batch_size - self.rows_made())
            if taken is None:
                break
            chunk, piece = taken
            if making is None:
                making = self.making = Making(ledger.reading)
            making.add(chunk, piece.grant.lane)
            self.moved(piece)
        if ledger.queued < before:
            for p in ledger.pieces:
                p.notify()
        return making if making is not None and ledger.whole(making.rows) else None

    def unread(self) -> list[Piece]:
        """What rows of the open epoch are to come from."""
        return [p for p in self.ledger.pieces if not p.complete and p.shard.epoch == self.ledger.reading]

    def rows_made(self) -> int:
        """Rows of the batch in the making."""
        if self.made is not None:
            return self.made.rows.num_rows
        return 0 if self.making is None else self.making.rows

    def tell_ready(self) -> None:
        """Has the master told of batches that this rank is ready for, if others may wait for that."""
        steps = self.ledger.steps
        if steps is not None and self.ledger.drained and self.ledger.ready(self.rows_made()) > steps.reported:
            self.wake.ring()

    def moved(self, p: Piece) -> None:
        """Is called after rows of a piece were received or taken.

        If that ended it, its slot goes to the next, and the master hears of it.
        """
        if p.finished:
            self.slot.ring()
            self.wake.ring()

    def agree(self, schema: pa.Schema) -> Layout:
        """The session's layout, which the first stream's schema sets. Takes the lock; raises LayoutError."""
        with self.lock:
            if self.layout is None:
                self.layout = Layout.parse(schema)
            elif not self.layout.same(schema):
                raise LayoutError(f"sends schema {schema}; the session's is {self.layout.schema}")
            return self.layout

    def fail(self, error: errors.Error) -> None:
        """Ends the session; the first reason counts. Takes the lock."""
        with self.lock:
            if self.error is None:
                self.error = error
        self.closing.set()
        for bell in (self.ready, self.filled, self.wake, self.slot):
            bell.ring()

    def close(self) -> None:
        """Ends the session because its user wants no more. Takes the lock."""
        self.fail(errors.Closed(f"session {self.config.session!r}: the loader was closed; make a new one to go on"))

    def abandon(self) -> None:
        """Has the thread that opens streams close the session. Takes no lock."""
        self.abandoned = True
        self.slot.ring()

    def say(
        self, event: str, message: str, level: int = logging.INFO, metadata: Mapping[str, Value] = MappingProxyType({})
    ) -> None:
        """Tells the log and on_event. The lock must not be held."""
        c = self.config
        log.log(level, "session %s, rank %d: %s", c.session, c.rank, message)
        about = {"session": c.session, "rank": c.rank, **metadata}
        try:
            c.on_event(Event(f"penstock.{event}", message, metadata=about))
        except Exception:
            log.exception("on_event failed; the session goes on")

    def guard(self, work: Callable[[], None]) -> None:
        """Runs a thread's work. A mistake in it must end the session: next would wait for ever."""
        try:
            work()
        except errors.Error as e:
            self.fail(e)
        except Exception as e:
            name = threading.current_thread().name
            log.exception("thread %s failed", name)
            self.fail(errors.Error(f"session {self.config.session!r}: thread {name} failed: {e!r}; please report it"))


def _reopen(made: Made) -> Making:
    return Making(made.epoch, {0: [Slice(made.rows, 0, made.rows.num_rows)]}, made.rows.num_rows, dict(made.by_worker))


def _ledger(config: Config, info: pb.Session, joined: pb.JoinReply) -> Ledger:
    """The books of a rank that has joined."""
    spec, batch_size, lanes = info.spec, info.batch_size, info.lanes
    ledger: Ledger
    if lanes:
        each = lanes // config.world_size
        ledger = Lanes.of(range(config.rank * each, (config.rank + 1) * each), batch_size, joined)
    else:
        ledger = Ledger(batch_size=batch_size, consumed=from_proto(joined.consumed))
    ledger.epoch = joined.closed_epochs
    ledger.set_base(joined)
    if lanes or spec.last_batch in (spec_pb2.DROP, spec_pb2.PAD):
        ledger.pads = spec.last_batch == spec_pb2.PAD
        ledger.count(Steps(batch_size, counted=bool(lanes) or not ledger.pads), joined.steps)
    else:
        ledger.enter(_first_epoch(config, joined))
    return ledger


def _first_epoch(config: Config, joined: pb.JoinReply) -> int:
    """The epoch that the training loop is in at its start.

    It may be closed already, where this rank was late and the others have read all of it: the loop then gets no batch
    of it, and is in step with theirs. A rank that comes back cannot know where its loop was, and goes on with the open
    epoch.
    """
    if joined.kind == pb.FRESH and joined.incarnation == 1:  # later ones left before
        return joined.session.restored_from.epoch
    if joined.kind == pb.RESTORED:
        return max((s.closed_epochs for s in config.restore or ()), default=config.start_epoch)
    return joined.closed_epochs
