package pipeline

import (
	"context"
	"slices"
	"sync"
)

// budget shares a number of bytes among streams. A stream takes all that it is thought to need in one step, before
// it reads, so streams never wait for each other while they hold some. Who came first is served first, so that a
// shard that needs much is not passed over for ever.
type budget struct {
	total int64

	mu      sync.Mutex
	used    int64
	waiting []*waiter
}

type waiter struct {
	bytes    int64
	admitted chan struct{}
}

func newBudget(total int64) *budget { return &budget{total: total} }

// take waits for n bytes; more than the whole budget waits for all of it, so that a shard too large for the
// budget is served alone rather than never. It returns what give must be called with.
func (b *budget) take(ctx context.Context, n int64) (int64, error) {
	w := &waiter{bytes: min(n, b.total), admitted: make(chan struct{})}
	b.mu.Lock()
	b.waiting = append(b.waiting, w)
	b.admit()
	b.mu.Unlock()
	select {
	case <-w.admitted:
		return w.bytes, nil
	default:
	}
	select {
	case <-w.admitted:
		return w.bytes, nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-w.admitted: // meanwhile
		return w.bytes, nil
	default:
	}
	b.waiting = slices.DeleteFunc(b.waiting, func(x *waiter) bool { return x == w })
	b.admit() // those behind may need less
	return 0, context.Cause(ctx)
}

// more adds n bytes to what a stream has taken, without waiting: it holds them already. Others wait until as much
// has come back.
func (b *budget) more(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used += n
}

func (b *budget) give(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	b.admit()
}

func (b *budget) inUse() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}

// admit lets in as many of those that wait as there is room for, in order.
func (b *budget) admit() {
	for len(b.waiting) > 0 && b.used+b.waiting[0].bytes <= b.total {
		w := b.waiting[0]
		b.waiting = slices.Delete(b.waiting, 0, 1)
		b.used += w.bytes
		close(w.admitted)
	}
}
