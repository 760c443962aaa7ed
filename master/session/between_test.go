package session

import (
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
)

// TestASessionBetweenEpochsIsOpenedAgain holds that what remains of a session without a limit that all left after an
// epoch suffices to go on with the next one, and that it is not closed within one.
func TestASessionBetweenEpochsIsOpenedAgain(t *testing.T) {
	for name, id := range map[string]Identity{"uneven": {}, "pad": {LastBatch: pb.LastBatch_PAD}} {
		t.Run(name, func(t *testing.T) {
			id.Session, id.Epochs, id.FirstWorldSize = "s", noLimit, 1
			s, err := New(id)
			if err != nil {
				t.Fatal(err)
			}
			j := &job{T: t, s: s}
			j.join(0, "a")
			j.plan(0, 0, 1, 2)
			for shards := range uint32(2) {
				if j.s.Between() {
					t.Errorf("it is between epochs with %d of 2 shards read", shards)
				}
				j.more(0)
				c := j.sync(0, shard(0, 0, 0))
				if shards == 1 {
					c = j.sync(0, shard(0, 0, 0), shard(0, 0, 1))
				}
				c.WantsMore, c.Steps = true, &Steps{Handed: uint64(shards) + 1, Ready: uint64(shards) + 1}
				j.do(c)
			}
			j.plan(1, 0, 1, 2)
			j.more(0)
			c := j.sync(0)
			c.Leave, c.Steps = true, &Steps{Epoch: 1}
			j.do(c)
			if j.s.Closed() != 1 || !j.s.Between() || !j.s.Left() || j.s.Over() {
				t.Fatalf("%d epochs are closed, between epochs %v, left %v, over %v; want it between epochs",
					j.s.Closed(), j.s.Between(), j.s.Left(), j.s.Over())
			}

			again, err := Reopened(id, j.s.Remains(), nil)
			if err != nil {
				t.Fatal(err)
			}
			j = &job{T: t, s: again}
			joined := j.join(0, "b")
			if joined.Kind != pb.JoinKind_FRESH || joined.Closed != 1 || joined.Begun.Epoch != 1 ||
				joined.Begun.Handed != 0 || again.From().Epoch != 1 {
				t.Errorf("joined: %+v, of a session that goes on from %+v; want it in epoch 1", joined, again.From())
			}
			j.needs(1, 0)
			j.plan(1, 0, 1, 2)
			if got := j.more(0); len(got) == 0 {
				t.Error("it is granted nothing of epoch 1")
			}
			j.do(j.sync(0, shard(1, 0, 0)))
			if j.s.Between() {
				t.Error("it is between epochs with 1 of 2 shards of the second read")
			}
		})
	}
}

// TestASessionBetweenEpochsThatDrops is opened again in step.
func TestASessionBetweenEpochsThatDrops(t *testing.T) {
	id := Identity{Session: "s", Epochs: noLimit, FirstWorldSize: 2, LastBatch: pb.LastBatch_DROP, BatchSize: 10}
	s, err := New(id)
	if err != nil {
		t.Fatal(err)
	}
	plan := Planned{Blocks: 1, Shards: 2, Outputs: Outputs{{30}, {30}}}
	must(t, s, plan)
	for rank := range uint32(2) {
		must(t, s, Join{Rank: rank, World: 2, Nonce: "a"})
	}
	for range 2 { // they are told of its steps
		for rank := range uint32(2) {
			dropSync(t, s, rank, Steps{}, false)
		}
	}
	for rank := range uint32(2) {
		dropSync(t, s, rank, Steps{Epoch: 1}, true)
	}
	if s.Closed() != 1 || !s.Between() || !s.Left() {
		t.Fatalf("%d epochs are closed, between epochs %v, left %v", s.Closed(), s.Between(), s.Left())
	}
	again, err := Reopened(id, s.Remains(), nil)
	if err != nil {
		t.Fatal(err)
	}
	plan.Epoch = 1
	must(t, again, plan)
	for rank := range uint32(2) {
		if r := must(t, again, Join{Rank: rank, World: 2, Nonce: "b"}); r.Closed != 1 || r.Begun != (Steps{Epoch: 1}) {
			t.Errorf("rank %d joined: %+v, want it in epoch 1", rank, r)
		}
	}
	for rank := range uint32(2) {
		r := must(t, again, Sync{
			Rank: rank, Generation: 2, Incarnation: 1, Nonce: "b", WantsMore: true, Streams: 1,
			Steps: &Steps{Epoch: 1},
		})
		if want := (EpochSteps{Epoch: 1, Steps: 3, Final: true}); len(r.Steps) != 1 || r.Steps[0] != want {
			t.Errorf("rank %d is told %+v, want %+v", rank, r.Steps, want)
		}
	}
}
