"""What a fork takes away: gRPC, once it has connected, crashes or hangs in a forked child, in new connections too.

So a process that was forked from one with a session opens none. Any thread may call.
"""

from __future__ import annotations

import os

from penstock import errors

_opened = False  # a session, by this process
_inherited = False  # from a process that had opened one


def check() -> None:
    """Raises UsageError in a process that can open no session."""
    if _inherited:
        raise errors.UsageError(
            f"this process ({os.getpid()}) is a fork of one that had opened a loader, and gRPC, which both use, does "
            'not work in it; start processes by "spawn", or open the first loader after the fork (in torch\'s '
            "DataLoader: num_workers=0)"
        )


def note_opening() -> None:
    """Is called before a session's first connection; raises as check does."""
    global _opened
    check()
    _opened = True


def _after_fork_in_child() -> None:
    global _inherited
    _inherited |= _opened


os.register_at_fork(after_in_child=_after_fork_in_child)
