package session

import (
	"slices"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/position"
)

// TestStatesKnowIndexes: a State tells by which indexes unfinished blocks were cut. Who restores it cuts them by the
// same ones, wherever they were planned by others before, and whatever the session that it is restored in knows.
func TestStatesKnowIndexes(t *testing.T) {
	plan := func(block uint32, indexes string) Planned {
		return Planned{Block: block, Blocks: 2, Shards: 1, Rows: 10, Indexes: indexes}
	}
	j := newJob(t, 1, 2)
	j.do(plan(0, "a"))
	j.do(plan(1, "b"))
	j.join(0, "x")
	j.more(0)
	took := j.do(j.sync(0, shard(0, 0, 0)))
	if len(took.Indexes) != 2 || took.Indexes[0].Digests != "a" {
		t.Fatalf("a trainer is told of the indexes %v", took.Indexes)
	}
	state := Checkpoint{
		Version: checkpointVersion, Session: testID.Session, Generation: 1, World: 1,
		Consumed: position.Set{shard(0, 0, 0)}, ProgramDigest: testID.ProgramDigest, DatasetDigest: testID.DatasetDigest,
		PlannerDigest: testID.PlannerDigest, Indexes: took.Indexes,
	}
	const none = "none" // as an earlier release planned
	for name, tc := range map[string]struct {
		before, after string // the indexes of the second block
		told          []BlockIndexes
		refused       bool
	}{
		"the same":           {"b", "b", took.Indexes, false},
		"forged later":       {"", "c", took.Indexes, true},
		"forged before":      {"c", "c", took.Indexes, true},
		"lost":               {"b", "", took.Indexes, true},
		"an earlier release": {"", "c", nil, false},
		"planned by none":    {none, "b", took.Indexes, false},
		"by none, and other": {none, "c", took.Indexes, true},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJob(t, 1, 2)
			if tc.before != "" {
				j.do(plan(0, "a"))
				j.do(plan(1, strings.TrimPrefix(tc.before, none)))
			}
			state := CheckpointFromProto(state.Proto())
			state.Indexes = tc.told
			j.do(restoring(0, 1, "y", state))
			if _, planned := j.s.blocks.find(pos(0, 1, 0)); planned != (tc.before == "b") {
				t.Error("a block that others planned is not planned again, or one that need not be")
			}
			if again := plan(1, tc.after); tc.refused {
				j.refuses(again, ErrInvalid, "other indexes")
			} else {
				j.do(again)
			}
		})
	}
	other := CheckpointFromProto(state.Proto())
	other.Rank, other.Consumed, other.Indexes = 1, nil, []BlockIndexes{{Block: 1, Digests: "c"}}
	state.World, other.World = 2, 2
	j = newJob(t, 1, 2)
	j.refuses(restoring(0, 1, "y", state, other), ErrRestore, "other indexes of the files of block 1")
	state.Indexes = []BlockIndexes{{Digests: strings.Repeat("x", maxIndexesBytes)}}
	j.refuses(restoring(0, 1, "y", state), ErrRestore, "at more length")
}

// TestStatesOfManyBlocksAreRestored: however many blocks are planned ahead for many ranks, a State that tells of their
// indexes is restored.
func TestStatesOfManyBlocksAreRestored(t *testing.T) {
	const world, blocks = 600, 1 << 20
	j := newJob(t, world, 1)
	for {
		_, block, ok := j.s.NeedsPlan()
		if !ok {
			break
		}
		j.do(Planned{Block: block, Blocks: blocks, Shards: 1, Rows: 10, Indexes: strings.Repeat("x", 256)})
	}
	told := j.s.Indexes()
	if len(told) < world {
		t.Fatalf("a State tells of %d blocks", len(told))
	}
	one := Checkpoint{
		Version: checkpointVersion, Session: testID.Session, Generation: 1, World: 2, Indexes: told[1:],
		ProgramDigest: testID.ProgramDigest, DatasetDigest: testID.DatasetDigest, PlannerDigest: testID.PlannerDigest,
	}
	other := CheckpointFromProto(one.Proto())
	other.Rank, other.Indexes = 1, told[:len(told)-1]
	j = newJob(t, 1, 1)
	j.do(restoring(0, 1, "y", one, other))
	if !slices.Equal(j.s.Indexes(), told) {
		t.Errorf("the session knows the indexes of %d blocks, want %d", len(j.s.Indexes()), len(told))
	}
}
