package session

import (
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// Ranks that have not joined yet begin where the restored checkpoint was taken: the epoch has as many steps as without
// the restore.
func TestDropRestoredBeforeAllRanksJoin(t *testing.T) {
	id := Identity{Session: "s", Epochs: 1, FirstWorldSize: 2, LastBatch: pb.LastBatch_DROP, BatchSize: 10}
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
		r = must(t, s, Sync{
			Rank: rank, Generation: r.Generation, Incarnation: r.Incarnation, Nonce: "n",
			WantsMore: true, Streams: 1, Steps: &r.Begun,
		})
		if want := (EpochSteps{Steps: 50, Final: true}); len(r.Steps) != 1 || r.Steps[0] != want {
			t.Errorf("rank %d is told %+v, want %+v", rank, r.Steps, want)
		}
	}
}

// dropping is a session of ranks that drop last batches of ten rows, in epochs of so many rows, all of which have
// joined and been told of them.
func dropping(t *testing.T, world uint32, rows ...uint32) *State {
	t.Helper()
	s, err := New(Identity{
		Session: "s", Epochs: uint32(len(rows)), FirstWorldSize: world, LastBatch: pb.LastBatch_DROP,
		BatchSize: 10,
	})
	if err != nil {
		t.Fatal(err)
	}
	for epoch, n := range rows {
		must(t, s, Planned{Epoch: uint32(epoch), Blocks: 1, Shards: 1, Outputs: Outputs{{n}}})
	}
	for rank := range world {
		must(t, s, Join{Rank: rank, World: world, Nonce: "a"})
	}
	for range 2 {
		for rank := range world {
			dropSync(t, s, rank, Steps{}, false)
		}
	}
	return s
}

// dropSync reports a place of a rank's present start and that it consumed all that it holds before it.
func dropSync(t *testing.T, s *State, rank uint32, at Steps, leave bool) []EpochSteps {
	t.Helper()
	k := s.rank(rank)
	consumed := k.consumed
	for k.steps.less(at) {
		next := Steps{Epoch: k.steps.Epoch, Handed: k.steps.Handed + 1, Ready: k.steps.Handed + 1}
		if next.Epoch < at.Epoch && k.toldOf(next.Epoch).Steps < next.Handed {
			next = Steps{Epoch: next.Epoch + 1}
		} else {
			must(t, s, Sync{
				Rank: rank, Generation: 1, Incarnation: k.incarnation, Nonce: k.nonce, WantsMore: true,
				Streams: 1, Consumed: consumed, Steps: &k.steps,
			})
			consumed = consumed.Union(s.blocks.firstRows(within(s.rank(rank).held, next.Epoch), 10))
		}
		must(t, s, Sync{
			Rank: rank, Generation: 1, Incarnation: k.incarnation, Nonce: k.nonce, Consumed: consumed,
			Steps: &next,
		})
		k = s.rank(rank)
	}
	return must(t, s, Sync{
		Rank: rank, Generation: 1, Incarnation: k.incarnation, Nonce: k.nonce, Consumed: consumed,
		Steps: &at, Leave: leave,
	}).Steps
}

// Ranks that were killed around an epoch's begin and start again together are told of equally many steps of it.
func TestDropOfRanksThatStartAgainTogether(t *testing.T) {
	s := dropping(t, 3, 30, 60)
	dropSync(t, s, 0, Steps{Handed: 1}, false) // keeps epoch 0 open
	dropSync(t, s, 1, Steps{Epoch: 1}, false)
	dropSync(t, s, 2, Steps{Epoch: 1, Handed: 1, Ready: 1}, false)
	ranks := []uint32{1, 0, 2}
	for _, rank := range ranks {
		r := must(t, s, Join{Rank: rank, World: 3, Nonce: "again"})
		dropSync(t, s, rank, r.Begun, false)
	}
	var steps []uint64
	for _, rank := range append(ranks, ranks...) { // what all have been heard of, they are told the next time
		dropSync(t, s, rank, s.rank(rank).steps, false)
	}
	for _, rank := range ranks {
		steps = append(steps, s.rank(rank).toldOf(1).Steps)
	}
	if steps[0] == 0 || steps[0] != steps[1] || steps[1] != steps[2] {
		t.Errorf("told of %v steps", steps)
	}
}

// What a rank leaves to nobody, since the others know their number of steps, is told of as dropped.
func TestDropOfWhatALeavingRankLeft(t *testing.T) {
	s := dropping(t, 2, 200)
	dropSync(t, s, 1, Steps{Handed: 3, Ready: 3}, true)
	told := dropSync(t, s, 0, Steps{Handed: 1, Ready: 1}, false)
	if want := (EpochSteps{Steps: 10, Final: true, Dropped: 70}); len(told) != 1 || told[0] != want {
		t.Errorf("told of %+v, want %+v", told, want)
	}
	must(t, s, Join{Rank: 1, World: 2, Nonce: "again"})
	dropSync(t, s, 1, s.rank(1).steps, false)
	if told := dropSync(t, s, 0, Steps{Handed: 1, Ready: 1}, false); told[0].Dropped != 0 {
		t.Errorf("it came back for its rows: told of %+v", told)
	}
}

// Ranks that all left, one a batch ahead of the other, and start again are told of equally many steps, however late the
// second comes: also those whose loops take two batches before they wait for it.
func TestDropOfRanksThatAllLeft(t *testing.T) {
	for first := range uint32(2) {
		for taken := range uint64(firstBatches + 1) {
			s := dropping(t, 2, 200)
			dropSync(t, s, 0, Steps{Handed: 4, Ready: 4}, true)
			dropSync(t, s, 1, Steps{Handed: 3, Ready: 3}, true)
			r := must(t, s, Join{Rank: first, World: 2, Nonce: "again"})
			if r.Begun.Handed != 4 {
				t.Fatalf("rank %d begins at %+v, and the other left after batch 4", first, r.Begun)
			}
			told := dropSync(t, s, first, Steps{Handed: 4 + taken, Ready: 4 + taken}, false)
			if told[0].Final && told[0].Steps != 10 || told[0].Steps <= 4+firstBatches {
				t.Errorf("with rank %d alone, it is told of %+v", first, told)
			}
			r = must(t, s, Join{Rank: 1 - first, World: 2, Nonce: "again"})
			if r.Begun.Handed != 4 {
				t.Errorf("rank %d begins at %+v, not with the other", 1-first, r.Begun)
			}
			for range 2 {
				for rank := range uint32(2) {
					dropSync(t, s, rank, s.rank(rank).steps, false)
				}
			}
			for rank := range uint32(2) {
				if told := s.rank(rank).toldOf(0); told.Steps != 10 || !told.Final {
					t.Errorf("rank %d first, with %d batches: rank %d is told of %+v, want all 10 steps",
						first, taken, rank, told)
				}
			}
		}
	}
}

// A rank that comes back alone, after all left, gets the others' share, too, once it has gone on without them.
func TestDropOfARankThatComesBackAlone(t *testing.T) {
	s := dropping(t, 3, 300)
	for rank := range uint32(3) {
		s.ranks[rank].told = nil // they leave before they are told
		dropSync(t, s, rank, Steps{}, true)
	}
	must(t, s, Join{Rank: 1, World: 3, Nonce: "again"})
	if told := dropSync(t, s, 1, Steps{}, false); len(told) != 1 || told[0] != (EpochSteps{Steps: 3}) {
		t.Errorf("told of %+v, while the others may come", told)
	}
	if told := dropSync(t, s, 1, Steps{Handed: 3, Ready: 3}, false); len(told) != 1 ||
		told[0] != (EpochSteps{Steps: 30, Final: true}) {
		t.Errorf("told of %+v after three batches", told)
	}
}

// A rank that is told of a few steps, since others may follow it, keeps no rows that those that have come need, if one
// stays away.
func TestDropRowsOfRanksThatGather(t *testing.T) {
	s, err := New(Identity{Session: "s", Epochs: 1, FirstWorldSize: 3, LastBatch: pb.LastBatch_DROP, BatchSize: 10})
	if err != nil {
		t.Fatal(err)
	}
	outputs := make(Outputs, 30)
	for i := range outputs {
		outputs[i] = []uint32{10}
	}
	must(t, s, Planned{Blocks: 1, Shards: 30, Outputs: outputs})
	for rank := range uint32(3) {
		must(t, s, Join{Rank: rank, World: 3, Nonce: "a"})
	}
	for range 2 {
		for rank := range uint32(3) {
			dropSync(t, s, rank, Steps{}, false)
		}
	}
	for rank := range uint32(3) {
		dropSync(t, s, rank, Steps{Handed: 3, Ready: 3}, true)
	}
	take := func(rank uint32) {
		k := s.rank(rank)
		must(t, s, Sync{
			Rank: rank, Generation: 1, Incarnation: k.incarnation, Nonce: k.nonce, WantsMore: true, Streams: 8,
			Consumed: k.consumed, Steps: &k.steps,
		})
	}
	must(t, s, Join{Rank: 0, World: 3, Nonce: "again"})
	for range 20 {
		take(0)
	}
	must(t, s, Join{Rank: 1, World: 3, Nonce: "again"})
	for range 20 {
		take(0)
		take(1)
	}
	for rank := range uint32(2) {
		k := s.rank(rank)
		if need := (k.toldOf(0).Steps - k.steps.Handed) * 10; need != 30 || s.blocks.rowsIn(k.held) < need {
			t.Errorf("rank %d is told of %+v, and holds %d rows", rank, k.told, s.blocks.rowsIn(k.held))
		}
	}
}

// What ranks that left had of an epoch, and had buffered of the next one, comes back in one piece: a rank gets of the
// next one from it, too.
func TestDropOfRanksThatLeftWithRowsOfTwoEpochs(t *testing.T) {
	s := dropping(t, 2, 200, 200, 200)
	for range 3 {
		dropSync(t, s, 0, Steps{Handed: 9, Ready: 9}, false)
		dropSync(t, s, 1, Steps{Handed: 8, Ready: 8}, false)
	}
	for r := range uint32(2) {
		if len(within(s.rank(r).held, 1)) == 0 {
			t.Fatalf("rank %d holds nothing of the next epoch, only %v", r, s.rank(r).held)
		}
	}
	dropSync(t, s, 0, Steps{Handed: 9, Ready: 9}, true)
	dropSync(t, s, 1, Steps{Handed: 8, Ready: 8}, true)
	if last := s.returned[len(s.returned)-1]; last.From.Epoch != 0 || last.To != (position.Position{Epoch: 2}) {
		t.Fatalf("what comes back is %v", s.returned)
	}
	must(t, s, Join{Rank: 0, World: 2, Nonce: "again"})
	for _, at := range []Steps{{Handed: 9, Ready: 9}, {Handed: 10, Ready: 10}, {Epoch: 1}, {Epoch: 1}} {
		dropSync(t, s, 0, at, false)
	}
	if len(within(s.rank(0).held, 1)) == 0 {
		t.Errorf("rank 0 is in epoch 1, holds %v, and %v is to be had", s.rank(0).held, s.returned)
	}
}

// The first of the ranks that start again may come to its epoch's end before the others are there: it stays open for
// these.
func TestDropOfRanksThatAllLeftBeforeAnEpochsEnd(t *testing.T) {
	s := dropping(t, 2, 200, 200, 200)
	dropSync(t, s, 0, Steps{Handed: 9, Ready: 9}, true)
	dropSync(t, s, 1, Steps{Handed: 8, Ready: 8}, true)
	must(t, s, Join{Rank: 0, World: 2, Nonce: "again"})
	for _, at := range []Steps{{Handed: 9, Ready: 9}, {Handed: 10, Ready: 10}, {Epoch: 1}} {
		dropSync(t, s, 0, at, false)
	}
	if r := must(t, s, Join{Rank: 1, World: 2, Nonce: "again"}); r.Begun.Epoch != 0 || r.Begun.Handed != 9 {
		t.Errorf("rank 1 begins at %+v, and rank 0 waits for it after batch 10", r.Begun)
	}
	for range 2 {
		for rank := range uint32(2) {
			dropSync(t, s, rank, s.rank(rank).steps, false)
		}
	}
	dropSync(t, s, 1, Steps{Epoch: 1}, false)
	for range 3 {
		for rank := range uint32(2) {
			dropSync(t, s, rank, Steps{Epoch: 1}, false)
		}
	}
	for epoch := range uint32(3) {
		zero, one := s.rank(0).toldOf(epoch), s.rank(1).toldOf(epoch)
		if epoch >= s.closed && (zero.Steps != one.Steps || zero.Steps != 10) {
			t.Errorf("epoch %d: told of %+v and %+v", epoch, zero, one)
		}
	}
}

// startTogether starts ranks again, of which the first takes some batches before the others come, and checks that all
// go on at one place and are told of equally many steps of the epochs that are not closed.
func startTogether(t *testing.T, s *State, taken uint64, ranks ...uint32) {
	t.Helper()
	var begun Steps
	for i, rank := range ranks {
		r := must(t, s, Join{Rank: rank, World: s.world, Nonce: "again"})
		if i == 0 {
			begun = r.Begun
		}
		if r.Begun != begun {
			t.Errorf("rank %d begins at %+v, and rank %d at %+v", rank, r.Begun, ranks[0], begun)
		}
		for range 2 {
			for _, rank := range ranks[:i+1] {
				dropSync(t, s, rank, s.rank(rank).steps, false)
			}
		}
		if at := (Steps{Epoch: begun.Epoch, Handed: begun.Handed + taken, Ready: begun.Handed + taken}); i < len(ranks)-1 &&
			s.rank(ranks[0]).toldOf(at.Epoch).Steps >= at.Handed {
			dropSync(t, s, ranks[0], at, false)
		}
	}
	for range 2 {
		for _, rank := range ranks {
			dropSync(t, s, rank, s.rank(rank).steps, false)
		}
	}
	for epoch := begun.Epoch; epoch <= s.closed+1 && epoch < s.id.Epochs; epoch++ {
		for _, rank := range ranks {
			first, told := s.rank(ranks[0]).toldOf(epoch), s.rank(rank).toldOf(epoch)
			if first.Steps == 0 || !first.Final || told.Steps != first.Steps || !told.Final {
				t.Errorf("%v, first with %d batches: rank %d is told of %+v, and rank %d of %+v",
					ranks, taken, rank, told, ranks[0], first)
			}
		}
	}
}

// Ranks of which some were killed before they reported what they had handed over, and the others left, are told of
// equally many steps when they start again, also if one that was killed comes first: those that left were not further
// than it, though it seems so.
func TestDropOfRanksThatLeftOrWereKilled(t *testing.T) {
	for _, ranks := range [][]uint32{{0, 1, 2}, {1, 0, 2}, {0, 2, 1}, {2, 0, 1}} {
		for taken := range uint64(firstBatches + 1) {
			for _, left := range []Steps{{Handed: 9, Ready: 9}, {Epoch: 1}, {Epoch: 1, Handed: 2, Ready: 2}} {
				for _, reported := range []uint64{2, 6, 7} {
					s := dropping(t, 3, 300, 300, 300)
					dropSync(t, s, 0, Steps{Handed: reported, Ready: reported}, false)
					dropSync(t, s, 1, Steps{Handed: reported, Ready: reported}, false)
					dropSync(t, s, 2, left, true)
					startTogether(t, s, taken, ranks...)
				}
			}
		}
	}
}

// One of those that left may have been the last to hand over batches, of which the others were told: they come to fewer
// now.
func TestDropOfNoMoreThanThoseThatCameFirst(t *testing.T) {
	s := dropping(t, 2, 200, 50)
	dropSync(t, s, 0, Steps{Handed: 9, Ready: 9}, false)
	dropSync(t, s, 1, Steps{Epoch: 1}, false)
	dropSync(t, s, 1, Steps{Epoch: 1, Handed: 2, Ready: 2}, true)
	startTogether(t, s, 1, 0, 1)
}

// Ranks that come late, where one has ended the epoch and left by then, are told of as many steps as it made: it may
// come again, but they were not killed, so that it has no part in what is theirs.
func TestDropOfRanksThatComeLate(t *testing.T) {
	s, err := New(Identity{Session: "s", Epochs: 2, FirstWorldSize: 3, LastBatch: pb.LastBatch_DROP, BatchSize: 10})
	if err != nil {
		t.Fatal(err)
	}
	for epoch := range uint32(2) {
		must(t, s, Planned{Epoch: epoch, Blocks: 1, Shards: 1, Outputs: Outputs{{60}}})
	}
	must(t, s, Join{Rank: 1, World: 3, Nonce: "a"})
	dropSync(t, s, 1, Steps{}, false)
	dropSync(t, s, 1, Steps{Epoch: 1}, false)
	must(t, s, Join{Rank: 0, World: 3, Nonce: "a"})
	dropSync(t, s, 1, Steps{Epoch: 1}, true)
	must(t, s, Join{Rank: 2, World: 3, Nonce: "a"})
	for _, rank := range []uint32{0, 2} {
		if told := dropSync(t, s, rank, Steps{}, false); told[0].Steps != 2 || !told[0].Final {
			t.Errorf("rank %d is told of %+v, and rank 1 made two steps", rank, told)
		}
	}
}
