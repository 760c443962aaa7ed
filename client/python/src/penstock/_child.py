"""What the processes of the penstock binary that this one starts leave behind: how they ended, and their last words.

It stands below _onbox and _session.feeder, which run one each.
"""

from __future__ import annotations

import os
import signal
import tempfile

LOG_TAIL = 4000  # bytes of the log in errors


class Log:
    """A log as a file without a name, so that nothing stays behind."""

    def __init__(self) -> None:
        self.file = tempfile.TemporaryFile()  # noqa: SIM115

    def words(self) -> str:
        """How it ends."""
        size = os.fstat(self.file.fileno()).st_size
        # Without seek: the child writes at the same offset.
        tail = os.pread(self.file.fileno(), LOG_TAIL, max(0, size - LOG_TAIL)).decode(errors="replace").strip()
        return f"its log ends with:\n{tail}" if tail else "its log is empty"

    def close(self) -> None:
        """Lets go of it."""
        self.file.close()


def ended(status: int) -> str:
    """What a process's exit status says."""
    if status >= 0:
        return f"ended with exit status {status}"
    try:
        return f"ended by {signal.Signals(-status).name}"
    except ValueError:  # real-time signals have no names
        return f"ended by signal {-status}"
