"""Where a loader's records come from: a session of its own, or another rank's of the same replica.

A Reader belongs to the thread of the training loop, but for stats(), which may be called from any.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from penstock._flat import Flat
from penstock._pb import control_pb2 as pb
from penstock._pb import spec_pb2
from penstock._session import Config, Rows, Session, SessionStats
from penstock._session.masters import MasterError, Masters
from penstock.batch import Checkpoint

_ASK_EVERY = 1.0  # seconds, while masters answer
_ASK_SELDOM = 60.0  # seconds, at the most, while they do not
_ASK_PATIENCE = 2.0  # seconds for each master: the training loop waits meanwhile


@dataclass(frozen=True)
class Read:
    """A batch's rows, of which `valid` are not padding. state() is this rank's checkpoint as of them."""

    tensors: Flat
    epoch: int
    valid: int
    state: Callable[[], pb.State]
    checkpoint: Checkpoint | None = None  # that has its place behind them


class Reader(Protocol):
    """A stream of batches, epoch by epoch."""

    @property
    def epoch(self) -> int:
        """The epoch that next() reads."""

    @property
    def info(self) -> pb.Session:
        """The session as it was when this rank joined."""

    def next(self) -> Read | None:
        """The next batch of the epoch; None once at its end."""

    def state(self) -> pb.State:
        """The checkpoint as of what next() returned last."""

    def rows_per_epoch(self) -> int | None:
        """How many rows this rank gets in each epoch, where that is known."""

    def batches(self) -> int | None:
        """How many batches this rank gets of the epoch that next() reads, where the master has told that."""

    def stats(self) -> SessionStats:
        """Cumulative figures."""


class SessionReader:
    """Reads a session, which whoever opened it closes."""

    def __init__(self, session: Session, config: Config) -> None:
        self._session, self._config = session, config
        self._got: list[Rows | None] = []  # what a call of next that was interrupted has got and not returned
        self._rows: int | None = None  # of an epoch
        begins = session.state()
        # Nothing of this epoch was read before; in order deterministic the count of batches alone tells.
        self._whole = not begins.base and not begins.consumed and not begins.handed
        self._rows_read = 0  # of this epoch
        self._masters = Masters(config.masters, config.security)  # for the number of rows
        self._ask_at, self._ask_every = 0.0, _ASK_EVERY

    @property
    def epoch(self) -> int:
        """The epoch that next() reads."""
        return self._session.epoch - (self._got == [None])  # an end that is still to be told

    @property
    def info(self) -> pb.Session:
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
            if self._rows is None and self._whole and _countable(self.info, self._session.program):
                self._rows = self._rows_read
            self._whole, self._rows_read, self._got = True, 0, []
            return None
        state = functools.partial(self._session.state, rows.after)
        read = Read(rows.tensors, rows.epoch, rows.valid, state, rows.checkpoint)
        self._rows_read, self._got = self._rows_read + rows.valid, []
        return read

    def state(self) -> pb.State:
        """The checkpoint as of what next() returned last."""
        return self._session.state()

    def rows_per_epoch(self) -> int | None:
        """How many rows each epoch has: for one rank, once all is planned or read, and if no row is left out."""
        if self._rows is None and time.monotonic() >= self._ask_at and _countable(self.info, self._session.program):
            try:
                self._rows = self._planned_rows()
                self._ask_every = _ASK_EVERY
                if self._rows is not None:
                    self._masters.close()  # nothing else is asked of them
            except MasterError:
                self._ask_every = min(2 * self._ask_every, _ASK_SELDOM)
            self._ask_at = time.monotonic() + self._ask_every
        return self._rows

    def _planned_rows(self) -> int | None:
        """The rows of an epoch, if a master says that all of it is planned."""
        session, _ = self._masters.call(
            "GetSession", pb.GetSessionRequest(session=self._config.session), pb.Session,
            min(self._config.connect_timeout, _ASK_PATIENCE),
        )  # fmt: skip
        progress = session.progress
        planned = progress.blocks > 0 and progress.blocks_planned == progress.blocks
        return progress.rows_planned if planned else None

    def batches(self) -> int | None:
        """How many batches this rank gets of the epoch that next() reads, where the master has told that."""
        return self._session.batches

    def stats(self) -> SessionStats:
        """Cumulative figures."""
        return self._session.stats()

    def close(self) -> None:
        """Lets go of masters, and of what was not returned."""
        self._got = []
        self._masters.close()


def _countable(info: pb.Session, program: spec_pb2.Program) -> bool:
    """Whether all planned rows come to this rank."""
    return info.world_size == 1 and not program.filter and all(step.outs for step in program.steps)
