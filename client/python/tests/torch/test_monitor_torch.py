"""The sinks of penstock.monitor that need torch, read back with TensorBoard's own reader and torch's own handlers."""

from __future__ import annotations

import datetime
import time
from pathlib import Path

import pytest
import torch.monitor
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.tensorboard import SummaryWriter

from penstock import monitor
from penstock.monitor import Aggregation, Event, Stat

AT = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)
LATER = AT + datetime.timedelta(seconds=60)


def scalars(directory: Path) -> dict[str, list[tuple[int, float, float]]]:
    """Of each tag: step, time and value."""
    read = EventAccumulator(str(directory))
    read.Reload()
    return {tag: [(e.step, e.wall_time, e.value) for e in read.Scalars(tag)] for tag in read.Tags()["scalars"]}


def log_two_windows() -> None:
    now = [0.0]
    stat = Stat("penstock.wait_seconds", [Aggregation.MEAN, Aggregation.MAX], window_seconds=60, clock=lambda: now[0])
    stat.add(1)
    stat.add(2)
    now[0] = 60
    stat.add(8)
    stat.flush()


def test_tensorboard_with_a_log_directory(tmp_path: Path) -> None:
    sink = monitor.TensorBoard(tmp_path)
    handle = monitor.register_event_handler(sink)
    log_two_windows()
    monitor.log_event(Event("penstock.failover", "from w1 to w2"))
    monitor.unregister_event_handler(handle)
    sink.close()
    read = scalars(tmp_path)
    assert {tag: [value for _, _, value in points] for tag, points in read.items()} == {
        "penstock.wait_seconds.mean": [1.5, 8.0],
        "penstock.wait_seconds.max": [2.0, 8.0],
    }
    texts = EventAccumulator(str(tmp_path))
    texts.Reload()
    (text,) = texts.Tensors("penstock.failover/text_summary")
    assert text.tensor_proto.string_val == [b"from w1 to w2"]


def test_tensorboard_with_the_users_writer(tmp_path: Path) -> None:
    with SummaryWriter(str(tmp_path)) as writer:
        sink = monitor.TensorBoard(writer)
        sink(Event(monitor.STAT_EVENT, "", AT, {"a.sum": 1.0}))
        sink(Event(monitor.STAT_EVENT, "", LATER, {"a.sum": 3.0}))
        sink.close()
        writer.add_scalar("users", 7.0)  # the writer is still open
    read = scalars(tmp_path)
    assert read["a.sum"] == [(0, AT.timestamp(), 1.0), (60, LATER.timestamp(), 3.0)]
    assert read["users"][0][2] == 7.0


def test_torch_monitor_gets_all_events() -> None:
    seen: list[torch.monitor.Event] = []
    theirs = torch.monitor.register_event_handler(seen.append)
    ours = monitor.register_event_handler(monitor.TorchMonitor())
    monitor.log_event(
        Event("penstock.failover", "from w1 to w2", AT, {"rank": 3, "share": 0.5, "again": True, "to": "w2"})
    )
    monitor.log_event(Event(monitor.STAT_EVENT, "a: sum 1", AT, {"a.sum": 1.0}))
    monitor.unregister_event_handler(ours)
    torch.monitor.unregister_event_handler(theirs)
    assert [(e.name, e.data) for e in seen] == [
        ("penstock.failover", {"rank": 3, "share": 0.5, "again": True, "to": "w2", "message": "from w1 to w2"}),
        ("torch.monitor.Stat", {"a.sum": 1.0}),
    ]


def test_torch_monitor_gets_the_time_in_any_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []
    sink = monitor.TorchMonitor()
    theirs = torch.monitor.register_event_handler(lambda e: seen.append(e.timestamp.timestamp()))
    try:
        for zone in ("UTC", "America/New_York", "Asia/Kolkata"):
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            sink(Event("t", "m", AT))
    finally:
        monkeypatch.undo()
        time.tzset()
        torch.monitor.unregister_event_handler(theirs)
    assert seen == [AT.timestamp()] * 3


def test_torchs_tensorboard_handler_shows_our_stats(tmp_path: Path) -> None:
    with SummaryWriter(str(tmp_path)) as writer:
        theirs = torch.monitor.register_event_handler(torch.monitor.TensorboardEventHandler(writer))
        ours = monitor.register_event_handler(monitor.TorchMonitor())
        log_two_windows()
        monitor.unregister_event_handler(ours)
        torch.monitor.unregister_event_handler(theirs)
    assert [value for _, _, value in scalars(tmp_path)["penstock.wait_seconds.mean"]] == [1.5, 8.0]
