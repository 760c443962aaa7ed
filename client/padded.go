package client

import (
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// Where the spec pads last batches and the order is fast, every rank hands over equally many batches in an epoch, each
// of batch_size rows, so that ranks which wait for each other after each batch (an all-reduce) do not wait for ever.
// master/session/pad.go has the rules and why they hold.

// maxAhead bounds how many steps a rank announces that it has not made. Rows of those that the master counted are not
// given back, and all ranks would have to make them, with nothing but padding, should its rows go to others in a lost
// lease.
const maxAhead = 4

// padded is the pacing of ranks that pad.
type padded struct {
	free
	takesOver bool // ranks from those that have more: rows are left out. Else each has its share, and gives all beyond
}

func (p padded) counts() bool { return true }
func (p padded) pads() bool   { return true }

// lags reports whether the loop is in an epoch that the master has closed, and gets more batches of it.
func (p padded) lags() bool { return p.ledger.ended < p.ledger.epoch }

// next is padding once nothing of an epoch is left for this rank, as long as some rank has the rows of a step.
func (p padded) next(have int, ends bool) next {
	l := p.ledger
	due := l.handed < l.planned[l.ended].steps
	if p.lags() {
		switch {
		case l.ended >= l.final: // the master is still to say how many steps it has
			return nextWaits
		case due:
			return nextPadding
		}
		return nextEpochEnd
	}
	n := p.free.next(have, ends)
	if n == nextWaits && have == 0 && !p.ahead() && due && l.through && l.epochIdle() {
		return nextPadding
	}
	return n
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

// hasNews reports whether others have more steps to make: it announces more, or made one that the master did not count
// when it was announced.
func (p padded) hasNews(making int) bool {
	l := p.ledger
	return !p.ahead() && (p.ready(making) > l.reported || l.handed > l.planned[l.ended].steps)
}

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

// gives keeps a row for each step that was announced and counted: all ranks make those, and a step in which none of
// them has a row means nothing to them.
func (p padded) gives(asked position.Set, making int) position.Set {
	given := asked.Subtract(p.ledger.gone())
	if p.takesOver {
		given = p.free.gives(asked, making)
	}
	return given.Subtract(p.keeps(making))
}

func (p padded) keeps(making int) position.Set {
	l := p.ledger
	counted := min(l.reported, l.planned[l.ended].steps)
	if counted <= l.handed || p.lags() || p.ahead() {
		return nil
	}
	var kept position.Set
	need := int(counted-l.handed-1)*l.batch + 1 - making
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
