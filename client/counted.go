package client

import (
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// counted is the pacing where outputs are counted: a rank hands over its i-th batch once the epoch has i steps, and
// when it has handed over a final number of them it goes on with the next epoch, whatever the master has closed.
type counted struct {
	ledger *ledger
	pad    bool // last batches: steps in which this rank has no rows are batches, too
}

func (p counted) counts() bool     { return true }
func (p counted) pads() bool       { return p.pad }
func (p counted) current() uint32  { return p.ledger.ended }
func (p counted) ahead() bool      { return false }
func (p counted) starved() bool    { return p.ledger.epochIdle() || !p.due() }
func (p counted) idles() bool      { return false }
func (p counted) hasNews(int) bool { return false }

// next is the batch of a step.
func (p counted) next(have int, _ bool) next {
	l := p.ledger
	switch {
	case l.ended >= l.epochs:
		return nextEnd
	case p.over():
		return nextEpochEnd
	case !p.due() || !l.order().filled(have):
		return nextWaits
	case have == 0 && !p.pad:
		return nextBlank
	}
	return nextBatch
}

// gives gives the batch in the making up if rows of it are asked for: this rank has others for it then, and another one
// may wait for these.
func (p counted) gives(asked position.Set, _ int) position.Set {
	l := p.ledger
	if len(asked.Intersect(position.NewSet(l.pending...))) > 0 {
		l.pending, l.discard = nil, true
	}
	return asked.Subtract(l.gone())
}

// report says how many batches it made, of the epoch after the open one at most.
func (p counted) report(req *pb.SyncRequest, _ int) {
	l := p.ledger
	if l.ended <= l.epoch+1 {
		req.Steps = &pb.RankSteps{Epoch: l.ended, Handed: l.handed}
		return
	}
	req.Steps = &pb.RankSteps{Epoch: l.epoch + 1}
	if l.ended == l.epoch+2 {
		req.Steps.Handed = l.before
	}
}

// due reports whether the loop's epoch has a step, as far as the master said, that was not handed over.
func (p counted) due() bool { return p.ledger.handed < p.ledger.planned[p.ledger.ended].steps }

// over reports whether the training loop has handed over all steps of its epoch.
func (p counted) over() bool {
	e := p.ledger.planned[p.ledger.ended]
	return e.final && p.ledger.handed >= e.steps
}
