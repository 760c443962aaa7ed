package client

import (
	"context"
	"math"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// piece is a granted run of positions inside one shard, and how far its rows came:
//
//	taken ─ rows in queue ─ received ─ rows to come ─ to
type piece struct {
	shard    position.Position // where its shard starts
	taken    position.Position // rows before it went into batches
	received position.Position // rows before it came from a worker; the cursor at which a stream reopens
	to       position.Position
	ticket   *pb.SignedTicket
	workers  []*pb.Worker // candidates, best first
	file     string

	// In order deterministic: the lane, the row of it that comes at taken, and how many are to come from received on.
	lane     uint32
	row, due uint64
	// next begins where this one ends, in the one window that this one lies in; nil: there is none. follows says that
	// the stream of the piece before reads on into this one, which has no stream of its own.
	next    *piece
	follows bool

	queue []chunk
	leftOut
	bytes int64 // of the queue
	open  bool  // has a stream, or had one and its rows are not all taken
	gone  bool  // dropped: not held any more, or parked

	refused *pb.RefusedStream // by every worker, because of the data

	cancel context.CancelFunc // of the stream, once open
	room   chan struct{}      // wakes the stream: the queue got shorter
	fresh  chan struct{}      // wakes the stream: the candidates changed
}

// chunk is a part of a received record, of one window.
type chunk struct {
	rec    *wireRecord
	lo, hi int               // its rows in rec
	at, to position.Position // of row lo, and after row hi-1
	seq    uint64            // order of arrival
	bytes  int64             // their part of rec's memory
}

func newPiece(iv position.Interval, g grant) *piece {
	return &piece{
		shard: iv.From.ShardStart(), taken: iv.From, received: iv.From, to: iv.To,
		ticket: g.ticket, workers: g.workers, file: g.file, lane: g.lane, row: g.first, due: g.rows,
		room: make(chan struct{}, 1), fresh: make(chan struct{}, 1),
	}
}

func (p *piece) complete() bool { return !p.received.Less(p.to) }

func (p *piece) finished() bool { return p.complete() && len(p.queue) == 0 }

// place finds which rows, lo to hi, of an incoming batch are the piece's and new, and the cursor after them. A gap is
// an error: rows would be lost.
func (p *piece) place(m *pb.BatchMeta) (lo, hi int, after position.Position, err error) {
	cur, rows := p.received, uint64(m.GetRows())
	gap := func(why string) (int, int, position.Position, error) {
		return 0, 0, cur, status.Errorf(codes.InvalidArgument,
			"batch of window %d, rows %d to %d, does not follow %v: "+
				"%s: "+sameRelease, m.Window, m.K, m.K+rows, cur, why)
	}
	switch {
	case m.Window == math.MaxUint32:
		return gap("no such window")
	case m.Window < cur.Window:
		return 0, 0, cur, nil // all of it came before
	case m.Window == cur.Window && m.K > cur.K, m.Window > cur.Window && m.K != 0:
		return gap("rows are missing")
	case m.Window > cur.Window && cur.K > 0:
		return gap("the window before was not ended")
	case m.Window == cur.Window && m.K+rows < cur.K && m.Last:
		return gap("the window ends before rows that came from another worker")
	case m.Window == cur.Window:
		lo = int(min(cur.K-m.K, rows))
	}
	after = p.shard
	after.Window, after.K = m.Window, m.K+rows
	if m.Last {
		after.Window, after.K = m.Window+1, 0
	}
	if after.Less(cur) {
		return 0, 0, cur, nil
	}
	hi = int(rows)
	if p.to.Less(after) {
		after = p.to
	}
	hi = max(lo, min(hi, p.rowsBefore(m.Window, m.K, rows)))
	return lo, hi, after, nil
}

// sameRelease ends messages about rows that are not as others were, or said.
const sameRelease = "do all workers run the same release, and are the files as they were?"

// lent is how many records in the queue have memory of a worker's.
func (p *piece) lent() (n int) {
	for _, c := range p.queue {
		if c.rec.batch.Lent {
			n++
		}
	}
	return n
}

// count notes that rows are received, up to a position. In order deterministic others were told how many rows there
// are.
func (p *piece) count(rows int, after position.Position) error {
	if n := uint64(rows); n > p.due || n < p.due && !after.Less(p.to) {
		return status.Errorf(codes.InvalidArgument, "sends %d rows up to %v where %d were counted: "+sameRelease,
			rows, after, p.due)
	}
	p.due -= uint64(rows)
	return nil
}

// rowsBefore is how many of a batch's rows, from row k of a window, lie before p.to.
func (p *piece) rowsBefore(window uint32, k, rows uint64) int {
	if p.to.ShardStart() != p.shard || window < p.to.Window {
		return int(rows)
	}
	if window > p.to.Window || k >= p.to.K {
		return 0
	}
	return int(min(rows, p.to.K-k))
}

// push queues a placed batch. Without rows it only moves the cursor; the interval that then needs no hand-over is
// returned, and is empty otherwise.
func (p *piece) push(
	rec *wireRecord, m *pb.BatchMeta, lo, hi int, after position.Position, seq uint64,
) position.Interval {
	if lo == hi {
		return p.skip(after)
	}
	at := p.shard
	at.Window, at.K = m.GetWindow(), m.GetK()+uint64(lo)
	rec.retain()
	bytes := rec.bytes * int64(hi-lo) / int64(rec.rows)
	p.queue = append(p.queue, chunk{rec: rec, lo: lo, hi: hi, at: at, to: after, seq: seq, bytes: bytes})
	p.bytes += bytes
	p.received = after
	return position.Interval{}
}

// skip moves the received cursor over positions without rows.
func (p *piece) skip(to position.Position) position.Interval {
	p.received = to
	if n := len(p.queue); n > 0 {
		p.queue[n-1].to = to
		return position.Interval{}
	}
	iv := position.Interval{From: p.taken, To: to}
	p.taken = to
	return iv
}

// take moves up to n rows off the head of the queue. Their record is to be released once they were copied.
func (p *piece) take(n int) (c chunk, iv position.Interval) {
	head := &p.queue[0]
	c = *head
	iv.From = p.taken
	if n < head.hi-head.lo {
		c.rec.retain()
		c.hi = c.lo + n
		head.lo += n
		head.at.K += uint64(n)
		p.taken = head.at
	} else {
		p.taken = head.to
		p.bytes -= head.bytes
		p.queue = slices.Delete(p.queue, 0, 1)
	}
	p.row += uint64(c.hi - c.lo)
	iv.To = p.taken
	return c, iv
}

// trim gives up all from to on, which lies after p.taken. Like push it returns the interval that needs no
// hand-over.
func (p *piece) trim(to position.Position) position.Interval {
	if !to.Less(p.to) {
		return position.Interval{}
	}
	p.to = to
	p.leftOut.trim(to)
	if p.received.Less(to) {
		return position.Interval{}
	}
	keep := p.queue[:0]
	for _, c := range p.queue {
		n := p.rowsBefore(c.at.Window, c.at.K, uint64(c.hi-c.lo))
		if n == 0 {
			p.bytes -= c.bytes
			c.rec.release()
			continue
		}
		c.hi = c.lo + n
		keep = append(keep, c)
	}
	clear(p.queue[len(keep):])
	p.queue = keep
	return p.skip(to)
}

// drop ends the piece: its stream stops, and its queued rows are forgotten.
func (p *piece) drop() {
	p.gone = true
	for _, c := range p.queue {
		c.rec.release()
	}
	p.queue, p.bytes, p.follows = nil, 0, false
	for q := p.next; q != nil && q.follows; q = q.next {
		q.open, q.follows = false, false // the stream does not read on
	}
	if p.cancel != nil {
		p.cancel()
	}
}
