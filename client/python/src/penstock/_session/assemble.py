"""The thread that makes batches: it takes received rows and joins them with one copy.

At most one batch is made ahead, so that it is ready when next is called; until then its rows are not consumed.
"""

from __future__ import annotations

from penstock import errors
from penstock._session.core import Core, Made, Making
from penstock._session.rebatch import Rebatcher, Slice, TooLargeError


class Assembler:
    """Fills Core.made."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._rebatcher = Rebatcher()

    def run(self) -> None:
        """Works until the session ends."""
        core = self._core
        while not core.closing.is_set():
            with core.lock:
                core.settle()
                making, tell = self._fill(), self._to_tell()
            if tell:
                core.ready.ring()
            if making is None:
                core.filled.wait(1.0)
            else:
                self._join(making)

    def _to_tell(self) -> bool:
        """Whether next has something to do: a batch, or positions without rows that no batch takes along."""
        core = self._core
        return core.made is not None or (core.making is None and bool(core.ledger.pending))

    def _fill(self) -> Making | None:
        """Takes rows for the batch in the making, and returns it when it is whole."""
        core = self._core
        ledger, making = core.ledger, core.making
        if core.made is not None:
            if not ledger.may_grow(core.made.rows.num_rows):
                return None
            making = _reopen(core.made)  # it was to be the epoch's last, short one; then more came
            core.made, core.making = None, making
        before = ledger.queued
        while not ledger.whole(core.rows_made()):
            taken = ledger.take(core.batch_size - core.rows_made())
            if taken is None:
                break
            chunk, piece = taken
            if making is None:
                making = core.making = Making(ledger.reading)
            making.add(chunk, piece.grant.lane)
            core.moved(piece)
        if ledger.queued < before:
            for p in ledger.pieces:
                p.notify()
        return making if making is not None and ledger.whole(making.rows) else None

    def _join(self, making: Making) -> None:
        core = self._core
        try:
            rows = self._rebatcher.join(making.in_order())
        except (TooLargeError, MemoryError) as e:
            core.fail(
                errors.Error(
                    f"session {core.config.session!r}: a batch of {making.rows} rows cannot be made: {e}; "
                    "lower batch_size"
                )
            )
            return
        made = Made(rows, making.epoch, making.by_worker)
        with core.lock:
            if core.making is not making:
                return  # discarded meanwhile: its rows are not ours any more
            core.making, core.made = None, made
        core.ready.ring()


def _reopen(made: Made) -> Making:
    return Making(made.epoch, {0: [Slice(made.rows, 0, made.rows.num_rows)]}, made.rows.num_rows, dict(made.by_worker))
