"""Who reads a session as a rank in this process: of several, the newest.

A loader's name that is bound anew, as where a notebook's cell is run again, leaves the older loader to whoever still
holds it, or to the garbage collector, which has it closed by and by. The newer one has it leave first, and so begins
where its hand-over ended. Any thread may call.
"""

from __future__ import annotations

import os
import threading

from penstock._session import Session, State
from penstock.errors import Fenced


class Claim:
    """The right to read a session as a rank, until another claim is made or this one is closed.

    Making it ends the one before: it returns when that one's loader has left. restore: the state of its loop, where
    more counts as read than that has got.
    """

    def __init__(self, session: str, rank: int) -> None:
        self._of, self._lock = (os.getpid(), session, rank), threading.RLock()  # a fork's child may begin anew
        self._session: Session | None = None
        self._newer = False
        with _lock:
            before = _newest.get(self._of)
            _newest[self._of] = self
        self.restore = None if before is None else before._end()

    def reads(self, session: Session) -> None:
        """Notes what is read by it. Raises Fenced if a newer claim was made meanwhile."""
        with self._lock:
            self._session = session
            newer = self._newer
        if newer:
            self._end()
            raise self._fenced()

    def _end(self) -> State | None:
        with self._lock:
            self._newer = True
            session = self._session
        return None if session is None else session.fence(self._fenced())

    def _fenced(self) -> Fenced:
        _, session, rank = self._of
        return Fenced(
            f"a newer loader of this process reads the session {session!r} as rank {rank}, and goes on where this one "
            "ended: use that one. Where both shall read, give each its own name, such as "
            'name="train" and name="validation"'
        )

    def close(self) -> None:
        """Gives the right up."""
        with _lock:
            if _newest.get(self._of) is self:
                del _newest[self._of]


_lock = threading.RLock()  # the garbage collector may close a claim while it is held
_newest: dict[tuple[int, str, int], Claim] = {}


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.RLock()  # the parent's may be locked


os.register_at_fork(after_in_child=_after_fork_in_child)
