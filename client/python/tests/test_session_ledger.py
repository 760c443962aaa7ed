"""Positions, pieces and the ledger against simple models, by random sequences of what may happen."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass

import pytest

from penstock._pb import control_pb2 as pb
from penstock._pb import stream_pb2
from penstock._session import position
from penstock._session.ledger import Ledger
from penstock._session.piece import Piece, StreamError
from penstock._session.position import Interval, Position, Set
from penstock._session.steps import Steps

pytestmark = pytest.mark.pure

SHARDS, WINDOWS, ROWS = 4, 3, 6
SPACE = [Position(0, 0, s, w, k) for s in range(3) for w in range(2) for k in range(4)]


@dataclass(frozen=True)
class Fake:
    """A record of which only the size matters."""

    batch: None = None
    worker: str = "w1"
    bytes: int = 100


def random_set(rng: random.Random) -> Set:
    return position.make_set(Interval(*sorted(rng.sample(SPACE, 2))) for _ in range(rng.randrange(4)))


def points(s: Set) -> set[Position]:
    return {p for p in SPACE for iv in s if iv.start <= p < iv.end}


@pytest.mark.parametrize("seed", range(200))
def test_sets_follow_set_algebra(seed: int) -> None:
    rng = random.Random(seed)
    s, t = random_set(rng), random_set(rng)
    results = {
        "union": (position.union(s, t), points(s) | points(t)),
        "subtract": (position.subtract(s, t), points(s) - points(t)),
        "intersect": (position.intersect(s, t), points(s) & points(t)),
    }
    for name, (got, want) in results.items():
        assert points(got) == want, name
        assert all(a.end < b.start for a, b in itertools.pairwise(got)), f"{name} is not in normal form"
    assert position.covers(s, t) == (points(t) <= points(s))
    assert position.from_proto(position.to_proto(s)) == s


def shard(i: int) -> Position:
    return Position(shard=i)


def grant(interval: Interval, *workers: str) -> pb.Grant:
    ticket = stream_pb2.Ticket(workers=[stream_pb2.Worker(name=w, address=w) for w in workers])
    signed = stream_pb2.SignedTicket(ticket=ticket.SerializeToString())
    return pb.Grant(interval=position.to_proto([interval])[0], ticket=signed.SerializeToString())


class Master:
    """Knows what the rank holds, and plays worker and trainer too."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.ledger = Ledger(streams=2)
        self.held: Set = ()

    def sync(self) -> None:
        self.held = position.subtract(self.held, self.ledger.consumed)
        reply = pb.SyncReply(streams=2)
        for i in range(SHARDS):
            whole = (Interval(shard(i), shard(i + 1)),)
            reply.grants.extend(grant(iv, "w1") for iv in position.intersect(self.held, whole))
        self.ledger.apply(reply)

    def grant(self) -> None:
        i = self.rng.randrange(SHARDS)
        new = position.subtract((Interval(shard(i), shard(i + 1)),), self.ledger.consumed)
        self.held = position.union(self.held, new)
        self.sync()

    def _some(self) -> Set:
        def place() -> Position:
            r = self.rng
            return Position(0, 0, r.randrange(SHARDS), r.randrange(WINDOWS), r.randrange(ROWS + 1))

        return position.make_set([Interval(place(), place())])

    def revoke(self) -> None:
        self.held = position.subtract(self.held, self._some())
        pending = position.make_set(self.ledger.pending)
        lost = not position.covers(self.held, pending)
        self.sync()
        if lost:
            assert self.ledger.discard
            assert not self.ledger.pending
            self.ledger.discard = False
            self.sync()

    def receive(self) -> None:
        ledger, rng = self.ledger, self.rng
        if not ledger.pieces:
            return
        p = rng.choice(ledger.pieces)
        p.open = True
        at = p.received
        if at.window >= WINDOWS:
            ledger.end(p, False)
            return
        n = min(rng.randrange(ROWS + 1), ROWS - at.k)
        meta = stream_pb2.BatchMeta(window=at.window, k=at.k, rows=n, last=at.k + n == ROWS)
        ledger.push(p, Fake(), meta, False)

    def take(self) -> None:
        rows = self.rng.randrange(1, 6)
        taken = self.ledger.take(rows)
        assert taken is None or 0 < taken[0].rows <= rows

    def hand_over(self) -> None:
        self.ledger.hand_over(tuple(self.ledger.pending))

    def hand_over_again(self) -> None:
        """An interrupted hand-over is done from its beginning, after others had the lock."""
        intervals = tuple(self.ledger.pending)
        self.ledger.hand_over(intervals)
        self.receive()
        self.ledger.hand_over(intervals)

    def release(self) -> None:
        self.ledger.release(self._some())
        self.ledger.reconcile()
        self.held = position.subtract(self.held, self.ledger.released)

    def check(self) -> None:
        """What is held is exactly what is pending and what the pieces have, without overlap."""
        ledger = self.ledger
        have = position.make_set(ledger.pending)
        for p in ledger.pieces:
            iv = Interval(p.taken, p.end)
            assert iv.start < iv.end
            assert not position.intersect(have, (iv,))
            assert p.shard == p.taken.shard_start()
            have = position.union(have, (iv,))
            check_queue(p)
        assert have == position.subtract(self.held, ledger.consumed)
        assert ledger.queued == sum(p.bytes for p in ledger.pieces)
        assert [p.taken for p in ledger.pieces] == sorted(p.taken for p in ledger.pieces)


def check_queue(p: Piece) -> None:
    cur = p.taken
    for c in p.queue:
        assert cur <= c.start < c.end
        assert c.rows > 0
        cur = c.end
    assert cur == p.received <= p.end
    assert p.bytes == 100 * len(p.queue)


@pytest.mark.parametrize("seed", range(60))
def test_ledger_keeps_the_partition(seed: int) -> None:
    m = Master(seed)
    actions = [m.grant, m.revoke, m.receive, m.receive, m.receive, m.take, m.take, m.hand_over, m.hand_over_again]
    actions.append(m.release)
    for _ in range(150):
        m.rng.choice(actions)()
        m.check()


def test_late_piece_goes_first() -> None:
    """Rows of the open epoch that come back late are not kept waiting by those of the next."""
    later = Interval(Position(1), Position(1, 0, 1))
    late = Interval(Position(0, 0, 3), Position(0, 0, 4))
    ledger = Ledger()
    ledger.apply(pb.SyncReply(streams=1, grants=[grant(later)]))
    p = ledger.startable()
    assert p is not None
    p.open = True
    ledger.push(p, Fake(), stream_pb2.BatchMeta(rows=5), True)
    assert ledger.startable() is None
    assert ledger.queued == 100
    ledger.apply(pb.SyncReply(streams=1, grants=[grant(late), grant(later)]))
    first = ledger.startable()
    assert first is not None
    assert first.taken == late.start
    assert p.gone
    assert ledger.queued == 0
    assert [q.received for q in ledger.pieces] == [late.start, later.start]


def test_refused_piece_is_reported() -> None:
    """Until the master decides; it is not read again meanwhile, for a report under way may take its rows away."""
    later = Interval(Position(1), Position(1, 0, 1))
    late = Interval(Position(0, 0, 3), Position(0, 0, 4))
    ledger = Ledger()
    ledger.apply(pb.SyncReply(streams=1, grants=[grant(later)]))
    p = ledger.startable()
    assert p is not None
    p.open = True
    ledger.push(p, Fake(), stream_pb2.BatchMeta(rows=5, last=True), True)
    p.refused = pb.RefusedStream(at=position.position_to_proto(p.received))
    ledger.apply(pb.SyncReply(streams=1, grants=[grant(late), grant(later)]))
    assert ledger.startable() is None
    assert not p.gone
    request = pb.SyncRequest()
    ledger.request(request, 0)
    assert [r.at.window for r in request.refused] == [1]
    before = Interval(Position(1), Position(1, 0, 0, 1))
    behind = Interval(Position(1, 0, 0, 2), Position(1, 0, 1))
    ledger.apply(pb.SyncReply(streams=1, grants=[grant(before), grant(behind)]))
    request = pb.SyncRequest()
    ledger.request(request, 0)
    assert not request.refused
    assert [q.received for q in ledger.pieces] == [before.end, behind.start]
    assert ledger.pieces[0] is p
    assert p.queue


def test_what_was_consumed_is_told_after_the_loop_has_ended_its_epoch() -> None:
    """Until the master closes it: it may ask for what is left of it, and must not get what was handed over."""
    mine = Interval(Position(0), Position(0, 0, 1))
    rest = Interval(Position(0, 0, 1), Position(0, 0, 2))
    both = position.make_set([mine, rest])
    ledger = Ledger(batch_size=5)
    ledger.count(Steps(5, counted=True), pb.RankSteps())
    grants = [grant(mine), grant(rest)]
    told = [pb.EpochSteps(epoch=0, steps=1, final=True)]
    ledger.apply(pb.SyncReply(streams=1, grants=grants, steps=told))
    ledger.push(ledger.pieces[0], Fake(), stream_pb2.BatchMeta(rows=5, last=True), True)
    ledger.end(ledger.pieces[0], False)
    assert ledger.take(5) is not None
    ledger.hand_over(ledger.pending)
    assert ledger.steps is not None
    ledger.steps.handed = 1
    ledger.enter(1)
    request = pb.SyncRequest()
    ledger.request(request, 0)
    assert position.from_proto(request.consumed) == (mine,)
    assert ledger.snapshot(5).consumed == ()
    ledger.apply(pb.SyncReply(streams=1, grants=grants, steps=told, release=position.to_proto(both)))
    assert ledger.released == (rest,)
    ledger.apply(pb.SyncReply(streams=1, closed_epochs=1))
    assert ledger.consumed == ()


def test_unchanged_reply_keeps_pieces() -> None:
    interval = Interval(Position(), shard(1))
    ledger = Ledger()
    ledger.apply(pb.SyncReply(grants=[grant(interval, "w1")]))
    (p,) = ledger.pieces
    told: list[bool] = []
    p.renewed = lambda: told.append(True)
    ledger.apply(pb.SyncReply(unchanged=True, streams=5))
    assert ledger.pieces == [p]
    assert not told
    ledger.apply(pb.SyncReply(grants=[grant(interval, "w1", "w2")]))
    assert ledger.pieces == [p]
    assert told, "the stream is not told of new candidates"
    assert len(p.grant.workers) == 2
    ledger.apply(pb.SyncReply(unchanged=True, closed_epochs=1))
    assert not ledger.pieces, "closed epochs never come back, whatever grants are still known"


@pytest.mark.parametrize(
    ("meta", "why"),
    [
        (stream_pb2.BatchMeta(window=1, k=5, rows=1), "rows are missing"),
        (stream_pb2.BatchMeta(window=2, k=0, rows=1), "the window before was not ended"),
        (stream_pb2.BatchMeta(window=2, k=1, rows=1), "rows are missing"),
        (stream_pb2.BatchMeta(window=1, k=0, rows=2, last=True), "ends before rows"),
        (stream_pb2.BatchMeta(window=(1 << 32) - 1, rows=1), "no such window"),
    ],
)
def test_a_gap_is_an_error(meta: stream_pb2.BatchMeta, why: str) -> None:
    p = Piece(shard(0), Position(), Position(window=1, k=3), shard(1), None)  # type: ignore[arg-type]
    with pytest.raises(StreamError, match=why):
        p.place(meta, False)


def test_rows_that_came_already_are_left_out() -> None:
    p = Piece(shard(0), Position(), Position(window=1, k=3), Position(window=1, k=8), None)  # type: ignore[arg-type]
    assert p.place(stream_pb2.BatchMeta(window=0, rows=9), True) == (0, 0, p.received)
    assert p.place(stream_pb2.BatchMeta(window=1, k=1, rows=4), True) == (2, 4, Position(window=1, k=5))
    assert p.place(stream_pb2.BatchMeta(window=1, k=3, rows=9, last=True), True) == (0, 5, p.end)
