package session

import (
	"testing"

	"github.com/penstock-ml/penstock/api/position"
)

// loopIn is a Sync of a rank whose loop is in an epoch.
func (j *job) loopIn(r, epoch uint32) Sync {
	c := j.sync(r)
	c.Steps, c.WantsMore = &Steps{Epoch: epoch}, true
	return c
}

// Where nothing limits the epochs, rows of the second one are read once the first has closed, and those of later ones
// ahead, as far as there are loops that come to them.
func TestReachWithoutALimit(t *testing.T) {
	j := newJob(t, 1, noLimit)
	j.join(0, "a")
	j.needs(0, 0)
	j.plan(0, 0, 1, 1)
	j.needsNothing()
	j.more(0)
	j.needsNothing()
	j.more(0, shard(0, 0, 0))
	if j.s.Closed() != 1 || j.s.Finished() {
		t.Fatalf("%d epochs are closed, finished %v; want 1, and it never is", j.s.Closed(), j.s.Finished())
	}
	j.needs(1, 0) // the open epoch, to which the loop may come
	j.plan(1, 0, 1, 1)
	j.more(0)
	if held := j.s.Held(0); len(held) != 1 || held[0] != (position.Interval{From: pos(1, 0, 0), To: pos(2, 0, 0)}) {
		t.Errorf("held is %v, want the shard of the open epoch", held)
	}
	j.needsNothing()
	j.do(j.loopIn(0, 1))
	j.needs(2, 0) // ahead
	j.plan(2, 0, 1, 1)
	j.needsNothing()
}

// Epochs without any row close as loops come by, not one after the other.
func TestEmptyEpochsWithoutALimit(t *testing.T) {
	j := newJob(t, 1, noLimit)
	j.join(0, "a")
	for epoch := range uint32(2) {
		j.needs(epoch, 0)
		j.plan(epoch, 0, 1, 0)
	}
	if j.s.Closed() != 2 {
		t.Errorf("%d epochs are closed, want 2", j.s.Closed())
	}
	j.needsNothing()
	j.do(j.loopIn(0, 1))
	j.needs(2, 0)
}
