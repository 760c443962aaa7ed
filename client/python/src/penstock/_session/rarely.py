"""Keeps messages rare that one cause brings about many times. Callers see to it that one thread at a time calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable


class Rarely:
    """Allows each cause to be told at once, and then once in so many seconds."""

    def __init__(self, every: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._every, self._clock = every, clock
        self._told: dict[Hashable, float] = {}

    def due(self, cause: Hashable = None) -> bool:
        """Whether it may be told: then the caller tells it."""
        now = self._clock()
        told = self._told.get(cause)
        if told is not None and now - told < self._every:
            return False
        self._told[cause] = now
        return True
