package client

import (
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// ledger keeps what this rank holds, received, took and consumed. It does no I/O and knows no time.
type ledger struct {
	steps
	holdings
	pacing   pacing
	epoch    uint32             // the open one: the master closed those before it
	base     base               // of State
	indexes  []*pb.BlockIndexes // of State, of blocks that somebody has not consumed yet
	consumed position.Set       // handed over
	skips    skips
	pending  []position.Interval // in the batch in the making, or without rows
	retired  bool                // a piece has ended since rows were handed over
	discard  bool                // the batch in the making holds rows that this rank does not hold any more
	finished bool                // the master has closed all epochs
	alone    bool                // there is no other rank
	idle     bool                // the request made last said so
	drained  bool                // all of the open epoch is granted to someone
	through  bool                // nothing of it is left for this rank, unless another one dies
}

// base is what others consumed who are no longer there, and who is.
type base struct {
	version           uint64
	consumed          position.Set
	members, departed []uint32
	departedRows      []int64 // that each of departed handed over
	skipped           uint32  // row groups
	skips             position.Tally
}

// wantsMore reports whether fewer shards wait than streams may be opened, or none is left of the open epoch.
func (l *ledger) wantsMore() bool {
	waiting := 0
	for _, p := range l.pieces {
		if !p.open {
			waiting++
		}
	}
	return waiting < l.streams || l.epochIdle()
}

// epochIdle reports whether all that is held of the current epoch went into batches.
func (l *ledger) epochIdle() bool {
	return len(l.pieces) == 0 || l.pieces[0].taken.Epoch > l.current()
}

// request fills in what a Sync says of this ledger.
func (l *ledger) request(req *pb.SyncRequest) {
	req.Consumed = from(l.consumed, l.epoch).Proto()
	req.Released = l.released.Proto()
	req.WantsMore = l.wantsMore()
	req.BaseVersion = l.base.version
	req.Refused = l.refusals()
	req.FromEpoch = l.left
	l.skips.request(req, l.epoch)
	l.idle = l.pacing.idles()
	req.Idle = l.idle
}

// from is the part of a set that lies in an epoch or later.
func from(s position.Set, epoch uint32) position.Set {
	return s.Subtract(position.Set{{To: position.Position{Epoch: epoch}}})
}

// apply takes over the answer to the request made last. making is the number of rows in the batch in the making.
func (l *ledger) apply(reply *pb.SyncReply, making int) error {
	l.epoch = max(l.epoch, reply.GetClosedEpochs())
	l.skips.told = l.skips.sent
	l.finished = reply.GetFinished() || l.epoch >= l.epochs
	l.streams = max(1, int(reply.GetStreams()))
	l.drained = reply.GetDrained()
	l.indexes = reply.GetIndexes()
	if v := reply.GetBaseVersion(); v != l.base.version {
		l.setBase(reply)
	}
	if !reply.GetUnchanged() {
		if err := l.grant(reply.GetGrants()); err != nil {
			return err
		}
	}
	l.learn(reply)
	l.release(position.SetFromProto(reply.GetRelease()), making)
	l.order().reconcile()
	l.through = l.drained && (l.alone || l.idle && l.epochIdle())
	return nil
}

// setBase takes over a newer base, as there is whenever an epoch was closed. What the master forgot of epochs that it
// closed is kept until the training loop has ended them too.
func (l *ledger) setBase(reply based) {
	l.base = base{
		version: reply.GetBaseVersion(), consumed: l.base.consumed.Union(position.SetFromProto(reply.GetBase())),
		members: reply.GetMembers(), departed: reply.GetDeparted(), departedRows: reply.GetDepartedRows(),
		skipped: reply.GetSkippedRowGroups(),
		skips:   l.base.skips.Max(position.TallyFromProto(reply.GetBaseSkips())),
	}
	l.forget()
}

// based is what the replies to Join and Sync both say of a base.
type based interface {
	GetBaseVersion() uint64
	GetBase() []*pb.Interval
	GetMembers() []uint32
	GetDeparted() []uint32
	GetDepartedRows() []int64
	GetSkippedRowGroups() uint32
	GetBaseSkips() []*pb.EpochRows
}

// gone is what needs no stream any more: consumed, or in the batch in the making.
func (l *ledger) gone() position.Set {
	return l.consumed.Union(position.NewSet(l.pending...))
}

// trim gives up a piece's positions from to on.
func (l *ledger) trim(p *piece, to position.Position) {
	before := p.bytes
	l.pass(p, p.trim(to))
	l.queued += p.bytes - before
	if p.complete() && p.cancel != nil {
		p.cancel()
	}
	l.retire(p)
}

// renew takes over a newer ticket.
func (p *piece) renew(g grant) {
	changed := !slices.EqualFunc(p.workers, g.workers, func(a, b *pb.Worker) bool { return proto.Equal(a, b) })
	p.ticket, p.workers = g.ticket, g.workers
	if changed {
		signal(p.fresh)
	}
}

// push takes in a received record. It reports whether the piece wants no more.
func (l *ledger) push(p *piece, rec *wireRecord, m *pb.BatchMeta) (complete bool, err error) {
	lo, hi, after, err := p.place(m)
	if err != nil {
		return false, err
	}
	if m.GetRows() > 0 || m.GetLast() { // it does not only say that the stream is alive
		news, err := p.learn(m, p.shard, p.received, after)
		if err != nil {
			return false, err
		}
		if news {
			l.skips.name(p.shard.Epoch, p.file, m.GetBadRows())
		}
	}
	if err := l.order().received(p, hi-lo, after); err != nil {
		return false, err
	}
	l.seq++
	before := p.bytes
	l.pass(p, p.push(rec, m, lo, hi, after, l.seq))
	l.queued += p.bytes - before
	l.peak = max(l.peak, l.queued)
	l.retire(p)
	return p.complete(), nil
}

// end marks a piece whose stream ended well: no more rows lie before its end.
func (l *ledger) end(p *piece) error {
	if !p.complete() && p.received.K > 0 {
		return status.Errorf(codes.InvalidArgument, "stream ended at %v, inside a window: rows are missing: "+
			sameRelease, p.received)
	}
	if err := l.order().received(p, 0, p.to); err != nil {
		return err
	}
	l.pass(p, p.skip(p.to))
	l.retire(p)
	return nil
}

// pass notes that a piece's taken cursor moved, by positions without rows if any.
func (l *ledger) pass(p *piece, without position.Interval) {
	l.order().pass(without)
	l.skips.taken(p)
}

// retire removes a finished piece.
func (l *ledger) retire(p *piece) {
	if p.finished() {
		l.remove(p)
		l.retired = true
	}
}

func (l *ledger) remove(p *piece) {
	is := func(q *piece) bool { return q == p }
	l.pieces = slices.DeleteFunc(l.pieces, is)
	l.order().forget(p)
}

// readAhead is how many batches the rows that wait must fill before a stream waits for lent memory to be used. Until
// then it is copied.
const readAhead = 2

// mayReceive reports whether a stream may receive a message of about n bytes within the budget. Rows that wait
// after it are of the same window.
func (l *ledger) mayReceive(p *piece, n, budget int64) bool {
	if len(p.queue) == 0 || p.leads() {
		return true
	}
	o := l.order()
	return !o.waitsForLent(p) && p.bytes+n <= budget/int64(o.shares()) && l.queued+n <= budget
}

// takeFrom moves up to n rows of a piece's queue into the batch in the making.
func (l *ledger) takeFrom(from *piece, n int) chunk {
	before := from.bytes
	c, iv := from.take(n)
	l.queued += from.bytes - before
	l.pass(from, iv)
	for p := range l.waits {
		signal(p.room)
	}
	l.retire(from)
	return c
}

// handOver makes the rows of the batch in the making consumed. It reports whether that was the rest of a shard, while
// more are wanted: the master may grant some for it, or end the epoch. Of other rows it hears in time.
func (l *ledger) handOver() (ask bool) {
	l.consumed = position.NewSet(append(l.pending, l.consumed...)...)
	l.pending = l.pending[:0]
	l.skips.handOver()
	ask, l.retired = l.retired && l.wantsMore(), false
	return ask
}

// enter notes that the training loop is in an epoch, and has ended those before it.
func (l *ledger) enter(epoch uint32) {
	if epoch > l.ended {
		delete(l.planned, l.ended)
		l.ended, l.handed, l.before = epoch, 0, l.handed
		l.order().begin()
		l.forget()
	}
}

// forget drops what was consumed of epochs that both the master and the training loop have ended.
func (l *ledger) forget() {
	over := min(l.ended, l.epoch)
	l.consumed, l.base.consumed = from(l.consumed, over), from(l.base.consumed, over)
	l.skips.consumed, l.base.skips = l.skips.consumed.From(over), l.base.skips.From(over)
}
