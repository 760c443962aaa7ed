package client

import (
	"io"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// counted is the pacing where outputs are counted: a rank hands over its i-th batch once the epoch has i steps, and when it has handed over
// a final number of them it goes on with the next epoch, whatever the master has closed.
type counted struct{ *ledger }

func (l counted) counts() bool    { return true }
func (l counted) current() uint32 { return l.ended }
func (l counted) ahead() bool     { return false }
func (l counted) behind() bool    { return false }
func (l counted) starved() bool   { return l.epochIdle() || l.handed >= l.told[l.ended].steps }
func (l counted) idles() bool     { return false }
func (l counted) yields() bool    { return true }

func (l counted) keeps(int) position.Set { return nil }

func (l counted) mayPad() bool { return false }

// report tells of the batches of the epoch behind the open one at most.
func (l counted) report(req *pb.SyncRequest, _ int) {
	if l.ended <= l.epoch+1 {
		req.Steps = &pb.RankSteps{Epoch: l.ended, Handed: l.handed}
		return
	}
	req.Steps = &pb.RankSteps{Epoch: l.epoch + 1}
	if l.ended == l.epoch+2 {
		req.Steps.Handed = l.before
	}
}

// over reports whether the training loop has handed over all steps of its epoch.
func (l counted) over() bool {
	e := l.told[l.ended]
	return e.final && l.handed >= e.steps
}

// hand returns the batch of a step.
func (l counted) hand(s *Session, ends bool) (*Batch, error) {
	have := s.made()
	switch {
	case l.ended >= s.epochs:
		return nil, io.EOF
	case l.over():
		if n := l.told[l.ended].dropped; n > 0 {
			s.stats.Dropped += int64(n)
			s.log.Info("what was left of an epoch, less than a batch of each rank, is dropped", "event", "rows_dropped", "epoch", l.ended, "rows", n)
		}
		l.endEpoch(have)
		signal(s.wake)
		signal(s.slot)
		signal(s.ready)
		if ends {
			return nil, ErrEpochEnd
		}
		return nil, nil
	case l.handed >= l.told[l.ended].steps, !l.order().filled(have), !s.leased():
		return nil, nil
	}
	blank := have == 0 && !s.pads
	if !blank {
		s.beginBatch()
		if err := s.complete(s.build); err != nil { // before its rows count as consumed
			return nil, err
		}
	}
	l.handOver()
	l.order().begin()
	if blank {
		l.handed++ // a last step, of which this rank's lanes have nothing
		l.blank++
		s.checkpointing.pass(s.stepsMade())
		signal(s.wake)
		signal(s.ready)
		return nil, nil
	}
	return s.finishBatch(), nil
}
