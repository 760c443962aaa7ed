"""A rank's reading of a session: what penstock.DataLoader stands on, and the twin of the Go package `client`.

Open (joining.py) talks to a master; then four kinds of threads work, all daemons, all joined by close: one Syncs
(control.py), one opens streams and tends them (streams.py, flight.py), one for each worker that is asked for a stream's
rows, of which a late stream has two (attempt.py), and one joins received rows to batches (assemble.py). What they share
is Core. Where batches come on a link (links.py), the stream has a thread more, which waits for its status (stream.py).

The trainer owns the cursor: rows count as consumed when next returns their batch, and not before. next, close and
state belong to the trainer's thread; stats may be called from any.

When a process is stopped inside next (SIGSTOP, a frozen machine) and wakes after its lease ended, the one batch that
was about to be returned may have been given to another rank too.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
import weakref
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from penstock import errors
from penstock._flat import Flat
from penstock._pb import control_pb2 as pb
from penstock._pb import spec_pb2
from penstock._session import forks
from penstock._session.assemble import Assembler
from penstock._session.config import Config
from penstock._session.control import LEAVE_TIMEOUT, Control
from penstock._session.core import THREADS, Made, Offer, Rows
from penstock._session.failures import doctor, fleet_ended, master_lost, workers_unreachable
from penstock._session.joining import open_session
from penstock._session.ledger import Snapshot
from penstock._session.masters import Masters
from penstock._session.padding import padded, padding, planned_schema
from penstock._session.position import Interval, make_set
from penstock._session.streams import Streams

CLOSE_TIMEOUT = LEAVE_TIMEOUT + 1.0
# How long one wait of next lasts: then it looks whether it waits for something that cannot come.
WAIT = 1.0


@dataclass(frozen=True)
class SessionStats:
    """Figures since the session was opened; seconds and bytes.

    rows, batches, bytes: handed over. rows_by_worker says who sent the rows, streams_by_worker from whom streams are
    being received. dropped: rows of ended epochs that no rank got.
    stall_seconds: that next waited, longest_stall_seconds the most that one call did. compute_seconds: between
    next's return with a batch and the next call. failovers: streams that went on with another worker. hedges: streams
    that another worker was asked for besides, because theirs was late.
    buffered: received and not yet in a batch, peak_buffered the most there ever were.
    workers: of the fleet; streams: that the master wants open; cause: what holds the session's trainers up, as the
    master sees it, if it has measured enough.
    """

    rows: int = 0
    batches: int = 0
    bytes: int = 0
    dropped: int = 0
    stall_seconds: float = 0.0
    longest_stall_seconds: float = 0.0
    compute_seconds: float = 0.0
    failovers: int = 0
    hedges: int = 0
    buffered: int = 0
    peak_buffered: int = 0
    workers: int = 0
    streams: int = 0
    rows_by_worker: Mapping[str, int] = field(default_factory=dict)
    streams_by_worker: Mapping[str, int] = field(default_factory=dict)
    cause: pb.Cause = field(default_factory=pb.Cause)


class Session:
    """One rank's reading of a session, from its opening to close."""

    def __init__(self, config: Config) -> None:
        """Opens the session on the master (or finds it), joins it as a rank, and begins to stream.

        Raises SpecError, SessionMismatch, RestoreRefused, PermissionDenied, SessionFailed, UsageError, or
        MasterUnreachable when no master has answered for Config.connect_timeout.
        """
        config.check()
        forks.note_opening()
        self._pid = os.getpid()
        masters = Masters(config.masters, config.security)
        try:
            self._core = core = open_session(config, masters)
        except BaseException:
            masters.close()
            raise
        self._masters = masters
        self._streams = Streams(core)
        self._control = Control(core, masters, self._streams.workers)
        self._returned: Offer | None = None  # the offer whose call of next reached its end
        self._last_return: float | None = None
        self._last_rows = 0  # of the batch that was returned then, without padding
        self._asked = self._stalled = 0.0  # when next was called last, and the stall until then
        self._said_lapsed = False
        self._said_waiting: float | None = None  # of the call of next that began then, that it waits for long
        self._said_dropped = 0  # rows
        self._closed = False
        self._threads = [
            threading.Thread(target=core.guard, args=(run,), name=THREADS + name, daemon=True)
            for name, run in [
                ("control", self._control.run),
                ("streams", self._streams.run),
                ("assembler", Assembler(core).run),
            ]
        ]
        for t in self._threads:
            t.start()
        _open_sessions.add(self)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def next(self) -> Rows | None:
        """The next batch of the loop's epoch; None, once, at the end of each epoch.

        A batch has exactly batch_size rows. When this rank has nothing more of the epoch to get, what is left is a
        shorter last batch, or dropped, as the spec says. (If another rank dies after that, rows of its shards may
        come late and make one more short batch.) Returning a batch makes its rows consumed.

        If the spec pads last batches, all ranks get equally many batches of an epoch, all of batch_size rows.

        A KeyboardInterrupt loses nothing: the next call returns the batch that this one did not. (Before Python 3.11
        one may still come between the return and the caller's assignment, as with any function.) Raises what ended
        the session at once; EpochsExhausted after the last epoch; WorkersUnreachable or MasterUnreachable when
        nothing came for Config.timeout that should have come: the session is still good then, and next may be called
        again. Waiting for other ranks, or while the lease has run out, is no error.
        """
        self._check_process()
        core = self._core
        begin = self._asked = time.monotonic()
        stalled = self._stalled = core.stall
        if core.offered is not self._returned:  # the call before was interrupted before its end
            return self._deliver()
        if self._last_return is not None:
            with core.lock:
                core.compute += begin - self._last_return
                core.pace.step(begin - self._last_return, self._last_rows)
            self._last_return = None
        while True:
            with core.lock:
                offer = self._offer()
                if offer is not None:
                    core.offered = offer
            if offer is None:
                self._wait(begin)
                core.longest_stall = max(core.longest_stall, core.stall - stalled)
            elif offer.returns:
                return self._deliver()
            else:
                self._deliver()

    def _deliver(self) -> Rows | None:
        """Ends a call: from its last assignment on, the batch is the caller's."""
        core = self._core
        with core.lock:
            core.settle()
        core.filled.ring()
        core.wake.ring()
        offer = core.offered
        assert offer is not None
        if offer.rows is not None:
            self._last_rows = offer.rows.valid
            self._last_return = time.monotonic()
            core.pace.client += max(0.0, self._last_return - self._asked - (core.stall - self._stalled))
        elif core.ledger.dropped > self._said_dropped:
            self._tell_dropped(core.ledger.dropped)
        self._returned = offer
        if offer.rows is not None and offer.rows.checkpoint is not None:
            name, step = offer.rows.checkpoint
            message = f"checkpoint {name!r} is taken at step {step}, behind this batch"
            core.say("checkpoint", message, metadata={"name": name, "step": step})
        return offer.rows

    def _tell_dropped(self, dropped: int) -> None:
        core, rows = self._core, dropped - self._said_dropped
        self._said_dropped = dropped
        message = f"epoch {core.epoch - 1}: {rows} rows were left for less than a batch of each rank, and are dropped"
        core.say("rows_dropped", message, metadata={"epoch": core.epoch - 1, "rows": rows})

    def _offer(self) -> Offer | None:
        """What may be handed over, or None if there is to wait. Changes nothing. The lock must be held."""
        core = self._core
        if core.error is not None:
            raise core.error.with_traceback(None)
        ledger, made = core.ledger, core.made
        before = core.snapshot()
        if core.epoch >= core.epochs:
            raise errors.EpochsExhausted(
                f"session {core.config.session!r}: all {core.epochs} epochs have been read; epochs= sets their number"
            )
        if ledger.over() if ledger.counted else ledger.epoch > core.epoch or core.finished:
            return self._end(before)
        if core.making is None and made is None and not ledger.pending and ledger.may_pad():
            return self._padding(before)
        if core.making is not None or (made is None and not ledger.pending) or not self._leased():
            return None
        intervals = tuple(ledger.pending)
        if made is None:
            return Offer(None, False, core.epoch, None, intervals, before, core.totals, before.handed)
        if ledger.gated() or not ledger.whole(made.rows.num_rows):
            return None
        return self._batch(made, intervals, before)

    def _end(self, before: Snapshot) -> Offer | None:
        """The end of the epoch, or a batch of padding alone that comes before it."""
        core, ledger = self._core, self._core.ledger
        steps = None if ledger.counted else ledger.steps
        if steps is not None and ledger.may_pad():
            return self._padding(before)
        if steps is not None and steps.final <= core.epoch:
            return None  # how many batches the epoch has is not known yet
        return Offer(None, True, core.epoch + 1, None, (), before, core.totals)

    def _batch(self, made: Made, intervals: tuple[Interval, ...], before: Snapshot) -> Offer:
        """A batch that was made."""
        core, handed = self._core, before.handed
        tensors, valid = made.rows, made.rows.num_rows
        if core.ledger.steps is not None:
            handed += 1
        if core.ledger.pads:
            tensors = padded(tensors, core.batch_size)
        after = replace(
            before, consumed=make_set((*intervals, *before.consumed)), handed=handed, rows=before.rows + valid,
            start=core.ledger.start(handed),
        )  # fmt: skip
        totals = core.totals.plus(made)
        rows = Rows(tensors, made.epoch, valid, after, core.checkpointing.at(totals.batches))
        return Offer(rows, True, core.epoch, made, intervals, before, totals, handed)

    def _padding(self, before: Snapshot) -> Offer:
        """A batch of padding alone."""
        core = self._core
        schema = planned_schema(self.program) if core.layout is None else core.layout.schema
        tensors = Flat.of(padding(schema, core.batch_size))
        handed = before.handed + 1
        after = replace(before, handed=handed, start=core.ledger.start(handed))
        totals = core.totals._replace(batches=core.totals.batches + 1, bytes=core.totals.bytes + tensors.nbytes)
        rows = Rows(tensors, core.epoch, 0, after, core.checkpointing.at(totals.batches))
        return Offer(rows, True, core.epoch, None, (), before, totals, handed)

    def _leased(self) -> bool:
        """Whether rows may be handed over."""
        return time.monotonic() < self._core.lease_ends

    def _wait(self, begin: float) -> None:
        """Waits for something to hand over."""
        core = self._core
        start = time.monotonic()
        core.ready.wait(min(WAIT, core.config.timeout))
        now = time.monotonic()
        core.stall += now - start
        self._tell_lease()
        ended = fleet_ended(core.config)
        if ended is not None:
            core.fail(ended)
            return
        if now - begin < core.config.timeout:
            return
        with core.lock:
            error, unread = self._hopeless(now, begin), core.unread()
        if error is not None:
            raise error
        if not unread and self._said_waiting != begin:
            self._said_waiting = begin
            what = f"next has waited for other ranks for {now - begin:.0f} s, which timeout= does not bound"
            hint = f"`penstock session show {core.config.session}` tells how far each rank is"
            core.say("waiting_for_ranks", f"{what}; {hint}", logging.WARNING, metadata={"epoch": core.epoch})

    def _tell_lease(self) -> None:
        core = self._core
        lapsed = not self._leased()
        if lapsed and not self._said_lapsed:
            message = f"the lease of {core.lease:g} s ran out without an answer from a master; waiting for one"
            core.say("lease_lapsed", message, logging.WARNING, metadata={"lease": core.lease})
        self._said_lapsed = lapsed

    def _hopeless(self, now: float, begin: float) -> errors.Error | None:
        """Why what next waits for does not come, when it has waited for long enough. The lock must be held."""
        core = self._core
        waited = now - max(begin, core.progress)
        if waited < core.config.timeout or core.error is not None:
            return None
        if core.master_error:
            return master_lost(core.config, waited, core.master_error)
        unread = core.unread()
        if not unread and core.reply.workers > 0:
            return None
        asked = {w for p in unread for w in p.grant.workers}
        return workers_unreachable(core.config, waited, core.reply.workers, asked, core.worker_errors)

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise errors.UsageError(
                "the loader was opened in another process, and a fork does not take its threads along: use "
                "num_workers=0, open the loader after the fork, or start processes with the spawn method"
            )

    @property
    def epoch(self) -> int:
        """The epoch that next reads, from 0."""
        return self._core.epoch

    @property
    def finished(self) -> bool:
        """Whether next has ended all epochs."""
        return self._core.epoch >= self._core.epochs

    @property
    def epochs(self) -> int:
        """Epochs of the session."""
        return self._core.epochs

    @property
    def batches(self) -> int | None:
        """How many batches next returns of its epoch, from the epoch's beginning on, where the master has told that."""
        with self._core.lock:
            return self._core.ledger.batches()

    @property
    def batch_size(self) -> int:
        """Rows of a full batch."""
        return self._core.batch_size

    @property
    def schema(self) -> pa.Schema | None:
        """The schema of all batches, or None before the first stream began."""
        layout = self._core.layout
        return None if layout is None else layout.schema

    @property
    def info(self) -> pb.Session:
        """The session as the master described it when this rank joined."""
        return self._core.info

    @property
    def program(self) -> spec_pb2.Program:
        """What workers run: the spec resolved against the dataset."""
        return spec_pb2.Program.FromString(self._core.info.program)

    def state(self, after: Snapshot | None = None) -> pb.State:
        """The checkpoint of this rank as of what next returned last, or as of Rows.after, for loops that read ahead."""
        self._check_process()
        core = self._core
        with core.lock:
            offer = core.offered
            if after is None and offer is not None and offer is not self._returned:
                after = offer.before  # its call of next was interrupted
            at = after or core.snapshot()
        return core.state(at)

    def stats(self) -> SessionStats:
        """The present figures."""
        self._check_process()
        core = self._core
        with core.lock:
            t, reply = core.totals, core.reply
            return SessionStats(
                rows=t.rows, batches=t.batches, bytes=t.bytes, dropped=core.ledger.dropped, stall_seconds=core.stall,
                longest_stall_seconds=core.longest_stall, compute_seconds=core.compute, failovers=core.failovers,
                hedges=core.hedges, buffered=core.ledger.queued, peak_buffered=core.ledger.peak, workers=reply.workers,
                streams=reply.streams, rows_by_worker=dict(t.by_worker),
                streams_by_worker=dict(core.streams_by_worker), cause=reply.cause,
            )  # fmt: skip

    def close(self) -> None:
        """Leaves the session: what this rank holds and has not consumed goes back at once. Ends all threads.

        Takes about 6 seconds where no master answers, or a worker is slow to send its first message. A thread that
        waits for one may stay behind; it holds nothing, and the log says so. In a forked process it does nothing.

        A thread of the package (which calls a listener, or collects a loader as garbage, perhaps with the lock held)
        cannot wait: there the session ends by itself a moment later.
        """
        if os.getpid() != self._pid or self._closed:
            return
        core = self._core
        if threading.current_thread().name.startswith(THREADS):
            core.abandon()
            return
        core.close()
        self._masters.cancel()
        deadline = time.monotonic() + CLOSE_TIMEOUT
        for t in self._threads:
            t.join(max(0.0, deadline - time.monotonic()))
        late = self._streams.join(deadline) + [t for t in self._threads if t.is_alive()]
        self._streams.workers.close()
        self._closed = True
        _open_sessions.discard(self)
        log = logging.getLogger("penstock")
        if self._control.leave_error is not None:
            why, hint = self._control.leave_error, doctor(core.config)
            what = "could not leave, so the master takes back what this rank holds when its lease ends"
            log.warning("session %s, rank %d: %s: %s; %s", core.config.session, core.config.rank, what, why, hint)
        if late:
            names = ", ".join(f"{n} {name}" for name, n in Counter(t.name for t in late).items())
            what = "stay behind until a worker answers, and hold nothing: it hangs, or is busy with other trainers"
            log.warning("session %s: threads (%s) %s", core.config.session, names, what)


_open_sessions: weakref.WeakSet[Session] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Closes what the user forgot."""
    for session in list(_open_sessions):
        session.close()
