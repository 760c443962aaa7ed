"""The thread that opens streams, one for each piece that there is a slot for, and tends them until they end."""

from __future__ import annotations

import threading
import time

from penstock._session.core import Core
from penstock._session.flight import Flight
from penstock._session.hedging import SHARE
from penstock._session.workers import Workers


class Streams:
    """All streams of a session."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.workers = Workers(core.config.security, core.config.budget)
        self._flights: list[Flight] = []  # of run's thread, until it ended
        self._strays: list[threading.Thread] = []  # of streams that ended

    def run(self) -> None:
        """Works until the session ends, then ends all streams."""
        core, pause = self._core, 1.0
        try:
            while not core.closing.is_set():
                core.slot.wait(pause)
                if core.abandoned:
                    core.close()
                pause = self._tend()
        finally:
            for f in self._flights:
                f.cancel()

    def _tend(self) -> float:
        """Tends the streams, and opens those that there is a slot for; returns in how many seconds to look again."""
        pause, now = 1.0, time.monotonic()
        with self._core.lock:
            most = max(1, int(SHARE * self._core.ledger.streams))
        flights, self._flights = self._flights, []
        hedged = sum(f.hedged for f in flights)
        for f in flights:
            was = f.hedged
            due = f.tend(now, hedged < most)
            hedged += f.hedged - was
            if f.over:
                self._strays += f.threads()
            else:
                self._flights.append(f)
                pause = min(pause, due)
        self._strays = [t for t in self._strays if t.is_alive()]
        while (started := self._start()) is not None:
            self._flights.append(started)
            pause = min(pause, started.tend(now, may_hedge=False))
        return pause

    def _start(self) -> Flight | None:
        """The stream of the next piece, if a slot is free."""
        core = self._core
        with core.lock:
            p = None if core.closing.is_set() else core.ledger.startable()
            if p is None:
                return None
            p.open = True
            f = Flight(core, self.workers, p)
            more = core.ledger.wants_more()
        if more:
            core.wake.ring()
        return f

    def join(self, deadline: float) -> list[threading.Thread]:
        """Waits for the streams' threads, after run has ended; returns those that hang inside a worker's silence."""
        threads = [t for f in self._flights for t in f.threads()] + self._strays
        for t in threads:
            t.join(max(0.0, deadline - time.monotonic()))
        return [t for t in threads if t.is_alive()]
