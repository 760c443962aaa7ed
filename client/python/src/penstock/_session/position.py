"""Places in a session's rows, and sets of them: the twin of the Go package api/position.

A Position names a place before an output row, an Interval a run of places, and a Set any part of a session: disjoint,
non-touching intervals in ascending order, as a tuple. Everything is an immutable value; nothing here is shared.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from penstock._pb import control_pb2 as pb


class Position(NamedTuple):
    """A place before output row k of a window. Positions compare in the order in which a session reads them."""

    epoch: int = 0
    block: int = 0
    shard: int = 0
    window: int = 0
    k: int = 0

    def shard_start(self) -> Position:
        """The first position of this position's shard."""
        return Position(self.epoch, self.block, self.shard)

    def __str__(self) -> str:
        return f"{self.epoch}/{self.block}/{self.shard}/{self.window}+{self.k}"


class Interval(NamedTuple):
    """The run of positions from start up to, and without, end."""

    start: Position
    end: Position

    def __str__(self) -> str:
        return f"[{self.start}, {self.end})"


Set: TypeAlias = "tuple[Interval, ...]"


def make_set(intervals: Iterable[Interval]) -> Set:
    """The union of intervals given in any order, overlapping, touching or empty."""
    out: list[Interval] = []
    for iv in sorted(iv for iv in intervals if iv.start < iv.end):
        if out and iv.start <= out[-1].end:
            if out[-1].end < iv.end:
                out[-1] = Interval(out[-1].start, iv.end)
        else:
            out.append(iv)
    return tuple(out)


def union(s: Set, t: Set) -> Set:
    """The positions in s or t."""
    if not s or not t:
        return s or t
    return make_set(s + t)


def subtract(s: Set, t: Set) -> Set:
    """The positions in s and not in t."""
    out: list[Interval] = []
    j = 0
    for start, end in s:
        while j < len(t) and t[j].end <= start:
            j += 1
        k = j
        while k < len(t) and t[k].start < end:
            if start < t[k].start:
                out.append(Interval(start, t[k].start))
            start = t[k].end
            k += 1
        if start < end:
            out.append(Interval(start, end))
    return tuple(out)


def intersect(s: Set, t: Set) -> Set:
    """The positions in both s and t."""
    out: list[Interval] = []
    i = j = 0
    while i < len(s) and j < len(t):
        start, end = max(s[i].start, t[j].start), min(s[i].end, t[j].end)
        if start < end:
            out.append(Interval(start, end))
        if s[i].end < t[j].end:
            i += 1
        else:
            j += 1
    return tuple(out)


def covers(s: Set, t: Set) -> bool:
    """Whether all of t lies in s."""
    return not subtract(t, s)


def from_epoch(s: Set, epoch: int) -> Set:
    """The part of s that lies in an epoch or later."""
    return subtract(s, (Interval(Position(), Position(epoch)),)) if epoch else s


def position_to_proto(p: Position) -> pb.Position:
    """The position as it crosses the wire."""
    return pb.Position(epoch=p.epoch, block=p.block, shard=p.shard, window=p.window, k=p.k)


def position_from_proto(m: pb.Position) -> Position:
    """The position that a message holds; an empty message is the first of all."""
    return Position(m.epoch, m.block, m.shard, m.window, m.k)


def interval_from_proto(m: pb.Interval) -> Interval:
    """The interval that a message holds."""
    return Interval(position_from_proto(getattr(m, "from")), position_from_proto(m.to))


def to_proto(s: Iterable[Interval]) -> list[pb.Interval]:
    """The set as it crosses the wire."""
    return [pb.Interval(**{"from": position_to_proto(iv.start), "to": position_to_proto(iv.end)}) for iv in s]


def from_proto(ms: Iterable[pb.Interval]) -> Set:
    """The set that messages hold: from outside they may come in any order and overlap."""
    return make_set(interval_from_proto(m) for m in ms)
