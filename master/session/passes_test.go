package session

import (
	"slices"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
)

// What is kept of closed epochs does not come back when a left one closes with few steps: the state read back would
// have more of them.
func TestPadKeepsNoMoreWhenALeftEpochCloses(t *testing.T) {
	j := newPadded(t, 2, 3)
	j.plan(0, 0, 1, 2)
	for r := range uint32(2) {
		j.more(r)
	}
	for r := range uint32(2) {
		j.at(r, 0, 1, 1, j.s.ranks[r].held...)
	}
	if j.s.Closed() != 1 {
		t.Fatalf("%d epochs are closed", j.s.Closed())
	}
	leave := func(r uint32) {
		c := j.sync(r)
		c.Steps, c.From = &Steps{Epoch: 1}, 2
		j.do(c)
	}
	leave(1)
	j.join(0, "again")
	kept := j.s.kept
	leave(0)
	if j.s.Closed() != 2 || j.s.kept < kept {
		t.Errorf("%d epochs are closed, and from epoch %d on is kept what was from %d on before",
			j.s.Closed(), j.s.kept, kept)
	}
}

// A rank that left an epoch which others are in does not have all of that planned.
func TestDropPlansNoMoreOfALeftEpoch(t *testing.T) {
	s, err := New(Identity{Session: "s", Epochs: 2, FirstWorldSize: 2, LastBatch: pb.LastBatch_DROP, BatchSize: 10})
	if err != nil {
		t.Fatal(err)
	}
	at := [2]Steps{{Handed: 1, Ready: 1}, {Handed: 1, Ready: 1}}
	from := [2]uint32{}
	plan := func() (planned int) { // a block at a time, as ranks Sync
		for range 20 {
			for rank := range uint32(2) {
				q := Sync{
					Rank: rank, Generation: 1, Incarnation: 1, Nonce: "a", From: from[rank], Steps: &at[rank],
					Streams: 1,
				}
				q.WantsMore = len(s.rank(rank).held) == 0
				if from[rank] == 0 {
					q.Consumed = s.blocks.firstRows(s.rank(rank).held.Union(s.rank(rank).consumed), 10*at[rank].Handed)
				}
				must(t, s, q)
			}
			if epoch, index, ok := s.NeedsPlan(); ok {
				must(t, s, Planned{
					Epoch: epoch, Block: index, Blocks: 50, Shards: 4,
					Outputs: Outputs{{100}, {100}, {100}, {100}},
				})
				planned++
			}
		}
		return planned
	}
	for rank := range uint32(2) {
		must(t, s, Join{Rank: rank, World: 2, Nonce: "a"})
		must(t, s, Planned{Block: rank, Blocks: 50, Shards: 4, Outputs: Outputs{{100}, {100}, {100}, {100}}})
	}
	for range 2 {
		for rank := range uint32(2) {
			dropSync(t, s, rank, Steps{}, false)
		}
	}
	plan()
	at[0], from[0] = Steps{Epoch: 1}, 1
	if n := plan(); n > 2 {
		t.Errorf("%d more blocks were planned when one rank of two had left the epoch", n)
	}
	at[1], from[1] = Steps{Epoch: 1}, 1
	if n := plan(); s.Closed() != 1 || n == 0 || n > 5 {
		t.Errorf("%d epochs are closed, and %d blocks planned, when both had left", s.Closed(), n)
	}
	if p := s.Progress(); p.GetAbandonedEpochs() != 1 || p.GetAbandonedShards() < 100 {
		t.Errorf("abandoned: %d epochs, %d shards", p.GetAbandonedEpochs(), p.GetAbandonedShards())
	}
}

// Ranks that left an epoch before its end, in step, are told of equally many steps when they start again, though only
// one of them had reported that when it, or another one, was closed and the others were killed.
func TestDropOfRanksThatLeftAnEpochAndStartAgain(t *testing.T) {
	at := Steps{Handed: 2, Ready: 2}
	for _, leaves := range []bool{false, true} { // the one that reported it; else one of the others does
		for _, ranks := range [][]uint32{{0, 1, 2}, {0, 2, 1}, {2, 0, 1}} {
			for taken := range uint64(firstBatches + 1) {
				s := dropping(t, 3, 300, 300, 300)
				for rank := range uint32(3) {
					dropSync(t, s, rank, at, false)
					s.ranks[rank].told = nil // they had started again just before
				}
				next := func(rank uint32, leave bool) {
					must(t, s, Sync{
						Rank: rank, Generation: 1, Incarnation: 1, Nonce: "a", Consumed: s.rank(rank).consumed,
						From: 1, Steps: &Steps{Epoch: 1}, Leave: leave, Counters: Counters{Batches: 2},
					})
				}
				next(2, leaves)
				if !leaves {
					dropSync(t, s, 1, at, true)
				}
				startTogether(t, s, taken, ranks...)
			}
		}
	}
}

// A rank that left one epoch and ended the next one, which has no step, goes on at the step at which it left.
func TestDropCountsStepsOfAnEpochBeforeTheLast(t *testing.T) {
	s := dropping(t, 2, 200, 5, 200)
	for rank := range uint32(2) {
		dropSync(t, s, rank, Steps{Handed: 2, Ready: 2}, false)
	}
	must(t, s, Sync{
		Rank: 1, Generation: 1, Incarnation: 1, Nonce: "a", Consumed: s.rank(1).consumed, From: 1,
		Steps: &Steps{Epoch: 2}, Counters: Counters{Batches: 2},
	})
	if r := must(t, s, Join{Rank: 1, World: 2, Nonce: "again"}); r.Begun != (Steps{Epoch: 2}) || s.rank(1).begunStep != 2 {
		t.Errorf("it begins at %+v, step %d; it left after step 2", r.Begun, s.rank(1).begunStep)
	}
}

// Ranks in step that leave an epoch before its last steps, which are of padding alone, count the same steps as one that
// starts again after them: whatever the master had heard of their leaving, and whoever tells of it first.
func TestRanksThatLeavePaddingOutCountAlike(t *testing.T) {
	for name, start := range map[string]func(j *job, leave func(r uint32)){
		"it started again before any told": func(j *job, leave func(r uint32)) {
			j.join(1, "again")
			leave(0)
		},
		"it had told": func(j *job, leave func(r uint32)) {
			leave(1)
			leave(0)
			j.join(1, "again")
		},
		"another had told": func(j *job, leave func(r uint32)) {
			leave(0)
			j.join(1, "again")
		},
	} {
		t.Run(name, func(t *testing.T) {
			j := newPadded(t, 2, 3)
			j.plan(0, 0, 1, 2)
			j.more(0)
			j.at(0, 0, 0, 4) // steps stay that it announces, and both soon make one
			j.more(1)
			for r := range uint32(2) {
				c := j.sync(r, j.s.ranks[r].held...)
				c.Steps, c.Counters.Batches = &Steps{Handed: 2, Ready: 2}, 2
				j.do(c)
			}
			if want := []EpochSteps{{Steps: 4}}; j.s.Closed() != 1 || !slices.Equal(j.s.steps, want) {
				t.Fatalf("%d epochs are closed, and their steps %v", j.s.Closed(), j.s.steps)
			}
			j.do(CreateCheckpoint{Name: "noon", Nonce: "n", Now: 1})
			start(j, func(r uint32) {
				c := j.sync(r)
				c.Steps, c.From, c.Counters.Batches = &Steps{Epoch: 1}, 1, 2
				j.do(c)
			})
			for r := range uint32(2) {
				k := j.s.ranks[r]
				if k.steps != (Steps{Epoch: 1}) || k.step() != 4 {
					t.Errorf("rank %d is at %+v, and counts %d steps", r, k.steps, k.step())
				}
				if o := (checkpointing{j.s}).order(k); o == nil || o.Batches-uint64(k.counters.Batches) != o.Step-4 {
					t.Errorf("rank %d is to take its State as %+v says, after %d batches", r, o, k.counters.Batches)
				}
			}
		})
	}
}

// A rank counts the padding that it left out, though it handed over batches of the next epoch before it told.
func TestPaddingThatWasLeftOutCountsHoweverLateItIsTold(t *testing.T) {
	j := newPadded(t, 2, 3)
	j.plan(0, 0, 1, 2)
	j.more(0)
	j.at(0, 0, 0, 4)
	j.more(1)
	for r := range uint32(2) {
		c := j.sync(r, j.s.ranks[r].held...)
		c.Steps, c.Counters.Batches = &Steps{Handed: 2, Ready: 2}, 2
		j.do(c)
	}
	for r := range uint32(2) {
		c := j.sync(r)
		c.Steps, c.From, c.Counters.Batches = &Steps{Epoch: 1, Handed: 1, Ready: 1}, 1, 3
		j.do(c)
		if k := j.s.ranks[r]; k.step() != 5 {
			t.Errorf("rank %d is at %+v, and counts %d steps, want 5", r, k.steps, k.step())
		}
	}
}
