package session

import (
	"errors"
	"strings"
	"testing"
)

// TestAnOlderStateIsNamed holds that a trainer that knows more than etcd, of which a backup was put back, is not called
// broken, and one that is broken is.
func TestAnOlderStateIsNamed(t *testing.T) {
	j := newJob(t, 1, 2)
	j.plan(0, 0, 1, 4)
	j.join(0, "a")
	backup := j.reload()
	shards := j.more(0)
	sync := j.sync(0, shards...)
	sync.Revision = j.s.revision(j.s.rank(0))
	_, _, err := backup.Apply(sync)
	if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "the state in etcd is older than the job") ||
		strings.Contains(err.Error(), "broken") {
		t.Errorf("with a state from before its grants: %v", err)
	}
	sync.Consumed = sync.Consumed.Union(nil)
	sync.Consumed[len(sync.Consumed)-1] = shard(0, 0, 3)
	if _, _, err := j.s.Apply(sync); len(shards) == 4 || !errors.Is(err, ErrInvalid) ||
		!strings.Contains(err.Error(), "broken") {
		t.Errorf("a trainer that consumed what it never held (of %d shards): %v", len(shards), err)
	}
}
