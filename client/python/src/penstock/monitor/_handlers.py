"""Sinks of events: JSON lines, TensorBoard, and torch.monitor.

Each is a callable to give to register_event_handler, and may be called from any thread. Torch and TensorBoard are
imported when their handler is made, and never otherwise.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import threading
from pathlib import Path
from typing import Any, TextIO

from penstock import errors
from penstock.monitor._event import Event
from penstock.monitor._stat import STAT_EVENT


class JSONLines:
    """Writes each event as one line of JSON: {"type", "message", "timestamp" (ISO 8601, UTC), "metadata"}.

    Lines are written at once and whole, so that the ranks of a machine may share a path. NaN and infinities become
    null, which JSON has no other word for.

    Args:
        to: a path, which is appended to and closed by close(); or an open text file, which stays open and the caller's.
    """

    def __init__(self, to: str | os.PathLike[str] | TextIO) -> None:
        self._lock = threading.RLock()
        self._owned = isinstance(to, (str, os.PathLike))
        self._file = Path(to).open("a", encoding="utf-8") if isinstance(to, (str, os.PathLike)) else to  # noqa: SIM115

    def __call__(self, event: Event) -> None:
        line = json.dumps(
            {
                "type": event.type,
                "message": event.message,
                "timestamp": event.timestamp.isoformat(),
                "metadata": {k: _json_value(v) for k, v in event.metadata.items()},
            },
            ensure_ascii=False,
            allow_nan=False,
        )
        with self._lock:
            self._file.write(line + "\n")
            self._file.flush()

    def close(self) -> None:
        """Closes the file that a path named. Unregister the handler first."""
        if self._owned:
            self._file.close()


def _json_value(value: Any) -> Any:
    if hasattr(value, "item"):  # a scalar of NumPy
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (int, float, str)) else str(value)


class TensorBoard:
    """Shows the figures of Stat events as scalars over time, and all other events as texts under their type.

    Steps are seconds since this handler was made.

    Args:
        to: a SummaryWriter, which stays the caller's; or a log directory, for which a writer is made, with
            torch.utils.tensorboard or else tensorboardX, and closed by close().
    """

    def __init__(self, to: Any) -> None:
        self._owned = isinstance(to, (str, os.PathLike))
        self._writer: Any = _summary_writer(os.fspath(to)) if self._owned else to
        self._lock = threading.RLock()
        self._began: float | None = None

    def __call__(self, event: Event) -> None:
        at = event.timestamp.timestamp()
        with self._lock:
            if self._began is None:
                self._began = at
            step = int(at - self._began)
            if event.type == STAT_EVENT:
                for tag, value in event.metadata.items():
                    self._writer.add_scalar(tag, value, global_step=step, walltime=at)
            else:
                self._writer.add_text(event.type, event.message, global_step=step, walltime=at)

    def close(self) -> None:
        """Closes the writer that was made for a log directory. Unregister the handler first."""
        if self._owned:
            self._writer.close()


def _summary_writer(directory: str) -> Any:
    for module in ("torch.utils.tensorboard", "tensorboardX"):
        try:
            return importlib.import_module(module).SummaryWriter(directory)
        except ImportError:
            continue
    raise errors.UsageError(
        "TensorBoard: neither torch.utils.tensorboard nor tensorboardX can be imported; "
        "pip install tensorboard (beside torch) or tensorboardX, or give a SummaryWriter"
    )


class TorchMonitor:
    """Passes events on to the handlers of torch.monitor.

    Stat events become "torch.monitor.Stat", which torch's own TensorboardEventHandler writes; others keep their type,
    and their message is under "message".
    """

    def __init__(self) -> None:
        try:
            self._torch: Any = importlib.import_module("torch.monitor")
        except ImportError as e:
            raise errors.UsageError(
                f"TorchMonitor: torch.monitor cannot be imported ({e}); pip install torch, or use another handler"
            ) from e

    def __call__(self, event: Event) -> None:
        name, data = event.type, {**event.metadata}
        if event.type == STAT_EVENT:
            name = self._torch.STAT_EVENT
        else:
            data.setdefault("message", event.message)
        # torch takes a time's fields for local time, whatever its zone.
        self._torch.log_event(self._torch.Event(name=name, timestamp=event.timestamp.astimezone(), data=data))
