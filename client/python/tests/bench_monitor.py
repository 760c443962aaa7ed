"""What statistics, events and progress cost a training loop, as the ratio of its time with them to that without.

    python tests/bench_monitor.py [--seconds 20]

Both run in turns, block by block in the same process, over the same batches: the loop without, and the loop with all
that a loader does per batch when everything is on (its Stats, the verdict's Watch, a progress display, a JSON lines
handler, system statistics). Windows end every second here, where the default is a minute. The training step is one
small hidden layer over 65,536 rows of 13 dense features: a few milliseconds, less than those of real models. The ratio
of the means has what happens seldom in it, such as a window's end; that of the medians is the steadier one. The exit
code is 1 if the cost is certainly above 1%.
"""

from __future__ import annotations

import argparse
import dataclasses
import io
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from penstock import _diagnosis as diagnosis
from penstock import monitor
from penstock._progress import Progress
from penstock._session import SessionStats
from penstock.monitor import P50, P99, Aggregation, Stat

ROWS, FEATURES, HIDDEN = 65536, 13, 64
BATCHES = 2  # in a block: short, so that what else the machine does falls on neighbours alike
WINDOW = 1.0
LIMIT = 1.01


def copied(figures: SessionStats) -> SessionStats:
    """What a session makes when it is asked."""
    return dataclasses.replace(figures, rows_by_worker=dict(figures.rows_by_worker))


class Terminal(io.StringIO):
    """Takes what a progress display draws, as if someone looked."""

    def isatty(self) -> bool:
        return True


class Monitoring:
    """What a loader keeps of its batches."""

    def __init__(self) -> None:
        self.session = SessionStats(workers=32, streams=8, rows_by_worker={f"worker-{i}": i for i in range(32)})
        waits = (Aggregation.MEAN, Aggregation.SUM, Aggregation.MAX, P50, P99)
        self.wait = Stat("penstock.bench.wait_seconds", waits, WINDOW)
        self.rows = Stat("penstock.bench.rows", (Aggregation.SUM, Aggregation.COUNT), WINDOW)
        self.bytes = Stat("penstock.bench.batch_bytes", (Aggregation.SUM, Aggregation.MEAN), WINDOW)
        self.watch = diagnosis.Watch()
        self.progress = Progress("bench", lambda: self.session.stall_seconds, stream=Terminal())
        self.progress.begin(0, None)

    def batch(self, began: float, nbytes: int) -> None:
        self.wait.add(time.perf_counter() - began)
        self.rows.add(ROWS)
        self.bytes.add(nbytes)
        self.watch.observe(lambda: copied(self.session))
        self.progress.update(ROWS)


class Model:
    """A hidden layer and logistic regression, in memory of its own: allocators' whims are no cost of ours."""

    def __init__(self) -> None:
        rng = np.random.default_rng(2)
        self.first = rng.normal(0, 0.1, (FEATURES, HIDDEN)).astype(np.float32)
        self.last = rng.normal(0, 0.1, HIDDEN).astype(np.float32)
        self.features = np.empty((ROWS, FEATURES), np.float32)
        self.hidden = np.empty((ROWS, HIDDEN), np.float32)
        self.error = np.empty(ROWS, np.float32)

    def step(self, dense: Any, label: Any) -> None:
        np.log1p(dense, out=self.features)
        np.matmul(self.features, self.first, out=self.hidden)
        np.maximum(self.hidden, 0, out=self.hidden)
        np.matmul(self.hidden, self.last, out=self.error)
        np.negative(self.error, out=self.error)
        np.exp(self.error, out=self.error)
        self.error += 1
        np.reciprocal(self.error, out=self.error)
        self.error -= label
        self.last -= 1e-3 / ROWS * (self.error @ self.hidden)


def block(batches: list[Any], model: Model, monitoring: Monitoring | None) -> None:
    for i in range(BATCHES):
        began = time.perf_counter()
        batch = batches[i % len(batches)]
        if monitoring is not None:
            monitoring.batch(began, batch[0].nbytes)
        model.step(*batch)


def timed(clock: Callable[[], float], f: Callable[[], None]) -> float:
    began = clock()
    f()
    return clock() - began


def measure(seconds: float) -> tuple[list[float], list[float], list[float]]:
    """Processor seconds of a batch without monitoring, with it, and without it again, of block after block."""
    rng = np.random.default_rng(1)
    batches = [
        (rng.random((ROWS, FEATURES), dtype=np.float32), rng.integers(0, 2, ROWS).astype(np.float32)) for _ in range(8)
    ]
    model = Model()
    monitoring = Monitoring()
    without: list[float] = []
    with_: list[float] = []
    again: list[float] = []
    turns = [(without, None), (with_, monitoring), (again, None)]
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        for took, what in turns:
            # The thread's processor time: on a busy machine it tells more than the clock, and nothing here waits.
            took.append(timed(time.thread_time, partial(block, batches, model, what)) / BATCHES)
        turns.append(turns.pop(0))  # each is first, second and third equally often
    monitoring.progress.end()
    return without, with_, again


def compare(without: list[float], other: list[float]) -> tuple[float, float, float]:
    """The median ratio of blocks that ran one after the other, and its 99% interval, by the ranks of a sign test."""
    ratios = sorted(b / a for a, b in zip(without, other, strict=True))
    spread = int(1.29 * len(ratios) ** 0.5) + 1
    middle = len(ratios) // 2
    return statistics.median(ratios), ratios[max(middle - spread, 0)], ratios[min(middle + spread, len(ratios) - 1)]


def system_share() -> float:
    """Of one processor, taken by the thread of SystemStats, which samples every second."""
    system = monitor.SystemStats(WINDOW)
    samples = 2000

    def sample() -> None:
        for _ in range(samples):
            system.sample()

    return timed(time.thread_time, sample) / samples


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=20.0)
    seconds = options.parse_args().seconds
    log = io.StringIO()
    handle = monitor.register_event_handler(monitor.JSONLines(log))
    measure(min(seconds, 1.0))  # warms up
    without, with_, again = measure(seconds)
    monitor.unregister_event_handler(handle)
    ratio, low, high = compare(without, with_)
    control, control_low, control_high = compare(without, again)
    mean = statistics.fmean(with_) / statistics.fmean(without + again)
    system = system_share()
    work = statistics.median(without)
    print(f"a batch's work      {work * 1e6:8.1f} us (median of {len(without)} blocks of {BATCHES})")
    print(f"on / off            {ratio:8.4f}    (99% interval {low:.4f} to {high:.4f}; of the means {mean:.4f})")
    print(f"off / off           {control:8.4f}    (99% interval {control_low:.4f} to {control_high:.4f}): the noise")
    print(f"monitoring it       {(ratio - 1) * work * 1e6:8.1f} us")
    print(f"system statistics   {system * 1e6:8.1f} us per sample, one a second: {system:.4%} of a processor")
    print(f"events logged       {log.getvalue().count(chr(10)):8d}")
    return 1 if low + system > LIMIT else 0


if __name__ == "__main__":
    sys.exit(main())
