package client

import (
	"io"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// counted is the pacing where outputs are counted: a rank hands over its i-th batch once the epoch has i steps, and
// when it has handed over a final number of them it goes on with the next epoch, whatever the master has closed.
type counted struct{ ledger *ledger }

func (p counted) counts() bool    { return true }
func (p counted) current() uint32 { return p.ledger.ended }
func (p counted) ahead() bool     { return false }
func (p counted) lags() bool      { return false }
func (p counted) starved() bool   { return p.ledger.epochIdle() || !p.due() }
func (p counted) idles() bool     { return false }
func (p counted) yields() bool    { return true }

func (p counted) keeps(int) position.Set { return nil }

func (p counted) mayPad() bool { return false }

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

// hand returns the batch of a step.
func (p counted) hand(h *handover, ends bool) (*Batch, error) {
	l := p.ledger
	have := h.made()
	switch {
	case l.ended >= h.terms.epochs:
		return nil, io.EOF
	case p.over():
		if n := l.planned[l.ended].dropped; n > 0 {
			h.handed.dropped += int64(n)
			h.terms.log.Info("what was left of an epoch, less than a batch of each rank, is dropped",
				"event", "rows_dropped", "epoch", l.ended, "rows", n)
		}
		l.endEpoch(have)
		signal(h.shared.wake)
		signal(h.shared.slot)
		signal(h.shared.ready)
		if ends {
			return nil, ErrEpochEnd
		}
		return nil, nil
	case !p.due(), !l.order().filled(have), !h.leased():
		return nil, nil
	}
	blank := have == 0 && !h.terms.pads
	if !blank {
		h.beginBatch()
		if err := h.complete(h.build); err != nil { // before its rows count as consumed
			return nil, err
		}
	}
	l.handOver()
	l.order().begin()
	if blank {
		l.handed++ // a last step, of which this rank's lanes have nothing
		l.blank++
		h.checkpointing.pass(h.stepsMade())
		signal(h.shared.wake)
		signal(h.shared.ready)
		return nil, nil
	}
	return h.finishBatch(), nil
}
