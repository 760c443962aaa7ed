from __future__ import annotations

import datetime
import io
import itertools
import json
import logging
import math
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock import errors, monitor
from penstock.monitor import P50, P90, P95, P99, Aggregation, Event, Percentile, Stat, _system

ALL = tuple(Aggregation)
AT = datetime.datetime(2026, 1, 2, 3, 4, 5, 600000, tzinfo=datetime.timezone.utc)


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def events() -> Iterator[list[Event]]:
    """All events that are logged during the test."""
    seen: list[Event] = []
    handle = monitor.register_event_handler(seen.append)
    yield seen
    monitor.unregister_event_handler(handle)


def test_event_has_its_time() -> None:
    before = datetime.datetime.now(datetime.timezone.utc)
    event = Event("penstock.test", "a message")
    assert before <= event.timestamp <= datetime.datetime.now(datetime.timezone.utc)
    assert event.metadata == {}


def test_handlers_get_events_in_the_order_of_registration() -> None:
    seen: list[tuple[str, str]] = []
    first = monitor.register_event_handler(lambda e: seen.append(("first", e.message)))
    second = monitor.register_event_handler(lambda e: seen.append(("second", e.message)))
    monitor.log_event(Event("t", "a"))
    monitor.unregister_event_handler(first)
    monitor.unregister_event_handler(first)  # again: nothing happens
    monitor.log_event(Event("t", "b"))
    monitor.unregister_event_handler(second)
    monitor.log_event(Event("t", "c"))
    assert seen == [("first", "a"), ("second", "a"), ("second", "b")]


def test_a_handler_registered_twice_is_called_twice(events: list[Event]) -> None:
    handle = monitor.register_event_handler(events.append)
    monitor.log_event(Event("t", "a"))
    monitor.unregister_event_handler(handle)
    monitor.log_event(Event("t", "b"))
    assert [e.message for e in events] == ["a", "a", "b"]


def test_a_failing_handler_is_logged_once_and_unregistered(
    events: list[Event], caplog: pytest.LogCaptureFixture
) -> None:
    calls = []

    def broken(event: Event) -> None:
        calls.append(event)
        raise OSError("the disk is full")

    monitor.register_event_handler(broken)
    after: list[Event] = []
    last = monitor.register_event_handler(after.append)
    with caplog.at_level(logging.ERROR, "penstock.monitor"):
        for message in "ab":
            monitor.log_event(Event("t", message))
    monitor.unregister_event_handler(last)
    assert len(calls) == 1
    assert [e.message for e in events] == [e.message for e in after] == ["a", "b"]
    assert len(caplog.records) == 1
    assert "the disk is full" in caplog.text


def test_stat_aggregates(clock: Clock) -> None:
    stat = Stat("s", ALL, clock=clock)
    assert stat.get() == dict.fromkeys(ALL, 0.0)
    for value in (3.0, -1.0, 4.0):
        stat.add(value)
    assert stat.count == 3
    assert stat.get() == {
        Aggregation.VALUE: 4.0,
        Aggregation.MEAN: 2.0,
        Aggregation.COUNT: 3,
        Aggregation.SUM: 6.0,
        Aggregation.MIN: -1.0,
        Aggregation.MAX: 4.0,
    }


def test_a_window_is_logged_when_it_is_over(clock: Clock, events: list[Event]) -> None:
    stat = Stat("s", [Aggregation.COUNT, Aggregation.SUM, P50], window_seconds=10, clock=clock)
    stat.add(1)
    clock.now += 9.9
    stat.add(2)
    assert events == []
    clock.now += 0.1
    stat.add(30)  # belongs to the next window
    assert [(e.type, e.metadata) for e in events] == [
        (monitor.STAT_EVENT, {"s.count": 2.0, "s.sum": 3.0, "s.p50": pytest.approx(1, rel=0.01001)})
    ]
    assert events[0].message.startswith("s: count 2, sum 3, p50 ")
    assert stat.get()[Aggregation.SUM] == 30
    clock.now += 10
    assert stat.count == 0  # looking is enough to end a window
    assert [e.metadata["s.sum"] for e in events] == [3.0, 30.0]
    clock.now += 100
    stat.flush()  # a window without values is not logged
    assert len(events) == 2


def test_flush_ends_the_window(clock: Clock, events: list[Event]) -> None:
    stat = Stat("s", [Aggregation.SUM], clock=clock)
    stat.add(5)
    stat.flush()
    assert [e.metadata for e in events] == [{"s.sum": 5.0}]
    assert stat.count == 0


def test_the_last_window_is_logged_when_the_process_ends(tmp_path: Path) -> None:
    """Also of a Stat that nobody holds any more; and once, though the process forked."""
    program = """
import os, sys
from penstock import monitor
monitor.register_event_handler(monitor.JSONLines(sys.argv[1]))
def keep(name):
    monitor.Stat(name, [monitor.Aggregation.COUNT]).add(1.0)
keep("loss")
monitor.SystemStats(sample_seconds=0.01).sample()
flushed = monitor.Stat("flushed", [monitor.Aggregation.COUNT])
flushed.add(1.0)
flushed.flush()
if os.fork() == 0:
    sys.exit()
os.wait()
"""
    done = subprocess.run(
        # Python warns of forks where threads run: those of pyarrow's and gRPC's libraries do.
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program, tmp_path / "events.jsonl"],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src")}, check=True, timeout=60,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.stderr == ""
    names = [json.loads(line)["message"].split(":")[0] for line in (tmp_path / "events.jsonl").open()]
    assert names.count("loss") == names.count("flushed") == names.count("penstock.system.rss_bytes") == 1


def test_max_samples_leaves_the_rest_of_a_window_out(clock: Clock, events: list[Event]) -> None:
    stat = Stat("s", [Aggregation.COUNT, Aggregation.MAX, P99], window_seconds=1, max_samples=2, clock=clock)
    for value in (1.0, 2.0, 3.0):
        stat.add(value)
    assert stat.count == 2
    clock.now += 1
    stat.add(9)
    assert events[0].metadata == {"s.count": 2.0, "s.max": 2.0, "s.p99": pytest.approx(2, rel=0.01001)}
    assert stat.count == 1


@pytest.mark.parametrize("name", ["uniform", "lognormal", "negative", "ints", "mixed"])
def test_percentiles_are_within_their_bound(name: str) -> None:
    rng = random.Random(name)
    draws: dict[str, Callable[[], float]] = {
        "uniform": rng.random,
        "lognormal": lambda: rng.lognormvariate(-5, 3),
        "negative": lambda: -rng.lognormvariate(0, 2),
        "ints": lambda: rng.randrange(65536),
        "mixed": lambda: rng.choice([0.0, 1.0, -1.0]) * rng.lognormvariate(0, 4),
    }
    values = [float(draws[name]()) for _ in range(5000)]
    asked = [P50, P90, P95, P99, Percentile(0.1), Percentile(99.9), Percentile(100)]
    stat = Stat("s", asked)
    for value in values:
        stat.add(value)
    values.sort()
    for percentile in asked:
        exact = values[math.ceil(len(values) * percentile.q / 100) - 1]
        assert stat.get()[percentile] == pytest.approx(exact, rel=0.01001, abs=1e-12), percentile


def test_memory_of_percentiles_is_bounded() -> None:
    stat = Stat("s", [P50])
    for exponent, sign in itertools.product(range(-300, 300), (1, -1)):
        for digit in range(100, 1000, 7):
            stat.add(sign * digit * 10.0**exponent)
    assert stat.count == 600 * 2 * 129
    assert len(stat._buckets) < 7000


def test_percentiles_of_strange_values() -> None:
    stat = Stat("s", [P50, Percentile(1), P99, Aggregation.MIN, Aggregation.COUNT])
    stat.add(math.nan)
    assert all(math.isnan(v) for a, v in stat.get().items() if a is not Aggregation.COUNT)
    for value in (-math.inf, 0.0, math.inf, math.nan):
        stat.add(value)
    assert stat.get() == {
        P50: 0.0,
        Percentile(1): -math.inf,
        P99: math.inf,
        Aggregation.MIN: -math.inf,
        Aggregation.COUNT: 5,
    }
    large = Stat("s", [P50, P99])
    large.add(1e30)
    large.add(2e30)
    assert large.get()[P99] == 2e30  # beyond the buckets: the window's extreme


def test_mistakes_are_refused() -> None:
    for q in (0, -1, 100.5, math.nan):
        with pytest.raises(ValueError, match="percentile"):
            Percentile(q)
    with pytest.raises(ValueError, match="at least one aggregation"):
        Stat("s", [])
    with pytest.raises(ValueError, match="window_seconds"):
        Stat("s", ALL, window_seconds=0)


def test_threads_lose_nothing(events: list[Event]) -> None:
    # A window that ends with every few values, while all threads add.
    ticks = itertools.count()
    stat = Stat("s", [Aggregation.COUNT, Aggregation.SUM], window_seconds=50, clock=lambda: float(next(ticks)))

    def add() -> None:
        for _ in range(5000):
            stat.add(2.0)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=add) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    stat.flush()
    assert len(events) > 100
    assert sum(float(e.metadata["s.count"]) for e in events) == 20000
    assert sum(float(e.metadata["s.sum"]) for e in events) == 40000


def test_a_handler_may_use_the_stat(clock: Clock) -> None:
    stat = Stat("s", [Aggregation.SUM], window_seconds=1, clock=clock)
    handle = monitor.register_event_handler(lambda e: stat.add(100))
    stat.add(1)
    clock.now += 1
    stat.add(2)
    monitor.unregister_event_handler(handle)
    assert stat.get()[Aggregation.SUM] == 102


def test_json_lines_to_a_path(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    sink = monitor.JSONLines(path)
    sink(Event("penstock.failover", "von w1 über w2", AT, {"rank": 3, "share": 0.5, "restored": True, "worker": "w2"}))
    sink(Event("t", "two\nlines", AT, {"nan": math.nan, "inf": -math.inf}))
    lines = path.read_text(encoding="utf-8").splitlines()  # before close: each is written at once
    sink.close()
    assert json.loads(lines[0]) == {
        "type": "penstock.failover",
        "message": "von w1 über w2",
        "timestamp": "2026-01-02T03:04:05.600000+00:00",
        "metadata": {"rank": 3, "share": 0.5, "restored": True, "worker": "w2"},
    }
    assert json.loads(lines[1])["metadata"] == {"nan": None, "inf": None}
    assert len(lines) == 2
    again = monitor.JSONLines(str(path))
    again(Event("t", "appended", AT))
    again.close()
    assert len(path.read_text(encoding="utf-8").splitlines()) == 3


def test_json_lines_to_a_file_with_figures_of_numpy() -> None:
    np = pytest.importorskip("numpy")
    out = io.StringIO()
    sink = monitor.JSONLines(out)
    sink(Event("t", "m", AT, {"a": np.float32(0.5), "b": np.int64(7), "c": np.bool_(True), "d": np.float64(math.nan)}))
    sink.close()
    assert json.loads(out.getvalue())["metadata"] == {"a": 0.5, "b": 7, "c": True, "d": None}


class Writer:
    """Takes what a SummaryWriter would."""

    def __init__(self) -> None:
        self.scalars: list[tuple[str, float, int, float]] = []
        self.texts: list[tuple[str, str, int, float]] = []

    def add_scalar(self, tag: str, value: float, global_step: int, walltime: float) -> None:
        self.scalars.append((tag, value, global_step, walltime))

    def add_text(self, tag: str, text: str, global_step: int, walltime: float) -> None:
        self.texts.append((tag, text, global_step, walltime))

    def close(self) -> None:
        raise AssertionError("the writer is its owner's to close")


def test_tensorboard_gets_scalars_and_texts() -> None:
    writer = Writer()
    sink = monitor.TensorBoard(writer)
    sink(Event("penstock.failover", "from w1 to w2", AT, {"rank": 0}))
    sink(Event(monitor.STAT_EVENT, "", AT + datetime.timedelta(seconds=61), {"wait.mean": 0.5, "wait.p99": 2.0}))
    sink.close()
    at = AT.timestamp()
    assert writer.texts == [("penstock.failover", "from w1 to w2", 0, at)]
    assert writer.scalars == [("wait.mean", 0.5, 61, at + 61), ("wait.p99", 2.0, 61, at + 61)]


def test_sinks_that_need_a_package_say_which(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for module in ("torch", "torch.monitor", "torch.utils.tensorboard", "tensorboardX"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(errors.UsageError, match="pip install tensorboard"):
        monitor.TensorBoard(tmp_path)
    with pytest.raises(errors.UsageError, match="pip install torch"):
        monitor.TorchMonitor()


def proc(root: Path, *, ticks: int, busy: int, idle: int, pages: int, threads: int, load: float) -> None:
    """Writes what SystemStats reads, as Linux has it, with a process name that is hard to read past."""
    (root / "self").mkdir(exist_ok=True)
    before = "S 1 1 1 0 -1 4194304 100 0 0 0"
    (root / "self/stat").write_text(f"7 (a ) b) {before} {ticks} 0 0 0 20 0 {threads} 0 12345 999\n")
    (root / "self/statm").write_text(f"99999 {pages} 10 1 0 5 0\n")
    (root / "stat").write_text(f"cpu  {busy} 0 0 {idle} 0 0 0 0 0 0\ncpu0 1 0 0 1 0 0 0 0 0 0\n")
    (root / "loadavg").write_text(f"{load} 0.50 0.40 2/300 4242\n")


def test_system_stats_are_differences(
    tmp_path: Path, clock: Clock, events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sysconf", {"SC_CLK_TCK": 100, "SC_PAGE_SIZE": 4096}.__getitem__)
    proc(tmp_path, ticks=1000, busy=500, idle=500, pages=10, threads=3, load=0.25)
    system = monitor.SystemStats(60, proc=tmp_path, clock=clock)
    assert system.available
    system.sample()
    assert (system.cpu_share.count, system.rss_bytes.count) == (0, 1)
    clock.now += 2
    proc(tmp_path, ticks=1300, busy=800, idle=600, pages=30, threads=5, load=0.75)
    system.sample()
    system.close()
    assert {k: v for e in events for k, v in e.metadata.items()} == {
        "penstock.system.cpu_share.mean": 1.5,
        "penstock.system.cpu_share.max": 1.5,
        "penstock.system.rss_bytes.mean": 20 * 4096.0,
        "penstock.system.rss_bytes.max": 30 * 4096.0,
        "penstock.system.threads.mean": 4.0,
        "penstock.system.threads.max": 5.0,
        "penstock.system.machine_cpu_share.mean": 0.75,
        "penstock.system.machine_cpu_share.max": 0.75,
        "penstock.system.machine_load.mean": 0.5,
        "penstock.system.machine_load.max": 0.75,
    }


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")
def test_system_stats_of_this_process(events: list[Event]) -> None:
    resource = pytest.importorskip("resource")
    with monitor.SystemStats(sample_seconds=0.001) as system:
        deadline = time.monotonic() + 30
        while system.machine_cpu_share.count < 2 and time.monotonic() < deadline:
            time.sleep(0.001)
    assert system._thread is not None
    assert not system._thread.is_alive()
    figures = {k: v for e in events for k, v in e.metadata.items()}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    assert peak / 10 < float(figures["penstock.system.rss_bytes.max"]) <= 1.1 * peak
    assert float(figures["penstock.system.threads.max"]) >= 2
    assert 0 <= float(figures["penstock.system.machine_cpu_share.max"]) <= 1


def test_loaders_sample_unless_the_user_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, clock: Clock) -> None:
    proc(tmp_path, ticks=1, busy=1, idle=1, pages=1, threads=1, load=1.0)
    loaders = monitor.SystemStats(60, proc=tmp_path, clock=clock)
    monkeypatch.setattr(_system, "_loaders", loaders)

    def sampled(seconds: float) -> int:
        clock.now += seconds
        _system.observe()
        return loaders.rss_bytes.count

    assert [sampled(s) for s in (0, 0.5, 0.25, 0.25, 5)] == [1, 1, 1, 2, 3]
    with monitor.SystemStats(proc=tmp_path):
        assert sampled(5) == 3
    assert sampled(5) == 4


def test_no_system_stats_without_proc(tmp_path: Path, events: list[Event]) -> None:
    with monitor.SystemStats(proc=tmp_path) as system:
        assert not system.available
        assert system._thread is None
        system.sample()
    assert events == []
