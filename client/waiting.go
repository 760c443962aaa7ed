package client

import (
	"maps"
	"slices"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
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

// waiting is what Waiting is made of. It belongs to what Session.mu guards.
type waiting struct {
	master error
	since  time.Time
	errs   map[string]error // by worker's address
}

// Waiting says why a Next that waits does. Any goroutine may call.
func (s *Session) Waiting() Waiting {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := Waiting{Master: s.waiting.master, Idle: time.Since(s.waiting.since), Lapsed: !time.Now().Before(s.leaseEnds)}
	seen := make(map[string]bool)
	for _, p := range s.ledger.pieces {
		for _, worker := range p.workers {
			if at := worker.GetAddress(); s.ledger.reads(p) && !seen[at] {
				seen[at] = true
				w.Workers = append(w.Workers, Asked{Name: worker.GetName(), Address: at, Err: s.waiting.errs[at]})
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

// absent are the ranks that have not joined, where this one can go no further before they do: each makes as many steps as the others.
func (l *ledger) absent(world uint32) (ranks []uint32) {
	if p := l.pacing(); !p.counts() || !p.starved() {
		return nil
	}
	for rank := range world {
		if _, joined := slices.BinarySearch(l.base.members, rank); !joined {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// awaitRanks says for which ranks Next waits that have not joined, and ends the session once that was too long.
func (s *Session) awaitRanks() error {
	if s.stalled < sayAbsentAfter {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ranks := s.ledger.absent(s.cfg.WorldSize)
	if len(ranks) == 0 {
		return nil
	}
	if s.stalled >= s.cfg.JoinTimeout {
		s.failLocked(&AbsentError{Session: s.cfg.Session, Ranks: ranks, World: s.cfg.WorldSize, Waited: s.stalled})
		return s.err
	}
	if s.saidAbsent <= s.ledger.ended {
		s.saidAbsent = s.ledger.ended + 1
		s.log.Warn("this rank waits for others that have not joined; one that reads alone needs world_size=1",
			"event", "waiting_for_ranks", "missing", rankNames(ranks), "epoch", s.ledger.ended)
	}
	return nil
}

// synced notes how a Sync ended.
func (s *Session) synced(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting.master = err
	if err != nil {
		return
	}
	asked := s.ledger.addresses()
	maps.DeleteFunc(s.waiting.errs, func(address string, _ error) bool { return !asked[address] })
}

// noteError notes a worker's newest error.
func (s *Session) noteError(w *pb.Worker, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting.errs == nil {
		s.waiting.errs = make(map[string]error)
	}
	s.waiting.errs[w.GetAddress()] = err
}

// EpochBatches is how many batches this rank gets of the epoch that the loop is in, from its beginning on, where the master has told.
func (s *Session) EpochBatches() (n uint64, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.ledger.told[s.ledger.ended]
	return e.steps, s.ledger.pacing().counts() && e.final
}

// Epoch is the one that the loop is in, from 0; the number of epochs behind the last.
func (s *Session) Epoch() uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger.ended
}
