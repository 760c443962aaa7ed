package session

import (
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// shareOut has ranks in step read an epoch of so many windows by shard, and returns how many rows each got and in how
// many steps. Rank r joins when r*late steps were made; windows have outputs of them in ten rows.
func shareOut(t *testing.T, id Identity, late int, shards Outputs) (rows []uint64, steps uint64) {
	t.Helper()
	id.Session, id.Epochs = "s", 1
	s, err := New(id)
	if err != nil {
		t.Fatal(err)
	}
	must(t, s, Planned{Blocks: 1, Shards: uint32(len(shards)), Outputs: shards})
	world := id.FirstWorldSize
	rows, at := make([]uint64, world), make([]Steps, world)
	consumed := make([]position.Set, world)
	for step := 0; !s.Finished(); step++ {
		if step > 100_000 {
			t.Fatalf("the epoch does not end: %+v, returned %v", at, s.returned)
		}
		for r := range world {
			if int(r)*late > step {
				continue
			}
			if s.rank(r) == nil {
				must(t, s, Join{Rank: r, World: world, Nonce: "n"})
			}
			k := s.rank(r)
			reply := must(t, s, Sync{
				Rank: r, Generation: 1, Incarnation: 1, Nonce: "n", Consumed: consumed[r], Released: k.releasing,
				WantsMore: true, Streams: 8,
				Steps: &at[r], Revision: s.revision(k),
			})
			batch := s.blocks.firstRows(within(k.held, 0), id.BatchSize)
			n := s.blocks.rowsIn(batch)
			if n == 0 || n < id.BatchSize && !reply.Drained {
				continue
			}
			consumed[r], rows[r] = consumed[r].Union(batch), rows[r]+n
			if id.LastBatch == pb.LastBatch_PAD {
				at[r].Handed++
				at[r].Ready = at[r].Handed
				steps = max(steps, at[r].Handed)
			}
		}
	}
	return rows, steps
}

// Seven files of a shard each, and two ranks: both get as many rows, however late the second comes, and so they do of a
// single shard.
func TestPaddedEpochsAreEven(t *testing.T) {
	file := make([]uint32, 10)
	for i := range file {
		file[i] = 5000
	}
	for name, c := range map[string]struct {
		shards Outputs
		world  uint32
		steps  uint64
	}{
		"seven shards": {Outputs{file, file, file, file, file, file, file}, 2, 342},
		"one shard":    {Outputs{file}, 4, 25},
		"one window":   {Outputs{{1000}}, 8, 1},
	} {
		for _, late := range []int{0, 3, 500} {
			rows, steps := shareOut(t, Identity{FirstWorldSize: c.world, LastBatch: pb.LastBatch_PAD, BatchSize: 512},
				late, c.shards)
			for r := range rows {
				if most := rows[0] + 1; rows[r]+1 < rows[0] || rows[r] > most || steps != c.steps {
					t.Errorf("%s, %d steps late: %v rows in %d steps, want even ones in %d",
						name, late, rows, steps, c.steps)
					break
				}
			}
		}
	}
}

// A rank that left, or whose lease ended, leaves its share to the others.
func TestSharesOfRanksThatAreGone(t *testing.T) {
	for name, gone := range map[string]func(r uint32) Command{
		"left": func(r uint32) Command {
			return Sync{
				Rank: r, Generation: 1, Incarnation: 1, Nonce: "n",
				Leave: true,
			}
		},
		"lapsed": func(r uint32) Command { return Expire{Rank: r, Incarnation: 1} },
	} {
		t.Run(name, func(t *testing.T) {
			s, err := New(Identity{
				Session: "s", Epochs: 1, FirstWorldSize: 2, LastBatch: pb.LastBatch_PAD,
				BatchSize: 10,
			})
			if err != nil {
				t.Fatal(err)
			}
			must(t, s, Planned{Blocks: 1, Shards: 1, Outputs: Outputs{{100}}})
			held := func() uint64 {
				must(t, s, Sync{
					Generation: 1, Incarnation: 1, Nonce: "n", WantsMore: true, Streams: 8,
					Steps: &Steps{},
				})
				return s.blocks.rowsIn(s.rank(0).held)
			}
			must(t, s, Join{Rank: 0, World: 2, Nonce: "n"})
			if n := held(); n != 50 {
				t.Errorf("alone, rank 0 holds %d rows of 100; half of them are rank 1's, which has not joined", n)
			}
			must(t, s, Join{Rank: 1, World: 2, Nonce: "n"})
			must(t, s, gone(1))
			if n := held(); n != 100 {
				t.Errorf("without rank 1, rank 0 holds %d rows of 100", n)
			}
		})
	}
}

// What a rank was granted before an epoch was wholly planned makes no steps that its share does not have: one that
// announced them gives their rows back, and one that waits for these does not pad before.
func TestStepsOfRowsAboveTheShare(t *testing.T) {
	s, err := New(Identity{
		Session: "s", Epochs: 1, FirstWorldSize: 2, LastBatch: pb.LastBatch_PAD, BatchSize: 2,
	})
	if err != nil {
		t.Fatal(err)
	}
	sync := func(r uint32, at Steps, consumed, released position.Set) Reply {
		return must(t, s, Sync{
			Rank: r, Generation: 1, Incarnation: 1, Nonce: "n", Revision: s.revision(s.rank(r)), WantsMore: true,
			Streams: 8, Steps: &at, Consumed: consumed, Released: released,
		})
	}
	must(t, s, Planned{Blocks: 2, Shards: 1, Outputs: Outputs{{7}}})
	for r := range uint32(2) {
		must(t, s, Join{Rank: r, World: 2, Nonce: "n"})
	}
	sync(1, Steps{}, nil, nil)
	if reply := sync(1, Steps{Ready: 4}, nil, nil); len(reply.Steps) > 0 {
		t.Errorf("before all is planned the epoch has the steps %+v", reply.Steps)
	}
	must(t, s, Planned{Block: 1, Blocks: 2})
	if reply := sync(0, Steps{}, nil, nil); reply.Drained {
		t.Error("rank 0 shall wait for no rows, though rank 1 is still to be asked for its share")
	}
	asked := sync(1, Steps{Ready: 4}, nil, nil)
	if len(asked.Steps) != 1 || asked.Steps[0].Steps != 2 || len(asked.Release) == 0 {
		t.Errorf("the epoch has the steps %+v, and rank 1 is asked for %v; want 2 steps and 3 rows",
			asked.Steps, asked.Release)
	}
	if reply := sync(0, Steps{}, nil, nil); reply.Drained {
		t.Error("rank 0 shall wait for no rows, though rank 1 has not said yet what it gives back")
	}
	sync(1, Steps{Ready: 2}, nil, asked.Release)
	if reply := sync(0, Steps{}, nil, nil); !reply.Drained || s.blocks.rowsIn(s.rank(0).held) != 3 {
		t.Errorf("rank 0 has %v, drained: %v; want the 3 rows of its share", s.rank(0).held, reply.Drained)
	}
}

// A rank that keeps what it was asked for, of the batch in its making, is waited for no longer.
func TestRowsThatARankKeeps(t *testing.T) {
	s, err := New(Identity{
		Session: "s", Epochs: 1, FirstWorldSize: 2, LastBatch: pb.LastBatch_PAD, BatchSize: 4,
	})
	if err != nil {
		t.Fatal(err)
	}
	must(t, s, Planned{Blocks: 2, Shards: 1, Outputs: Outputs{{4}}})
	var reply Reply
	for _, r := range []uint32{0, 1} {
		must(t, s, Join{Rank: r, World: 2, Nonce: "n"})
	}
	sync := func(r uint32) {
		reply = must(t, s, Sync{
			Rank: r, Generation: 1, Incarnation: 1, Nonce: "n", Revision: s.revision(s.rank(r)), WantsMore: true,
			Streams: 8, Steps: &Steps{},
		})
	}
	sync(1)
	must(t, s, Planned{Block: 1, Blocks: 2})
	for _, r := range []uint32{1, 1, 0} {
		sync(r)
	}
	if !reply.Drained {
		t.Error("rank 0 waits for rows that rank 1 was asked for and keeps")
	}
}
