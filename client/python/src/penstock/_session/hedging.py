"""When a stream is late, so that another worker is asked for the same rows: the twin of client/race.go's hedging.

Pure bookkeeping without I/O and clock. The session's lock guards it.
"""

from __future__ import annotations

from collections.abc import Sequence

LATENESS = 5  # times its usual wait, that a stream's next message may take
SLOW_FOR = 10.0  # seconds, for which a worker that lost to a second one is asked last
SHARE = 0.05  # of the streams, though at least one, that may be open a second time at once

Worker = tuple[str, str]  # name and address


class Hedging:
    """What a session knows of its streams' pace."""

    def __init__(self, least: float) -> None:
        self._least = least
        # Windows come in bursts of messages. An average would take each pause between bursts for a worker's end: so
        # these are the longest waits of late, for a stream's first message and for later ones.
        self._first = self._later = 0.0
        self._slow: dict[str, float] = {}  # when workers were late, by address

    def note(self, begun: bool, waited: float) -> None:
        """Takes in how long a stream waited for a message; begun: it was not the first."""
        if begun:
            self._later = max(waited, self._later * 0.98)
        else:
            self._first = max(waited, self._first * 0.98)

    def patience(self, begun: bool) -> float | None:
        """How long a stream may wait for its next message; None before any stream had one."""
        if not self._first:
            return None
        usual = self._later if begun and self._later else self._first
        return max(self._least, LATENESS * usual)

    def late(self, address: str, now: float) -> None:
        """Notes that a second worker was faster than one."""
        self._slow[address] = now

    def in_order(self, workers: Sequence[Worker], now: float) -> list[Worker]:
        """Workers, those last that were late lately."""
        self._slow = {a: at for a, at in self._slow.items() if now - at < SLOW_FOR}
        return sorted(workers, key=lambda w: w[1] in self._slow)
