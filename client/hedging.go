package client

import (
	"maps"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
)

const (
	// lateness is how many times its usual wait a stream's next message may take until another worker is asked besides.
	lateness = 5
	// slowFor is how long a worker that lost to a second one is asked last.
	slowFor = 10 * time.Second
)

// hedging is what the fetcher knows of its streams' pace.
type hedging struct {
	open int                  // second attempts
	slow map[string]time.Time // when workers were late, by address
	// For the first message of a stream, and for later ones.
	first, later pace
}

// pace is how long streams wait for messages: the longest wait of late. An average would take each pause between the
// bursts in which windows come for a worker's end.
type pace struct {
	longest time.Duration
	known   bool
}

func (p *pace) note(d time.Duration) { p.longest, p.known = max(d, p.longest*49/50), true }

// waited notes how long a stream waited for a message.
func (h *hedging) waited(begun bool, d time.Duration) {
	if begun {
		h.later.note(d)
	} else {
		h.first.note(d)
	}
}

// patience is how long a stream may wait for its next message, if any had one before.
func (h *hedging) patience(begun bool, floor time.Duration) (d time.Duration, known bool) {
	usual := h.first
	if begun && h.later.known {
		usual = h.later
	}
	return max(floor, lateness*usual.longest), usual.known
}

// inOrder is workers, those last that were late lately.
func (h *hedging) inOrder(workers []*pb.Worker, now time.Time) []*pb.Worker {
	maps.DeleteFunc(h.slow, func(_ string, late time.Time) bool { return now.Sub(late) >= slowFor })
	var fast, slow []*pb.Worker
	for _, w := range workers {
		if _, late := h.slow[w.GetAddress()]; late {
			slow = append(slow, w)
		} else {
			fast = append(fast, w)
		}
	}
	return append(fast, slow...)
}
