package formats

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// Room bounds what calls of Load that have no budget of their own hold of footers and fronts at once: so many bytes,
// and what one of the calls takes beyond. It may be used by many goroutines at once.
type Room struct {
	bytes  int64
	free   *semaphore.Weighted
	beyond *semaphore.Weighted // has one turn, of whoever takes more than there is
}

// NewRoom returns room for so many bytes.
func NewRoom(bytes int64) *Room {
	return &Room{bytes: bytes, free: semaphore.NewWeighted(bytes), beyond: semaphore.NewWeighted(1)}
}

// Enter returns the take of a call of Load, which waits until other calls have left, and leave, which is to be called
// once what it described is not needed, or is accounted for elsewhere. A call that holds something waits for nothing
// but its turn to go beyond the room, and whoever has that waits for nothing: so all of them end.
func (r *Room) Enter(ctx context.Context) (take func(bytes int64) error, leave func()) {
	held, beyond := int64(0), false
	take = func(n int64) error {
		switch {
		case beyond || n <= 0:
			return nil
		case held == 0:
			n = min(n, r.bytes)
			if err := r.free.Acquire(ctx, n); err != nil {
				return err
			}
		case !r.free.TryAcquire(n):
			err := r.beyond.Acquire(ctx, 1)
			beyond = err == nil
			return err
		}
		held += n
		return nil
	}
	return take, func() {
		r.free.Release(held)
		if beyond {
			r.beyond.Release(1)
		}
	}
}
