"""What this rank holds, received, took and consumed: the twin of client/ledger.go.

Pure bookkeeping without I/O and time. The session's lock guards it. The trainer's thread alone calls hand_over: that
is what makes rows consumed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from penstock._pb import control_pb2 as pb
from penstock._pb import stream_pb2
from penstock._session.piece import Chunk, Grant, Piece, Received, StreamError
from penstock._session.position import (
    Interval,
    Position,
    Set,
    covers,
    from_epoch,
    from_proto,
    interval_from_proto,
    make_set,
    subtract,
    to_proto,
    union,
)
from penstock._session.steps import MAX_AHEAD, Steps


@dataclass(frozen=True)
class Base:
    """What others consumed who are no longer there, and who is."""

    version: int = 0
    consumed: Set = ()
    members: tuple[int, ...] = ()
    departed: tuple[int, ...] = ()
    departed_rows: tuple[int, ...] = ()  # that each of departed handed over
    skipped: int = 0  # row groups


@dataclass(frozen=True)
class Snapshot:
    """What a checkpoint tells of a moment."""

    ended: int
    base: Base
    consumed: Set
    handed: int = 0  # batches of the epoch behind those, where ranks count them
    rows: int = 0  # that this rank handed over in this generation
    start: pb.LaneStart | None = None  # order deterministic: the newest known block that begins before all that is left


def parse_grant(m: pb.Grant) -> Grant:
    """The grant that a Sync brought. A ticket that is no ticket raises google.protobuf's DecodeError."""
    signed = stream_pb2.SignedTicket.FromString(m.ticket)
    ticket = stream_pb2.Ticket.FromString(signed.ticket)
    workers = tuple((w.name, w.address) for w in ticket.workers)
    return Grant(interval_from_proto(m.interval), m.ticket, signed, workers, ticket.file.uri, m.lane, m.first, m.rows)


@dataclass
class Ledger:
    """One rank's books. All positions that it holds and has not consumed are pending or in a piece."""

    epoch: int = 0  # the open one: the master closed those before it
    ended: int = 0  # epochs that the training loop has ended; base and consumed are of the later ones
    base: Base = field(default_factory=Base)
    consumed: Set = ()  # handed over
    pending: list[Interval] = field(default_factory=list)  # in the batch in the making, or without rows
    discard: bool = False  # the batch in the making holds rows that this rank does not hold any more
    grants: list[Grant] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)  # in order of position
    streams: int = 1  # how many pieces may be open
    queued: int = 0  # bytes in all queues
    peak: int = 0  # the most that queued ever was
    drained: bool = False  # all of the open epoch is granted to someone
    released: Set = ()
    steps: Steps | None = None  # None: ranks do not count them
    batch_size: int = 1
    pads: bool = False  # last batches
    dropped_rows: dict[int, int] = field(default_factory=dict)  # by ended epoch: those that no rank got
    _seq: int = 0

    def count(self, steps: Steps, begun: pb.RankSteps) -> None:
        """Counts steps from where the training loop is."""
        self.enter(begun.epoch)
        self.steps = steps
        steps.handed = begun.handed
        if not steps.counted:
            self.forget_closed()

    @property
    def counted(self) -> bool:
        """Whether the master says how many batches an epoch has before they are handed over."""
        return self.steps is not None and self.steps.counted

    @property
    def reading(self) -> int:
        """The epoch of the batch that is made next."""
        return self.ended + self.over() if self.counted else self.epoch

    @property
    def dropped(self) -> int:
        """Rows of ended epochs that no rank got."""
        return sum(self.dropped_rows.values())

    def over(self) -> bool:
        """Counted: whether the training loop has had all batches of its epoch.

        It is at most one epoch ahead of the master, who closes those that all ranks have ended.
        """
        return self.steps is not None and self.ended <= self.epoch and self.steps.over(self.ended)

    def batches(self) -> int | None:
        """Counted: how many batches this rank gets of the loop's epoch, once that is final."""
        s = self.steps
        return s.told[self.ended] if s is not None and self.ended in s.finals else None

    def gated(self) -> bool:
        """Whether the next batch may not be handed over, since the epoch is not known to have it."""
        s = self.steps
        return s is not None and s.counted and s.handed >= s.told.get(self.ended, 0)

    def wants_more(self) -> bool:
        """Whether fewer shards wait than streams may be opened, or none is left of the open epoch."""
        return sum(not p.open for p in self.pieces) < self.streams or self.epoch_idle()

    def epoch_idle(self) -> bool:
        """Whether all that is held of the open epoch went into batches."""
        return not self.pieces or self.pieces[0].taken.epoch > self.reading

    def waits(self) -> bool:
        """Whether the master has to say more before there is anything to stream, or to hand over."""
        return self.epoch_idle() or (self.gated() and not self.over())

    def whole(self, rows: int) -> bool:
        """Whether a batch of so many rows wants no more, as far as is known."""
        return rows == self.batch_size or (self.drained and self.epoch_idle() and not self.counted)

    def may_grow(self, rows: int) -> bool:
        """Whether there are rows for a batch that seemed to be the epoch's last, short one."""
        return rows < self.batch_size and any(p.queue and p.taken.epoch == self.reading for p in self.pieces)

    def forget_closed(self) -> None:
        """Notes that all of the epochs is consumed that the master has closed and the training loop has not ended.

        Where the loop began in such an epoch, it does not know what its rank consumed of it before.
        """
        if self.ended < self.epoch:
            whole = Interval(Position(self.ended, 0, 0, 0, 0), Position(self.epoch, 0, 0, 0, 0))
            b = self.base
            self.base = replace(b, consumed=union(b.consumed, (whole,)))
            self.consumed = from_epoch(self.consumed, self.epoch)

    def may_pad(self) -> bool:
        """Whether a batch of padding alone may be handed over.

        Nothing of the epoch is left for this rank then, and some rank has the rows of this step.
        """
        s = self.steps
        if s is None or s.counted or s.handed >= s.told.get(self.ended, 0):
            return False
        return self.ended < self.epoch or (self.drained and self.epoch_idle())

    def ready(self, making: int) -> int:
        """Padded: how many batches the training loop will get of its epoch at least; making: rows of the next one."""
        s = self.steps
        if s is None or s.counted:
            return 0
        if self.ended < self.epoch:
            return s.handed
        rows = making + sum(c.rows for p in self.pieces if p.taken.epoch == self.epoch for c in p.queue)
        return s.handed + min(-(-rows // s.batch_size), MAX_AHEAD)

    def request(self, req: pb.SyncRequest, making: int) -> None:
        """Fills in what a Sync says of this ledger."""
        s = self.steps
        if s is not None:
            s.reported = self.ready(making)
            req.steps.epoch, req.steps.handed, req.steps.ready = self.ended, s.handed, s.reported
        req.consumed.extend(to_proto(from_epoch(self.consumed, self.epoch)))
        req.released.extend(to_proto(self.released))
        req.wants_more = self.wants_more()
        req.base_version = self.base.version
        req.refused.extend(p.refused for p in self.pieces if p.refused is not None and not p.complete)

    def apply(self, reply: pb.SyncReply) -> None:
        """Takes over the answer to the request made last."""
        self.epoch = max(self.epoch, reply.closed_epochs)
        self.streams = max(1, reply.streams)
        self.drained = reply.drained
        if reply.base_version != self.base.version:
            self.set_base(reply)
        if self.steps is not None:
            self.steps.learn(list(reply.steps))
            self._forget_ended()
            if not self.steps.counted:
                self.steps.final = self.epoch
                self.forget_closed()
        if not reply.unchanged:
            self._grant(reply.grants)
        self.release(from_proto(reply.release))
        self.reconcile()

    def set_base(self, reply: pb.JoinReply | pb.SyncReply) -> None:
        """Takes over a newer base.

        What the master forgot of epochs that it closed is kept until the training loop has ended them too.
        """
        merged = union(self.base.consumed, from_proto(reply.base))
        self.base = Base(
            reply.base_version,
            merged,
            tuple(reply.members),
            tuple(reply.departed),
            tuple(reply.departed_rows),
            reply.skipped_row_groups,
        )

    def _grant(self, messages: Sequence[pb.Grant]) -> None:
        """Replaces what is held. Tickets that did not change are not parsed again."""
        known = {g.interval.start.shard_start(): g for g in self.grants}
        grants = []
        for m in messages:
            interval = interval_from_proto(m.interval)
            g = known.get(interval.start.shard_start())
            if g is not None and g.raw == m.ticket:
                grants.append(replace(g, interval=interval, lane=m.lane, first=m.first, rows=m.rows))
            else:
                grants.append(parse_grant(m))
        self.grants = grants

    def release(self, asked: Set) -> None:
        """Gives back what the master asked for, except rows that are consumed.

        Those of the batch in the making stay, too, unless outputs are counted: this rank has others for it then, and
        another one may wait for these.
        """
        if self.counted and subtract(make_set(self.pending), asked) != make_set(self.pending):
            self.pending, self.discard = [], True
        self.released = subtract(asked, self._gone())
        if self.released:
            self.grants = [
                replace(g, interval=iv) for g in self.grants for iv in subtract((g.interval,), self.released)
            ]

    def _gone(self) -> Set:
        """What needs no stream any more: consumed, or in the batch in the making."""
        return union(self.consumed, make_set(self.pending))

    def reconcile(self) -> None:
        """Makes pieces of all that is granted and not gone.

        It trims or drops the pieces that there are, renews their tickets, and adds what is missing.
        """
        self._check_pending()
        gone = self._gone()
        left: dict[Position, Set] = {}
        by_shard: dict[Position, Grant] = {}
        for g in self.grants:
            shard = g.interval.start.shard_start()
            if shard.epoch >= self.reading:
                by_shard[shard] = g
                left[shard] = union(left.get(shard, ()), subtract((g.interval,), gone))
        for p in list(self.pieces):
            there = next((iv for iv in left.get(p.shard, ()) if iv.start <= p.taken < iv.end), None)
            if there is None:
                self._drop(p)
                self._remove(p)
                continue
            start = p.taken
            self._trim(p, there.end)
            left[p.shard] = subtract(left[p.shard], (Interval(start, p.end),))
            p.renew(by_shard[p.shard])
        self.pieces += [Piece.of(iv, by_shard[shard]) for shard, ivs in left.items() for iv in ivs]
        self.pieces.sort(key=lambda p: p.taken)

    def _check_pending(self) -> None:
        """Throws the batch in the making away if some of its rows are not held any more, or its epoch does not have it.

        The lease had ended, and the master gave them to others. What is still held is read again.
        """
        held = from_epoch(make_set(g.interval for g in self.grants), self.reading)
        if not covers(held, make_set(self.pending)):
            self.pending, self.discard = [], True

    def _trim(self, p: Piece, to: Position) -> None:
        """Gives up a piece's positions from `to` on."""
        before = p.bytes
        self._pass(p.trim(to))
        self.queued += p.bytes - before
        if p.complete:
            p.cancel()
        self._retire(p)

    def _drop(self, p: Piece) -> None:
        self.queued -= p.bytes
        p.drop()

    def startable(self) -> Piece | None:
        """The next piece to open.

        A piece of the open epoch that came late takes the place of the last piece of a later epoch, whose rows wait
        for it anyway.
        """
        first = next((p for p in self.pieces if not p.open), None)
        opened = [p for p in self.pieces if p.open]
        if first is None or len(opened) < self.streams:
            return first
        epoch = self.reading
        last = next((p for p in reversed(opened) if p.refused is None), None)
        if last is not None and first.taken.epoch == epoch and all(p.taken.epoch != epoch for p in opened):
            self._park(last)
            return first
        return None

    def _park(self, p: Piece) -> None:
        """Replaces an open piece by one that has not begun."""
        self._drop(p)
        self.pieces[self.pieces.index(p)] = Piece.of(Interval(p.taken, p.end), p.grant)

    def push(self, p: Piece, record: Received, meta: stream_pb2.BatchMeta, first: bool) -> bool:
        """Takes in a received record. Returns whether the piece wants no more."""
        low, high, after = p.place(meta, first)
        self._check_count(p, high - low, after)
        self._seq += 1
        before = p.bytes
        self._pass(p.push(record, meta, low, high, after, self._seq))
        self.queued += p.bytes - before
        self.peak = max(self.peak, self.queued)
        self._retire(p)
        return p.complete

    def end(self, p: Piece, first: bool) -> None:
        """Marks a piece whose stream ended well: no more rows lie before its end. first: no batch came before."""
        if not first and not p.complete and p.received.k > 0:
            raise StreamError(f"stream ended at {p.received}, inside a window: rows are missing")
        self._check_count(p, 0, p.end)
        self._pass(p.skip(p.end))
        self._retire(p)

    def _check_count(self, p: Piece, rows: int, after: Position) -> None:
        """Checks that a piece may have so many more rows, up to a position, where outputs were counted."""

    def _pass(self, interval: Interval | None) -> None:
        """Notes positions that have no rows: like rows they are consumed with the next hand-over, under the lease."""
        if interval is not None:
            self.pending.append(interval)

    def _retire(self, p: Piece) -> None:
        if p.finished:
            self._remove(p)

    def _remove(self, p: Piece) -> None:
        if p in self.pieces:
            self.pieces.remove(p)

    def may_receive(self, p: Piece, size: int, budget: int) -> bool:
        """Whether a stream may receive a message of about so many bytes within the budget."""
        if not p.queue:
            return True
        return p.bytes + size <= budget // self.streams and self.queued + size <= budget

    def take(self, rows: int) -> tuple[Chunk, Piece] | None:
        """Moves up to so many rows of the epoch that is read into the batch in the making, in order of arrival."""
        ready = [p for p in self.pieces if p.queue and p.taken.epoch == self.reading]
        if not ready:
            return None
        p = min(ready, key=lambda q: q.queue[0].seq)
        chunk, interval = self._take(p, rows)
        self.pending.append(interval)
        return chunk, p

    def _take(self, p: Piece, rows: int) -> tuple[Chunk, Interval]:
        """Takes up to so many rows of a piece."""
        before = p.bytes
        taken = p.take(rows)
        self.queued += p.bytes - before
        self._retire(p)
        return taken

    def hand_over(self, intervals: Sequence[Interval]) -> None:
        """Makes intervals that were pending consumed. Done twice, or done again after half of it, it is the same."""
        self.consumed = make_set((*intervals, *self.consumed))
        done = set(intervals)
        self.pending = [iv for iv in self.pending if iv not in done]

    def enter(self, epoch: int) -> None:
        """Notes that the training loop is in an epoch, and has ended those before it."""
        if epoch > self.ended:
            if self.counted and self.steps is not None:
                self.dropped_rows[self.ended] = self.steps.dropped.get(self.ended, 0)
                self._drop_rest(epoch)
            self.ended = epoch
            self._forget_ended()
            if self.steps is not None:
                self.steps.enter(epoch)

    def _forget_ended(self) -> None:
        """Forgets what was consumed of epochs that the training loop has ended and the master has closed."""
        epoch = min(self.ended, self.epoch) if self.counted else self.ended
        self.consumed = from_epoch(self.consumed, epoch)
        self.base = replace(self.base, consumed=from_epoch(self.base.consumed, epoch))

    def _drop_rest(self, epoch: int) -> None:
        """Forgets what is left of the epochs before one: it is in no step."""
        for p in [p for p in self.pieces if p.taken.epoch < epoch]:
            self._drop(p)
            self._remove(p)
        if any(iv.start.epoch < epoch for iv in self.pending):
            self.pending, self.discard = [], True

    def snapshot(self, rows: int) -> Snapshot:
        """The present state, after so many rows."""
        handed = 0 if self.steps is None else self.steps.handed
        base = replace(self.base, consumed=from_epoch(self.base.consumed, self.ended))
        return Snapshot(self.ended, base, from_epoch(self.consumed, self.ended), handed, rows, self.start(handed))

    def start(self, handed: int) -> pb.LaneStart | None:
        """Order deterministic: where planning may begin for a loop that had so many batches of its epoch."""
        return None

    def addresses(self) -> set[str]:
        """Those of all candidates."""
        return {address for p in self.pieces for _, address in p.grant.workers}

    def held(self) -> Set:
        """What is pending or in pieces."""
        return union(make_set(self.pending), make_set(Interval(p.taken, p.end) for p in self.pieces))
