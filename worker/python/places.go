package python

import (
	"context"
	"slices"
	"sync"
	"time"
)

// waiter is a caller of a function, which may wait for long: ctx ends that, and what is told of it now and then may.
type waiter struct {
	ctx  context.Context //nolint:containedctx // it lives as long as one call
	told func() error
	tick *time.Ticker
}

// await receives from a channel; ok is false if that is closed. late, unless it is nil, ends it, too.
func await[T any](w *waiter, from <-chan T, late <-chan time.Time) (value T, ok bool, err error) {
	for {
		select {
		case value, ok = <-from:
			return value, ok, nil
		default:
		}
		select {
		case value, ok = <-from:
			return value, ok, nil
		case <-w.ctx.Done():
			return value, false, context.Cause(w.ctx)
		case <-late:
			return value, false, errLate
		case <-w.tick.C:
			if w.told == nil {
				continue
			}
			if err := w.told(); err != nil {
				return value, false, err
			}
		}
	}
}

// places are how many processes may be at work at once, and what memory these may have. Who came first goes first, even
// past whom less would be enough.
type places struct {
	mu     sync.Mutex
	free   int
	memory int64
	queue  []*turn
}

type turn struct {
	n      int
	memory int64
	comes  chan struct{} // closed when it has its places
}

// enter waits for n places and memory.
func (p *places) enter(w *waiter, n int, memory int64) (*turn, error) {
	t := &turn{n: n, memory: memory, comes: make(chan struct{})}
	p.mu.Lock()
	p.queue = append(p.queue, t)
	p.admit()
	p.mu.Unlock()
	_, _, err := await(w, t.comes, nil)
	if err == nil {
		return t, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.queue, t); i >= 0 {
		p.queue = slices.Delete(p.queue, i, i+1)
	} else { // they came meanwhile
		p.back(t)
	}
	p.admit()
	return nil, err
}

// leave gives places back.
func (p *places) leave(t *turn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.back(t)
	p.admit()
}

func (p *places) back(t *turn) {
	p.free += t.n
	p.memory += t.memory
}

// admit lets in whose turn it is. mu must be held.
func (p *places) admit() {
	for len(p.queue) > 0 && p.queue[0].n <= p.free && p.queue[0].memory <= p.memory {
		p.free -= p.queue[0].n
		p.memory -= p.queue[0].memory
		close(p.queue[0].comes)
		p.queue = p.queue[1:]
	}
}
