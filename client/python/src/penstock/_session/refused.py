"""Streams that every worker refuses because of the data, and what is left out for them: the twin of client/refused.go.

The master decides by the spec's on_error. The piece stays closed meanwhile, so that no row of what may be taken away is
handed over: it is reported with each Sync until the grants change. Other refusals are the workers' own, and end the
session.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from penstock._pb import control_pb2 as pb
from penstock._session.core import Core, Value
from penstock._session.failures import refused_shard
from penstock._session.piece import Piece
from penstock._session.position import position_to_proto
from penstock._session.workers import WorkerError

# What refusals of the data are, by their codes.
CAUSES = {"DATA_LOSS": pb.UNREADABLE, "FAILED_PRECONDITION": pb.CHANGED}


def refuse(core: Core, p: Piece, refusals: Iterable[WorkerError]) -> None:
    """Ends a piece's stream, which every candidate refuses: the master decides, or the session ends."""
    errors = sorted(refusals, key=lambda e: (e.code == "FAILED_PRECONDITION", not e.stranger))
    last = errors[-1]
    if any(e.code not in CAUSES for e in errors):
        own = [e for e in errors if e.code not in CAUSES]
        core.fail(refused_shard(core.config, p, own[-1]))
        return
    with core.lock:
        p.refused = pb.RefusedStream(at=position_to_proto(p.received), cause=CAUSES[last.code], words=last.said)
    core.wake.ring()
    about: dict[str, Value] = {
        "shard": str(p.shard),
        "file": p.grant.file,
        "cursor": str(p.received),
        "cause": str(last),
    }
    message = f"every worker refuses shard {p.shard} at {p.received}; the master decides: {last}"
    core.say("shard_refused", message, logging.WARNING, metadata=about)


class Skips:
    """Tells of rows that were left out, once of each. It belongs to the thread that Syncs."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._known = {_key(m) for m in core.joined.skipped}

    def tell(self, skipped: Iterable[pb.SkippedRows]) -> None:
        """Tells of what is news."""
        for m in skipped:
            if _key(m) in self._known:
                continue
            self._known.add(_key(m))
            rows = f"rows {m.first_row} to {m.first_row + m.rows - 1}"
            message = (
                f"rows are left out, since no worker can read them: {m.file} row group {m.row_group}, {rows}: {m.cause}"
            )
            about: dict[str, Value] = {
                "epoch": m.epoch, "file": m.file, "row_group": m.row_group, "first_row": m.first_row, "rows": m.rows,
                "cause": m.cause,
            }  # fmt: skip
            self._core.say("rows_skipped", message, logging.WARNING, metadata=about)


def _key(m: pb.SkippedRows) -> tuple[int, int, int, int]:
    return m.epoch, m.file_index, m.row_group, m.first_row
