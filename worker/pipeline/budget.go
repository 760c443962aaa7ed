package pipeline

import (
	"context"
	"sync/atomic"

	"golang.org/x/sync/semaphore"
)

// budget shares a number of bytes among streams. A stream takes all that it will need in one step, before it
// reads, so streams never wait for each other while they hold some.
type budget struct {
	total int64
	free  *semaphore.Weighted
	inUse atomic.Int64
}

func newBudget(total int64) *budget {
	return &budget{total: total, free: semaphore.NewWeighted(total)}
}

// take waits for n bytes; more than the whole budget waits for all of it, so that a shard too large for the
// budget is served alone rather than never. It returns what give must be called with.
func (b *budget) take(ctx context.Context, n int64) (int64, error) {
	n = min(n, b.total)
	if err := b.free.Acquire(ctx, n); err != nil {
		return 0, err
	}
	b.inUse.Add(n)
	return n, nil
}

func (b *budget) give(n int64) {
	b.inUse.Add(-n)
	b.free.Release(n)
}
