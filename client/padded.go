package client

import (
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// Where the spec pads last batches and the order is fast, every rank hands over equally many batches in an epoch, each
// of batch_size rows, so that ranks which wait for each other after each batch (an all-reduce) do not wait for ever.
// master/session/pad.go has the rules and why they hold.

// maxAhead bounds how many steps a rank announces that it has not made. Rows for them are not given back, and all ranks
// would have to make them, with nothing but padding, should its rows go to others in a lost lease.
const maxAhead = 4

// padded is the pacing of ranks that pad.
type padded struct{ free }

func (p padded) counts() bool { return true }
func (p padded) lags() bool   { return p.ledger.ended < p.ledger.epoch }

// mayPad reports whether nothing of the open epoch is left for this rank, and some rank has the rows of this step.
func (p padded) mayPad() bool {
	l := p.ledger
	return l.handed < l.planned[l.ended].steps && (p.lags() || l.through && l.epochIdle())
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
	if p.lags() || p.ahead() {
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

// keeps is a row for each step that was announced: all ranks make those, and a step in which none of them has a row
// means nothing to them.
func (p padded) keeps(making int) position.Set {
	l := p.ledger
	if l.reported <= l.handed || p.lags() || p.ahead() {
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
