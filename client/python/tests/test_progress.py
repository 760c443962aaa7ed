from __future__ import annotations

import io
import sys

import pytest

from penstock._progress import Progress


class Terminal(io.StringIO):
    def __init__(self, terminal: bool = True) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


class Loop:
    """A training loop's clock and the time that it waited."""

    def __init__(self) -> None:
        self.now = self.stalled = 100.0
        self.asked = 0

    def clock(self) -> float:
        return self.now

    def stall_seconds(self) -> float:
        self.asked += 1
        return self.stalled


@pytest.fixture
def without_tqdm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tqdm", None)
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)


def read(progress: Progress, loop: Loop, batches: int, rows: int = 1000, seconds: float = 0.01) -> None:
    """A quarter of a batch's time is waiting."""
    for _ in range(batches):
        loop.now += seconds
        loop.stalled += seconds / 4
        progress.update(rows)


@pytest.mark.usefixtures("without_tqdm")
def test_a_line_on_a_terminal() -> None:
    loop, out = Loop(), Terminal()
    progress = Progress("train", loop.stall_seconds, stream=out, clock=loop.clock)
    progress.begin(0, 200_000)
    read(progress, loop, 100)
    progress.begin(1, None)
    read(progress, loop, 100)
    progress.end()
    progress.end()
    first, second, rest = out.getvalue().split("\n")
    assert first.split("\r")[-1] == "train epoch 0: 50% of 200,000 rows, 100,000 rows/s, waited 25%\x1b[K"
    assert second.split("\r")[-1] == "train epoch 1: 100,000 rows, 100,000 rows/s, waited 25%\x1b[K"
    assert rest == ""
    assert 3 <= first.count("\r") <= 5  # in a second


@pytest.mark.usefixtures("without_tqdm")
def test_an_epoch_that_goes_on() -> None:
    loop, out = Loop(), Terminal()
    progress = Progress("train", loop.stall_seconds, stream=out, clock=loop.clock)
    progress.begin(3, 400_000, rows=200_000)
    read(progress, loop, 100)
    progress.end()
    line = out.getvalue().rstrip("\n").split("\r")[-1]
    assert line == "train epoch 3: 75% of 400,000 rows, 100,000 rows/s, waited 25%\x1b[K"


@pytest.mark.usefixtures("without_tqdm")
def test_nothing_where_nobody_looks() -> None:
    loop, out = Loop(), Terminal(terminal=False)
    progress = Progress("train", loop.stall_seconds, stream=out, clock=loop.clock)
    progress.begin(0, 10)
    read(progress, loop, 1000)
    progress.end()
    assert out.getvalue() == ""
    assert loop.asked == 0


@pytest.mark.parametrize(("terminal", "asked"), [(True, 41), (False, 2)])
def test_it_draws_a_few_times_a_second(terminal: bool, asked: int) -> None:
    pytest.importorskip("tqdm")
    loop, out = Loop(), Terminal(terminal)
    progress = Progress("train", loop.stall_seconds, stream=out, clock=loop.clock)
    progress.begin(0, None)
    read(progress, loop, 10240, seconds=1 / 1024)
    assert loop.asked == asked
    progress.end()


def test_tqdm() -> None:
    pytest.importorskip("tqdm")
    loop, out = Loop(), Terminal()
    progress = Progress("train", loop.stall_seconds, stream=out, clock=loop.clock)
    progress.begin(2, 200_000)
    read(progress, loop, 100)
    progress.end()
    line = out.getvalue().rstrip().split("\r")[-1]
    assert line.startswith("train epoch 2:  50%|")
    assert "100k/200k" in line
    assert "waited 25%" in line
