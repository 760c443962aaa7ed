"""What limits a training loop: figures for the user, and a verdict in one line.

It stands between the session, whose cumulative figures it reads, and the loader, which shows what it says. Everything
but Watch is pure; a Watch belongs to the loader's thread for observe(), and stats() may be called from any.

The trainer's own figures say whether its loop waits, and the master, which sees all workers and ranks, what for: its
reason is the one that the dashboard and `penstock explain` show. It is of the last seconds, and the verdict of the last
minute: the newest reason for waiting counts.

Time is that of the training loop: what it waited and what it computed. What passes before the first batch is asked for
and after the last one is no part of it. In a job whose ranks wait for each other, a rank that waits in a collective for
a stalled one seems to compute: read the verdict of the rank that waits most.

The first rule that holds decides:

    bottleneck     rule
    failure        reading ended with an error, and has not gone on since
    unknown        nothing was asked for yet, or no batch after the first
    map            waited < 5%, and the loader's map= takes at least 25% of the time
    training loop  waited < 5%: a faster loader could gain no more than that
    one wait       waited < 50%, and without its longest wait, of at least a second, it would be < 5%
    client, network, workers, storage, streams
                   the master's newest reason, but that trainers do not wait
    unknown        it has none
"""

from __future__ import annotations

import collections
import dataclasses
import threading
import time
from collections.abc import Callable, Sequence

from penstock._session import Cause, SessionStats

WAITED = 0.05  # of the time: less is no reason to change anything
MAPS = 0.25  # of the time
_REASONS = ("client", "network", "workers", "storage", "streams")  # for a trainer to wait


@dataclasses.dataclass(frozen=True)
class Observation:
    """A session's figures at one moment."""

    session: SessionStats
    map_seconds: float = 0.0  # cumulative: the loader's map=


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What limits the loop: one of the module's bottlenecks, and a line for people."""

    bottleneck: str
    text: str


@dataclasses.dataclass(frozen=True)
class Stats:
    """What a loader did since its session was opened. dataclasses.asdict() of it goes into JSON.

    seconds is how long the training loop has run: stall_seconds, that it waited for batches, compute_seconds, its own
    time up to the newest request for a batch, and map_seconds, that of the loader's map=. stall_share is
    stall_seconds / seconds. bytes are of batches handed over; buffered_bytes were received and are in no batch yet.
    failovers are streams that went on with another worker, hedges those that another one was asked for besides, because
    theirs was late. ways are how many batches came from workers in which way: "memory" that is read where a worker on
    this machine has it, by "link", or by "grpc", which costs the most CPU time. workers is the fleet's size, streams is
    how many the master wants this trainer to hold open. The verdict judges the last minute of reading; bottleneck is
    its subject.
    """

    rows: int
    batches: int
    bytes: int
    seconds: float
    rows_per_second: float
    stall_seconds: float
    stall_share: float
    longest_stall_seconds: float
    compute_seconds: float
    map_seconds: float
    failovers: int
    hedges: int
    buffered_bytes: int
    peak_buffered_bytes: int
    workers: int
    streams: int
    rows_by_worker: dict[str, int]
    ways: dict[str, int]
    bottleneck: str
    verdict: str

    def __str__(self) -> str:
        return (
            f"{_counted(self.rows, 'row')} in {_counted(self.batches, 'batch', 'batches')}, "
            f"{self.rows_per_second:,.0f} rows/s, {_counted(self.workers, 'worker')}; {self.verdict}"
        )


def _counted(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%"


def judge(observations: Sequence[Observation]) -> Verdict:
    """Says what limited the loop between the first observation and the last, by the rules at the top of this module."""
    if not observations:
        return Verdict("unknown", "nothing has been read yet")
    first, last = observations[0], observations[-1]
    stall = last.session.stall_seconds - first.session.stall_seconds
    elapsed = stall + last.session.compute_seconds - first.session.compute_seconds
    if elapsed <= 0 and last.session.batches > 0:
        seconds = last.session.stall_seconds
        return Verdict("unknown", f"the first batch came after {seconds:.1f} s; a verdict needs more than one")
    if elapsed <= 0:
        return Verdict("unknown", "nothing has been read yet")
    waited = stall / elapsed
    mapped = (last.map_seconds - first.map_seconds) / elapsed
    bottleneck, reason = _bottleneck(observations, waited, mapped, elapsed)
    return Verdict(bottleneck, f"trainer waited {_percent(waited)} of the time{reason}")


def _bottleneck(observations: Sequence[Observation], waited: float, mapped: float, elapsed: float) -> tuple[str, str]:
    first, last = observations[0].session, observations[-1].session
    if waited < WAITED and mapped >= MAPS:
        return "map", f"; map= is the bottleneck: {_percent(mapped)} of the time (workers could do it, as a transform)"
    if waited < WAITED:
        return "training loop", "; the training loop is the bottleneck"
    longest = last.longest_stall_seconds
    if longest >= 1 and longest > first.longest_stall_seconds and waited < 0.5 and waited - longest / elapsed < WAITED:
        failovers = last.failovers - first.failovers
        during = f" (failovers: {failovers})" if failovers else ""
        rest = "otherwise the training loop is the bottleneck"
        return "one wait", f", nearly all of it in one wait of {longest:.0f} s{during}; {rest}"
    return _reason([o.session.cause for o in observations[1:]])


def _reason(causes: Sequence[Cause]) -> tuple[str, str]:
    """Why the trainer waited: what the master said last."""
    for cause in reversed(causes):
        if cause.bottleneck in _REASONS:
            return cause.bottleneck, f"; {cause.words}"
    if any(cause.bottleneck for cause in causes):
        return "unknown", "; lately the session's trainers, taken together, hardly wait"
    return "unknown", "; the master has not measured for long enough to say why: that takes some seconds of reading"


class Watch:
    """Keeps a minute of observations of one session, for verdicts about the present, not the job's whole life."""

    def __init__(self, every: float = 1.0, keep: int = 60, clock: Callable[[], float] = time.monotonic) -> None:
        self._every = every
        self._clock = clock
        self._lock = threading.RLock()
        self._recent: collections.deque[Observation] = collections.deque(maxlen=keep)
        self._due = clock()
        self._failure: str | None = None

    def failed(self, error: Exception | None) -> None:
        """Says that reading ended with an error, or, with None, that it has gone on since."""
        self._failure = None if error is None else f"{type(error).__name__}: {error}".partition("\n")[0]

    def observe(self, figures: Callable[[], SessionStats], map_seconds: float = 0.0) -> None:
        """Call it after each batch: it asks for figures once a second, and otherwise costs a look at the clock.

        The first batch is the first observation, so that the wait for it is no part of verdicts after it.
        """
        now = self._clock()
        if now < self._due:
            return
        self._due = now + self._every
        seen = Observation(figures(), map_seconds)
        with self._lock:
            self._recent.append(seen)

    def stats(self, session: SessionStats, map_seconds: float = 0.0) -> Stats:
        """The user's figures. session: the present ones."""
        with self._lock:
            seen = list(self._recent) or [Observation(SessionStats())]
        # A loop that waits for rows observes nothing. What the fleet does after a loop's end says nothing about it.
        if session.stall_seconds > seen[-1].session.stall_seconds or session.rows > seen[-1].session.rows:
            seen.append(Observation(session, map_seconds))
        failure = self._failure
        verdict = judge(seen) if failure is None else Verdict("failure", f"reading failed: {failure}")
        seconds = session.stall_seconds + session.compute_seconds
        return Stats(
            rows=session.rows,
            batches=session.batches,
            bytes=session.bytes,
            seconds=seconds,
            rows_per_second=session.rows / seconds if seconds > 0 else 0.0,
            stall_seconds=session.stall_seconds,
            stall_share=session.stall_seconds / seconds if seconds > 0 else 0.0,
            longest_stall_seconds=session.longest_stall_seconds,
            compute_seconds=max(session.compute_seconds - map_seconds, 0.0),
            map_seconds=map_seconds,
            failovers=session.failovers,
            hedges=session.hedges,
            buffered_bytes=session.buffered,
            peak_buffered_bytes=session.peak_buffered,
            workers=session.workers,
            streams=session.streams,
            rows_by_worker=dict(session.rows_by_worker),
            ways=dict(session.ways),
            bottleneck=verdict.bottleneck,
            verdict=verdict.text,
        )
