package session

import (
	"errors"
	"math"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
)

// inLanes is a session of two lanes and ranks, whose steps have two rows of each.
func inLanes(t *testing.T) *State {
	t.Helper()
	s, err := New(Identity{Session: "s", Epochs: 2, FirstWorldSize: 2, Lanes: 2, GlobalBatch: 4})
	if err != nil {
		t.Fatal(err)
	}
	for epoch := range uint32(2) {
		must(t, s, Planned{Epoch: epoch, Blocks: 1, Shards: 2, Outputs: Outputs{{40}, {40}}})
	}
	return s
}

func must(t *testing.T, s *State, c Command) Reply {
	t.Helper()
	r, _, err := s.Apply(c)
	if err == nil {
		err = s.Check()
	}
	if err != nil {
		t.Fatalf("%+v: %v", c, err)
	}
	return r
}

// syncs reports a place of a rank's present start.
func syncs(t *testing.T, s *State, rank uint32, at Steps, leave bool) {
	t.Helper()
	k := s.rank(rank)
	must(t, s, Sync{Rank: rank, Generation: 1, Incarnation: k.incarnation, Nonce: k.nonce, Steps: &at, Leave: leave})
}

// Ranks that left at two steps, as when one of them throws, and start again together, begin where the first of them
// left.
func TestLanesOfRanksThatLeftLoseNoRows(t *testing.T) {
	for _, first := range []uint32{0, 1} {
		s := inLanes(t)
		must(t, s, Join{Rank: 0, World: 2, Nonce: "a"})
		must(t, s, Join{Rank: 1, World: 2, Nonce: "b"})
		syncs(t, s, 0, Steps{Handed: 6}, true)
		syncs(t, s, 1, Steps{Handed: 5}, true)
		for _, rank := range []uint32{first, 1 - first} {
			if r := must(t, s, Join{Rank: rank, World: 2, Nonce: "again"}); r.Begun.Handed != 5 {
				t.Errorf("rank %d comes first: rank %d begins at step %d, and rank 1 left at 5",
					first, rank, r.Begun.Handed)
			}
		}
		if got := s.Progress().GetRanks()[0].GetMayRepeat(); got != 2 {
			t.Errorf("rank 0 hands over %d rows again, as is said; want the 2 of its sixth step", got)
		}
	}
}

// An epoch without rows has an end like others, of which each training loop is told, whether it was planned before or
// after ranks joined.
func TestLanesOfAnEmptyEpoch(t *testing.T) {
	for joined := range uint32(3) {
		s, err := New(Identity{Session: "s", Epochs: 1, FirstWorldSize: 2, Lanes: 2, GlobalBatch: 4})
		if err != nil {
			t.Fatal(err)
		}
		for rank := range uint32(2) {
			if rank == joined {
				must(t, s, Planned{Blocks: 1, Shards: 2, Outputs: Outputs{{0}, {0}}})
			}
			if r := must(t, s, Join{Rank: rank, World: 2, Nonce: "a"}); r.Begun != (Steps{}) {
				t.Errorf("planned when %d ranks had joined: rank %d begins at %v", joined, rank, r.Begun)
			}
		}
		if joined == 2 {
			must(t, s, Planned{Blocks: 1, Shards: 2, Outputs: Outputs{{0}, {0}}})
		}
		for rank := range uint32(2) {
			k := s.rank(rank)
			r := must(t, s, Sync{Rank: rank, Generation: 1, Incarnation: k.incarnation, Nonce: k.nonce, Steps: &Steps{}})
			if want := []EpochSteps{{Final: true}}; !slices.Equal(r.Steps, want) {
				t.Errorf("planned when %d ranks had joined: rank %d is told of %v, want %v", joined, rank, r.Steps, want)
			}
		}
		if !s.Finished() {
			t.Errorf("planned when %d ranks had joined: the epoch is not closed", joined)
		}
	}
}

// At an epoch's end, too, ranks that left at one step or two lose no rows, and go on in step.
func TestLanesOfRanksThatLeftAtAnEpochsEnd(t *testing.T) {
	leave := func(at ...Steps) func(t *testing.T, s *State) {
		return func(t *testing.T, s *State) {
			t.Helper()
			for rank, n := range at {
				syncs(t, s, uint32(rank), n, true)
			}
		}
	}
	for name, c := range map[string]struct {
		left func(t *testing.T, s *State)
		want Steps
	}{
		"before the last step": {leave(Steps{Handed: 19}, Steps{Handed: 19}), Steps{Handed: 19}},
		"one before it":        {leave(Steps{Handed: 20}, Steps{Handed: 19}), Steps{Handed: 19}},
		"after it":             {leave(Steps{Handed: 20}, Steps{Handed: 20}), Steps{Epoch: 1}},
		"one in the next epoch": {func(t *testing.T, s *State) {
			t.Helper()
			for rank := range uint32(2) {
				syncs(t, s, rank, Steps{Handed: 20}, false)
			}
			leave(Steps{Epoch: 1, Handed: 1}, Steps{Handed: 20})(t, s)
		}, Steps{Epoch: 1}},
	} {
		for _, first := range []uint32{0, 1} {
			s := inLanes(t)
			for rank := range uint32(2) {
				must(t, s, Join{Rank: rank, World: 2, Nonce: "a"})
			}
			c.left(t, s)
			for _, rank := range []uint32{first, 1 - first} {
				if r := must(t, s, Join{Rank: rank, World: 2, Nonce: "again"}); r.Begun != (Steps{
					Epoch:  c.want.Epoch,
					Handed: c.want.Handed, Ready: c.want.Handed,
				}) {
					t.Errorf("%s: rank %d comes first, rank %d begins at %+v, want %+v",
						name, first, rank, r.Begun, c.want)
				}
				if rank == first { // its first batch needs no other rank
					syncs(t, s, rank, Steps{Epoch: c.want.Epoch, Handed: c.want.Handed + 1}, false)
				}
			}
		}
	}
}

// A rank that left for good holds no epoch open that another one has left behind.
func TestLanesCloseOverARankThatLeft(t *testing.T) {
	s := inLanes(t)
	for rank := range uint32(2) {
		must(t, s, Join{Rank: rank, World: 2, Nonce: "a"})
	}
	syncs(t, s, 1, Steps{Handed: 5}, true)
	for closed, at := range []Steps{{Handed: 20}, {Epoch: 1}} {
		syncs(t, s, 0, at, false)
		if s.Closed() != uint32(closed) {
			t.Errorf("with rank 0 at %+v %d epochs are closed, want %d", at, s.Closed(), closed)
		}
	}
}

// What is written of a session, and what a rank is told, is bounded by its lanes, however many blocks they need in
// memory.
func TestLanesOfThousands(t *testing.T) {
	const lanes, blocks = 4096, 200
	d := dataset{slices.Repeat([][][]int{slices.Repeat([][]int{{1 << 20}}, 64)}, blocks)}
	id := Identity{Session: "s", Epochs: 1, FirstWorldSize: lanes, Lanes: lanes, GlobalBatch: 64 * lanes}
	s, err := New(id)
	if err != nil {
		t.Fatal(err)
	}
	for epoch, index, ok := s.NeedsPlan(); ok; epoch, index, ok = s.NeedsPlan() {
		must(t, s, d.planned(epoch, index))
	}
	if n := len(s.blocks.list); n < 2*lanes/64 || n == blocks {
		t.Fatalf("%d blocks are in memory", n)
	}
	if n := proto.Size(s.Head()); n > 1<<15 {
		t.Errorf("the head has %d bytes", n)
	}
	r := must(t, s, Join{Rank: 5, World: lanes, Nonce: "a"})
	if len(r.Starts) == 0 || len(r.Starts) > 4 || slices.Max(r.Starts[0].Rows) > 0 {
		t.Errorf("a rank at step 0 is told of %d starts", len(r.Starts))
	}
	head := s.Head()
	again, err := Load(id, head, nil, d.blocks(head, d.planned), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, b := range again.blocks.list {
		if !slices.Equal(b.lanes.before, s.blocks.list[i].lanes.before) {
			t.Fatalf("block %d begins elsewhere when it is read", i)
		}
	}
}

// However many starts there are, the first one that a rank is told is at its step or before it.
func TestLanesTellAStart(t *testing.T) {
	const lanes = maxStarts
	s, err := New(Identity{Session: "s", Epochs: 1, FirstWorldSize: 1, Lanes: lanes, GlobalBatch: lanes})
	if err != nil {
		t.Fatal(err)
	}
	d := dataset{nil}
	for _, rows := range []int{2, 3, 1} {
		d[0] = append(d[0], slices.Repeat([][]int{{rows}}, lanes))
	}
	for index := range d[0] {
		must(t, s, d.planned(0, uint32(index)))
	}
	must(t, s, Join{Rank: 0, World: 1, Nonce: "a"})
	for handed, block := range []uint32{0, 0, 1, 1, 1, 2} {
		syncs(t, s, 0, Steps{Handed: uint64(handed)}, false)
		starts := deterministic{s}.starts(s.rank(0))
		if len(starts) != 1 || starts[0].Block != block || slices.Max(starts[0].Rows) > uint64(handed) {
			t.Errorf("at step %d it is told of %d starts, the first of block %d, want that of block %d",
				handed, len(starts), starts[0].Block, block)
		}
	}
}

// A rank that left long ago is not waited for.
func TestLanesOfARankThatLeftLongAgo(t *testing.T) {
	s := inLanes(t)
	must(t, s, Join{Rank: 0, World: 2, Nonce: "a"})
	must(t, s, Join{Rank: 1, World: 2, Nonce: "b"})
	syncs(t, s, 1, Steps{Handed: 1}, true)
	syncs(t, s, 0, Steps{Handed: 2 + stepsAhead}, false)
	if r := must(t, s, Join{Rank: 0, World: 2, Nonce: "again", Unreported: 7}); r.Begun.Handed != 2+stepsAhead {
		t.Errorf("rank 0 begins at step %d", r.Begun.Handed)
	}
	if got := s.Progress().GetRanks()[0].GetMayRepeat(); got != 7 {
		t.Errorf("rank 0 hands over at most %d rows again, as is said; want 7", got)
	}
}

// States from outside must not become a session that cannot be loaded.
func TestLaneStatesFromOutside(t *testing.T) {
	state := Checkpoint{Version: 1, Session: "s", Generation: 1, World: 1, GlobalBatch: 4}
	for name, change := range map[string]func(*Checkpoint){
		"a block after all epochs": func(c *Checkpoint) {
			c.Closed, c.Start = 2, LaneStart{Epoch: 2, Block: 3, Rows: []uint64{0, 0}}
		},
		"a block that lies nowhere": func(c *Checkpoint) {
			c.Start = LaneStart{Block: 5}
		},
		"rows that cannot be counted": func(c *Checkpoint) {
			c.Handed, c.GlobalBatch = maxSteps, maxSteps
			c.Start = LaneStart{Block: 3, Rows: []uint64{math.MaxUint64 / 2, 0}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, c := inLanes(t), state
			change(&c)
			_, _, err := s.Apply(Restore{Checkpoint: Named{Name: "n", State: c}, World: 1})
			if !errors.Is(err, ErrRestore) {
				t.Errorf("got %v", err)
			}
			if err := s.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}
