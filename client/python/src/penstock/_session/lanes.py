"""The books of a rank in order deterministic: the twin of client/lanes.go.

An epoch's rows lie in lanes, and each rank has a run of them. A step is the next `quota` rows of each lane; a rank's
batch is its lanes' parts, one after the other. So batches follow from the lanes alone, however rows arrive, and what is
consumed follows from the number of batches that were handed over: no interval is told to the master, and nothing is
given back. Like the ledger it is pure bookkeeping, under the session's lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from penstock._pb import control_pb2 as pb
from penstock._session.ledger import Ledger
from penstock._session.piece import Chunk, Miscount, Piece
from penstock._session.position import Interval, Position


@dataclass
class Lane:
    """One lane of the rank."""

    number: int
    row: int = 0  # rows of the epoch that is read before it are in batches, or in the one in the making
    planned: dict[int, int] = field(default_factory=dict)  # rows, by epoch


@dataclass
class Lanes(Ledger):
    """A rank's books by lanes."""

    lanes: dict[int, Lane] = field(default_factory=dict)  # in their order
    quota: int = 1  # rows of each lane in a step
    starts: tuple[pb.LaneStart, ...] = ()  # of blocks, ascending
    _laid: int = 0  # the epoch of Lane.row

    @classmethod
    def of(cls, lanes: range, batch_size: int, joined: pb.JoinReply) -> Lanes:
        """The books of a rank with some lanes, from where its training loop is."""
        quota, at = batch_size // len(lanes), joined.steps
        each = {n: Lane(n, at.handed * quota) for n in lanes}
        return cls(batch_size=batch_size, lanes=each, quota=quota, starts=tuple(joined.starts), _laid=at.epoch)

    def _step(self) -> int | None:
        """The step whose batch is made next, of the epoch that is read; None if it is not known that there is one."""
        epoch, s = self.reading, self.steps
        assert s is not None
        if self._laid != epoch:
            self._laid = epoch
            for lane in self.lanes.values():
                lane.row = 0
        step = s.handed if epoch == self.ended else 0
        return step if step < s.told.get(epoch, 0) else None

    def _part(self, lane: Lane, epoch: int, step: int) -> tuple[int, int]:
        """Which rows of a lane a step has: less than the quota where the lane ends, and none behind that."""
        assert self.steps is not None
        low, high = step * self.quota, (step + 1) * self.quota
        return low, min(high, lane.planned.get(epoch, 0)) if epoch in self.steps.finals else high

    def _rows(self, epoch: int, step: int) -> int:
        """How many rows this rank has in a step."""
        parts = (self._part(lane, epoch, step) for lane in self.lanes.values())
        return sum(max(0, high - low) for low, high in parts)

    def over(self) -> bool:
        """Whether the loop has had all batches of its epoch: those without a row are none, unless they are padded."""
        s = self.steps
        if s is None or self.ended > self.epoch or self.ended not in s.finals:
            return False
        return s.over(self.ended) or not (self.pads or self._rows(self.ended, s.handed))

    def batches(self) -> int | None:
        """How many batches this rank gets of the loop's epoch, once that is final."""
        steps = super().batches()
        if steps is None or self.pads:
            return steps
        longest = max(lane.planned.get(self.ended, 0) for lane in self.lanes.values())
        return min(steps, -(-longest // self.quota))

    def may_pad(self) -> bool:
        """Whether the next batch is one of padding alone."""
        s = self.steps
        return s is not None and self.pads and not self.gated() and not self._rows(self.ended, s.handed)

    def whole(self, rows: int) -> bool:
        """Whether the batch in the making has all of its rows."""
        step = self._step()
        return step is not None and all(
            lane.row >= self._part(lane, self.reading, step)[1] for lane in self.lanes.values()
        )

    def may_grow(self, rows: int) -> bool:
        """Whether more rows belong to a batch that was made: never."""
        return False

    def take(self, rows: int) -> tuple[Chunk, Piece] | None:
        """Moves rows of a lane into the batch in the making, in the lane's order; lanes in any."""
        step = self._step()
        if step is None:
            return None
        heads = self._heads()
        for lane in self.lanes.values():
            _, high = self._part(lane, self.reading, step)
            p = heads.get(lane.number) if lane.row < high else None
            while p is not None and p.queue and p.shard.epoch == self.reading and p.row <= lane.row:
                behind = lane.row - p.row
                chunk, _ = self._take(p, behind or high - lane.row)
                if not behind:
                    lane.row += chunk.rows
                    return chunk, p
                p = self._heads().get(lane.number)  # those rows were in batches of an earlier start
        return None

    def _heads(self) -> dict[int, Piece]:
        """The first piece of each lane that is not over."""
        heads: dict[int, Piece] = {}
        for p in self.pieces:
            if p.shard.epoch >= self.reading:
                heads.setdefault(p.grant.lane, p)
        return heads

    def startable(self) -> Piece | None:
        """The next piece to open: the first of each lane in any case, since a batch needs rows of all."""
        first = next((p for p in self._heads().values() if not p.open), None)
        if first is not None or sum(p.open for p in self.pieces) >= self.streams:
            return first
        waiting = (p for p in self.pieces if not p.open)
        return min(waiting, key=lambda p: (p.shard.epoch, p.row, p.grant.lane), default=None)

    def may_receive(self, p: Piece, size: int, budget: int) -> bool:
        """Whether a stream may receive a message of about so many bytes: each lane has its share of the budget."""
        if not p.queue:
            return True
        return p.bytes + size <= budget // max(self.streams, len(self.lanes)) and self.queued + size <= budget

    def _grant(self, messages: Sequence[pb.Grant]) -> None:
        super()._grant(messages)
        for g in self.grants:
            planned, epoch = self.lanes[g.lane].planned, g.interval.start.epoch
            planned[epoch] = max(planned.get(epoch, 0), g.first + g.rows)

    def reconcile(self) -> None:
        """Makes pieces of all that is granted and not in batches. A piece keeps its end for good."""
        self._step()
        known = {p.end: p for p in self.pieces}
        pieces = []
        for g in self.grants:
            epoch, p = g.interval.start.epoch, known.get(g.interval.end)
            if epoch < self.reading:
                continue
            if p is not None:
                p.renew(g)
                pieces.append(known.pop(g.interval.end))
            elif g.first + g.rows > self._taken(g.lane, epoch):  # else the answer is to an earlier report
                pieces.append(Piece.of(g.interval, g))
        for p in known.values():
            self._drop(p)
        self.pieces = sorted(pieces, key=lambda p: p.taken)

    def _taken(self, lane: int, epoch: int) -> int:
        """How many rows of a lane are in batches, or in the one in the making."""
        return self.lanes[lane].row if epoch == self._laid else 0

    def _check_count(self, p: Piece, rows: int, after: Position) -> None:
        """Holds a worker to the rows that were counted when the block was planned: batches depend on them."""
        g = p.grant
        due = g.first + g.rows - p.row - sum(c.rows for c in p.queue)
        if rows > due or (rows < due and after >= p.end):
            where = f"{rows} rows of shard {p.shard} of {g.file} up to {after} for lane {g.lane}"
            hint = "do all workers run the same release, and are the files as they were?"
            raise Miscount(f"sends {where}; {due} were counted: {hint}")

    def _pass(self, interval: Interval | None) -> None:
        """Positions without rows need no hand-over."""

    def enter(self, epoch: int) -> None:
        """Notes that the training loop is in an epoch, and has ended those before it."""
        super().enter(epoch)
        self.starts = tuple(s for s in self.starts if s.epoch >= epoch)
        for lane in self.lanes.values():
            lane.planned = {e: n for e, n in lane.planned.items() if e >= epoch}

    def apply(self, reply: pb.SyncReply) -> None:
        """Takes over the answer to the request made last."""
        if not reply.unchanged:
            known = {(s.epoch, s.block): s for s in (*self.starts, *reply.starts)}
            self.starts = tuple(known[at] for at in sorted(known) if at[0] >= self.ended)
        super().apply(reply)
        assert self.steps is not None
        newest = self.start(self.steps.handed)
        if newest is not None:  # the states of batches that are handed over from now on need none before it
            self.starts = tuple(s for s in self.starts if (s.epoch, s.block) >= (newest.epoch, newest.block))

    def start(self, handed: int) -> pb.LaneStart | None:
        """The newest known block of the loop's epoch at whose start no lane is beyond the batches handed over."""
        before = handed * self.quota
        return next(
            (s for s in reversed(self.starts) if s.epoch == self.ended and all(rows <= before for rows in s.rows)), None
        )
