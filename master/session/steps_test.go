package session

import (
	"slices"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// newPadded is a job of ranks whose last batches are padded, all of which have joined: rank r as "r".
func newPadded(t *testing.T, world, epochs uint32) *job {
	t.Helper()
	j := newJob(t, world, epochs)
	j.s.id.LastBatch, j.s.id.Selects = pb.LastBatch_PAD, true // whatever a rank announces counts
	for r := range world {
		j.join(r, string(rune('a'+r)))
	}
	return j
}

// at is a Sync of a rank whose training loop is at a place.
func (j *job) at(r uint32, epoch uint32, handed, ready uint64, consumed ...position.Interval) []EpochSteps {
	j.Helper()
	q := j.sync(r, consumed...)
	q.Steps = &Steps{Epoch: epoch, Handed: handed, Ready: ready}
	return j.do(q).Steps
}

func (j *job) told(got []EpochSteps, want ...EpochSteps) {
	j.Helper()
	if !slices.Equal(got, want) {
		j.Errorf("told the steps %v, want %v", got, want)
	}
}

// What a rank reported as ready stays a step, though it loses the rows and another hands them over in an earlier one.
func TestStepsStayWhenRowsAreLost(t *testing.T) {
	j := newPadded(t, 3, 2)
	j.plan(0, 0, 1, 2)
	j.more(0)
	j.told(j.at(0, 0, 1, 2, shard(0, 0, 0)), EpochSteps{Epoch: 0, Steps: 2})
	j.told(j.at(1, 0, 1, 1), EpochSteps{Epoch: 0, Steps: 2}) // and pads its second batch soon
	j.do(Expire{Rank: 0, Incarnation: 1})
	j.s = j.reload()
	rest := j.more(2)
	j.told(j.at(2, 0, 1, 1, rest...), EpochSteps{Epoch: 0, Steps: 2})
	if j.s.Closed() != 1 {
		t.Fatal("the epoch is not closed")
	}
	j.s = j.reload()
	j.told(j.at(1, 0, 2, 2), EpochSteps{Epoch: 0, Steps: 2})
	j.told(j.at(2, 0, 2, 2), EpochSteps{Epoch: 0, Steps: 2})
}

func TestStepsStayWhenTheirRankComesAgain(t *testing.T) {
	j := newPadded(t, 2, 1)
	j.plan(0, 0, 1, 1)
	j.more(0)
	j.at(1, 0, 0, 0) // it hears of both starts
	j.at(0, 0, 1, 4)
	if r := j.join(0, "again"); r.Kind != pb.JoinKind_REJOIN || r.Begun != (Steps{Handed: 1, Ready: 1}) {
		t.Errorf("%+v", r)
	}
	j.s = j.reload()
	j.told(j.at(1, 0, 0, 0), EpochSteps{Epoch: 0, Steps: 4})
	j.told(j.at(0, 0, 1, 1), EpochSteps{Epoch: 0, Steps: 4})
}

// Reports may come late and in any order.
func TestStepsAreNewest(t *testing.T) {
	j := newPadded(t, 1, 2)
	j.plan(0, 0, 1, 1)
	j.plan(1, 0, 1, 1)
	j.more(0)
	j.at(0, 0, 2, 3)
	j.told(j.at(0, 0, 1, 1), EpochSteps{Epoch: 0, Steps: 3})
	j.told(j.at(0, 0, 3, 3, shard(0, 0, 0)), EpochSteps{Epoch: 0, Steps: 3})
	j.told(j.at(0, 1, 0, 1), EpochSteps{Epoch: 1, Steps: 1})
	j.told(j.at(0, 0, 2, 5), EpochSteps{Epoch: 0, Steps: 3}, EpochSteps{Epoch: 1, Steps: 1})
	for _, wrong := range []Steps{{Epoch: 2}, {Epoch: 1, Handed: 2, Ready: 1}, {Epoch: 1, Ready: 1 << 60}} {
		q := j.sync(0)
		q.Steps = &wrong
		j.refuses(q, ErrInvalid, "broken")
	}
}

// Steps of closed epochs are kept as long as a training loop is in them.
func TestStepsAreForgotten(t *testing.T) {
	j := newPadded(t, 2, 4)
	for e := range uint32(3) {
		j.plan(e, 0, 1, 1)
		j.at(0, e, 1, 1, j.more(0)...)
	}
	j.told(j.at(1, 0, 0, 0), EpochSteps{Epoch: 0, Steps: 1}, EpochSteps{Epoch: 1, Steps: 1},
		EpochSteps{Epoch: 2, Steps: 1})
	for r := range uint32(2) {
		j.at(r, 3, 0, 0)
	}
	j.plan(3, 0, 1, 1)
	j.at(0, 3, 1, 1, j.more(0)...)
	if want := []EpochSteps{{Epoch: 3, Steps: 1}}; !slices.Equal(j.s.steps, want) {
		t.Errorf("steps %v, want %v", j.s.steps, want)
	}
}

// A rank that has read all of a small epoch alone waits in it, for the one that comes later begins there, and makes as
// many steps.
func TestAnEpochWaitsForEachRankToJoin(t *testing.T) {
	for name, meanwhile := range map[string]func(j *job){
		"the first waits":        func(*job) {},
		"the first leaves":       func(j *job) { q := j.sync(0); q.Leave = true; j.do(q) },
		"the first's lease ends": func(j *job) { j.do(Expire{Rank: 0, Incarnation: 1}) },
		"another master leads":   func(j *job) { j.s = j.reload() },
	} {
		t.Run(name, func(t *testing.T) {
			j := newJob(t, 3, 2)
			j.s.id.LastBatch, j.s.id.BatchSize = pb.LastBatch_PAD, 1
			j.plan(0, 0, 1, 1)
			j.join(0, "a")
			j.at(0, 0, 5, 5, j.more(0)...)
			meanwhile(j)
			for r := uint32(1); r < 3; r++ {
				if j.s.Closed() != 0 {
					t.Fatalf("the epoch is closed, and rank %d has not joined", r)
				}
				if r := j.join(r, "late"); r.Begun != (Steps{}) {
					t.Errorf("it begins at %+v, not where the first did", r.Begun)
				}
				j.told(j.at(r, 0, 0, 0), EpochSteps{Epoch: 0, Steps: 5})
			}
			if j.s.Closed() != 1 {
				t.Error("all ranks have joined and nothing is left of the epoch, which is not closed")
			}
		})
	}
}

// The ranks of a restored world have all joined: it waits for none of the one before.
func TestARestoredWorldWaitsForNoOtherRank(t *testing.T) {
	j := newJob(t, 2, 2)
	j.s.id.LastBatch = pb.LastBatch_PAD
	j.plan(0, 0, 1, 1)
	j.join(0, "a")
	all := j.more(0)
	j.at(0, 0, 1, 1, all...)
	state := moved()[0]
	state.World, state.Members, state.Consumed, state.Handed = 2, []uint32{0}, position.NewSet(all...), 1
	state.Session, state.Generation, state.BaseVersion = j.s.id.Session, j.s.generation, j.s.baseVersion
	if r := j.do(restoring(0, 1, "alone", state)); r.Kind != pb.JoinKind_RESTORED || j.s.Closed() != 1 {
		t.Errorf("%d epochs are closed of a world of one rank: %+v", j.s.Closed(), r)
	}
}

// A rank that begins when another has handed over its first batch, and that was all, begins where it began.
func TestStartsInStep(t *testing.T) {
	j := newJob(t, 2, 2)
	j.s.id.LastBatch = pb.LastBatch_PAD
	j.plan(0, 0, 1, 1)
	j.join(0, "a")
	j.join(0, "again")
	j.at(0, 0, 1, 1, j.more(0)...)
	if r := j.join(1, "b"); r.Begun != (Steps{}) {
		t.Errorf("%+v", r)
	}
	j.told(j.at(1, 0, 0, 0), EpochSteps{Epoch: 0, Steps: 1})
}

// A rank that left waits for nobody: who comes back does not go on where it had begun, in an epoch whose steps are
// forgotten.
func TestStartsBehindThoseThatLeft(t *testing.T) {
	j := newPadded(t, 3, 3)
	for epoch := range uint32(2) {
		j.plan(epoch, 0, 1, 1)
	}
	leave := func(r uint32) {
		q := j.sync(r)
		q.Leave = true
		j.do(q)
	}
	leave(0)
	leave(1)
	j.join(0, "for nothing")
	leave(0)
	j.more(2)
	j.at(2, 0, 1, 1, shard(0, 0, 0))
	j.more(2)
	j.at(2, 1, 1, 1, shard(1, 0, 0))
	if j.s.Closed() != 2 {
		t.Fatalf("%d epochs are closed", j.s.Closed())
	}
	if r := j.join(1, "again"); r.Begun != (Steps{Epoch: 2}) {
		t.Errorf("it begins at %+v", r.Begun)
	}
}

// Ranks that are started again together go on at one place, whatever they had reported.
func TestStartsAgainInStep(t *testing.T) {
	j := newPadded(t, 3, 2)
	j.plan(0, 0, 1, 8)
	for r, handed := range []uint64{5, 6, 4} {
		j.at(uint32(r), 0, handed, 6)
	}
	want := Steps{Handed: 5, Ready: 5}
	for r := range uint32(3) {
		j.s = j.reload()
		if got := j.join(r, "again").Begun; got != want {
			t.Errorf("rank %d goes on at %+v, want %+v", r, got, want)
		}
		j.at(r, 0, 6, 7) // the first batch needs no other rank
	}
	j.at(1, 0, 7, 7)
	if got := j.join(1, "alone").Begun; got != (Steps{Handed: 7, Ready: 7}) {
		t.Errorf("alone it goes on at %+v", got)
	}
}

func TestRestoreCountsOn(t *testing.T) {
	states := moved()
	states[0].Handed, states[1].Handed = 3, 4
	j := newJob(t, 1, 2)
	j.s.id.LastBatch = pb.LastBatch_PAD
	j.refuses(restoring(0, 1, "x", states...), ErrRestore, "after 4 batches of its epoch, that of rank 0 after 3")
	states[0].Handed = 4
	j = newJob(t, 2, 2)
	j.s.id.LastBatch = pb.LastBatch_PAD
	j.do(restoring(0, 2, "x", states...))
	j.do(restoring(1, 2, "y"))
	want := Steps{Handed: 4, Ready: 4}
	if r := j.do(restoring(0, 2, "x")); r.Kind != pb.JoinKind_RESTORED || r.Begun != want {
		t.Errorf("%+v", r)
	}
	j.s = j.reload()
	if r := j.do(restoring(1, 2, "y")); r.Begun != want {
		t.Errorf("%+v", r)
	}
	j.told(j.at(1, 0, 5, 5), EpochSteps{Epoch: 0, Steps: 5})
}

// One rank has heard that the epoch in which all training loops are is closed, the other has not.
func TestRestoreOfAClosedEpoch(t *testing.T) {
	states := moved()
	for i := range states {
		states[i].Handed = 4
		states[i].Consumed = position.Set{{From: pos(0, uint32(i), 0), To: pos(0, uint32(i)+1, 0)}}
	}
	heard := &states[0]
	heard.Base, heard.Consumed = position.Set{{To: pos(1, 0, 0)}}, position.Set{shard(1, 0, 0)}
	heard.BaseVersion++
	j := newJob(t, 1, 2)
	j.s.id.LastBatch = pb.LastBatch_PAD
	if r := j.do(restoring(0, 1, "x", states...)); r.Closed != 1 || r.Begun != (Steps{Handed: 4, Ready: 4}) {
		t.Fatalf("%+v", r)
	}
	j.told(j.at(0, 0, 4, 4), EpochSteps{Epoch: 0, Steps: 4})
	states[1].Consumed = position.Set{shard(1, 0, 0)}
	j.refuses(restoring(0, 1, "y", states...), ErrRestore, "overlap")
}
