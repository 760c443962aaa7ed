"""The thread that makes batches: it joins the rows that were taken for one, with one copy.

At most one batch is made ahead, so that it is ready when next is called; until then its rows are not consumed.
"""

from __future__ import annotations

from collections.abc import Sequence

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
                making, tell = core.fill()
                slices = [] if making is None else making.in_order()
            if tell:
                core.ready.ring()
            if making is None:
                core.filled.wait(1.0)
            else:
                self._join(making, slices)

    def _join(self, making: Making, slices: Sequence[Slice]) -> None:
        core = self._core
        try:
            rows = self._rebatcher.join(slices)
        except (TooLargeError, MemoryError) as e:
            core.fail(
                errors.Error(
                    f"session {core.config.session!r}: a batch of {making.rows} rows cannot be made: {e}; "
                    "lower batch_size"
                )
            )
            return
        with core.lock:
            # Else it was discarded meanwhile, and its rows are not ours any more; or it was to be the epoch's last,
            # short one, and more came.
            if core.making is making and making.rows == rows.num_rows:
                core.making, core.made = None, Made(rows, making.epoch, making.by_worker)
        core.ready.ring()
