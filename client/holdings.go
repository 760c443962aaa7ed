package client

import (
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// holdings are what a rank holds by the master's grants, and what came of it and waits to be taken.
type holdings struct {
	grants   []grant
	released position.Set        // given back, and the master is still to hear of it
	pieces   []*piece            // in order of position
	streams  int                 // how many pieces may be open
	waits    map[*piece]struct{} // whose streams have waited for room
	seq      uint64              // of the newest chunk
	queued   int64               // bytes in all queues
	peak     int64               // the most that queued ever was
}

// rows is how many rows wait in queues.
func (h *holdings) rows() (n int) {
	for _, p := range h.pieces {
		for _, c := range p.queue {
			n += c.hi - c.lo
		}
	}
	return n
}

// drop ends a piece that is not held any more.
func (h *holdings) drop(p *piece) {
	h.queued -= p.bytes
	p.drop()
}

// front is the window that is read first of what a rank has of an epoch; nothing, if that has been read.
func (h *holdings) front(epoch uint32) position.Interval {
	i := slices.IndexFunc(h.pieces, func(p *piece) bool { return p.taken.Epoch == epoch })
	if i < 0 {
		return position.Interval{}
	}
	to := h.pieces[i].received
	to.Window, to.K = to.Window+1, 0
	return position.Interval{From: h.pieces[i].taken, To: to}
}

// addresses are those of all candidates.
func (h *holdings) addresses() map[string]bool {
	out := make(map[string]bool)
	for _, p := range h.pieces {
		for _, w := range p.workers {
			out[w.GetAddress()] = true
		}
	}
	return out
}

// refusals are the streams to report.
func (h *holdings) refusals() []*pb.RefusedStream {
	var out []*pb.RefusedStream
	for _, p := range h.pieces {
		if p.refused != nil && !p.complete() {
			out = append(out, p.refused)
		}
	}
	return out
}
