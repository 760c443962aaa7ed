package session

import (
	"slices"
	"testing"

	"github.com/penstock-ml/penstock/api/position"
)

func TestRunsGetShorter(t *testing.T) {
	j := newJob(t, 2, 1)
	j.plan(0, 0, 1, 100)
	j.join(0, "a")
	j.join(1, "b")
	var runs []int
	for r := uint32(0); len(j.s.ranks[0].held) == 0 || j.s.frontier.Epoch == 0; r = 1 - r {
		before := len(j.s.Held(r))
		runs = append(runs, len(j.more(r))-before)
	}
	want := []int{13, 11, 10, 9, 8, 7, 6, 5, 4, 4, 3, 3, 3, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1}
	if !slices.Equal(runs, want) {
		t.Errorf("runs of %v shards, want %v", runs, want)
	}
}

func TestRunsCountBlocksToCome(t *testing.T) {
	j := newJob(t, 1, 1)
	j.plan(0, 0, 10, 100)
	j.join(0, "a")
	if got := len(j.more(0)); got != 100 { // a quarter of 10 blocks, as far as it is planned
		t.Errorf("granted %d shards", got)
	}
}

func TestRunsFillStreams(t *testing.T) {
	for _, c := range []struct{ shards, streams, want uint32 }{
		{16, 0, 2}, {16, 4, 4}, {16, 100, 8}, {3, 4, 1}, {1, 4, 1}, {160, 4, 20},
	} {
		j := newJob(t, 2, 1)
		j.plan(0, 0, 1, c.shards)
		j.join(0, "a")
		s := j.sync(0)
		s.WantsMore, s.Streams = true, c.streams
		if got := len(j.do(s).Grants); got != int(c.want) {
			t.Errorf("%d shards, %d streams: granted %d, want %d", c.shards, c.streams, got, c.want)
		}
	}
}

func TestGrantsStayInAnEpochAndOneAhead(t *testing.T) {
	j := newJob(t, 1, 3)
	for e := range uint32(2) {
		j.plan(e, 0, 1, 1)
	}
	j.join(0, "a")
	first, second := position.Interval{To: pos(1, 0, 0)}, position.Interval{From: pos(1, 0, 0), To: pos(2, 0, 0)}
	if got := j.more(0); !slices.Equal(got, []position.Interval{first}) {
		t.Fatalf("granted %v", got)
	}
	if got := j.more(0); !slices.Equal(got, []position.Interval{first, second}) {
		t.Fatalf("then granted %v", got)
	}
	if epoch, block, ok := j.s.NeedsPlan(); ok {
		t.Fatalf("asked to plan %d/%d two epochs ahead", epoch, block)
	}
	r := j.do(j.sync(0, first))
	if r.Closed != 1 || !slices.Equal(r.Grants, []position.Interval{second}) || !r.Drained {
		t.Fatalf("after the first epoch: %+v", r)
	}
	if epoch, block, ok := j.s.NeedsPlan(); !ok || epoch != 2 || block != 0 {
		t.Fatalf("asked to plan %d/%d, %v", epoch, block, ok)
	}
}

// A rank whose buffers are full of the next epoch still takes what came back of the open one.
func TestFullRankTakesTheOpenEpoch(t *testing.T) {
	j := newJob(t, 2, 2)
	j.plan(0, 0, 1, 2)
	j.plan(1, 0, 1, 2)
	j.join(0, "a")
	j.join(1, "b")
	j.more(0)
	j.more(1)
	j.more(1, shard(0, 0, 1), position.Interval{From: pos(0, 0, 1), To: pos(1, 0, 0)})
	j.do(Expire{Rank: 0, Incarnation: 1})
	r := j.do(j.sync(1, position.Interval{From: pos(0, 0, 1), To: pos(1, 0, 0)})) // wants no more
	if len(r.Grants) == 0 || r.Grants[0] != shard(0, 0, 0) {
		t.Errorf("granted %v", r.Grants)
	}
}

// The same, when the others have ended the epoch meanwhile: what it handed over and told nobody of came twice.
func TestLeaseEndsBeforeTheEpoch(t *testing.T) {
	first := position.Interval{To: position.Position{Window: 1}}
	for _, silent := range []bool{false, true} {
		j := newJob(t, 2, 2)
		j.plan(0, 0, 1, 2)
		j.plan(1, 0, 1, 2)
		j.join(0, "a")
		j.join(1, "b")
		held := j.more(0)
		j.do(Expire{Rank: 0, Incarnation: 1, Unreported: 3})
		c := j.sync(0, first)
		c.Counters.Rows = 1
		j.do(c) // free still
		j.do(Expire{Rank: 0, Incarnation: 1, Unreported: 2})
		for others := position.Set(nil); j.s.closed == 0; {
			others = others.Union(j.more(1, others...))
		}
		if silent {
			c.Counters.Rows = 2
			c.Consumed = position.Set{first}.Union(held)
			j.refuses(c, ErrFenced, "its lease ended")
			if n := j.s.Progress().GetRanks()[0].GetMayRepeat(); n != 2 {
				t.Errorf("%d rows may repeat; want 2", n)
			}
			continue
		}
		j.do(c)
		if len(j.s.Present()) != 2 {
			t.Errorf("present: %v", j.s.Present())
		}
	}
}

func TestRecallTakesTwoSteps(t *testing.T) {
	j := newJob(t, 2, 1)
	j.plan(0, 0, 1, 8)
	j.join(0, "a")
	j.join(1, "b")
	s := j.sync(0)
	s.WantsMore, s.Streams = true, 4
	granted := j.do(s)
	j.do(Recall{Rank: 0, Set: position.Set{shard(0, 0, 2), shard(0, 0, 7)}})
	s = j.sync(0, shard(0, 0, 0))
	s.Released = position.Set{shard(0, 0, 2)}
	s.Revision = granted.Revision
	asked := j.do(s)
	if !asked.Release.Equal(position.Set{shard(0, 0, 2)}) || len(j.s.returned) > 0 {
		t.Fatalf("asked for %v, and has back %v before the trainer saw it", asked.Release, j.s.returned)
	}
	s.Revision = asked.Revision
	if r := j.do(s); len(r.Release) > 0 || !j.s.returned.Equal(position.Set{shard(0, 0, 2)}) {
		t.Fatalf("still asked for %v, back is %v", r.Release, j.s.returned)
	}
	if got := j.more(1); !slices.Equal(got, []position.Interval{shard(0, 0, 2)}) {
		t.Errorf("rank 1 was granted %v, want what came back first", got)
	}
	j.refuses(j.sync(0, shard(0, 0, 0), shard(0, 0, 2)), ErrInvalid, "does not hold")
}

func TestUnchanged(t *testing.T) {
	j := newJob(t, 1, 1)
	j.plan(0, 0, 1, 8)
	j.join(0, "a")
	s := j.sync(0)
	s.WantsMore = true
	r := j.do(s)
	s.WantsMore, s.Revision, s.BaseVersion = false, r.Revision, r.BaseVersion
	s.Consumed = position.Set{shard(0, 0, 0)}
	r = j.do(s)
	if !r.Unchanged || len(r.Grants) > 0 || len(r.Members) > 0 {
		t.Errorf("after consumption alone: %+v", r)
	}
	s.Revision, s.BaseVersion = 0, 0
	if r = j.do(s); r.Unchanged || !slices.Equal(r.Grants, []position.Interval{shard(0, 0, 1)}) || len(r.Members) != 1 {
		t.Errorf("to one who knows nothing: %+v", r)
	}
}

// A trainer that was cut off longer than its lease goes on, if nobody was granted what it consumed meanwhile.
func TestLeaseEnds(t *testing.T) {
	half := position.Interval{To: position.Position{Window: 1}}
	for _, taken := range []bool{false, true} {
		j := newJob(t, 2, 1)
		j.plan(0, 0, 1, 4)
		j.join(0, "a")
		j.join(1, "b")
		j.more(0)
		j.do(Expire{Rank: 0, Incarnation: 7}) // another start's
		if len(j.s.Held(0)) == 0 {
			t.Fatal("the timer of another incarnation ended the lease")
		}
		j.do(Expire{Rank: 0, Incarnation: 1})
		if len(j.s.Present()) != 1 || len(j.s.Held(0)) > 0 {
			t.Fatalf("after the lease: present %v, held %v", j.s.Present(), j.s.Held(0))
		}
		if taken {
			j.more(1)
			j.refuses(j.sync(0, half), ErrFenced, "its lease ended")
			continue
		}
		j.do(j.sync(0, half))
		if len(j.s.Present()) != 2 {
			t.Errorf("present: %v", j.s.Present())
		}
		if got := j.more(1); got[0].From != half.To {
			t.Errorf("rank 1 was granted %v, want the rest after %v", got, half)
		}
	}
}
