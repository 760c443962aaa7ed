"""What functions with rng=True draw random numbers from: a seed for each row, or a generator that begins with it."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock._op_values import Array

KEYWORDS = {"rows": "rng", "arrow": "seeds", "numpy": "seeds"}  # by style, under which a function gets it


class Generators:
    """One generator, which begins anew for each row.

    That takes a microsecond. A new generator takes 25.
    """

    def __init__(self) -> None:
        self._bits = np.random.Philox(key=0)
        self._generator = np.random.Generator(self._bits)
        self._key = [0, 0]
        self._state: Any = {
            "bit_generator": "Philox", "state": {"counter": [0] * 4, "key": self._key}, "buffer": [0] * 4,
            "buffer_pos": 4, "has_uint32": 0, "uinteger": 0,
        }  # fmt: skip

    def begin(self, seed: int) -> np.random.Generator:
        """The generator as np.random.Generator(np.random.Philox(key=seed)) begins."""
        self._key[0] = seed
        self._bits.state = self._state
        return self._generator


def some(rows: int) -> Array:
    """Seeds for rows where no worker gives them: by their numbers, and as widely spread."""
    return np.random.Generator(np.random.Philox(key=0)).integers(0, 1 << 64, rows, np.uint64)
