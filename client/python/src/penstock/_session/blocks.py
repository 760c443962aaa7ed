"""Blocks of memory that are used again once nothing sees them any more.

Memory fresh from the kernel is cleared and mapped page by page, which takes longer than to fill it.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from typing import Any, TypeAlias

import numpy as np

ALIGNMENT = 64  # what vector instructions and copies to accelerators want
Block: TypeAlias = "np.ndarray[Any, np.dtype[np.uint8]]"


class Blocks:
    """Free blocks, and those that are taken.

    Any thread may call, and no lock is taken: a block comes back wherever the last reference to it ends.
    """

    def __init__(self, kept: int) -> None:
        self._free: deque[Block] = deque(maxlen=kept)

    def take(self, size: int) -> Block:
        """Memory of so many bytes, to be filled.

        Its block comes back when nothing sees it any more, through whatever views.
        """
        block = self._find(size)
        lease = block[:size]
        weakref.finalize(lease, self._free.append, block).atexit = False
        return lease

    def _find(self, size: int) -> Block:
        """A free block that is not much too large, the newest first: what is in the CPU's caches."""
        for _ in range(len(self._free)):
            try:
                block = self._free.pop()
            except IndexError:  # another thread was faster
                break
            if size <= block.nbytes <= max(2 * size, _LEAST):
                return block
            self._free.appendleft(block)
        return _fresh(capacity(size))


_LEAST = 4 << 10
_pools: weakref.WeakValueDictionary[tuple[int, str], Blocks] = weakref.WeakValueDictionary()
_pooling = threading.Lock()


def pool(what: str, kept: int) -> Blocks:
    """The blocks that all open sessions of this process use for something: one goes on with what another one had."""
    with _pooling:
        blocks = _pools.get((os.getpid(), what))
        if blocks is None:
            blocks = _pools[os.getpid(), what] = Blocks(kept)
        return blocks


def capacity(size: int) -> int:
    """What a block for so many bytes has: four sizes for each power of two, so that blocks fit what comes next."""
    if size <= _LEAST:
        return _LEAST
    step = 1 << max((size - 1).bit_length() - 3, 0)
    return -(-size // step) * step


def held(lease: Block) -> int:
    """Bytes of memory that a lease keeps."""
    return lease.nbytes if lease.base is None else int(lease.base.nbytes)


def _fresh(size: int) -> Block:
    raw = np.empty(size + ALIGNMENT, np.uint8)
    begin = -int(raw.ctypes.data) % ALIGNMENT
    return raw[begin : begin + size]
