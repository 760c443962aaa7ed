package client

import (
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// pacing is how a training loop goes through its epochs. Each ending has one, and order DETERMINISTIC the one where
// outputs are counted.
type pacing interface {
	// counts reports whether ranks count steps.
	counts() bool
	// current is the epoch of which rows go into batches.
	current() uint32
	// ahead reports whether the training loop has left an epoch that other ranks still read: until the master closes
	// that, rows are buffered and none are handed over.
	ahead() bool
	// lags reports whether it is in an epoch that the master has closed, and gets more batches of it.
	lags() bool
	// starved reports whether it waits for what a master has to say.
	starved() bool
	// idles reports whether this rank can take over rows from others: it has none left of the epoch.
	idles() bool
	// yields reports whether rows are given back that are in the batch in the making: this rank has others for it then,
	// and another one may wait for these.
	yields() bool
	// keeps is what is not given back of rows that wait. making is the number of rows in the batch in the making.
	keeps(making int) position.Set
	// mayPad reports whether a batch of padding alone may be handed over.
	mayPad() bool
	// report fills in what a Sync says of the loop. making is the number of rows in the batch in the making.
	report(req *pb.SyncRequest, making int)
	// hand is handover.handOver. shared.mu must be held.
	hand(h *handover, ends bool) (*Batch, error)
}

// pacing is the session's.
func (l *ledger) pacing() pacing {
	switch {
	case l.counted:
		return counted{l}
	case l.pads:
		return padded{free{l}}
	}
	return free{l}
}

func (l *ledger) current() uint32 { return l.pacing().current() }
func (l *ledger) ahead() bool     { return l.pacing().ahead() }

// free is the pacing of ranks that read on until an epoch has no more rows.
type free struct{ ledger *ledger }

func (p free) counts() bool    { return false }
func (p free) current() uint32 { return max(p.ledger.ended, p.ledger.epoch) }
func (p free) ahead() bool     { return p.ledger.ended > p.ledger.epoch }
func (p free) lags() bool      { return false }
func (p free) starved() bool   { return p.ahead() || p.ledger.epochIdle() }
func (p free) idles() bool     { return !p.ahead() && p.ledger.epochIdle() }
func (p free) yields() bool    { return false }

func (p free) keeps(int) position.Set { return nil }

func (p free) mayPad() bool { return false }

// report says the epoch alone. That the loop left the open one, the request says.
func (p free) report(req *pb.SyncRequest, _ int) {
	req.Steps = &pb.RankSteps{Epoch: min(p.ledger.ended, p.ledger.epoch)}
}

func (p free) hand(h *handover, ends bool) (*Batch, error) { return h.handRows(p, ends) }
