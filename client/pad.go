package client

import (
	"github.com/apache/arrow/go/v15/arrow"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
	"github.com/penstock-ml/penstock/internal/wire"
)

// Where the spec pads last batches and the order is fast, every rank hands over equally many batches in an epoch, each
// of batch_size rows, so that ranks which wait for each other after each batch (an all-reduce) do not wait for ever.
// master/session/steps.go has the rules and why they hold.

// maxAhead bounds how many steps a rank announces that it has not made. Rows for them are not given back, and all ranks would have to make
// them, with nothing but padding, should its rows go to others in a lost lease.
const maxAhead = 4

// padded is the pacing of ranks that pad.
type padded struct{ free }

func (p padded) counts() bool { return true }
func (p padded) behind() bool { return p.ledger.ended < p.ledger.epoch }

// mayPad reports whether nothing of the open epoch is left for this rank, and some rank has the rows of this step.
func (p padded) mayPad() bool {
	l := p.ledger
	return l.handed < l.told[l.ended].steps && (p.behind() || l.through && l.epochIdle())
}

// report announces steps, too.
func (p padded) report(req *pb.SyncRequest, making int) {
	l := p.ledger
	if p.ahead() {
		l.reported = 0
		p.free.report(req, making)
		return
	}
	l.reported = p.ready(making)
	req.Steps = &pb.RankSteps{Epoch: l.ended, Handed: l.handed, Ready: l.reported}
}

func (p padded) hand(h *handover, ends bool) (*Batch, error) { return h.handRows(p, ends) }

// ready is how many batches of its epoch the training loop will get at least. making is the number of rows in the batch
// in the making.
func (p padded) ready(making int) uint64 {
	l := p.ledger
	if p.behind() || p.ahead() {
		return l.handed
	}
	rows := making
	for _, piece := range l.pieces {
		if piece.taken.Epoch != l.epoch {
			break
		}
		for _, c := range piece.queue {
			rows += c.hi - c.lo
		}
	}
	return l.handed + min(uint64((rows+l.batch-1)/l.batch), maxAhead)
}

// keeps is a row for each step that was announced: all ranks make those, and a step in which none of them has a row means nothing to them.
func (p padded) keeps(making int) position.Set {
	l := p.ledger
	if l.reported <= l.handed || p.behind() || p.ahead() {
		return nil
	}
	var kept position.Set
	need := int(l.reported-l.handed-1)*l.batch + 1 - making
	for _, piece := range l.pieces {
		if need <= 0 || piece.taken.Epoch != l.epoch {
			break
		}
		to := piece.taken
		for _, c := range piece.queue {
			if need > 0 {
				to, need = c.to, need-(c.hi-c.lo)
			}
		}
		kept = append(kept, position.Interval{From: piece.taken, To: to})
	}
	return position.NewSet(kept...)
}

// pad appends rows of zeros, empty lists and provenance -1.
func (b *buffers) pad(rows int) {
	for i := range b.columns {
		c, o := &b.layout.columns[i], &b.columns[i]
		switch n := rows * c.width; {
		case c.width == 0:
			// Where they are those of another column, both write the same to the same place.
			o.offsets = appendCopies(o.memory, o.offsets, o.offsets[len(o.offsets)-1], rows)
		case c.role == roleFile:
			o.i32 = appendCopies(o.memory, o.i32, -1, n)
		case c.role == roleRow:
			o.i64 = appendCopies(o.memory, o.i64, -1, n)
		default:
			o.zeros(c.elem, n)
		}
	}
	b.rows += rows
}

func (o *outColumn) zeros(elem arrow.Type, n int) {
	switch elem {
	case arrow.FLOAT32:
		o.f32 = appendCopies(o.memory, o.f32, 0, n)
	case arrow.FLOAT64:
		o.f64 = appendCopies(o.memory, o.f64, 0, n)
	case arrow.INT32:
		o.i32 = appendCopies(o.memory, o.i32, 0, n)
	case arrow.INT64:
		o.i64 = appendCopies(o.memory, o.i64, 0, n)
	case arrow.BOOL:
		o.bools = appendCopies(o.memory, o.bools, false, n)
	default:
		o.u8 = appendCopies(o.memory, o.u8, 0, n)
	}
}

// appendCopies appends n copies of a value.
func appendCopies[T wire.Value](m *allocator, dst []T, value T, n int) []T {
	have := len(dst)
	dst = reserve(m, dst, n, 0)[:have+n]
	for i := range dst[have:] {
		dst[have+i] = value
	}
	return dst
}
