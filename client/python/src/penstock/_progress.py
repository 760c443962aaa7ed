"""A progress bar of one loader: rows, rows/s, the share of time waited, the epoch.

The loader calls update() with each batch, on the thread of its training loop, which all of this belongs to.
"""

from __future__ import annotations

import importlib
import math
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol, TextIO

_TERMINAL_EVERY = 0.25  # seconds between two drawings
_LOG_EVERY = 10.0  # where each is a line of its own


class _Bar(Protocol):
    every: float

    def begin(self, label: str, total: int | None, rows: int) -> None: ...
    def draw(self, rows: int, rate: float, waited: float) -> None: ...
    def end(self) -> None: ...


class Progress:
    """Shows how far an epoch has come: with tqdm where installed, else as one line on stderr if that is a terminal.

    stall_seconds: the cumulative time waited, asked for only when something is drawn, a few times a second (into a log
    file: every ten seconds). Between drawings update() costs an addition and a look at the clock.
    """

    def __init__(
        self,
        name: str,
        stall_seconds: Callable[[], float],
        *,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._name = name
        self._stall_seconds = stall_seconds
        self._clock = clock
        self._bar = _bar(stream or sys.stderr)
        self._due = math.inf
        self._rows = self._first = 0
        self._began = self._stalled = 0.0

    def begin(self, epoch: int, total: int | None, rows: int = 0) -> None:
        """Begins an epoch's display, ending the one before. total: its rows where known; rows: those read already."""
        self.end()
        if self._bar is None:
            return
        self._rows = self._first = rows
        self._began, self._stalled = self._clock(), self._stall_seconds()
        self._due = self._began + self._bar.every
        self._bar.begin(f"{self._name} epoch {epoch}", total, rows)

    def update(self, rows: int) -> None:
        """Adds a batch's rows."""
        self._rows += rows
        now = self._clock()
        if now >= self._due:
            self._draw(now)

    def end(self) -> None:
        """Draws the last state and ends the display. Ending what has ended does nothing."""
        if self._bar is not None and self._due < math.inf:
            self._draw(self._clock())
            self._bar.end()
        self._due = math.inf

    def _draw(self, now: float) -> None:
        assert self._bar is not None
        self._due = now + self._bar.every
        seconds = now - self._began
        if seconds > 0:
            waited = (self._stall_seconds() - self._stalled) / seconds
            self._bar.draw(self._rows, (self._rows - self._first) / seconds, min(waited, 1.0))


def _bar(stream: TextIO) -> _Bar | None:
    try:
        return _Tqdm(importlib.import_module("tqdm.auto").tqdm, stream)
    except ImportError:
        return _Line(stream) if stream.isatty() else None


class _Tqdm:
    def __init__(self, tqdm: Any, stream: TextIO) -> None:
        self._tqdm = tqdm
        self._stream = stream
        notebook = "ipykernel" in sys.modules
        self.every = _TERMINAL_EVERY if notebook or stream.isatty() else _LOG_EVERY
        self._bar: Any = None

    def begin(self, label: str, total: int | None, rows: int) -> None:
        # tqdm's own limits are off: it draws when it is told to.
        how = {"unit": " rows", "unit_scale": True, "mininterval": 0, "miniters": 1}
        self._bar = self._tqdm(desc=label, total=total, initial=rows, file=self._stream, **how)

    def draw(self, rows: int, rate: float, waited: float) -> None:
        self._bar.set_postfix_str(f"waited {100 * waited:.0f}%", refresh=False)
        self._bar.update(rows - self._bar.n)

    def end(self) -> None:
        self._bar.close()


class _Line:
    """One line of a terminal, written over and over."""

    every = _TERMINAL_EVERY

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._label = ""
        self._total: int | None = None

    def begin(self, label: str, total: int | None, rows: int) -> None:
        self._label, self._total = label, total

    def draw(self, rows: int, rate: float, waited: float) -> None:
        done = f"{rows:,} rows"
        if self._total:
            done = f"{100 * rows / self._total:.0f}% of {self._total:,} rows"
        # The escape clears what a longer line left.
        self._stream.write(f"\r{self._label}: {done}, {rate:,.0f} rows/s, waited {100 * waited:.0f}%\x1b[K")
        self._stream.flush()

    def end(self) -> None:
        self._stream.write("\n")
        self._stream.flush()
