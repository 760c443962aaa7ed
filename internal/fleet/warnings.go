package fleet

import (
	"sync"
	"time"
)

// Whoever reaches the gossip port can have this process complain of what it sends, as often as it likes. So warnings
// are told up to maxWarnings a warnEvery, and the others counted.
const (
	warnEvery   = time.Minute
	maxWarnings = 10
)

// warnings counts warnings. It may be used by many goroutines at once.
type warnings struct {
	mu          sync.Mutex
	since       time.Time
	told, quiet int
}

// take counts a warning, and reports whether it is due, and how many were not in the time that ended with it.
func (w *warnings) take(now time.Time) (due bool, suppressed int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now.Sub(w.since) >= warnEvery {
		suppressed = w.quiet
		w.since, w.told, w.quiet = now, 0, 0
	}
	if w.told == maxWarnings {
		w.quiet++
		return false, 0
	}
	w.told++
	return true, suppressed
}

// warn tells of what other processes brought about.
func (f *Fleet) warn(words string, args ...any) {
	due, suppressed := f.warnings.take(time.Now())
	if suppressed > 0 {
		f.cfg.Logger.Warn("gossip had more to warn of than is logged; see who reaches its port", "left_out", suppressed)
	}
	if due {
		f.cfg.Logger.Warn(words, args...)
	}
}
