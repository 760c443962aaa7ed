package session

import (
	"testing"

	"github.com/penstock-ml/penstock/api/position"
)

func (j *job) needs(epoch, block uint32) {
	j.Helper()
	if e, b, ok := j.s.NeedsPlan(); !ok || e != epoch || b != block {
		j.Fatalf("needs plan of %d/%d (%v), want %d/%d", e, b, ok, epoch, block)
	}
}

func (j *job) needsNothing() {
	j.Helper()
	if e, b, ok := j.s.NeedsPlan(); ok {
		j.Fatalf("needs plan of %d/%d, want none", e, b)
	}
}

func TestPlanningKeepsABlockAhead(t *testing.T) {
	j := newJob(t, 1, 2)
	j.join(0, "a")
	if got := j.more(0); len(got) > 0 {
		t.Fatalf("granted %v before anything is planned", got)
	}
	j.needs(0, 0)
	j.plan(0, 0, 3, 4)
	j.needs(0, 1)
	j.plan(0, 1, 3, 4)
	j.needsNothing()
	j.more(0)
	j.more(0)
	j.needs(0, 2) // the first block is granted
	j.plan(0, 2, 3, 1)
	j.needsNothing()
	j.more(0)
	j.more(0)
	j.needs(1, 0) // the second block is granted: ahead of the third comes the next epoch
}

func TestPlanningGoesOnWhileThereAreFewShards(t *testing.T) {
	j := newJob(t, 8, 1)
	for b := range uint32(5) {
		j.needs(0, b)
		j.plan(0, b, 9, 3)
	}
	j.needs(0, 5)
	j.plan(0, 5, 9, 1)
	j.needsNothing() // 16 shards, two for each rank
	j.do(Fail{Reason: "x"})
	j.needsNothing()
}

func TestEmptyBlocks(t *testing.T) {
	j := newJob(t, 1, 2)
	j.plan(0, 0, 3, 0)
	j.plan(0, 1, 3, 1)
	j.plan(0, 2, 3, 0)
	j.join(0, "a")
	j.more(0)
	if r := j.do(j.sync(0, position.Interval{From: pos(0, 1, 0), To: pos(0, 2, 0)})); r.Closed != 1 {
		t.Fatalf("epoch 0 is not closed: %+v", r)
	}
	j.needs(1, 0)
	j.plan(1, 0, 1, 0)
	if !j.s.Finished() {
		t.Error("an epoch without shards is not closed")
	}
	j.needsNothing()
}

// Blocks are in memory while something of them is held, returned or not yet granted.
func TestIdleBlocksAreForgotten(t *testing.T) {
	const blocks = 100
	j := newJob(t, 2, 1)
	j.join(0, "a")
	j.join(1, "b")
	j.plan(0, 0, blocks, 1)
	stays := j.more(1)[0]
	consumed := position.Interval{From: stays.To}
	for range 5 * blocks {
		if e, b, ok := j.s.NeedsPlan(); ok {
			j.plan(e, b, blocks, 1)
		}
		for _, g := range j.more(0, position.NewSet(consumed)...) {
			consumed.To = g.To
		}
		if len(j.s.blocks.list) > 10 {
			t.Fatalf("%d blocks in memory", len(j.s.blocks.list))
		}
	}
	if !j.s.InFlight(0, 0) || j.s.InFlight(0, 50) {
		t.Errorf("in memory: %v", j.s.blocks.list)
	}
	if r := j.do(j.sync(1, stays)); !r.Finished {
		t.Errorf("not finished: frontier %v", j.s.frontier)
	}
}

func TestProgress(t *testing.T) {
	j := newJob(t, 2, 1)
	j.plan(0, 0, 3, 4)
	j.join(0, "a")
	s := j.sync(0)
	s.Counters = Counters{Rows: 5, StallNS: 2}
	j.do(s)
	s.Counters = Counters{Rows: 3, StallNS: 1} // late
	j.do(s)
	j.join(0, "b")
	s = j.sync(0)
	s.Counters = Counters{Rows: 2}
	j.do(s)
	p := j.s.Progress()
	if p.GetBlocks() != 3 || p.GetBlocksPlanned() != 1 || p.GetRowsPlanned() != 40 || p.GetRowsDelivered() != 7 ||
		len(p.GetRanks()) != 1 || p.GetRanks()[0].GetCounters().GetStallNs() != 2 || !p.GetRanks()[0].GetPresent() {
		t.Errorf("got %v", p)
	}
}
