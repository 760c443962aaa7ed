package client

import (
	"context"
	"sync"
)

// shared is what the parts of a session have in common: the ledger, the session's end, and whom to wake for both.
type shared struct {
	// mu guards ledger, building and err, and the fields of fetcher, handover and control that say so. All of
	// them have this one mutex, since a hand-over needs the ledger, the lease and the session's end as of one moment,
	// and a Sync reports on all parts as of one.
	mu       sync.Mutex
	ledger   ledger
	building map[string]int64 // rows of the batch in the making, by worker
	err      error            // why the session ended

	cancel context.CancelFunc // ends all goroutines
	ready  chan struct{}      // wakes Next
	wake   chan struct{}      // wakes the control goroutine
	slot   chan struct{}      // wakes the goroutine that opens streams
}

func newShared() *shared {
	s := &shared{
		building: make(map[string]int64),
		ready:    make(chan struct{}, 1), wake: make(chan struct{}, 1), slot: make(chan struct{}, 1),
	}
	s.ledger.pacing = free{&s.ledger}
	return s
}

// fail ends the session; the first reason counts.
func (s *shared) fail(err error) {
	s.mu.Lock()
	s.failLocked(err)
	s.mu.Unlock()
}

func (s *shared) failLocked(err error) {
	if s.err == nil {
		s.err = err
	}
	s.cancel()
	signal(s.ready)
}

// making is the number of this rank's rows in the batch in the making. s.mu must be held.
func (s *shared) making() int {
	if s.ledger.discard {
		return 0
	}
	n := int64(0)
	for _, rows := range s.building {
		n += rows
	}
	return int(n)
}

// announce wakes the control goroutine if others may wait for what this rank has got. s.mu must be held.
func (s *shared) announce() {
	if l := &s.ledger; l.drained && l.pacing.hasNews(s.making()) {
		signal(s.wake)
	}
}

// moved is called after rows of a piece were received. s.mu must be held.
func (s *shared) moved(p *piece) {
	if p.finished() {
		s.freed()
	}
}

// freed gives the slot of a piece that ended to the next one, of which the master is asked for more if few wait. s.mu
// must be held.
func (s *shared) freed() {
	signal(s.slot)
	if s.ledger.wantsMore() {
		signal(s.wake)
	}
}

// signal wakes the receiver of a channel with room for one; a second signal before it wakes changes nothing.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
