package client

import (
	"slices"
	"time"
)

// sayAbsentAfter is how long Next waits for ranks that have not joined before the log says so: others may be about to.
const sayAbsentAfter = 3 * time.Second

// Waiting is why Next waits.
type Waiting struct {
	// Master is the error of the newest Sync, if it failed.
	Master error
	// Idle is how long ago a row of the open epoch came, or the first that is to come was granted.
	Idle time.Duration
	// Workers are asked for rows of the open epoch. None: others have what is left of it, or no worker can be asked.
	Workers []Asked
	// Lapsed says that the lease has run out, so that nothing is handed over.
	Lapsed bool
}

// Asked is a worker, and its newest error, if there was one.
type Asked struct {
	Name, Address string
	Err           error
}

// Waiting says why a Next that waits does. Any goroutine may call.
func (s *Session) Waiting() Waiting {
	s.shared.mu.Lock()
	defer s.shared.mu.Unlock()
	w := Waiting{
		Master: s.control.syncErr, Idle: time.Since(s.fetcher.since),
		Lapsed: !time.Now().Before(s.handover.lease.ends),
	}
	seen := make(map[string]bool)
	l := &s.shared.ledger
	for _, p := range l.pieces {
		for _, worker := range p.workers {
			if at := worker.GetAddress(); l.reads(p) && !seen[at] {
				seen[at] = true
				w.Workers = append(w.Workers, Asked{Name: worker.GetName(), Address: at, Err: s.fetcher.errs[at]})
			}
		}
	}
	return w
}

// reads reports whether rows of the epoch that goes into batches are to come from a piece.
func (l *ledger) reads(p *piece) bool {
	return !l.ahead() && !p.complete() && p.shard.Epoch == l.current()
}

// unread reports whether there is such a piece.
func (l *ledger) unread() bool { return slices.ContainsFunc(l.pieces, l.reads) }

// absent are the ranks that have not joined, where this one can go no further before they do: each makes as many steps
// as the others.
func (l *ledger) absent(world uint32) (ranks []uint32) {
	if p := l.pacing; !p.counts() || !p.starved() {
		return nil
	}
	for rank := range world {
		if _, joined := slices.BinarySearch(l.base.members, rank); !joined {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}
