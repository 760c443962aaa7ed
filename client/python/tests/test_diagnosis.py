from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest

from penstock import _diagnosis as diagnosis
from penstock import errors
from penstock._session import Cause, SessionStats

BUSY = "workers are the bottleneck: they are busy 93% of it, with hash 61%, decode 30%"
WORKERS = Cause("workers", BUSY)
STORAGE = Cause("storage", "storage is the bottleneck")
NOBODY_WAITS = Cause("trainer", "the training loop is the bottleneck")


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
    hedges=3,
    cause=WORKERS,
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
    verdict = diagnosis.judge([diagnosis.Observation(before, 7.0), diagnosis.Observation(last, 7.0 + map_seconds)])
    assert "\n" not in verdict.text
    return verdict.bottleneck, verdict.text


def test_nothing_to_judge() -> None:
    assert diagnosis.judge([]).bottleneck == "unknown"
    assert judge(Figures(), Figures()) == ("unknown", "nothing has been read yet")
    one = Figures(rows=500, batches=1, stall_seconds=0.25)
    assert judge(one, one) == ("unknown", "the first batch came after 0.2 s; a verdict needs more than one")


@pytest.mark.parametrize("bottleneck", ["client", "network", "workers", "storage", "streams"])
def test_what_the_master_says(bottleneck: str) -> None:
    """It is the one judge of what trainers wait for."""
    cause = Cause(bottleneck, "why, with numbers")
    assert judge(after(12, 88, cause=cause)) == (bottleneck, "trainer waited 12% of the time; why, with numbers")


def test_all_that_the_master_may_name_is_known() -> None:
    control = (Path(__file__).parents[3] / "api/pb/control.proto").read_text()
    named = re.findall(r"^  ([A-Z_]+) = ", control.partition("enum Bottleneck {")[2].partition("}")[0], re.MULTILINE)
    assert {*diagnosis._REASONS, "bottleneck_unspecified", "none", "trainer"} == {name.lower() for name in named}


def test_the_newest_reason_counts() -> None:
    def judged(*causes: Cause) -> tuple[str, str]:
        seen = [BEFORE, *(after(10.0 * i, 20.0 * i, cause=cause) for i, cause in enumerate(causes, 1))]
        verdict = diagnosis.judge([diagnosis.Observation(s) for s in seen])
        return verdict.bottleneck, verdict.text

    assert judged(WORKERS, STORAGE)[0] == "storage"
    assert judged(STORAGE, WORKERS)[0] == "workers"
    assert judged(STORAGE, NOBODY_WAITS)[0] == "storage"
    assert judged(STORAGE, Cause())[0] == "storage"
    # That of the time before is left out.
    assert judged(Cause()) == (
        "unknown",
        (
            "trainer waited 33% of the time; the master has not measured for long enough to say why: "
            "that takes some seconds of reading"
        ),
    )
    assert judged(NOBODY_WAITS, Cause()) == (
        "unknown",
        "trainer waited 33% of the time; lately the session's trainers, taken together, hardly wait",
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
        seen = Figures(rows=second, stall_seconds=stall, compute_seconds=compute, cause=WORKERS)
        watch.observe(lambda seen=seen: seen)  # type: ignore[misc]
        clock.now += 1
    stats = watch.stats(seen)
    assert stats.bottleneck == "training loop"
    assert stats.stall_share == pytest.approx(120 / 300)
    assert len(watch._recent) == 60
    # After the loop's end the verdict is the same, whatever becomes of the fleet.
    clock.now += 7200
    assert watch.stats(dataclasses.replace(seen, cause=STORAGE)) == stats


def test_watch_before_and_in_the_first_wait() -> None:
    clock = Clock()
    watch = diagnosis.Watch(clock=clock)
    assert watch.stats(Figures()).verdict == "nothing has been read yet"
    nobody = Cause("workers", "there are no workers: start some")
    waits = Figures(stall_seconds=20, workers=0, cause=nobody)
    assert watch.stats(waits).verdict == "trainer waited 100% of the time; there are no workers: start some"
    assert watch.stats(waits).stall_share == 1.0


def test_the_first_wait_is_no_part_of_later_verdicts() -> None:
    clock = Clock()
    watch = diagnosis.Watch(clock=clock)
    first = Figures(rows=10, batches=1, stall_seconds=30, longest_stall_seconds=30, cause=WORKERS)
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
        "hedges": 3,
        "buffered_bytes": 5,
        "peak_buffered_bytes": 9,
        "workers": 2,
        "streams": 4,
        "rows_by_worker": {"w1": 600_000, "w2": 500_000},
        "ways": {},
        "bottleneck": "workers",
        "verdict": f"trainer waited 12% of the time; {BUSY}",
    }
    assert str(stats) == "1,100,000 rows in 1,100 batches, 349 rows/s, 2 workers; " + stats.verdict
