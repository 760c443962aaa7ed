package formats

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// Room bounds what calls of Load that have no budget of their own hold of footers at once. It may be used by many
// goroutines at once.
type Room struct {
	bytes int64
	free  *semaphore.Weighted
}

// NewRoom returns room for so many bytes, or one footer.
func NewRoom(bytes int64) *Room { return &Room{bytes: bytes, free: semaphore.NewWeighted(bytes)} }

// Enter returns the take of a call of Load, which waits until other calls have left, and leave, which is to be called
// once what it described is not needed, or is accounted for elsewhere.
func (r *Room) Enter(ctx context.Context) (take func(bytes int64) error, leave func()) {
	held := int64(0)
	take = func(n int64) error {
		if held > 0 { // the footer, which is most of it: who waits for more with a part would be waited for
			return nil
		}
		n = min(n, r.bytes)
		err := r.free.Acquire(ctx, n)
		if err == nil {
			held = n
		}
		return err
	}
	return take, func() { r.free.Release(held) }
}
