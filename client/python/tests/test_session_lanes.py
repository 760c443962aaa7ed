"""A rank's books by lanes against a plan: batches are the same for every world size, however rows arrive."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from penstock._flat import Flat
from penstock._pb import control_pb2 as pb
from penstock._pb import stream_pb2
from penstock._session.lanes import Lanes
from penstock._session.piece import Miscount, Piece
from penstock._session.position import Interval, Position, to_proto
from penstock._session.rebatch import Rebatcher
from penstock._session.steps import Steps

pytestmark = pytest.mark.pure

LANES, QUOTA = 4, 3


@dataclass
class Rows:
    """A record of rows that are numbers."""

    batch: Any
    worker: str = "w"
    bytes: int = 100


@dataclass
class Shard:
    """A whole shard, or the rows of one that a lane gets: from row `low` to `high` of it."""

    at: Position
    windows: list[int]
    lane: int
    first: int
    low: int
    high: int

    def place(self, row: int) -> Position:
        """Where a row of the shard is."""
        for window, rows in enumerate(self.windows):
            if row < rows:
                return self.at._replace(window=window, k=row)
            row -= rows
        return self.at._replace(shard=self.at.shard + 1)

    def grant(self, behind: int) -> pb.Grant | None:
        """What lies behind so many rows of the lane."""
        low = max(self.low, self.low + behind - self.first)
        if low >= self.high:
            return None
        start = self.place(low)
        if low == 0:
            start = self.at
        signed = stream_pb2.SignedTicket(ticket=stream_pb2.Ticket().SerializeToString())
        return pb.Grant(
            interval=to_proto([Interval(start, self.place(self.high))])[0], ticket=signed.SerializeToString(),
            lane=self.lane, first=self.first + low - self.low, rows=self.high - low,
        )  # fmt: skip


@dataclass
class Plan:
    """Epochs laid out in lanes, one block each, as master/plan does it; and a master that grants by it."""

    rng: random.Random
    epochs: int = 2
    shards: list[Shard] = field(default_factory=list)
    ids: dict[tuple[Position, int], int] = field(default_factory=dict)  # of the rows of a shard
    lane_rows: list[list[list[int]]] = field(default_factory=list)  # ids, by epoch and lane

    def __post_init__(self) -> None:
        numbers = itertools.count()
        for epoch in range(self.epochs):
            lanes: list[list[int]] = [[] for _ in range(LANES)]
            for i in range(self.rng.randrange(1, 12)):
                at = Position(epoch, 0, i)
                windows = [self.rng.choice([0, self.rng.randrange(8)]) for _ in range(self.rng.randrange(1, 4))]
                cuts = sorted([0, sum(windows), *(self.rng.randint(0, sum(windows)) for _ in range(2))])
                for n in range(sum(windows)):
                    self.ids[at, n] = next(numbers)
                for low, high in itertools.pairwise(cuts):
                    lane = min(range(LANES), key=lambda n: len(lanes[n]))
                    if low < high:
                        self.shards.append(Shard(at, windows, lane, len(lanes[lane]), low, high))
                        lanes[lane] += [self.ids[at, n] for n in range(low, high)]
            self.lane_rows.append(lanes)

    def steps(self, epoch: int, last: str) -> int:
        """Of an epoch, by its policy for last batches."""
        rows = [len(lane) for lane in self.lane_rows[epoch]]
        return min(rows) // QUOTA if last == "drop" else -(-max(rows) // QUOTA)

    def batch(self, epoch: int, step: int) -> list[list[int]]:
        """The rows of a step, by lane."""
        return [lane[step * QUOTA : (step + 1) * QUOTA] for lane in self.lane_rows[epoch]]


class Rank:
    """A rank that reads by Lanes, fed by a master and workers in any order."""

    def __init__(self, plan: Plan, last: str, rank: int, world: int, epoch: int = 0, handed: int = 0) -> None:
        self.plan, self.last, self.rng = plan, last, plan.rng
        self.cuts = handed == 0 or plan.rng.random() < 0.5  # grants begin behind the steps that were reported
        self.mine = range(rank * LANES // world, (rank + 1) * LANES // world)
        self.size = QUOTA * len(self.mine)
        joined = pb.JoinReply(steps=pb.RankSteps(epoch=epoch, handed=handed))
        self.ledger = Lanes.of(self.mine, self.size, joined)
        self.ledger.pads = last == "pad"
        self.ledger.count(Steps(self.size, counted=True), joined.steps)
        self.streams: dict[int, tuple[Piece, bool]] = {}

    def sync(self, stale: int = 0) -> None:
        """A Sync; its answer may be to a report of some steps ago."""
        req = pb.SyncRequest()
        self.ledger.request(req, 0)
        assert not req.consumed
        at = req.steps
        reply = pb.SyncReply(streams=2, closed_epochs=at.epoch)
        for epoch in range(at.epoch, min(at.epoch + 2, self.plan.epochs)):
            reply.steps.append(pb.EpochSteps(epoch=epoch, steps=self.plan.steps(epoch, self.last), final=True))
        for s in self.plan.shards:
            if s.lane in self.mine and at.epoch <= s.at.epoch <= at.epoch + 1:
                behind = max(0, at.handed - stale) * QUOTA if s.at.epoch == at.epoch and self.cuts else 0
                granted = s.grant(behind)
                if granted is not None:
                    reply.grants.append(granted)
        self.ledger.apply(reply)

    def receive(self) -> None:
        """A record of any open stream, or the opening of one."""
        p = self.ledger.startable()
        if p is not None:
            p.open = True
            self.streams[id(p)] = (p, True)
        live = [(p, first) for p, first in self.streams.values() if not p.gone and not p.complete]
        live = [(p, first) for p, first in live if self.ledger.may_receive(p, 100, 300)]
        if not live:
            return
        p, first = self.rng.choice(live)
        at = p.received
        windows = next(s.windows for s in self.plan.shards if s.at == p.shard)
        if at.window >= len(windows):
            self.ledger.end(p, first)
            return
        left = windows[at.window] - at.k
        rows = min(left, self.rng.randrange(1, 4))
        before = sum(windows[: at.window]) + at.k
        record = Rows([self.plan.ids[p.shard, before + i] for i in range(rows)])
        meta = stream_pb2.BatchMeta(window=at.window, k=at.k, rows=rows, last=rows == left)
        self.ledger.push(p, record, meta, first)
        self.streams[id(p)] = (p, False)

    def next(self) -> tuple[int, list[int]] | None:
        """The next batch and its epoch; None at the end of all."""
        ledger = self.ledger
        parts: dict[int, list[int]] = {}
        for _ in range(5_000):
            if ledger.over():
                ledger.enter(ledger.ended + 1)
                if ledger.ended == self.plan.epochs:
                    return None
            if self.rng.random() < 0.2:
                self.sync(stale=self.rng.randrange(3))
            if ledger.may_pad():
                return self._hand([])
            have = sum(map(len, parts.values()))
            taken = None if ledger.whole(have) else ledger.take(self.size - have)
            if taken is not None:
                chunk, p = taken
                parts.setdefault(p.grant.lane, []).extend(chunk.record.batch[chunk.low : chunk.high])
            elif have and ledger.whole(have):
                return self._hand([i for lane in sorted(parts) for i in parts[lane]])
            else:
                self.receive()
        raise AssertionError("no batch comes")

    def _hand(self, rows: list[int]) -> tuple[int, list[int]]:
        assert self.ledger.steps is not None
        assert not self.ledger.gated()
        self.ledger.steps.handed += 1
        return self.ledger.ended, rows


def expected(plan: Plan, last: str, rank: int, world: int) -> list[tuple[int, list[int]]]:
    mine = slice(rank * LANES // world, (rank + 1) * LANES // world)
    out = []
    for epoch in range(plan.epochs):
        for step in range(plan.steps(epoch, last)):
            rows = list(itertools.chain.from_iterable(plan.batch(epoch, step)[mine]))
            if rows or last == "pad":
                out.append((epoch, rows))
    return out


def read(rank: Rank) -> list[tuple[int, list[int]]]:
    rank.sync()
    return list(iter(rank.next, None))


@pytest.mark.parametrize("last", ["uneven", "pad", "drop"])
@pytest.mark.parametrize("world", [1, 2, 4])
@pytest.mark.parametrize("seed", range(10))
def test_batches_follow_from_the_lanes_alone(seed: int, world: int, last: str) -> None:
    plan = Plan(random.Random(seed))
    for rank in range(world):
        assert read(Rank(plan, last, rank, world)) == expected(plan, last, rank, world)


@pytest.mark.parametrize("seed", range(10))
def test_another_world_size_goes_on_at_any_step(seed: int) -> None:
    plan = Plan(random.Random(seed))
    steps = plan.steps(0, "pad")
    for handed in range(steps + 1):
        for rank in range(2):
            whole = expected(plan, "pad", rank, 2)
            assert read(Rank(plan, "pad", rank, 2, handed=handed)) == whole[handed:]


def test_a_stream_with_other_rows_than_were_counted_is_refused() -> None:
    plan = Plan(random.Random(3))
    rank = Rank(plan, "uneven", 0, 1)
    rank.sync()
    p = rank.ledger.pieces[0]
    with pytest.raises(Miscount, match="were counted"):
        rank.ledger.end(p, first=True)


def test_rows_beyond_what_was_counted_are_not_taken() -> None:
    rank = Rank(Plan(random.Random(3)), "uneven", 0, 1)
    rank.sync()
    p = next(p for p in rank.ledger.pieces if p.end.shard_start() != p.shard)

    def push(rows: int) -> None:
        meta = stream_pb2.BatchMeta(window=p.received.window, k=p.received.k, rows=rows)
        rank.ledger.push(p, Rows(list(range(rows))), meta, True)

    with pytest.raises(Miscount, match=f"; {p.grant.rows} were counted"):
        push(p.grant.rows + 1)
    push(p.grant.rows)
    with pytest.raises(Miscount, match="; 0 were counted"):
        push(1)
    assert sum(c.rows for c in p.queue) == p.grant.rows


def test_a_state_names_the_newest_block_that_begins_before_it() -> None:
    ledger = Rank(Plan(random.Random(1)), "uneven", 0, 1).ledger
    ledger.starts = tuple(pb.LaneStart(epoch=0, block=b, rows=[10 * b, 10 * b + 1, 10 * b, 10 * b]) for b in range(4))
    assert [None if (s := ledger.start(n)) is None else s.block for n in (0, 3, 4, 7, 100)] == [None, 0, 1, 2, 3]
    ledger.apply(pb.SyncReply(streams=1, starts=[pb.LaneStart(epoch=0, block=4, rows=[0, 0, 0, 0])]))
    newest = ledger.start(0)
    assert newest is not None
    assert newest.block == 4
    ledger.enter(1)
    assert ledger.start(0) is None


def test_rows_of_lanes_are_joined_lane_by_lane() -> None:
    from penstock._session.core import Making
    from penstock._session.piece import Chunk

    making = Making(0)
    record = Flat.of(pa.RecordBatch.from_pydict({"a": [0, 1, 2, 3]}))
    for lane, low in ((1, 2), (0, 0), (1, 3), (0, 1)):
        chunk = Chunk(Rows(record), low, low + 1, Position(), Position(), 0)
        making.add(chunk, lane)
    assert Rebatcher().join(making.in_order()).to_arrow()["a"].to_pylist() == [0, 1, 2, 3]
