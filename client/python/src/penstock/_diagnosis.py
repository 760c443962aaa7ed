"""What limits a training loop: figures for the user, and a verdict in one line.

It stands between the session, whose cumulative figures it reads, and the loader, which shows what it says. Everything
but Watch is pure; a Watch belongs to the loader's thread for observe(), and stats() may be called from any.

How the figures identify the bottleneck. A worker serves a stream with three threads: one reads storage, one computes
(decodes, transforms, builds tensors, one after the other), one sends. Each is timed only while it works, and send also
while the trainer's flow control or the network holds it up. So the busiest of the three limits the stream, and how busy
it is, in shares of the time that streams were open (seconds per worker x streams), says whether anything does. That
compute is the busiest says nothing yet about processors: a worker has two slots for each of them by default, and a
stream computes on one, so that a worker is full from half of its slots on. Below that, more streams are faster; above
it, streams take turns, and compute's share is of the time of half of the slots.

Time is that of the training loop: what it waited and what it computed. What passes before the first batch is asked for
and after the last one is no part of it.

The fleet's figures are those of all its streams, of other jobs and ranks, too. In a job whose ranks wait for each
other, a rank that waits in a collective for a stalled one seems to compute: read the verdict of the rank that waits
most.

The first rule that holds decides:

    bottleneck     rule
    failure        reading ended with an error, and has not gone on since
    unknown        nothing was asked for yet, or no batch after the first
    no workers     the fleet has none, and the trainer waited or got no row
    map            waited < 5%, and the loader's map= takes at least 25% of the time
    training loop  waited < 5%: a faster loader could gain no more than that
    one wait       waited < 50%, and without its longest wait, of at least a second, it would be < 5%
    unknown        no worker has reported what it does: reports cover 5 to 10 s, those that began before are left out
    trainer        at each observation at least two batches' rows were received and not taken, and neither storage nor
                   compute is the busiest and busy for 50%: rows arrive faster than this process can join them. (Rows
                   alone prove nothing: with slow storage, too, they come in messages of many batches)
    streams        none is open: the trainer has nothing granted, as at an epoch's end that waits for other ranks
    streams        the busiest thread of a stream is busy < 50%: streams open and end more than they carry
    network        send is the busiest: the network, or other trainers that take their rows slowly
    storage        storage is the busiest
    streams        compute is the busiest, with fewer than half of the slots taken
    workers        compute is the busiest
"""

from __future__ import annotations

import collections
import dataclasses
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from penstock._pb import control_pb2 as pb
from penstock._session import SessionStats

WAITED = 0.05  # of the time: less is no reason to change anything
MAPS = 0.25  # of the time
SATURATED = 0.5  # of a stream's time, for its busiest thread
REPORTED = 10.0  # seconds, until a report covers nothing but the loop's time
LATENESS = 2.0  # seconds, of a worker's report on its way over the master to here
MENTIONED = 0.1  # of the workers' work, for a stage to be named in a verdict


@dataclasses.dataclass(frozen=True)
class Observation:
    """A session's figures at one moment."""

    session: SessionStats
    map_seconds: float = 0.0  # cumulative: the loader's map=
    at: float = 0.0  # seconds, of any clock


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
    workers is the fleet's size, streams how many the master wants this trainer to hold open. The verdict judges the
    last minute of reading; bottleneck is its subject.
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
    buffered_bytes: int
    peak_buffered_bytes: int
    workers: int
    streams: int
    rows_by_worker: dict[str, int]
    bottleneck: str
    verdict: str

    def __str__(self) -> str:
        return (
            f"{_counted(self.rows, 'row')} in {_counted(self.batches, 'batch', 'batches')}, "
            f"{self.rows_per_second:,.0f} rows/s, {_counted(self.workers, 'worker')}; {self.verdict}"
        )


def _counted(number: int, one: str, many: str = "") -> str:
    return f"{number:,} {one if number == 1 else many or one + 's'}"


@dataclasses.dataclass(frozen=True)
class _FleetUse:
    """How busy streams were over several reports.

    storage and send are shares of the time that streams were open, compute of the time that processors were there for
    them; each is at most 1.
    """

    streams: float  # mean
    slots: float  # mean
    storage: float
    compute: float
    send: float
    stages: Mapping[str, float]  # of compute: shares that add up to 1, the largest first

    @classmethod
    def of(cls, observations: Sequence[Observation]) -> _FleetUse | None:
        began = observations[0].at
        loads = [o.session.load for o in observations if _lies_within(o.session.load, o.at - began)]
        if not loads:
            return None

        def total(*counters: str) -> float:
            return float(sum(getattr(load.counters, c) for load in loads for c in counters)) / 1e9

        storage, send = total("storage_ns"), total("send_ns")
        stages = {"decode": total("decode_ns"), "transforms": total("transform_ns"), "tensors": total("tensor_ns")}
        compute = sum(stages.values())
        # Streams are counted at one moment and time adds up over seconds: a stream cannot be busy for longer than open.
        is_open = sum(load.streams * load.seconds / load.workers for load in loads)
        is_open = max(is_open, storage, compute, send) or 1.0
        can_compute = sum(min(load.streams, load.slots / 2) * load.seconds / load.workers for load in loads)
        can_compute = max(can_compute, compute) or 1.0
        return cls(
            streams=sum(load.streams for load in loads) / len(loads),
            slots=sum(load.slots for load in loads) / len(loads),
            storage=storage / is_open,
            compute=compute / can_compute,
            send=send / is_open,
            stages={k: v / (compute or 1.0) for k, v in sorted(stages.items(), key=lambda s: -s[1])},
        )

    def is_limit(self) -> bool:
        """Whether the workers' storage or processors hold streams up."""
        busiest = max(self.storage, self.compute)
        return busiest >= SATURATED and busiest > self.send

    def slots_taken(self) -> str:
        return f"{self.streams:.0f} of {self.slots:.0f} slots taken"

    def work(self) -> str:
        """Such as "transforms 61%, decode 30%"."""
        named = [f"{stage} {_percent(share)}" for stage, share in self.stages.items() if share >= MENTIONED]
        return ", ".join(named)


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%"


def _lies_within(load: pb.FleetLoad, seconds: float) -> bool:
    """Whether a load that was known so long after the first observation is of the time since."""
    return load.seconds > 0 and load.workers > 0 and load.seconds / load.workers + LATENESS <= seconds


def judge(observations: Sequence[Observation]) -> Verdict:
    """Says what limited the loop between the first observation and the last, by the rules at the top of this module."""
    if not observations:
        return Verdict("unknown", "nothing has been read yet")
    first, last = observations[0], observations[-1]
    stall = last.session.stall_seconds - first.session.stall_seconds
    elapsed = stall + last.session.compute_seconds - first.session.compute_seconds
    rows = last.session.rows - first.session.rows
    if elapsed <= 0 and last.session.batches > 0:
        seconds = last.session.stall_seconds
        return Verdict("unknown", f"the first batch came after {seconds:.1f} s; a verdict needs more than one")
    if elapsed <= 0:
        return Verdict("unknown", "nothing has been read yet")
    waited = stall / elapsed
    mapped = (last.map_seconds - first.map_seconds) / elapsed
    bottleneck, reason = _bottleneck(observations, waited, mapped, rows, elapsed)
    return Verdict(bottleneck, f"trainer waited {_percent(waited)} of the time{reason}")


def _bottleneck(
    observations: Sequence[Observation], waited: float, mapped: float, rows: int, elapsed: float
) -> tuple[str, str]:
    first, last = observations[0].session, observations[-1].session
    if max(last.workers, last.load.workers) == 0 and (waited >= WAITED or rows == 0):
        return "no workers", "; no workers: start some, or see with `penstock doctor` why the master knows none"
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
    fleet = _FleetUse.of(observations)
    if fleet is None:
        if elapsed < REPORTED:
            return "unknown", f"; a verdict on the workers needs ten seconds of reading, and this was {elapsed:.1f} s"
        return "unknown", "; the workers have not reported yet what they do for it"
    batch = last.bytes / last.batches if last.batches else math.inf
    if min(o.session.buffered for o in observations) >= 2 * batch and not fleet.is_limit():
        return "trainer", (
            f" with {last.buffered / batch:.0f} batches' rows received; this process is the bottleneck: "
            "its processors are busy"
        )
    return _in_fleet(fleet)


def _in_fleet(fleet: _FleetUse) -> tuple[str, str]:
    """Where in the fleet a trainer's waiting comes from."""
    if fleet.streams == 0:
        return "streams", "; no stream is open on the workers: nothing is left to read, or other ranks hold the rest"
    busiest = max(fleet.storage, fleet.compute, fleet.send)
    if busiest < SATURATED:
        return "streams", (
            f", but workers are idle {_percent(1 - busiest)} of it: streams are the bottleneck "
            f"({fleet.slots_taken()}): larger shards or more streams would help"
        )
    if busiest == fleet.send:
        return "network", (
            f"; the network is the bottleneck: workers' streams wait {_percent(fleet.send)} of the time to send "
            "(or other trainers take their rows slowly)"
        )
    if busiest == fleet.storage:
        return "storage", f"; workers are waiting for storage: {_percent(fleet.storage)} of a stream's time"
    if fleet.streams < fleet.slots / 2:
        return "streams", f"; streams are the bottleneck ({fleet.slots_taken()}), each busy with {fleet.work()}"
    return "workers", f"; workers are the bottleneck: {fleet.work()}"


class Watch:
    """Keeps a minute of observations of one session, for verdicts about the present, not the job's whole life."""

    def __init__(self, every: float = 1.0, keep: int = 60, clock: Callable[[], float] = time.monotonic) -> None:
        self._every = every
        self._clock = clock
        self._lock = threading.Lock()
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
        seen = Observation(figures(), map_seconds, now)
        with self._lock:
            self._recent.append(seen)

    def stats(self, session: SessionStats, map_seconds: float = 0.0) -> Stats:
        """The user's figures. session: the present ones."""
        with self._lock:
            seen = list(self._recent) or [Observation(SessionStats())]
        # A loop that waits for rows observes nothing. What the fleet does after a loop's end says nothing about it.
        if session.stall_seconds > seen[-1].session.stall_seconds or session.rows > seen[-1].session.rows:
            seen.append(Observation(session, map_seconds, self._clock()))
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
            buffered_bytes=session.buffered,
            peak_buffered_bytes=session.peak_buffered,
            workers=session.workers,
            streams=session.streams,
            rows_by_worker=dict(session.rows_by_worker),
            bottleneck=verdict.bottleneck,
            verdict=verdict.text,
        )
