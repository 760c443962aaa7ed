package feed

import (
	"math"
	"os"
	"runtime/debug"
	"sync"
)

// limit is the runtime's memory limit, where this process is the worker, too, and has set one for its own.
type limit struct {
	mu sync.Mutex
}

// raise makes room for what a trainer may hold, or takes it back (if negative).
func (l *limit) raise(bytes int64) {
	if bytes == 0 || os.Getenv("GOMEMLIMIT") != "" {
		return // the user's
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := debug.SetMemoryLimit(-1); now < math.MaxInt64 {
		debug.SetMemoryLimit(now + bytes)
	}
}
