package session

import (
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/position"
)

func lacks(epoch uint32, n uint64) position.Tally { return position.Tally{{Epoch: epoch, N: n}} }

// counts checks how many rows were left out.
func (j *job) counts(want ...position.Count) {
	j.Helper()
	if got, _ := j.s.BadRows(); !got.Equal(want) {
		j.Errorf("%v rows are left out, want %v", got, want)
	}
}

// Bad rows are counted beside what was consumed: once, whoever says so again, leaves, comes back, restores states or
// closes the epoch. One more than may be fails the session.
func TestBadRowsAreCountedOnce(t *testing.T) {
	j := newJob(t, 2, 2)
	j.s.id.SkipRows = 9
	j.plan(0, 0, 1, 4)
	j.join(0, "a")
	j.join(1, "b")
	zero, one := j.more(0)[0], j.more(1)[0]
	first := j.sync(0, zero)
	first.Skips, first.BadRows = lacks(0, 3), []BadRow{{File: "s3://b/part-7", Row: 12, Words: "column a: broken"}}
	late := first
	late.Skips = lacks(0, 2)
	for _, c := range []Sync{first, first, late} { // repeated, and out of order
		j.do(c)
	}
	j.counts(position.Count{N: 3})
	other := j.sync(1, one)
	other.Skips, other.BadRows = lacks(0, 4), first.BadRows
	other.Leave = true
	j.do(other)
	j.do(other)
	j.counts(position.Count{N: 7})
	if r := j.join(0, "c"); !r.Skips.Equal(first.Skips) || !r.BaseSkips.Equal(other.Skips) {
		t.Errorf("who comes back is told of %v, and beside the base of %v", r.Skips, r.BaseSkips)
	}
	state := Checkpoint{
		Version: checkpointVersion, Session: testID.Session, Generation: 1, Rank: 0, World: 2, Base: j.s.base,
		BaseVersion: j.s.baseVersion, Members: []uint32{0, 1}, Departed: []uint32{1}, DepartedRows: []int64{0},
		Consumed: position.NewSet(zero), Skips: lacks(0, 3), BaseSkips: lacks(0, 4),
		ProgramDigest: testID.ProgramDigest, DatasetDigest: testID.DatasetDigest, PlannerDigest: testID.PlannerDigest,
	}
	rest := j.sync(0, zero)
	rest.Consumed, rest.Skips = position.NewSet(zero), lacks(0, 5)
	j.do(rest)
	j.counts(position.Count{N: 9})
	j.do(restoring(0, 1, "x", state))
	j.counts(position.Count{N: 7})
	if _, named := j.s.BadRows(); len(named) != 1 {
		t.Errorf("named are %v", named)
	}
	more := j.sync(0)
	more.Consumed, more.Skips, more.WantsMore = nil, lacks(0, 2), true
	j.do(more)
	j.counts(position.Count{N: 9})
	all := j.sync(0, position.Interval{To: pos(1, 0, 0)})
	all.Consumed, all.Skips = j.s.ranks[0].held, lacks(0, 2)
	for j.s.Closed() == 0 {
		j.more(0, all.Consumed...)
		all.Consumed = all.Consumed.Union(j.s.ranks[0].held)
		j.do(Sync{
			Rank: 0, Generation: all.Generation, Incarnation: all.Incarnation, Nonce: all.Nonce, Consumed: all.Consumed,
			Skips: all.Skips, WantsMore: true,
		})
	}
	j.counts(position.Count{N: 9})
	j.plan(1, 0, 1, 4)
	next := j.sync(0)
	next.Skips = position.Tally{{Epoch: 0, N: 50}, {Epoch: 1, N: 9}} // of a closed epoch nothing is news
	if r := j.do(next); r.Failure != "" {
		t.Fatal(r.Failure)
	}
	j.counts(position.Count{N: 9}, position.Count{Epoch: 1, N: 9})
	next.Skips = lacks(1, 10)
	next.BadRows = []BadRow{{Epoch: 1, File: "s3://b/part-7", Row: 12, Words: "column a: broken"}}
	if r := j.do(next); !r.BadData || !strings.Contains(r.Failure, "epoch 2 has 10 bad rows or more, and on_error lets 9 "+
		"of an epoch be left out; some of them: s3://b/part-7 row 12: column a: broken; ") {
		t.Errorf("failure %q", r.Failure)
	}
}

// States of order DETERMINISTIC have no sets, and bad rows all the same: those of all ranks beside the base's.
func TestLaneStatesCountBadRows(t *testing.T) {
	base := position.Tally{{Epoch: 2, N: 5}}
	m, err := mergeLanes([]Checkpoint{
		{Rank: 0, GlobalBatch: 4, BaseSkips: base, Skips: position.Tally{{Epoch: 2, N: 1}}},
		{Rank: 1, GlobalBatch: 4, BaseSkips: base, Skips: position.Tally{{Epoch: 2, N: 2}, {Epoch: 3, N: 4}}},
	})
	if want := (position.Tally{{Epoch: 2, N: 8}, {Epoch: 3, N: 4}}); err != nil || !m.skips.Equal(want) {
		t.Errorf("%v, %v; want %v", m.skips, err, want)
	}
}
