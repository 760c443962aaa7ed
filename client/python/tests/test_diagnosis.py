from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from penstock import _diagnosis as diagnosis
from penstock import errors
from penstock._pb import control_pb2 as pb
from penstock._session import SessionStats


def load(
    streams: int,
    slots: int,
    *,
    workers: int = 2,
    storage: float = 0.0,
    decode: float = 0.0,
    transform: float = 0.0,
    tensor: float = 0.0,
    send: float = 0.0,
) -> pb.FleetLoad:
    """The fleet over ten seconds. Stages are in shares of a stream's time."""
    ns = 10e9 * streams
    return pb.FleetLoad(
        workers=workers,
        streams=streams,
        slots=slots,
        seconds=10.0 * workers,
        counters=pb.WorkerCounters(
            storage_ns=int(storage * ns),
            decode_ns=int(decode * ns),
            transform_ns=int(transform * ns),
            tensor_ns=int(tensor * ns),
            send_ns=int(send * ns),
        ),
    )


COMPUTES = load(8, 8, storage=0.2, decode=0.29, transform=0.58, tensor=0.08, send=0.1)


def Figures(**figures: Any) -> SessionStats:  # noqa: N802
    """What a session of two workers says."""
    return SessionStats(**({"workers": 2, "streams": 4} | figures))


# After an hour of training, to show that differences count.
BEFORE = Figures(
    rows=1_000_000,
    batches=1000,
    bytes=1 << 30,
    stall_seconds=50.0,
    longest_stall_seconds=5.0,
    compute_seconds=3000.0,
    failovers=2,
    load=COMPUTES,
)


def after(stall: float, compute: float, **changes: object) -> SessionStats:
    """A hundred batches later."""
    later = dataclasses.replace(
        BEFORE,
        rows=BEFORE.rows + 100_000,
        batches=BEFORE.batches + 100,
        bytes=BEFORE.bytes + (100 << 20),
        stall_seconds=BEFORE.stall_seconds + stall,
        compute_seconds=BEFORE.compute_seconds + compute,
    )
    return dataclasses.replace(later, **changes)  # type: ignore[arg-type]


def judge(last: SessionStats, before: SessionStats = BEFORE, map_seconds: float = 0.0) -> tuple[str, str]:
    # The load of both ends is that of the last one, so that a case has one load.
    first = diagnosis.Observation(dataclasses.replace(before, load=last.load), 7.0)
    verdict = diagnosis.judge([first, diagnosis.Observation(last, 7.0 + map_seconds, at=100.0)])
    assert "\n" not in verdict.text
    return verdict.bottleneck, verdict.text


def test_nothing_to_judge() -> None:
    assert diagnosis.judge([]).bottleneck == "unknown"
    assert judge(Figures(), Figures()) == ("unknown", "nothing has been read yet")
    one = Figures(rows=500, batches=1, stall_seconds=0.25)
    assert judge(one, one) == ("unknown", "the first batch came after 0.2 s; a verdict needs more than one")


def test_workers_compute() -> None:
    assert judge(after(12, 88)) == (
        "workers",
        "trainer waited 12% of the time; workers are the bottleneck: transforms 61%, decode 31%",
    )


def test_training_loop() -> None:
    # Workers that compute all the time are no bottleneck of a trainer that does not wait.
    assert judge(after(1, 99)) == (
        "training loop",
        "trainer waited 1% of the time; the training loop is the bottleneck",
    )
    assert judge(after(4.9, 95.1))[0] == "training loop"
    assert judge(after(5, 95))[0] == "workers"


def test_map() -> None:
    assert judge(after(1, 99), map_seconds=60) == (
        "map",
        "trainer waited 1% of the time; map= is the bottleneck: 60% of the time (workers could do it, as a transform)",
    )
    assert judge(after(1, 99), map_seconds=24)[0] == "training loop"
    assert judge(after(20, 80), map_seconds=60)[0] == "workers"


def test_no_workers() -> None:
    gone = after(30, 70, workers=0, load=pb.FleetLoad())
    assert judge(gone) == (
        "no workers",
        (
            "trainer waited 30% of the time; no workers: start some, "
            "or see with `penstock doctor` why the master knows none"
        ),
    )
    assert judge(dataclasses.replace(gone, workers=1))[0] == "unknown"
    # At the end of a job that had what it needed, workers may go.
    assert judge(after(1, 99, workers=0, load=pb.FleetLoad()))[0] == "training loop"


def test_one_wait() -> None:
    hiccup = after(12, 88, longest_stall_seconds=11.0, failovers=3)
    assert judge(hiccup) == (
        "one wait",
        (
            "trainer waited 12% of the time, nearly all of it in one wait of 11 s (failovers: 1); "
            "otherwise the training loop is the bottleneck"
        ),
    )
    assert judge(after(12, 88, longest_stall_seconds=6.0))[0] == "workers"  # the rest is too much
    assert judge(after(12, 88, longest_stall_seconds=5.0))[0] == "workers"  # that wait was before
    assert judge(after(60, 40, longest_stall_seconds=59.0))[0] == "workers"  # that is no hiccup


def test_the_trainer_itself() -> None:
    batch = (BEFORE.bytes + (100 << 20)) // (BEFORE.batches + 100)
    full = dataclasses.replace(BEFORE, buffered=3 * batch)
    idle = load(8, 8, storage=0.1, transform=0.2, send=0.7)
    got = judge(after(30, 70, buffered=4 * batch, load=idle), full)
    assert got[0] == "trainer"
    assert got[1].startswith(
        "trainer waited 30% of the time with 4 batches' rows received; this process is the bottleneck"
    )
    assert judge(after(30, 70, buffered=4 * batch, load=idle))[0] == "network"  # it was empty before
    assert judge(after(30, 70, buffered=batch, load=idle), full)[0] == "network"
    # A message of many batches has just come, as it does at each observation: the loop looks after each batch.
    slow = load(8, 8, storage=0.9, transform=0.1)
    assert judge(after(100, 0, buffered=4 * batch, load=slow), full)[0] == "storage"
    assert judge(after(100, 0, buffered=4 * batch), full)[0] == "workers"
    assert judge(after(100, 0, buffered=4 * batch, load=pb.FleetLoad()), full)[0] == "unknown"


def test_workers_that_have_not_reported() -> None:
    assert judge(after(30, 70, load=pb.FleetLoad())) == (
        "unknown",
        "trainer waited 30% of the time; the workers have not reported yet what they do for it",
    )
    assert judge(after(3, 1, load=pb.FleetLoad())) == (
        "unknown",
        "trainer waited 75% of the time; a verdict on the workers needs ten seconds of reading, and this was 4.0 s",
    )
    assert judge(after(30, 70, load=pb.FleetLoad(workers=2, streams=4, slots=8)))[0] == "unknown"


def test_no_stream_is_open() -> None:
    assert judge(after(30, 70, load=load(0, 8))) == (
        "streams",
        (
            "trainer waited 30% of the time; no stream is open on the workers: nothing is left to read, "
            "or other ranks hold the rest"
        ),
    )


def test_idle_workers() -> None:
    assert judge(after(30, 70, load=load(4, 20, storage=0.2, decode=0.1, send=0.1))) == (
        "streams",
        (
            "trainer waited 30% of the time, but workers are idle 80% of it: streams are the bottleneck "
            "(4 of 20 slots taken): larger shards or more streams would help"
        ),
    )


def test_network() -> None:
    assert judge(after(30, 70, load=load(8, 8, storage=0.1, transform=0.3, send=0.85))) == (
        "network",
        (
            "trainer waited 30% of the time; the network is the bottleneck: "
            "workers' streams wait 85% of the time to send (or other trainers take their rows slowly)"
        ),
    )


def test_storage() -> None:
    assert judge(after(30, 70, load=load(8, 8, storage=0.92, decode=0.3, send=0.1))) == (
        "storage",
        "trainer waited 30% of the time; workers are waiting for storage: 92% of a stream's time",
    )


def test_few_streams_that_are_full() -> None:
    def full(streams: int) -> pb.FleetLoad:
        return load(streams, 8, storage=0.2, decode=0.3, transform=0.6, tensor=0.05)

    assert judge(after(30, 70, load=full(3))) == (
        "streams",
        (
            "trainer waited 30% of the time; streams are the bottleneck (3 of 8 slots taken), each busy with "
            "transforms 63%, decode 32%"
        ),
    )
    assert judge(after(30, 70, load=full(4)))[0] == "workers"  # a processor for each


def test_stages_are_compared_over_all_observations() -> None:
    # In the first reports storage was slow, in the more numerous later ones the transforms.
    slow = load(8, 8, storage=0.9, decode=0.1)
    fast = load(8, 8, storage=0.1, decode=0.05, transform=0.4)

    def judged(*loads: pb.FleetLoad) -> str:
        seen = [BEFORE, *(dataclasses.replace(after(10.0 * i, 20.0 * i), load=load) for i, load in enumerate(loads, 1))]
        return diagnosis.judge([diagnosis.Observation(s, at=30.0 * i) for i, s in enumerate(seen)]).bottleneck

    assert judged(slow, fast, fast) == "workers"
    assert judged(slow, slow, fast) == "storage"


def test_what_the_fleet_did_before_is_left_out() -> None:
    """A report of ten seconds that comes after eleven began before the first observation: it took time to get here."""
    idle = dataclasses.replace(after(11, 0), load=load(8, 8))
    busy = dataclasses.replace(after(12, 0), load=COMPUTES)

    def judged(*seen: tuple[SessionStats, float]) -> str:
        first = diagnosis.Observation(dataclasses.replace(BEFORE, load=load(8, 8)))
        return diagnosis.judge([first, *(diagnosis.Observation(s, at=at) for s, at in seen)]).bottleneck

    assert judged((idle, 11.0)) == "unknown"
    assert judged((idle, 11.0), (busy, 12.0)) == "workers"


def test_processors_that_all_streams_share() -> None:
    """Two streams for each processor: each can compute half of the time."""
    assert judge(after(30, 70, load=load(8, 8, transform=0.40, decode=0.08, storage=0.1)))[0] == "workers"
    assert judge(after(30, 70, load=load(8, 8, transform=0.15, decode=0.05, storage=0.1)))[0] == "streams"


def test_streams_that_ended_since_count_at_most_once() -> None:
    # The counters grew by more than the streams that are still open could do.
    busy = load(1, 8, decode=3.0, storage=0.2)
    use = diagnosis._FleetUse.of([diagnosis.Observation(Figures()), diagnosis.Observation(Figures(load=busy), at=60.0)])
    assert use is not None
    assert use.compute == pytest.approx(1.0)
    assert use.storage == pytest.approx(0.2 / 3)


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_watch_asks_once_a_second() -> None:
    clock = Clock()
    watch = diagnosis.Watch(clock=clock)
    asked = []

    def figures() -> SessionStats:
        asked.append(clock.now)
        return Figures()

    for _ in range(400):
        watch.observe(figures)
        clock.now += 1 / 64
    assert asked == [0, 1, 2, 3, 4, 5, 6]


def test_watch_judges_the_last_minute() -> None:
    clock = Clock()
    watch = diagnosis.Watch(clock=clock)
    stall = compute = 0.0
    for second in range(300):  # it waits half of the first four minutes, then no more
        stall, compute = (stall + 0.5, compute + 0.5) if second < 240 else (stall, compute + 1)
        seen = Figures(rows=second, stall_seconds=stall, compute_seconds=compute, load=COMPUTES)
        watch.observe(lambda seen=seen: seen)  # type: ignore[misc]
        clock.now += 1
    stats = watch.stats(seen)
    assert stats.bottleneck == "training loop"
    assert stats.stall_share == pytest.approx(120 / 300)
    assert len(watch._recent) == 60
    # Hours later, while the workers serve others, the verdict is the same.
    clock.now += 7200
    assert watch.stats(dataclasses.replace(seen, load=load(0, 8))) == stats


def test_watch_before_and_in_the_first_wait() -> None:
    clock = Clock()
    watch = diagnosis.Watch(clock=clock)
    assert watch.stats(Figures()).verdict == "nothing has been read yet"
    waits = Figures(stall_seconds=20, workers=0)
    assert watch.stats(waits).verdict.startswith("trainer waited 100% of the time; no workers")
    assert watch.stats(waits).stall_share == 1.0


def test_the_first_wait_is_no_part_of_later_verdicts() -> None:
    clock = Clock()
    watch = diagnosis.Watch(clock=clock)
    first = Figures(rows=10, batches=1, stall_seconds=30, longest_stall_seconds=30, load=COMPUTES)
    watch.observe(lambda: first)
    stats = watch.stats(dataclasses.replace(first, rows=100, batches=10, compute_seconds=60, stall_seconds=30.1))
    assert stats.verdict == "trainer waited 0% of the time; the training loop is the bottleneck"
    assert stats.stall_seconds == 30.1


def test_a_failure_is_the_verdict_until_reading_goes_on() -> None:
    watch = diagnosis.Watch()
    watch.observe(lambda: BEFORE)
    watch.failed(errors.WorkersUnreachable("session 's': no row came for 300 s\nworker w1 at 10.0.0.1:7: refused"))
    stats = watch.stats(after(12, 88))
    assert (stats.bottleneck, stats.verdict) == (
        "failure",
        "reading failed: WorkersUnreachable: session 's': no row came for 300 s",
    )
    watch.failed(None)
    assert watch.stats(after(1, 99)).bottleneck == "training loop"


def test_stats_as_text() -> None:
    stats = diagnosis.Watch().stats(Figures(rows=500, batches=1, stall_seconds=0.5, workers=1))
    assert str(stats).startswith("500 rows in 1 batch, 1,000 rows/s, 1 worker; ")
    assert str(diagnosis.Watch().stats(Figures())).startswith("0 rows in 0 batches, 0 rows/s, 2 workers; ")


def test_stats_go_into_json() -> None:
    session = dataclasses.replace(
        after(12, 88), buffered=5, peak_buffered=9, rows_by_worker={"w1": 600_000, "w2": 500_000}
    )
    watch = diagnosis.Watch(clock=(clock := Clock()))
    watch.observe(lambda: BEFORE)
    clock.now = 100.0
    stats = watch.stats(session, map_seconds=10.0)
    assert json.loads(json.dumps(dataclasses.asdict(stats))) == {
        "rows": 1_100_000,
        "batches": 1100,
        "bytes": session.bytes,
        "seconds": 3150.0,
        "rows_per_second": pytest.approx(1_100_000 / 3150),
        "stall_seconds": 62.0,
        "stall_share": pytest.approx(62 / 3150),
        "longest_stall_seconds": 5.0,
        "compute_seconds": 3078.0,
        "map_seconds": 10.0,
        "failovers": 2,
        "buffered_bytes": 5,
        "peak_buffered_bytes": 9,
        "workers": 2,
        "streams": 4,
        "rows_by_worker": {"w1": 600_000, "w2": 500_000},
        "bottleneck": "workers",
        "verdict": "trainer waited 12% of the time; workers are the bottleneck: transforms 61%, decode 31%",
    }
    assert str(stats) == "1,100,000 rows in 1,100 batches, 349 rows/s, 2 workers; " + stats.verdict
