package session

import (
	"math"
	"slices"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// moved are states of another session of the same dataset, three blocks of 2 shards and 2 epochs: two ranks took parts
// of the first two blocks, of shards too, and one of them something of the next epoch.
func moved() []Checkpoint {
	state := func(rank uint32, consumed ...position.Interval) Checkpoint {
		tr := trainer{
			rank: rank, generation: 7, consumed: position.NewSet(consumed...), members: []uint32{0, 1},
			baseVersion: 12,
		}
		return tr.state("before", 2)
	}
	inside := position.Position{Block: 1, Shard: 1, Window: 2, K: 3}
	return []Checkpoint{
		state(0, position.Interval{To: pos(0, 0, 1)}, position.Interval{From: pos(0, 1, 0), To: inside}),
		state(1, position.Interval{From: pos(1, 0, 0), To: position.Position{Epoch: 1, K: 5}}),
	}
}

// A new session goes on after positions that it never granted, skipping blocks that need no planning.
func TestRestoreFromAnotherSession(t *testing.T) {
	for _, used := range []bool{false, true} {
		j := newJob(t, 2, 2)
		j.plan(0, 0, 3, 2)
		if used { // by a job that did not know of the states
			j.join(0, "a")
			j.more(0)
		}
		j.do(restoring(0, 2, "x", moved()...))
		j.do(restoring(1, 2, "y"))
		if r := j.do(restoring(0, 2, "x")); r.Kind != pb.JoinKind_RESTORED || r.Generation != 2 || len(r.Base) != 3 {
			t.Fatalf("restored: %+v", r)
		}
		j.s = j.reload()
		if used {
			j.refuses(Sync{Rank: 0, Generation: 1, Incarnation: 1}, ErrFenced, "generation 2")
		}
		half := moved()[0].Consumed[1].To
		want := []position.Interval{shard(0, 0, 1), {From: half, To: pos(0, 2, 0)}, shard(0, 2, 0), shard(0, 2, 1)}
		want[0].To, want[3].To = pos(0, 1, 0), pos(1, 0, 0)
		var got []position.Interval
		for len(got) < len(want) {
			if e, b, ok := j.s.NeedsPlan(); ok {
				j.plan(e, b, 3, 2)
			}
			got = j.more(0)
		}
		if !slices.Equal(got, want) {
			t.Errorf("granted %v, want %v", got, want)
		}
		if p := j.s.Progress(); p.GetEpoch() != 0 || p.GetBlocks() != 3 || p.GetBlocksPlanned() != 3 {
			t.Errorf("progress: %v", p)
		}
		if r := j.do(j.sync(0, got...)); r.Closed != 1 ||
			!from(r.Base, pos(1, 0, 0)).Equal(
				position.Set{{From: pos(1, 0, 0), To: position.Position{Epoch: 1, K: 5}}}) {
			t.Errorf("after the epoch: %+v", r)
		}
		if next := j.more(1); next[0].From != (position.Position{Epoch: 1, K: 5}) {
			t.Errorf("of the next epoch rank 1 gets %v", next)
		}
	}
}

// All of an epoch may be consumed, and its blocks are never planned.
func TestRestoreClosesEpochs(t *testing.T) {
	j := newJob(t, 1, 2)
	state := moved()[0]
	state.Members, state.Consumed = []uint32{0}, position.Set{{To: pos(1, 0, 0)}}
	if r := j.do(restoring(0, 1, "x", state)); r.Closed != 1 || len(from(r.Base, pos(1, 0, 0))) > 0 {
		t.Fatalf("%+v", r)
	}
	j.needs(1, 0)
	state.Consumed, state.Closed = nil, 2
	if r := j.do(restoring(0, 1, "y", state)); !r.Finished {
		t.Errorf("%+v", r)
	}
	j.needsNothing()
}

// A state of nothing but ended epochs begins a session at any of them.
func TestRestoreBeginsAtAnEpoch(t *testing.T) {
	for epoch := range uint32(4) {
		j := newJob(t, 2, 3)
		j.plan(0, 0, 1, 1)
		state := Checkpoint{
			Version: checkpointVersion, Session: testID.Session, Generation: 1, World: 2, Closed: epoch,
			Members:       []uint32{0},
			ProgramDigest: testID.ProgramDigest, DatasetDigest: testID.DatasetDigest,
			PlannerDigest: testID.PlannerDigest,
		}
		j.do(restoring(0, 2, "a", state))
		j.do(restoring(1, 2, "b"))
		if r := j.do(restoring(0, 2, "a")); r.Kind != pb.JoinKind_RESTORED || r.Closed != epoch ||
			r.Finished != (epoch == 3) {
			t.Fatalf("epoch %d: %+v", epoch, r)
		}
		j.s = j.reload()
		for e := epoch; e < 3; e++ {
			if n, b, ok := j.s.NeedsPlan(); ok {
				j.plan(n, b, 1, 1)
			}
			if got := j.more(0); !slices.Equal(got, []position.Interval{{From: pos(e, 0, 0), To: pos(e+1, 0, 0)}}) {
				t.Fatalf("epoch %d: granted %v", e, got)
			}
			j.do(j.sync(0, position.Interval{From: pos(e, 0, 0), To: pos(e+1, 0, 0)}))
		}
		if !j.s.Finished() {
			t.Errorf("from epoch %d on: not finished", epoch)
		}
	}
}

// A session whose etcd was lost takes its own later states while it has granted nothing, and fences who took them.
func TestRestoreAfterEtcdWasLost(t *testing.T) {
	states := moved()
	for i := range states {
		states[i].Session = testID.Session
	}
	j := newJob(t, 1, 2)
	j.plan(0, 0, 3, 2)
	j.join(0, "a")
	j.join(0, "b")
	s := j.sync(0)
	s.Leave = true
	j.do(s)
	if r := j.do(restoring(0, 1, "x", states...)); r.Kind != pb.JoinKind_RESTORED || r.Generation != 8 {
		t.Fatalf("restored: %+v", r)
	}
	j.s = j.reload()
	j.refuses(Sync{Rank: 0, Generation: 7, Incarnation: 1}, ErrFenced, "generation 8")
	j.refuses(Sync{Rank: 1, Generation: 7, Incarnation: 9}, ErrFenced, "generation 8")
	for i := range states {
		states[i].Generation = 9
	}
	j.refuses(restoring(0, 1, "y", states...), ErrRestore, "etcd is older")

	j = newJob(t, 1, 2)
	j.plan(0, 0, 3, 2)
	j.join(0, "a")
	j.more(0)
	j.refuses(restoring(0, 1, "x", states...), ErrRestore, "delete the session")
	for i := range states { // of the session's own generation: the next one fences them
		states[i].Generation = 1
	}
	if r := j.do(restoring(0, 1, "x", states...)); r.Kind != pb.JoinKind_RESTORED || r.Generation != 2 {
		t.Errorf("restored: %+v", r)
	}
}

// The block at which the frontier comes to lie may be known to be empty.
func TestRestoreMovesPastEmptyBlocks(t *testing.T) {
	j := newJob(t, 1, 2)
	j.plan(0, 0, 1, 1)
	j.plan(1, 0, 2, 0)
	state := moved()[0]
	state.Members, state.Consumed = []uint32{0}, position.Set{{To: position.Position{K: 1}}}
	j.do(restoring(0, 1, "x", state))
	if want := pos(1, 1, 0); j.s.frontier != want {
		t.Errorf("the frontier is %v, want %v", j.s.frontier, want)
	}
}

func TestRestoreOfManyGenerations(t *testing.T) {
	j := newJob(t, 1, 2)
	state := moved()[0]
	state.Members, state.Session, state.Generation = []uint32{0}, testID.Session, math.MaxUint64
	j.refuses(restoring(0, 1, "x", state), ErrRestore, "count from 1")
}
