"""Where a loader's records come from: a session of its own, or another rank's of the same replica.

A Reader belongs to the thread of the training loop, but for stats(), which may be called from any.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from penstock import errors
from penstock._flat import Flat
from penstock._session import Info, Rows, Session, SessionStats, State
from penstock.position import Checkpoint

_ASK_EVERY = 1.0  # seconds, while masters answer
_ASK_SELDOM = 60.0  # seconds, at the most, while they do not
_ASK_PATIENCE = 2.0  # seconds: the training loop waits meanwhile


@dataclass(frozen=True)
class Read:
    """A batch's rows, of which `valid` are not padding. state() is this rank's checkpoint as of them."""

    tensors: Flat
    epoch: int
    valid: int
    state: Callable[[], State]
    checkpoint: Checkpoint | None = None  # that has its place after them


class Reader(Protocol):
    """A stream of batches, epoch by epoch."""

    @property
    def epoch(self) -> int:
        """The epoch that next() reads."""

    @property
    def info(self) -> Info:
        """The session as it was when this rank joined."""

    def next(self) -> Read | None:
        """The next batch of the epoch; None once at its end."""

    def leave(self, epoch: int) -> None:
        """Ends an epoch before its end, if next() reads it still."""

    def state(self) -> State:
        """The checkpoint as of what next() returned last."""

    def rows_per_epoch(self) -> int | None:
        """How many rows this rank gets in each epoch, where that is known."""

    def batches(self) -> int | None:
        """How many batches this rank gets of the epoch that next() reads, where the master has told that."""

    def stats(self) -> SessionStats:
        """Cumulative figures."""


class SessionReader:
    """Reads a session, which whoever opened it closes."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._got: list[Rows | None] = []  # what a call of next that was interrupted has got and not returned
        self._rows: int | None = None  # of an epoch
        self._whole = not session.info.begun  # nothing of this epoch was read before
        self._rows_read = 0  # of this epoch
        self._ask_at, self._ask_every = 0.0, _ASK_EVERY

    @property
    def epoch(self) -> int:
        """The epoch that next() reads."""
        return self._session.epoch - (self._got == [None])  # an end that is still to be told

    @property
    def info(self) -> Info:
        """The session as it was when this rank joined."""
        return self._session.info

    def next(self) -> Read | None:
        """The next batch of the epoch; None once at its end.

        An interrupt loses nothing, as in Session.next. Python looks for signals at calls: there is none between what is
        noted of a batch and its return.
        """
        if not self._got:
            self._got.append(self._session.next())
        rows = self._got[0]
        if rows is None:
            if self._rows is None and self._whole and self.info.counts:
                self._rows = self._rows_read
            self._whole, self._rows_read, self._got = True, 0, []
            return None
        state = functools.partial(self._session.state, rows.after)
        read = Read(rows.tensors, rows.epoch, rows.valid, state, rows.checkpoint)
        self._rows_read, self._got = self._rows_read + rows.valid, []
        return read

    def leave(self, epoch: int) -> None:
        """Ends an epoch before its end, if next() reads it still."""
        self._session.leave(epoch)
        self._whole, self._rows_read, self._got = True, 0, []

    def state(self) -> State:
        """The checkpoint as of what next() returned last."""
        return self._session.state()

    def rows_per_epoch(self) -> int | None:
        """How many rows each epoch has: for one rank, once all is planned or read, and if no row is left out."""
        if self._rows is None and time.monotonic() >= self._ask_at and self.info.counts:
            try:
                self._rows = self._session.planned_rows(_ASK_PATIENCE)
                self._ask_every = _ASK_EVERY
            except errors.MasterUnreachable:
                self._ask_every = min(2 * self._ask_every, _ASK_SELDOM)
            self._ask_at = time.monotonic() + self._ask_every
        return self._rows

    def batches(self) -> int | None:
        """How many batches this rank gets of the epoch that next() reads, where the master has told that."""
        return self._session.batches

    def stats(self) -> SessionStats:
        """Cumulative figures."""
        return self._session.stats()

    def close(self) -> None:
        """Lets go of what was not returned."""
        self._got = []
