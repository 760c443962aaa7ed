package session

import (
	"testing"

	"github.com/penstock-ml/penstock/api/position"
)

// Ranks that have not joined yet begin where the restored checkpoint was taken: the epoch has as many steps as without the restore.
func TestDropRestoredBeforeAllRanksJoin(t *testing.T) {
	id := Identity{Session: "s", Epochs: 1, FirstWorldSize: 2, Counted: true, Drop: true, BatchSize: 10}
	s, err := New(id)
	if err != nil {
		t.Fatal(err)
	}
	plan := Planned{Blocks: 1, Shards: 2, Outputs: Outputs{{500}, {500}}}
	must(t, s, plan)
	state := Checkpoint{
		Version: 1, Session: "s", Generation: 1, World: 2, Members: []uint32{0}, Handed: 25,
		Base: position.Set{{To: position.Position{Shard: 1}}},
	}
	must(t, s, Restore{Checkpoint: Named{Name: "n", World: 2, State: state}})
	must(t, s, plan)
	for rank := range uint32(2) {
		r := must(t, s, Join{Rank: rank, World: 2, Nonce: "n"})
		r = must(t, s, Sync{Rank: rank, Generation: r.Generation, Incarnation: r.Incarnation, Nonce: "n", WantsMore: true, Streams: 1, Steps: &r.Begun})
		if want := (EpochSteps{Steps: 50, Final: true}); len(r.Steps) != 1 || r.Steps[0] != want {
			t.Errorf("rank %d is told %+v, want %+v", rank, r.Steps, want)
		}
	}
}
