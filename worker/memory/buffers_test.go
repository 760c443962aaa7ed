package memory

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestBuffersThatAreAllFree: who has all of its memory, and no buffer out, gets a buffer of it: whatever the pool
// brought beyond what the stream may hold, and whoever waits for what it would give back.
func TestBuffersThatAreAllFree(t *testing.T) {
	for name, c := range map[string]struct {
		base, max    int64
		buffer, size int64 // of each of five that are free, and of what is wanted, which none of them fits
		waits        int64 // for so much another stream waits, for which there is no room
	}{
		"more than the stream may hold": {base: 10, max: 16, buffer: 4, size: 5},
		"others wait":                   {base: 10, max: 40, buffer: 8, size: 3, waits: 16},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const total = 100
				b := New(Config{Limit: total})
				a, other := b.Open(), b.Open()
				mustGrow(t, a, 5*c.buffer)
				m := NewBuffers(a, c.base, c.max)
				var buffers [][]byte
				for range 5 {
					buffers = append(buffers, make([]byte, c.buffer))
				}
				m.Use(buffers, c.base, 5*c.buffer)
				mustGrow(t, other, total-5*c.buffer-c.waits/2)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				var waiting sync.WaitGroup
				if c.waits > 0 {
					waiting.Go(func() {
						if err := other.Grow(ctx, c.waits); err != nil {
							t.Error(err)
						}
					})
					synctest.Wait()
				}
				if got, err := m.Get(ctx, c.size); err != nil || int64(len(got)) != c.size {
					t.Errorf("%d bytes for %d, of %d that are free: %v", len(got), c.size, 5*c.buffer, err)
				}
				if a.Held() != max(m.base, m.used) || m.reserved != a.Held() {
					t.Errorf("it holds %d bytes, and uses %d", a.Held(), m.used)
				}
				a.Close(nil)
				waiting.Wait()
				other.Close(nil)
			})
		})
	}
}
