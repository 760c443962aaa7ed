"""What a session tells of itself in figures. Everything is immutable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class Cause(NamedTuple):
    """What holds a session's trainers up: one of api/pb/control.proto's bottlenecks, and the reason."""

    bottleneck: str = ""
    words: str = ""


@dataclass(frozen=True)
class SessionStats:
    """Figures since the session was opened; seconds and bytes.

    rows, batches, bytes: handed over. rows_by_worker says who sent the rows, streams_by_worker from whom streams are
    being received, ways in which way batches came from workers (memory, link, grpc). dropped: rows of ended epochs that
    no rank got. skipped_rows: rows that were left out beside those handed over, because they are bad by themselves.
    stall_seconds: that next waited, longest_stall_seconds the most that one call did. compute_seconds: between
    next's return with a batch and the next call. failovers: streams that went on with another worker. hedges: streams
    that another worker was asked for besides, because theirs was late.
    buffered: received and not yet in a batch, peak_buffered the most there ever were.
    workers: of the fleet; streams: that the master wants open; cause: what holds the session's trainers up, as the
    master sees it, if it has measured enough.
    """

    rows: int = 0
    batches: int = 0
    bytes: int = 0
    dropped: int = 0
    skipped_rows: int = 0
    stall_seconds: float = 0.0
    longest_stall_seconds: float = 0.0
    compute_seconds: float = 0.0
    failovers: int = 0
    hedges: int = 0
    buffered: int = 0
    peak_buffered: int = 0
    workers: int = 0
    streams: int = 0
    rows_by_worker: Mapping[str, int] = field(default_factory=dict)
    ways: Mapping[str, int] = field(default_factory=dict)
    streams_by_worker: Mapping[str, int] = field(default_factory=dict)
    cause: Cause = field(default_factory=Cause)
