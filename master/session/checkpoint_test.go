package session

import (
	"math/rand/v2"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// got is a Sync of a rank that has handed over so many batches.
func (j *job) got(r uint32, batches int64, consumed ...position.Interval) Sync {
	c := j.sync(r, consumed...)
	c.Counters.Batches = batches
	return c
}

// part is a Sync of a rank that answers an order with its state.
func (j *job) part(r uint32, o *Order, consumed ...position.Interval) Sync {
	c := j.got(r, int64(o.Batches), consumed...)
	base := j.do(j.sync(r, consumed...)) // with base and members
	c.Part = &Part{ID: o.ID, State: &Checkpoint{
		Version: checkpointVersion, Session: testID.Session, Generation: j.s.generation, Rank: r, World: j.s.world,
		Closed: j.s.closed, Base: base.Base, BaseVersion: base.BaseVersion, Members: base.Members,
		Departed: base.Departed, DepartedRows: base.DepartedRows, Consumed: c.Consumed,
		ProgramDigest: testID.ProgramDigest, DatasetDigest: testID.DatasetDigest, PlannerDigest: testID.PlannerDigest,
	}}
	return c
}

// two is a job of two ranks that hold a shard each.
func two(t *testing.T) *job {
	t.Helper()
	j := newJob(t, 2, 1)
	j.plan(0, 0, 1, 4)
	j.join(0, "a")
	j.join(1, "b")
	j.more(0)
	j.more(1)
	return j
}

func TestACheckpointIsWhatAllRanksConsumedAtItsStep(t *testing.T) {
	j := two(t)
	taken := j.do(CreateCheckpoint{Name: "noon", Nonce: "n", Now: 7}).Taken
	if taken.Named != nil || len(taken.Missing) != 2 || taken.Step != 4 {
		t.Fatalf("it begins with %+v", taken)
	}
	first, second := j.do(j.got(0, 1)).Order, j.do(j.got(1, 0)).Order
	if first == nil || first.Batches != 4 || second == nil || second.ID != first.ID {
		t.Fatalf("the ranks are asked for %+v and %+v", first, second)
	}
	if again := j.do(j.part(0, first, shard(0, 0, 0))).Order; again != nil {
		t.Errorf("a rank that brought its part is asked for %+v", again)
	}
	j.s = j.reload() // another master goes on
	taken = j.do(CreateCheckpoint{Name: "noon", Nonce: "n"}).Taken
	if len(taken.Missing) != 1 || taken.Missing[0].Rank != 1 {
		t.Errorf("rank 1 is missing, not %+v", taken)
	}
	j.do(j.part(1, second, shard(0, 0, 1)))
	n := j.do(CreateCheckpoint{Name: "noon", Nonce: "n"}).Taken.Named
	if n == nil || n.Step != 4 || n.Created != 7 || n.World != 2 || n.Generation != 1 {
		t.Fatalf("it is %+v", n)
	}
	want := position.NewSet(shard(0, 0, 0), shard(0, 0, 1))
	if !n.State.Base.Equal(want) || len(n.State.Consumed) > 0 {
		t.Errorf("it has %v and %v, want %v", n.State.Base, n.State.Consumed, want)
	}
	j.refuses(CreateCheckpoint{Name: "noon", Nonce: "other"}, ErrCheckpointExists, "step 4")

	old := j.sync(0)
	j.do(Restore{Checkpoint: Named{Name: "noon"}, World: 3, Nonce: "r"})
	j.refuses(old, ErrFenced, `put back to checkpoint "noon", of step 4`)
	if j.s.world != 3 || !j.s.base.Equal(want) {
		t.Errorf("restored to world %d, base %v", j.s.world, j.s.base)
	}
	j.join(2, "c")
	if from := j.s.From(); from != (RestoredFrom{Name: "noon", Step: 4}) {
		t.Errorf("the generation began with %+v", from)
	}
	if step := j.do(CreateCheckpoint{Name: "later", Nonce: "m"}).Taken.Step; step != 8 {
		t.Errorf("steps count on to %d, want 8", step)
	}
}

func TestARankBeyondTheStepGetsALaterOne(t *testing.T) {
	j := two(t)
	j.do(CreateCheckpoint{Name: "c", Nonce: "n"})
	for try := 1; try < maxTries; try++ {
		o := j.do(j.got(0, int64(j.s.taking.step)+1)).Order
		missed := j.got(0, int64(o.Step)+1)
		missed.Part = &Part{ID: o.ID, Missed: true}
		next := j.do(missed).Order
		if next.ID == o.ID || next.Step <= o.Step+1 {
			t.Fatalf("try %d: after step %d it is asked for step %d", try, o.Step, next.Step)
		}
		j.do(missed) // once more
		if j.s.taking.id != next.ID {
			t.Fatal("an answer to an older order counts")
		}
	}
	o := j.do(j.sync(0)).Order
	missed := j.got(0, int64(o.Step)+1)
	missed.Part = &Part{ID: o.ID, Missed: true}
	if left := j.do(missed).Order; left != nil {
		t.Errorf("after %d tries there is %+v", maxTries, left)
	}
	j.refuses(CreateCheckpoint{Name: "c", Nonce: "n"}, ErrCheckpoint, "after 8 tries: rank 0 was beyond step")
	if again := j.do(CreateCheckpoint{Name: "c", Nonce: "another"}).Taken; again.Tries != 1 {
		t.Errorf("asked for anew, it begins with %+v", again)
	}
}

func TestARankThatLeftCountsByTheBase(t *testing.T) {
	j := two(t)
	j.do(CreateCheckpoint{Name: "c", Nonce: "n"})
	early := j.do(j.sync(0)).Order
	leave := j.got(1, 2, shard(0, 0, 1))
	leave.Leave = true
	j.do(leave)
	j.do(j.part(0, early, shard(0, 0, 0)))
	if j.s.Named("c") != nil {
		t.Fatal("the state may be older than the base")
	}
	o := j.do(j.sync(0, shard(0, 0, 0))).Order
	j.do(j.part(0, o, shard(0, 0, 0)))
	if n := j.s.Named("c"); n == nil || !n.State.Base.Equal(position.NewSet(shard(0, 0, 0), shard(0, 0, 1))) {
		t.Fatalf("it is %+v", n)
	}
}

// However many ranks leave one after the other, the others are asked again: that is no reason to give up.
func TestRanksThatLeaveUseUpNoTries(t *testing.T) {
	const world = 2*maxTries + 1
	j := newJob(t, world, 1)
	j.plan(0, 0, 1, 4)
	for r := range uint32(world) {
		j.join(r, "a")
	}
	j.do(CreateCheckpoint{Name: "c", Nonce: "n"})
	for r := range uint32(world - 1) {
		leave := j.got(r, 1)
		leave.Leave = true
		j.do(leave)
	}
	if taken := j.do(CreateCheckpoint{Name: "c", Nonce: "n"}).Taken; taken.Tries != 1 ||
		!strings.Contains(taken.Retried, "left at step 1") {
		t.Fatalf("it is %+v", taken)
	}
	j.do(j.part(world-1, j.do(j.sync(world-1)).Order))
	if j.s.Named("c") == nil {
		t.Error("the rank that is left does not suffice")
	}
}

func TestARankThatStartsAgainBringsItsPartAgain(t *testing.T) {
	j := two(t)
	j.do(CreateCheckpoint{Name: "c", Nonce: "n"})
	j.do(j.part(0, j.do(j.sync(0)).Order, shard(0, 0, 0)))
	j.join(0, "again")
	if o := j.do(j.sync(0)).Order; o == nil || o.Batches != 0 {
		t.Errorf("a rank that began again after the step is asked for %+v", o)
	}
	j.do(j.part(1, j.do(j.sync(1)).Order, shard(0, 0, 1)))
	if j.s.Named("c") != nil {
		t.Error("the part of a start that is dead counts, though the loop goes on elsewhere")
	}
}

func TestRanksThatAreNotInStepAreSaidSo(t *testing.T) {
	j := two(t)
	j.do(CreateCheckpoint{Name: "c", Nonce: "n"})
	a := j.part(0, j.do(j.sync(0)).Order, shard(0, 0, 0))
	b := j.part(1, j.do(j.sync(1)).Order, shard(0, 0, 1))
	b.Part.State.Handed = 3
	j.do(a)
	j.do(b)
	taken := j.do(CreateCheckpoint{Name: "c", Nonce: "n"}).Taken
	if taken.Tries != 2 || !strings.Contains(taken.Retried, "not in step") ||
		!strings.Contains(taken.Retried, "after 3 batches") {
		t.Errorf("it goes on with %+v", taken)
	}
}

func TestRanksThatStartTogetherAreInStep(t *testing.T) {
	j := two(t)
	j.do(j.got(0, 10))
	j.do(j.got(1, 11)) // rank 0 has it too, and did not say so
	j.join(0, "c")
	j.join(1, "d")
	j.do(j.sync(0))
	j.do(CreateCheckpoint{Name: "c", Nonce: "n"})
	a, b := j.do(j.sync(0)).Order, j.do(j.sync(1)).Order
	if a.Batches != b.Batches || a.Step != 14 {
		t.Errorf("they are asked for batches %d and %d, step %d", a.Batches, b.Batches, a.Step)
	}
	j.do(j.got(0, 5))
	j.do(j.got(1, 5))
	j.join(1, "e") // alone: it goes on where it was
	if o := j.do(j.sync(1)).Order; o != nil && o.Batches != 0 {
		t.Errorf("it is asked for batch %d of step %d, having begun at 15", o.Batches, o.Step)
	}
}

// A rank that was killed after an epoch's last batch, of which it had not told, and comes back in the next one counts
// that batch.
func TestARankThatComesBackInALaterEpochIsInStep(t *testing.T) {
	j := newPadded(t, 2, 2)
	for epoch := range uint32(2) {
		j.plan(epoch, 0, 1, 1)
	}
	tell := func(r uint32, at Steps, batches int64, consumed ...position.Interval) {
		q := j.got(r, batches, consumed...)
		q.Steps = &at
		j.do(q)
	}
	first := j.more(0)
	tell(1, Steps{Handed: 1, Ready: 1}, 1)
	tell(0, Steps{Handed: 2, Ready: 2}, 2, first...)
	if j.s.Closed() != 1 {
		t.Fatalf("%d epochs are closed", j.s.Closed())
	}
	if r := j.join(1, "again"); r.Begun != (Steps{Epoch: 1}) {
		t.Fatalf("rank 1 begins at %+v", r.Begun)
	}
	j.s = j.reload()
	tell(0, Steps{Epoch: 1}, 2, first...)
	if zero, one := j.s.rank(0).step(), j.s.rank(1).step(); zero != 2 || one != 2 {
		t.Errorf("at the begin of the second epoch they count %d and %d steps", zero, one)
	}
}

// Where last batches are padded, the State of a rank that comes to a step when the epoch is closed may have all of the
// epoch, also what others got after that step.
func TestACheckpointHasNoRowsOfLaterSteps(t *testing.T) {
	for _, last := range []uint64{4, 5} { // steps of the epoch
		j := newPadded(t, 2, 2)
		j.plan(0, 0, 1, 1)
		held := j.more(0) // a shard, which goes into the last of them
		step := j.do(CreateCheckpoint{Name: "c", Nonce: "n"}).Taken.Step
		first := j.part(0, j.do(j.sync(0)).Order)
		first.Part.State.Handed, first.Part.State.Consumed = step, position.NewSet(held[last-step:]...)
		first.Consumed, first.Steps = position.NewSet(held...), &Steps{Handed: last, Ready: last}
		j.do(first)
		if j.s.Closed() != 1 {
			t.Fatalf("%d epochs are closed", j.s.Closed())
		}
		j.s = j.reload()
		late := j.part(1, j.do(j.sync(1)).Order)
		state := late.Part.State
		state.Closed, state.MasterClosed, state.Handed = 0, 1, step
		state.Base = position.NewSet(position.Interval{To: pos(1, 0, 0)})
		j.do(late)
		if n := j.s.Named("c"); (n != nil) != (last == step) {
			t.Errorf("with %d steps in the epoch, step %d is taken as %+v", last, step, n)
		}
		if last > step && !strings.Contains(j.s.taking.retried, "rank 1 came to step 4 when later ones were over") {
			t.Errorf("it goes on with %+v", j.s.taking)
		}
	}
}

// Where a release has led that does not know how many steps closed epochs had, a rank counts on from what it said.
func TestStepsThatAnEarlierReleaseForgot(t *testing.T) {
	j := newPadded(t, 2, 2)
	q := j.got(1, 7) // of which 4 were in an epoch before
	q.Steps = &Steps{Handed: 3, Ready: 3}
	j.do(q)
	head, ranks := j.s.Head(), map[uint32]*pb.SessionRank{0: j.s.Rank(0), 1: j.s.Rank(1)}
	head.StepsClosed = nil
	var err error
	if j.s, err = Load(j.s.id, head, ranks, nil, nil); err != nil {
		t.Fatal(err)
	}
	j.join(1, "again")
	if got := j.s.rank(1).step(); got != 7 || j.s.Head().StepsClosed != nil {
		t.Errorf("it counts %d steps, head %v", got, j.s.Head().StepsClosed)
	}
}

func TestCheckpointsAreRefused(t *testing.T) {
	j := newJob(t, 2, 1)
	j.refuses(CreateCheckpoint{Name: "c", Nonce: "n"}, ErrCheckpoint, "no trainer is there")
	j.refuses(CreateCheckpoint{Name: "", Nonce: "n"}, ErrInvalid, "1 to 128 bytes")
	j.refuses(CreateCheckpoint{Name: "a\nb", Nonce: "n"}, ErrInvalid, "printable")
	j.refuses(Restore{Checkpoint: Named{Name: "c"}}, ErrNoCheckpoint, `"c"`)
	j.refuses(DeleteCheckpoint{Name: "c"}, ErrNoCheckpoint, `"c"`)
	j.join(0, "a")
	j.do(CreateCheckpoint{Name: "c", Nonce: "n"})
	j.refuses(CreateCheckpoint{Name: "d", Nonce: "m"}, ErrCheckpoint, `"c" is being taken`)
	o := j.do(j.sync(0)).Order
	lies := j.part(0, o)
	lies.Part.State.Consumed = position.NewSet(shard(0, 0, 0))
	j.refuses(lies, ErrInvalid, "has not reported")
	other := j.part(0, o)
	other.Part.State.Rank = 1
	j.refuses(other, ErrInvalid, "a state of rank 1")
	j.do(DeleteCheckpoint{Name: "c"})
	j.refuses(CreateCheckpoint{Name: "c", Nonce: "n"}, ErrCheckpoint, "given up")
	j.do(Fail{Reason: "bad luck"})
	j.refuses(CreateCheckpoint{Name: "c", Nonce: "m"}, ErrFailed, "bad luck")
}

func TestACheckpointEndsWithTheSession(t *testing.T) {
	j := newJob(t, 1, 1)
	j.plan(0, 0, 1, 1)
	j.join(0, "a")
	j.more(0)
	j.do(CreateCheckpoint{Name: "c", Nonce: "n"})
	j.do(j.got(0, 1, shard(0, 0, 0)))
	j.refuses(CreateCheckpoint{Name: "c", Nonce: "n"}, ErrCheckpoint, "the last epoch ended before step 4")
	j.refuses(CreateCheckpoint{Name: "c", Nonce: "m"}, ErrCheckpoint, "all 1 epochs are over")
}

// TestModelTakesCheckpoints shows that the model meets what it is to check.
func TestModelTakesCheckpoints(t *testing.T) {
	for _, c := range []chaos{
		{steps: 200, checkpoints: true},
		{steps: 400, checkpoints: true, deaths: true},
		{steps: 300, checkpoints: true, pad: true, deaths: true},
	} {
		taken, restored := 0, 0
		c.execute = func(s *State, cmd Command) (Reply, Changes, error) {
			r, ch, err := s.Apply(cmd)
			for _, name := range ch.Checkpoints {
				if s.Named(name) != nil {
					taken++
				}
			}
			if _, ok := cmd.(Restore); ok && err == nil && ch.Head {
				restored++
			}
			return r, ch, err
		}
		const jobs = 24
		for seed := range uint64(jobs) {
			if err := run(rand.New(rand.NewPCG(seed, 1)).IntN, c); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		t.Logf("%+v: %d taken, %d restored", c.steps, taken, restored)
		if taken < jobs/4 || restored < jobs/4 {
			t.Errorf("%d checkpoints were taken and %d restored in %d jobs", taken, restored, jobs)
		}
	}
}

func TestModelFindsBugsInCheckpoints(t *testing.T) {
	findsBugs(t, 600, map[string]executor{
		"a rank beyond the step brings the state that it has": func(s *State, c Command) (Reply, Changes, error) {
			if q, ok := c.(Sync); ok && q.Part == nil && s.taking.active() {
				if k := s.rank(q.Rank); k != nil && k.begunStep+uint64(q.Counters.Batches) > s.taking.step {
					q.Part = &Part{ID: s.taking.id, State: &Checkpoint{
						Version: checkpointVersion, Session: s.id.Session, Generation: s.generation, Rank: q.Rank,
						World: s.world, Closed: s.closed,
						Base: s.base, BaseVersion: s.baseVersion, Members: []uint32{q.Rank}, Consumed: q.Consumed,
						ProgramDigest: s.id.ProgramDigest, DatasetDigest: s.id.DatasetDigest,
						PlannerDigest: s.id.PlannerDigest,
					}}
					c = q
				}
			}
			return s.Apply(c)
		},
		"a checkpoint does not wait for a rank": func(s *State, c Command) (Reply, Changes, error) {
			var hidden *rank
			if q, ok := c.(Sync); ok && q.Part != nil && len(s.ranks) > 1 {
				r := (q.Rank + 1) % uint32(len(s.ranks))
				if hidden = s.ranks[r]; hidden != nil && hidden.part == nil && !hidden.departed {
					part := hidden.consumed
					hidden.part = &Checkpoint{
						Version: checkpointVersion, Session: s.id.Session, Generation: s.generation, Rank: r,
						World: s.world, Closed: s.closed,
						Base: s.base, BaseVersion: s.baseVersion, Members: []uint32{r, q.Rank}, Consumed: part,
						ProgramDigest: s.id.ProgramDigest, DatasetDigest: s.id.DatasetDigest,
						PlannerDigest: s.id.PlannerDigest,
					}
				}
			}
			r, ch, err := s.Apply(c)
			if hidden != nil && hidden.part != nil {
				ch.rank(hidden.part.Rank)
			}
			return r, ch, err
		},
		"a part is not written": func(s *State, c Command) (Reply, Changes, error) {
			r, ch, err := s.Apply(c)
			if q, ok := c.(Sync); ok && q.Part != nil && len(ch.Ranks) == 1 && !ch.Head {
				ch.Ranks = nil
			}
			return r, ch, err
		},
		"a checkpoint is not written": func(s *State, c Command) (Reply, Changes, error) {
			r, ch, err := s.Apply(c)
			ch.Checkpoints = nil
			return r, ch, err
		},
		"a repeated restore is another one": func(s *State, c Command) (Reply, Changes, error) {
			if _, ok := c.(Restore); ok {
				s.restoredBy = ""
			}
			return s.Apply(c)
		},
		"a named restore keeps what was consumed since": behind(func(s *State, c Command, _ *Reply) {
			if _, ok := c.(Restore); ok && len(s.returned) > 1 {
				s.base = s.base.Union(s.returned[:1])
				s.returned = s.returned[1:]
			}
		}),
	}, func(seed uint64, execute executor) error {
		c := chaos{steps: 300, checkpoints: true, deaths: seed%2 == 0, execute: execute}
		return run(rand.New(rand.NewPCG(seed, 2)).IntN, c)
	})
}

// TestNamedCheckpointsAreSmall measures one of many ranks, long after its start.
func TestNamedCheckpointsAreSmall(t *testing.T) {
	const world = 128
	j := newJob(t, world, 2)
	const shards = 8 * world
	j.plan(0, 0, 1, shards)
	for r := range uint32(world) {
		j.join(r, "a")
	}
	consumed := map[uint32]position.Set{}
	for round := range 4 {
		for r := range uint32(world) {
			c := j.got(r, int64(round), consumed[r]...)
			c.WantsMore = true
			for i, g := range j.do(c).Grants {
				if i > round%2 { // out of order, and some in part
					consumed[r] = consumed[r].Union(position.Set{g})
				} else if i == 0 {
					consumed[r] = consumed[r].Union(
						position.Set{{From: g.From, To: position.Position{
							Epoch: g.From.Epoch, Block: g.From.Block,
							Shard: g.From.Shard, K: 3,
						}}})
				}
			}
		}
	}
	j.do(CreateCheckpoint{Name: "c", Nonce: "n"})
	for r := range uint32(world) {
		o := j.do(j.sync(r, consumed[r]...)).Order
		j.do(j.part(r, o, consumed[r]...))
	}
	n := j.s.Named("c")
	if n == nil {
		t.Fatal("it was not taken")
	}
	size := proto.Size(n.Proto())
	t.Logf("%d ranks: %d intervals in %d bytes", world, len(n.State.Base), size)
	if limit := 300 + 32*world*2; size > limit {
		t.Errorf("a checkpoint of %d ranks has %d bytes, want at most %d", world, size, limit)
	}
}
