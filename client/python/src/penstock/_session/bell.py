"""A doorbell: one thread rings, another waits, and rings before the wait are not lost.

The twin of a Go channel with room for one signal. It waits inside one C call, so that a KeyboardInterrupt in the main
thread leaves nothing half done (threading.Condition may give up its lock twice then).
"""

from __future__ import annotations

import queue


class Bell:
    """Rung by any thread, waited for by one."""

    def __init__(self) -> None:
        self._rings: queue.SimpleQueue[None] = queue.SimpleQueue()

    def ring(self) -> None:
        """Wakes who waits, or who waits next. Never blocks."""
        if self._rings.empty():
            self._rings.put(None)

    def wait(self, timeout: float) -> bool:
        """Waits for a ring, for at most so many seconds; whether there was one."""
        try:
            self._rings.get(timeout=max(timeout, 0.0))
        except queue.Empty:
            return False
        self.clear()
        return True

    def clear(self) -> None:
        """Forgets rings: what they tell is looked at now."""
        while True:
            try:
                self._rings.get_nowait()
            except queue.Empty:
                return
