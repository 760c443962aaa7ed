"""The control thread: it tells the master what was consumed, and takes over what this rank should hold.

Sync is sent on events, and at least every Config.sync_every seconds. While no master answers, streams go on, and
batches are handed over until the lease ends.
"""

from __future__ import annotations

import logging
import time

from google.protobuf.message import DecodeError

from penstock import errors
from penstock._pb import control_pb2 as pb
from penstock._session.core import Core
from penstock._session.failures import fleet_ended, from_master, session_failed
from penstock._session.masters import MasterError, Masters, backoff
from penstock._session.refused import Skips
from penstock._session.workers import Workers

SYNC_TIMEOUT = 10.0  # at most, and a quarter of the lease: others can be asked before it ends
SYNC_GAP = 0.02  # events within it share a Sync
STEPS_EVERY = 0.2  # of a rank that may have to pad: others wait for it
LEAVE_TIMEOUT = 5.0


class Control:
    """Syncs until the session ends, then leaves it."""

    def __init__(self, core: Core, masters: Masters, workers: Workers) -> None:
        self._core, self._masters, self._workers = core, masters, workers
        self._skips = Skips(core)
        self._said_idle = -1  # the newest epoch of which the log says that this rank waits for others
        self.leave_error: MasterError | None = None  # read after the thread's end

    def run(self) -> None:
        """Works until the session ends."""
        try:
            self._sync_until_closing()
            self._leave()
        finally:
            self._masters.close()

    def _sync_until_closing(self) -> None:
        core = self._core
        failed = hungry = steps = 0
        while not core.closing.is_set():
            try:
                self._sync()
            except MasterError as e:
                if core.closing.is_set():
                    return
                if not e.transient:
                    core.fail(from_master(core.config, e))
                    return
                failed += 1
                self._lost(e, failed)
                core.closing.wait(backoff(failed, core.config.sync_every))
                continue
            if failed:
                self._back(failed)
            failed = 0
            with core.lock:
                finished, idle, told = core.finished, core.ledger.waits(), self._told()
            if finished:
                core.closing.wait()
                return
            delay = core.config.sync_every
            if idle:  # nothing to stream until the master says so: ask more often, at first
                if told != steps:  # and so more may come soon
                    steps, hungry = told, 0
                delay = min(delay, SYNC_GAP * 2 ** min(hungry, 16))
                if core.ledger.steps is not None:
                    delay = min(delay, STEPS_EVERY)
            hungry = hungry + 1 if idle else 0
            if not core.closing.wait(SYNC_GAP):
                core.wake.wait(delay - SYNC_GAP)

    def _told(self) -> int:
        """How many steps the epoch that is read has, as far as is known, if ranks count them."""
        ledger = self._core.ledger
        return 0 if ledger.steps is None else ledger.steps.told.get(ledger.reading, 0)

    def _lost(self, e: MasterError, failed: int) -> None:
        with self._core.lock:
            self._core.master_error = str(e)
        if failed == 1:
            message = f"Sync failed; streams go on, trying again: {e}"
            self._core.say("master_lost", message, logging.WARNING, metadata={"cause": str(e)})

    def _back(self, failed: int) -> None:
        with self._core.lock:
            self._core.master_error = ""
        self._core.say(
            "master_back", f"a master answers again, after {failed} failed Syncs", metadata={"attempts": failed + 1}
        )

    def _sync(self) -> None:
        """One exchange with the master."""
        core = self._core
        with core.lock:
            core.wake.clear()  # what it tells goes into this request
            request = self._request()
        reply, sent = self._masters.call("Sync", request, pb.SyncReply, min(SYNC_TIMEOUT, core.lease / 4))
        if reply.failure:
            core.fail(session_failed(core.config, reply.failure, reply.bad_data))
            return
        idle = self._apply(reply, sent)
        self._skips.tell(reply.skipped)
        core.slot.ring()
        core.filled.ring()
        core.ready.ring()
        if idle is not None:
            message = (
                f"this rank has all that it gets of epoch {idle}; it waits until the other ranks have taken theirs"
            )
            core.say("waiting_for_ranks", message, metadata={"epoch": idle})

    def _request(self) -> pb.SyncRequest:
        """The complete state of this rank. The lock must be held."""
        core = self._core
        core.settle()
        c, joined, totals = core.config, core.joined, core.totals
        request = pb.SyncRequest(
            session=c.session, generation=joined.generation, rank=c.rank, incarnation=joined.incarnation,
            nonce=core.nonce, revision=core.revision, zone=c.zone,
            counters=pb.Counters(
                rows=totals.rows, batches=totals.batches, bytes=totals.bytes, stall_ns=int(core.stall * 1e9),
                compute_ns=int(core.compute * 1e9), failovers=core.failovers,
                hedges=core.hedges,
            ),
        )  # fmt: skip
        request.pace.CopyFrom(core.pace.to_proto(core.ledger.queued * totals.batches / (totals.bytes or 1)))
        core.ledger.request(request, core.rows_made())
        part = core.checkpointing.part()
        if part is not None:
            order, taken = part
            state = None if taken is None else core.state(taken)
            request.checkpoint.CopyFrom(pb.CheckpointPart(id=order, state=state, missed=taken is None))
        return request

    def _apply(self, reply: pb.SyncReply, sent: float) -> int | None:
        """Takes over a reply; returns the epoch of which this rank has all that it gets, when that is news."""
        core = self._core
        with core.lock:
            core.settle()
            core.revision = reply.revision
            core.lease_ends = sent + core.lease
            core.reply = reply
            waiting = not core.unread()
            try:
                core.ledger.apply(reply)
            except DecodeError as e:
                error = errors.SessionFailed(f"session {core.config.session!r}: Sync brought a broken ticket: {e}")
                core.error = core.error or error
                core.closing.set()
                return None
            core.checkpointing.obey(reply.checkpoint if reply.HasField("checkpoint") else None, core.totals.batches)
            if core.checkpointing.missed:
                core.wake.ring()
            core.discard()
            if waiting and core.unread():
                core.progress = time.monotonic()
            core.finished = reply.finished or core.ledger.epoch >= core.epochs
            if core.ledger.released:
                core.wake.ring()
            core.tell_ready()
            addresses = core.ledger.addresses()
            core.worker_errors = {a: e for a, e in core.worker_errors.items() if a in addresses}
            idle = self._newly_idle()
        self._workers.keep(addresses)
        return idle

    def _newly_idle(self) -> int | None:
        core = self._core
        epoch = core.ledger.epoch
        waits = core.config.world_size > 1 and not core.finished and not core.ledger.counted
        if not waits or self._said_idle >= epoch or not (core.ledger.drained and core.ledger.epoch_idle()):
            return None
        self._said_idle = epoch
        return epoch

    def _leave(self) -> None:
        """The last Sync: what this rank holds and has not consumed goes back at once."""
        core = self._core
        if fleet_ended(core.config) is not None:
            return
        with core.lock:
            if isinstance(core.error, errors.Fenced):
                return
            request = self._request()
        request.leave, request.wants_more = True, False
        del request.refused[:]  # what it gives back is others' to try
        self._masters.begin_last_words()
        begin = time.monotonic()
        try:
            self._masters.persist(
                "Sync", request, pb.SyncReply, timeout=LEAVE_TIMEOUT, patience=LEAVE_TIMEOUT,
                pause=lambda d: time.sleep(min(d, max(0.0, begin + LEAVE_TIMEOUT - time.monotonic()))),
                warn=lambda e: None,
            )  # fmt: skip
        except MasterError as e:
            self.leave_error = e
