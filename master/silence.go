package master

import (
	"errors"
	"fmt"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/master/store"
)

// maxHeardStep is how much later trainers may have been heard of than etcd knows, at most: it is written no more
// often.
const maxHeardStep = time.Hour

// silence tells since when no trainer of a session was heard of. It belongs to the session's goroutine.
type silence struct {
	step     time.Duration
	heard    time.Time
	recorded time.Time // what lies in etcd
	patience time.Time // not before is the session taken for abandoned
	here     time.Time // when this master heard of one last, or began
}

// load takes what lies in etcd. A trainer may have been heard of a step later; and after a time without a leader, or in
// which etcd took no writes, trainers, of whom nobody could hear, have as long to report.
func (s *silence) load(now time.Time, stored *store.Session, ttl time.Duration) {
	s.step = maxHeardStep
	if ttl > 0 {
		s.step = min(s.step, ttl/16)
	}
	s.recorded = time.UnixMilli(max(stored.Head.GetHeardUnixMs(), stored.Meta.GetSession().GetCreatedUnix()*1000))
	if later := s.recorded.Add(s.step); later.After(s.heard) {
		s.heard = later
	}
	s.patience = now.Add(s.step)
	if s.here.IsZero() {
		s.here = now
	}
}

// hear takes a trainer for heard of.
func (s *silence) hear() {
	s.heard = time.Now()
	s.here = s.heard
}

// due reports whether etcd should know that a trainer was heard of.
func (s *silence) due() bool { return s.heard.Sub(s.recorded) > s.step }

// ended reports whether the session is abandoned.
func (s *silence) ended(now time.Time, ttl time.Duration) bool {
	return ttl > 0 && now.After(s.heard.Add(ttl)) && now.After(s.patience)
}

// abandon deletes a session of which no trainer was heard for too long. It returns store.ErrNotFound then.
func (r *runner) abandon(now time.Time) error {
	ttl := r.term.master.cfg.SessionTTL
	if !r.silence.ended(now, ttl) {
		return nil
	}
	err := r.remove(call{reply: make(chan answer, 1)})
	if errors.Is(err, store.ErrNotFound) {
		r.emit(pb.EventKind_SESSION, "expired: no trainer was heard of for %v (--session-ttl)", ttl)
		r.logger.Warn("session expired: no trainer was heard of for --session-ttl",
			"heard", r.silence.heard.UTC().Format(time.RFC3339), "session_ttl", ttl)
		return err
	}
	return fmt.Errorf("delete an abandoned session: %w", err)
}
