"""A piece's stream over its workers: one attempt after the other, and a second one beside one that is late."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock._session.attempt import Attempt
from penstock._session.core import Core, Value
from penstock._session.hedging import Worker
from penstock._session.masters import backoff
from penstock._session.piece import Piece
from penstock._session.position import Position
from penstock._session.refused import refuse
from penstock._session.workers import WorkerError, Workers

# In how many rounds running all candidates must refuse a shard for good until the session fails: other workers may
# be candidates by then.
REFUSALS = 3
BUSY = "RESOURCE_EXHAUSTED"
LATE = "CANCELLED"
BUSY_PATIENCE = 30.0  # seconds; where trainers share a fleet, workers are busy now and then
_log = logging.getLogger("penstock")


@dataclass(frozen=True)
class Broken:
    """A stream that had begun, and broke or was late."""

    worker: str
    cursor: Position
    cause: str
    at: float


@dataclass
class Round:
    """One asking of all candidates."""

    number: int = 0  # of fruitless rounds running before it
    refused: int = 0  # in how many of those all candidates refused for good
    candidates: Sequence[Worker] = ()
    tried: list[Worker] = field(default_factory=list)
    refusals: list[WorkerError] = field(default_factory=list)  # for good
    last: WorkerError | None = None

    def begin(self, candidates: Sequence[Worker]) -> None:
        """Asks these from now on."""
        self.candidates, self.tried, self.refusals, self.last = candidates, [], [], None

    def end(self) -> None:
        """Notes that no candidate served."""
        refuses = self.last is not None and len(self.refusals) == len(self.candidates)
        self.refused = self.refused + 1 if refuses else 0
        self.number += 1

    def next(self) -> Worker | None:
        """The next candidate."""
        return next((w for w in self.candidates if w not in self.tried), None)

    def progress(self, worker: Worker) -> None:
        """Notes that a worker sent rows: all others may be asked again."""
        self.number = self.refused = 0
        self.again([worker])

    def again(self, but: list[Worker]) -> None:
        """Begins to ask all candidates but some anew."""
        self.tried, self.refusals = but, []

    def failed(self, error: WorkerError) -> None:
        """Notes what a worker said."""
        if self.last is None or not error.stranger:  # a worker's own words say more
            self.last = error
        if error.refusal:
            self.refusals.append(error)


class Flight:
    """A piece's stream. tend is of the thread that opens streams; all else may be called from any."""

    def __init__(self, core: Core, workers: Workers, piece: Piece) -> None:
        self._core, self._workers, self._piece = core, workers, piece
        self._racing: tuple[Attempt, ...] = ()  # one, or a second one beside it
        self._left: list[Attempt] = []  # that were ended
        self._round = Round()
        self._resume_at: float | None = 0.0  # when the next round begins; None: one is under way
        self._renewed = False
        self._cancelled = False
        self._moved: Attempt | None = None  # brought rows since tend last looked
        self._broken: Broken | None = None  # until the stream goes on
        self._since = time.monotonic()  # no row has come
        piece.cancel, piece.notify, piece.renewed = self.cancel, self._make_room, self._renew

    def cancel(self) -> None:
        """Ends the stream, whatever it waits for. Never blocks."""
        self._cancelled = True
        for a in self._racing:
            a.end()
        self._core.slot.ring()

    def _make_room(self) -> None:
        for a in self._racing:
            a.room.ring()

    def _renew(self) -> None:
        self._renewed = True
        self._core.slot.ring()

    @property
    def hedged(self) -> bool:
        """Whether two workers are asked at present."""
        return len(self._racing) > 1

    @property
    def over(self) -> bool:
        """Whether nothing is wanted any more."""
        return self._cancelled or self._piece.complete or self._piece.refused is not None

    def threads(self) -> list[threading.Thread]:
        """Those that have not ended."""
        return [a.thread for a in (*self._racing, *self._left) if a.thread.is_alive()]

    def tend(self, now: float, may_hedge: bool) -> float:
        """Does what is to do, and returns in how many seconds to look again."""
        self._left = [a for a in self._left if a.thread.is_alive()]
        self._note_progress(now)
        for a in self._racing:
            if a.over or a.done or self.over:
                self._leave(a, a.error, now)
            elif a.silence(now) > self._timeout:
                self._leave(a, a.fails(f"sent nothing for {self._timeout:g} s", "DEADLINE_EXCEEDED"), now)
        if self.over:
            return 0.0
        if not self._racing:
            return self._ask_next(now)
        return min(self._hedge(now, may_hedge), *(max(self._timeout - a.silence(now), 0.0) for a in self._racing))

    @property
    def _timeout(self) -> float:
        return self._core.config.stream_timeout * float(2 ** min(self._round.number, 10))

    def _note_progress(self, now: float) -> None:
        with self._core.lock:
            moved, self._moved = self._moved, None
        if moved is not None:
            self._round.progress((moved.name, moved.address))
            self._since = now

    def _leave(self, a: Attempt, error: WorkerError | None, now: float) -> None:
        """Is done with an attempt, which ends by itself."""
        lost = a.over
        a.end()
        self._racing = tuple(b for b in self._racing if b is not a)
        self._left.append(a)
        if error is None or lost or self.over:
            return
        self._round.failed(error)
        with self._core.lock:
            self._core.worker_errors[error.address] = error
            if a.began and self._broken is None:  # an exception would hold the stream and its connection
                self._broken = Broken(a.name, self._piece.received, str(error), now)

    def _ask_next(self, now: float) -> float:
        """Asks the next candidate, or waits for the next round."""
        r = self._round
        if self._resume_at is not None:
            if now < self._resume_at and not self._renewed:
                return self._resume_at - now
            self._resume_at, self._renewed = None, False
            with self._core.lock:
                r.begin(self._core.hedging.in_order(self._piece.grant.workers, now))
        worker = r.next()
        if worker is not None:
            self._begin(worker, second=False)
            return self._core.config.hedge_after
        pause = backoff(r.number, 2.0)
        r.end()
        if r.refused == REFUSALS:
            refuse(self._core, self._piece, r.refusals)
            return 0.0
        self._say_unserved(r.last)
        self._resume_at = now + pause
        return pause

    def _begin(self, worker: Worker, second: bool) -> None:
        self._round.tried.append(worker)
        a = Attempt(self._core, self._workers, self._piece, worker, self, second)
        self._racing = (*self._racing, a)
        if self._cancelled:  # by a thread that did not see the attempt
            a.end()
        a.thread.start()

    def _hedge(self, now: float, may_hedge: bool) -> float:
        """Asks another worker beside one that is late; in place of a second one that is late, too."""
        late, least = self._racing[-1], self._core.config.hedge_after
        with self._core.lock:
            patience = self._core.hedging.patience(late.begun)
        if patience is None or late.waits is None:
            return least
        if late.silence(now) < patience:
            return patience - late.silence(now)
        worker = self._round.next()
        if worker is None:  # those that were busy may have a place soon
            self._round.again([(a.name, a.address) for a in self._racing])
            return least
        if not (may_hedge or self.hedged):
            return least / 8
        with self._core.lock:
            self._core.hedges += 1
            for a in self._racing:
                a.second = False  # what comes now is beside it
        self._say_hedged(late, worker, now)
        if self.hedged:
            self._leave(late, None, now)
        self._begin(worker, second=True)
        return least

    def took(self, attempt: Attempt, cursor: Position) -> None:
        """An attempt moved the piece's cursor on from here: what is asked beside it has lost. The lock is held."""
        self._moved = attempt
        now = time.monotonic()
        for other in self._racing:
            if other is attempt:
                continue
            if attempt.second and self._broken is None:
                self._core.hedging.late(other.address, now)
                late = other.fails(f"sent nothing for {other.silence(now):.3g} s; another worker was faster", LATE)
                self._broken = Broken(other.name, cursor, str(late), other.waits or now)
            other.end()
            self._core.slot.ring()
        attempt.second = False

    def going(self, attempt: Attempt) -> None:
        """An attempt brought rows. The lock is not held."""
        if self._broken is None:
            return
        with self._core.lock:
            broken, self._broken = self._broken, None
            if broken is not None and broken.worker != attempt.name:
                self._core.failovers += 1
        if broken is not None:
            self._say_resumed(broken, attempt.name)

    def ended(self) -> None:
        """An attempt has ended."""
        self._core.slot.ring()

    def _say_hedged(self, late: Attempt, worker: Worker, now: float) -> None:
        p, waited = self._piece, late.silence(now)
        message = (
            f"worker {late.name} has sent nothing of shard {p.shard} for {waited:.3f} s; asking {worker[0]} besides"
        )
        about: dict[str, Value] = {"late": late.name, "second": worker[0], "shard": str(p.shard), "file": p.grant.file}
        self._core.say("stream_hedged", message, metadata={**about, "cursor": str(p.received), "waited": waited})

    def _say_resumed(self, b: Broken, worker: str) -> None:
        """A broken stream went on with a worker, perhaps the same."""
        pause = time.monotonic() - b.at
        p = self._piece
        how = f"at {b.cursor}, from {b.worker} to {worker}, after {pause:.3f} s: {b.cause}"
        message = f"stream of shard {p.shard} resumed {how}"
        about = {"from": b.worker, "to": worker, "shard": str(p.shard), "file": p.grant.file, "cursor": str(b.cursor)}
        self._core.say("stream_resumed", message, metadata={**about, "pause": pause, "cause": b.cause})

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
