"""The driver of this client for the suite in client/conformance; docs/internals/conformance.md describes the protocol.

It obeys commands, JSON lines on stdin, and answers each with a line on stdout. It stands on penstock._session, below
the loader: there batches are Arrow records, and the times that scenarios shorten can be set.
"""

from __future__ import annotations

import base64
import json
import logging
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from penstock import errors
from penstock._session import Config, Rows, Session, State
from penstock.monitor import Event

# Names of errors in the protocol; the first that fits counts.
KINDS: list[tuple[type[errors.Error], str]] = [
    (errors.SpecError, "spec"),
    (errors.SessionMismatch, "mismatch"),
    (errors.SessionFailed, "failed"),
    (errors.MasterUnreachable, "master"),
    (errors.WorkersUnreachable, "workers"),
    (errors.PermissionDenied, "permission"),
    (errors.DataError, "data"),
    (errors.RestoreRefused, "restore"),
    (errors.Fenced, "fenced"),
    (errors.Closed, "closed"),
]


class Driver:
    """Obeys commands. It has at most one session."""

    def __init__(self) -> None:
        self._session: Session | None = None
        self._batches: list[Rows] = []  # of the session, for states after them
        self._skipped = 0  # parts of row groups that it told of

    def obey(self, command: dict[str, Any]) -> dict[str, Any]:
        """The answer to a command; raises what the client does."""
        if command["do"] == "open":
            return self._open(command["open"])
        if self._session is None:
            if command["do"] == "close":  # the open failed
                return {}
            raise errors.UsageError("no session is open")
        commands: dict[str, Callable[[Session, dict[str, Any]], dict[str, Any]]] = {
            "next": self._next,
            "leave": self._leave,
            "state": self._state,
            "stats": self._stats,
            "close": self._close,
        }
        return commands[command["do"]](self._session, command)

    def _open(self, c: dict[str, Any]) -> dict[str, Any]:
        self._session, self._batches, self._skipped = None, [], 0
        restore = c["restore"]
        if restore is not None:
            restore = tuple(State(s, "", 0, 1, 0) for s in restore)
        self._session = Session(
            Config(
                masters=tuple(c["masters"]),
                session=c["session"],
                spec=c["spec"],
                rank=c["rank"],
                world_size=c["world_size"],
                restore=restore,
                budget=c["budget"],
                sync_every=c["sync_every"],
                stream_timeout=c["stream_timeout"],
                hedge_after=c["hedge_after"],
                connect_timeout=c["connect_timeout"],
                timeout=c["timeout"],
                on_event=self._heard,
            )
        )
        return {}

    def _heard(self, event: Event) -> None:
        self._skipped += event.type == "penstock.rows_skipped"

    def _next(self, session: Session, _: dict[str, Any]) -> dict[str, Any]:
        while not session.finished:
            rows = session.next()
            if rows is not None:  # else an epoch ended
                self._batches.append(rows)
                reply = {"rows": _encode(ipc(rows.record)), "epoch": rows.epoch, "valid": rows.valid}
                if rows.checkpoint is not None:
                    reply["checkpoint"] = {"name": rows.checkpoint.name, "step": rows.checkpoint.step}
                return reply
        return {"end": True}

    def _leave(self, session: Session, command: dict[str, Any]) -> dict[str, Any]:
        session.leave(command.get("epoch", 0))
        return {}

    def _state(self, session: Session, command: dict[str, Any]) -> dict[str, Any]:
        after = command.get("after", 0)
        state = session.state(self._batches[after - 1].after if after else None)
        return {"state": state.data}

    def _stats(self, session: Session, _: dict[str, Any]) -> dict[str, Any]:
        stats = session.stats()
        names = ("rows", "batches", "dropped", "failovers", "hedges", "buffered", "peak_buffered")
        figures = {name: getattr(stats, name) for name in names}
        figures["skipped"] = self._skipped
        return {"stats": {**figures, "stall": stats.stall_seconds, "compute": stats.compute_seconds}}

    def _close(self, session: Session, _: dict[str, Any]) -> dict[str, Any]:
        session.close()
        return {}


def ipc(record: pa.RecordBatch) -> bytes:
    """An Arrow IPC stream of one record."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, record.schema) as out:
        out.write_batch(record)
    return bytes(sink.getvalue())


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def kind(error: errors.Error) -> str:
    """An error's name in the protocol."""
    return next((name for of, name in KINDS if isinstance(error, of)), "other")


def main() -> None:
    """Obeys until stdin ends."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    driver = Driver()
    for line in sys.stdin:
        try:
            reply = driver.obey(json.loads(line))
        except errors.Error as e:
            reply = {"error": {"kind": kind(e), "message": str(e)}}
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
