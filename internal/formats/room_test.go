package formats

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"
)

// TestRoom: however calls take memory, all of them end, and no more is taken at once than there is room for, and what
// one of them takes.
func TestRoom(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		const bytes = 100
		calls := rapid.SliceOfN(rapid.SliceOfN(rapid.Int64Range(0, 150), 0, 4), 1, 8).Draw(r, "takes of calls")
		longest := int64(0)
		for _, takes := range calls {
			all := int64(0)
			for _, n := range takes {
				all += n
			}
			longest = max(longest, all)
		}
		synctest.Test(t, func(t *testing.T) {
			room := NewRoom(bytes)
			var mu sync.Mutex
			taken, most := int64(0), int64(0)
			count := func(n int64) {
				mu.Lock()
				defer mu.Unlock()
				taken += n
				most = max(most, taken)
			}
			var group errgroup.Group
			for _, takes := range calls {
				group.Go(func() error {
					take, leave := room.Enter(t.Context())
					defer leave()
					for _, n := range takes {
						if err := take(n); err != nil {
							return err
						}
						count(n)
						defer count(-n)
						time.Sleep(time.Duration(n)) // others come in between
					}
					return nil
				})
			}
			if err := group.Wait(); err != nil || most > bytes+longest {
				t.Fatalf("%v: %d bytes at once of %v", err, most, calls)
			}
		})
	})
}
