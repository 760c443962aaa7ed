package master

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestHistoryOfOthersIsKept holds that a leader does not compact an etcd whose history is left to others.
func TestHistoryOfOthersIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		err := (&term{ctx: t.Context(), master: &Master{cfg: Config{KeepHistory: true}}}).compact()
		if err != nil || time.Since(begin) > 0 {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
	})
}
