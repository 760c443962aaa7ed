package session

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// twoRanks is a job whose ranks 0 and 1 consumed a part each, and their states. Rank 2 left.
func twoRanks(t *testing.T) (*job, []Checkpoint) {
	t.Helper()
	j := newJob(t, 3, 2)
	j.plan(0, 0, 2, 8)
	j.plan(0, 1, 2, 8)
	var states []Checkpoint
	for r := range uint32(3) {
		j.join(r, fmt.Sprint(r))
	}
	for _, r := range []uint32{2, 0, 1} {
		taken := j.more(r)[0]
		s := j.sync(r, taken)
		s.Leave, s.Counters.Rows = r == 2, int64(10+r)
		reply := j.do(s)
		if !s.Leave {
			tr := trainer{rank: r, generation: 1}
			tr.consumed, tr.rows = s.Consumed, s.Counters.Rows
			tr.learn(reply)
			states = append(states, tr.state(testID.Session, 3))
		}
	}
	return j, states
}

func restoring(r, world uint32, nonce string, states ...Checkpoint) Join {
	return Join{Rank: r, World: world, Nonce: nonce, Restoring: true, Restore: states}
}

func TestRestoreByALoneRank(t *testing.T) {
	j, states := twoRanks(t)
	consumed := states[0].Base.Union(states[0].Consumed).Union(states[1].Consumed)
	r := j.do(restoring(0, 1, "x", states...))
	if r.Kind != pb.JoinKind_RESTORED || r.Generation != 2 || r.Incarnation != 2 || !r.Base.Equal(consumed) ||
		!slices.Equal(r.Members, []uint32{0}) || len(r.Departed) > 0 || j.s.World() != 1 {
		t.Fatalf("restored: %+v", r)
	}
	if again := j.do(restoring(0, 1, "x", states...)); again.Generation != 2 || again.Incarnation != 2 {
		t.Errorf("a repeated call: %+v", again)
	}
	j.refuses(Sync{Rank: 1, Generation: 1, Incarnation: 1}, ErrFenced, "generation 2")
	if r = j.do(restoring(0, 1, "y", states...)); r.Generation != 3 || r.Incarnation != 3 {
		t.Errorf("the same checkpoint once more: %+v", r)
	}
}

// A rank that brings the states of a whole job writes what they tell alike only once.
func TestARankThatBringsManyStates(t *testing.T) {
	const ranks = 1000
	var base position.Set
	for i := range uint32(300) {
		base = append(base, shard(0, 0, 2*i))
	}
	whole := &part{nonce: "n", round: 3}
	for r := range uint32(ranks) {
		c := Checkpoint{
			Version: 1, Session: "s", Generation: 1, Rank: r, World: ranks, BaseVersion: 7, Base: base,
			Departed: []uint32{1}, DepartedRows: []int64{5},
		}
		for m := range uint32(ranks) {
			c.Members = append(c.Members, m)
		}
		switch r % 3 {
		case 1:
			c.BaseVersion, c.Base = 6, base[:200]
		case 2:
			c.DepartedRows = []int64{6} // as no master says it, of one version
		}
		whole.states = append(whole.states, c)
	}
	data, err := proto.Marshal(whole.proto(9))
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > 1<<16 {
		t.Errorf("%d states take %d bytes", ranks, len(data))
	}
	read := &pb.RankRestore{}
	if err := proto.Unmarshal(data, read); err != nil {
		t.Fatal(err)
	}
	if got := partFromProto(read); !reflect.DeepEqual(got, whole) {
		t.Error("they are read as other states")
	}
}

func TestRestoreWaitsForEveryRank(t *testing.T) {
	j, states := twoRanks(t)
	waits := func(c Join, want ...uint32) {
		t.Helper()
		r := j.do(c)
		if r.Kind != pb.JoinKind_JOIN_KIND_UNSPECIFIED || !slices.Equal(r.WaitingFor, want) {
			t.Fatalf("kind %v, waiting for %d, want %d", r.Kind, r.WaitingFor, want)
		}
		j.s = j.reload()
	}
	a, b, c := restoring(0, 3, "a", states[0]), restoring(1, 3, "b"), restoring(2, 3, "c", states[1])
	waits(a, 1, 2)
	waits(a, 1, 2)
	waits(b, 2)
	waits(c, 0, 1) // all are there; 0 and 1 may be dead meanwhile
	waits(a, 1)
	b.Nonce = "b again" // it was
	waits(b, 0, 2)
	waits(c, 0)
	j.do(j.sync(0, states[0].Consumed...)) // the old job may go on until now
	if r := j.do(a); r.Kind != pb.JoinKind_RESTORED {
		t.Fatalf("%+v", r)
	}
	j.s = j.reload()
	for _, c := range []Join{a, b, c} {
		if r := j.do(c); r.Kind != pb.JoinKind_RESTORED || r.Generation != 2 {
			t.Errorf("rank %d: %+v", c.Rank, r)
		}
	}
}

func TestRestoreInAnotherWorldBeginsAnew(t *testing.T) {
	j, states := twoRanks(t)
	j.do(restoring(0, 3, "a", states[0]))
	j.do(restoring(1, 3, "b", states[1]))
	j.do(restoring(0, 2, "c", states[0]))
	j.do(restoring(1, 2, "d", states[1]))
	if r := j.do(restoring(0, 2, "c")); r.Kind != pb.JoinKind_RESTORED || j.s.World() != 2 {
		t.Errorf("world %d: %+v", j.s.World(), r)
	}
	if r := j.join(1, "e"); r.Kind != pb.JoinKind_REJOIN {
		t.Errorf("%+v", r)
	}
}

func TestRestoreReopensEpochsAndFailedSessions(t *testing.T) {
	j := newJob(t, 1, 2)
	j.plan(0, 0, 1, 4)
	j.join(0, "a")
	taken := j.more(0)[0]
	tr := trainer{generation: 1, consumed: position.Set{taken}}
	tr.learn(j.do(j.sync(0, taken)))
	state := tr.state(testID.Session, 1)
	for j.s.Closed() == 0 {
		j.more(0)
		j.do(j.sync(0, position.Interval{To: j.s.frontier}))
	}
	j.plan(1, 0, 1, 4)
	j.more(0)
	j.do(Fail{Reason: "x"})
	if r := j.do(restoring(0, 1, "b", state)); r.Closed != 0 || r.Failure != "" {
		t.Fatalf("%+v", r)
	}
	j.needs(0, 0) // it was forgotten
	if got := j.more(0); len(got) > 0 {
		t.Fatalf("granted %v ahead of the open epoch", got)
	}
	j.plan(0, 0, 1, 4)
	if got := j.more(0)[0]; got != shard(0, 0, 1) {
		t.Errorf("granted %v", got)
	}
}

func TestRestoreRefusals(t *testing.T) {
	for says, change := range map[string]func(a, b *Checkpoint){
		"version 2":                      func(a, _ *Checkpoint) { a.Version = 2 },
		`session "other"`:                func(a, _ *Checkpoint) { a.Session = "other" },
		"blocks, shards or windows":      func(a, _ *Checkpoint) { a.PlannerDigest = "x" },
		"another spec":                   func(a, _ *Checkpoint) { a.ProgramDigest = "x" },
		"another version of the dataset": func(a, _ *Checkpoint) { a.DatasetDigest = "x" },
		"generation 9": func(a, b *Checkpoint) {
			a.Session, a.Generation = "other",
				9
			b.Session = "other"
		},
		"etcd is older":                 func(a, b *Checkpoint) { a.Generation, b.Generation = 2, 2 },
		"generation 0":                  func(a, b *Checkpoint) { a.Generation, b.Generation = 0, 0 },
		"generations count from 1":      func(a, _ *Checkpoint) { a.Generation = maxGeneration + 1 },
		"rank 5 of 3":                   func(a, _ *Checkpoint) { a.Rank = 5 },
		"ended 3 epochs":                func(a, _ *Checkpoint) { a.Closed = 3 },
		"not of the same step":          func(a, _ *Checkpoint) { a.Closed = 1 },
		"the session has 2 epochs":      func(a, _ *Checkpoint) { a.Consumed = position.Set{{To: pos(2, 0, 1)}} },
		"brought twice":                 func(a, b *Checkpoint) { *b = *a },
		"world size":                    func(a, _ *Checkpoint) { a.World = 4 },
		"rank 0 and rank 1 both have":   func(a, b *Checkpoint) { a.Consumed = b.Consumed },
		"the base and rank 0 both have": func(a, b *Checkpoint) { a.Consumed = b.Base },
		"base of rank 0's state":        func(a, b *Checkpoint) { b.BaseVersion++; a.Base = a.Consumed },
		"states of ranks [2]": func(a, b *Checkpoint) {
			a.Departed, b.Departed, a.DepartedRows,
				b.DepartedRows = nil, nil, nil, nil
		},
		"says of 0 how many rows": func(a, _ *Checkpoint) { a.DepartedRows = nil },
		"nobody brought the states": func(a, b *Checkpoint) {
			a.World, b.World, a.Members, b.Members = 5, 5,
				nil, nil
		},
	} {
		t.Run(says, func(t *testing.T) {
			j, states := twoRanks(t)
			change(&states[0], &states[1])
			j.refuses(restoring(0, 1, "x", states...), ErrRestore, says)
		})
	}
	j, states := twoRanks(t)
	j.refuses(restoring(0, 1, "x", states[0]), ErrRestore, "states of ranks [1]")
	j.refuses(restoring(0, 1, "x"), ErrRestore, "none brought a state")
}

// A rank left after the step of its state, at which those who stay took theirs later. Without its rows in between being
// told, they would be lost: they lie in the base.
func TestRestoreOfAnEarlierStepOfARankThatLeft(t *testing.T) {
	j := newJob(t, 2, 1)
	j.plan(0, 0, 1, 16)
	for r := range uint32(2) {
		j.join(r, fmt.Sprint(r))
	}
	gone, stays := trainer{rank: 1, generation: 1}, trainer{rank: 0, generation: 1}
	var states []Checkpoint
	for range 2 {
		taken := j.more(1)[0]
		gone.consumed, gone.rows = gone.consumed.Union(position.Set{taken}), gone.rows+10
		s := j.sync(1, gone.consumed...)
		s.Counters.Rows = gone.rows
		gone.learn(j.do(s))
		states = append(states, gone.state(testID.Session, 2))
	}
	s := j.sync(1)
	s.Leave = true
	j.do(s)
	j.s = j.reload()
	stays.learn(j.do(j.sync(0)))
	newest := stays.state(testID.Session, 2)
	j.refuses(restoring(0, 1, "x", newest, states[0]), ErrRestore,
		"the state of rank 1 was taken after 10 rows of this rank, but it left after 20, as the state of rank 0 knows")
	if r := j.do(restoring(0, 1, "x", newest, states[1])); r.Kind != pb.JoinKind_RESTORED ||
		!r.Base.Equal(gone.consumed) {
		t.Errorf("restored: %+v", r)
	}
}

// What a rank that comes back handed over before counts, too.
func TestRowsOfEarlierIncarnations(t *testing.T) {
	j := newJob(t, 2, 1)
	j.plan(0, 0, 1, 8)
	j.join(1, "stays")
	for i, nonce := range []string{"a", "b", "c"} {
		if r := j.join(0, nonce); r.Earlier.Rows != int64(7*i) {
			t.Errorf("after %d starts: %+v", i, r.Earlier)
		}
		s := j.sync(0)
		s.Counters.Rows, s.Leave = 7, i == 2
		j.do(s)
		j.s = j.reload()
	}
	if r := j.do(j.sync(1)); !slices.Equal(r.Departed, []uint32{0}) || !slices.Equal(r.DepartedRows, []int64{21}) {
		t.Errorf("told of those who left: %+v", r)
	}
}

// All states must be of one generation and of the same number of closed epochs.
func TestRestoreOfMixedStates(t *testing.T) {
	j, states := twoRanks(t)
	j.do(restoring(0, 1, "x", states...))
	mixed := slices.Clone(states)
	mixed[0].Generation = 2
	j.refuses(restoring(0, 1, "y", mixed...), ErrRestore, "of generation 2")
	for j.s.Closed() == 0 {
		s := j.sync(0, j.s.ranks[0].consumed.Union(j.s.ranks[0].held)...)
		s.WantsMore = true
		j.do(s)
	}
	mixed = slices.Clone(states)
	mixed[0].Closed, mixed[0].Consumed = 1, nil
	j.refuses(restoring(0, 1, "y", mixed...), ErrRestore, "not of the same step")
}

// A rank that joins plainly takes no part in a restore that it began before.
func TestPlainJoinLeavesTheRestore(t *testing.T) {
	j, states := twoRanks(t)
	j.do(restoring(0, 3, "a", states[0]))
	if r := j.join(0, "b"); r.Kind != pb.JoinKind_REJOIN || r.Generation != 1 {
		t.Fatalf("%+v", r)
	}
	j.s = j.reload()
	if r := j.do(restoring(1, 3, "c", states[1])); !slices.Equal(r.WaitingFor, []uint32{0, 2}) {
		t.Errorf("waiting for %d", r.WaitingFor)
	}
}

func TestChangesMerge(t *testing.T) {
	var none Changes
	got := Changes{Ranks: []uint32{1, 5}}.Merge(Changes{Head: true, Ranks: []uint32{3, 5}})
	if !none.Empty() || got.Empty() || !got.Head || !slices.Equal(got.Ranks, []uint32{1, 3, 5}) {
		t.Errorf("got %+v", got)
	}
}

// halves is a job of two ranks that hold an epoch, of which rank 0 has consumed its half.
func halves(t *testing.T) (j *job, zero, one []position.Interval) {
	t.Helper()
	j = newJob(t, 2, 3)
	j.plan(0, 0, 1, 2)
	j.join(0, "a")
	j.join(1, "b")
	zero, one = j.more(0), j.more(1)
	j.do(j.sync(0, zero...))
	return j, zero, one
}

// A rank that leaves may close the epoch that another one's training loop is still in. The other's State has what it
// got, also without the rows of later epochs.
func TestRestoreOfAClosedEpochThatARankLeft(t *testing.T) {
	for _, late := range []bool{false, true} { // it leaves with its last rows, or later
		j, zero, one := halves(t)
		tr := trainer{generation: 1, consumed: position.NewSet(zero...)}
		last := j.sync(1, one...)
		last.Leave = !late
		j.do(last)
		j.s = j.reload()
		if late {
			j.do(Sync{Rank: 1, Generation: 1, Incarnation: 1, Nonce: "b", Leave: true, Steps: &Steps{Epoch: 1}})
		}
		tr.learn(j.do(j.sync(0)))
		state := tr.state(testID.Session, 2)
		if state.Closed != 0 || state.MasterClosed != 1 {
			t.Fatalf("%+v", state)
		}
		later := state
		later.MasterClosed = 2
		if late {
			later.Base = nil
			j.refuses(restoring(0, 1, "y", later), ErrRestore, "more than an epoch behind")
		}
		if r := j.do(restoring(0, 1, "x", state)); r.Closed != 1 {
			t.Errorf("late %v: epoch 0 was consumed, and goes on after the restore: %+v", late, r)
		}
	}
}

// A rank that left and came back knows what it got of an epoch before, and one that is two epochs behind does not hear
// of it any more.
func TestRestoreOfAnEpochThatIsForgotten(t *testing.T) {
	j, _, one := halves(t)
	leave := j.sync(0)
	leave.Leave = true
	j.do(leave)
	knows, late := trainer{}, trainer{rank: 1, generation: 1, consumed: position.NewSet(one...)}
	knows.joined(j.join(0, "c"))
	j.do(j.sync(1, one...))
	j.plan(1, 0, 1, 1)
	j.do(j.sync(0, j.more(0)...))
	late.learn(j.do(j.sync(1)))
	if j.s.Closed() != 2 {
		t.Fatalf("%d epochs are closed", j.s.Closed())
	}
	j.refuses(restoring(0, 1, "y", knows.state(testID.Session, 2), late.state(testID.Session, 2)), ErrRestore,
		"more than an epoch behind")
}

// What ranks got of a closed epoch is forgotten when no training loop is in it any more.
func TestConsumedIsForgottenBehindTheLastLoop(t *testing.T) {
	j, _, one := halves(t)
	j.do(j.sync(1, one...))
	for r, want := range []bool{true, false} {
		c := j.sync(uint32(r))
		c.Steps = &Steps{Epoch: 1}
		j.do(c)
		j.s = j.reload()
		if kept := len(j.s.ranks[0].consumed) > 0; j.s.Closed() != 1 || kept != want {
			t.Errorf("closed %d, and with the loop of rank %d in the next epoch kept is %v", j.s.Closed(), r, kept)
		}
	}
}

// Ranks take their States after one batch of a padded epoch, one of them before the last rows of it went into a later
// batch, and one when these have closed it. Where a rank had left, that one had all of the epoch in earlier releases.
func TestRestoreOfAPaddedEpochThatLaterStepsClosed(t *testing.T) {
	const all = 5 // steps of the epoch
	for _, c := range []struct {
		step         uint64
		left, before bool // before: by an earlier release
	}{{4, false, false}, {all, false, false}, {4, true, false}, {all, true, false}, {4, true, true}, {
		all, true,
		true,
	}} {
		j := newPadded(t, 3, 2)
		j.plan(0, 0, 1, 3)
		leave := j.sync(2, j.more(2)...)
		leave.Leave = c.left
		j.do(leave)
		held, other := j.more(0), j.more(1) // the former goes into the last step
		at := func(r uint32, consumed ...position.Interval) *trainer {
			n := Steps{Handed: c.step}
			k := &trainer{
				rank: r, generation: 1, consumed: position.NewSet(consumed...),
				loop: &loop{at: n, told: map[uint32]uint64{}, final: map[uint32]bool{}},
			}
			q := j.sync(r, consumed...)
			q.Steps = &Steps{Handed: c.step, Ready: c.step}
			told := j.do(q)
			k.learn(told)
			k.loop.learn(told)
			return k
		}
		early := at(0)
		if c.step == all {
			early.consumed = position.NewSet(held...)
		}
		j.at(1, 0, 1, 1, other...)
		j.at(0, 0, all, all, held...)
		states := []Checkpoint{early.state(testID.Session, 3), at(1, other...).state(testID.Session, 3)}
		if !c.left {
			states = append(states, at(2, leave.Consumed...).state(testID.Session, 3))
		}
		if states[0].MasterClosed != 0 || states[1].MasterClosed != 1 {
			t.Fatalf("%+v: %+v", c, states)
		}
		if c.before {
			states[1].Base, states[1].Consumed, states[1].Foresees = position.Set{{To: position.Position{Epoch: 1}}},
				nil, c.step < all
		}
		if states[1].Foresees {
			j.refuses(restoring(0, 1, "x", states...), ErrRestore,
				"the state of rank 0 was taken before the end of epoch 0")
			continue
		}
		j.do(restoring(0, 1, "x", states...))
		var lacks position.Set
		if c.step < all {
			lacks = position.NewSet(held...)
		}
		if !j.s.returned.Equal(lacks) {
			t.Errorf("%+v: %d epochs are closed, and returned is %v, want %v", c, j.s.Closed(), j.s.returned, lacks)
		}
	}
}

// Epochs of one step: a loop that reads a batch ahead closes two while another is in the first, of which a rank that
// left had a part.
func TestRestoreOfPaddedEpochsOfOneStep(t *testing.T) {
	j := newPadded(t, 3, 3)
	begin := &loop{told: map[uint32]uint64{}, final: map[uint32]bool{}} // where both take their States
	ahead, late := &trainer{rank: 0, generation: 1, loop: begin}, &trainer{rank: 1, generation: 1, loop: begin}
	j.plan(0, 0, 1, 2)
	leave := j.sync(2, j.more(2)...)
	mine := j.more(0)
	ahead.learn(j.do(j.sync(0)))
	j.at(0, 0, 1, 1, mine...)
	leave.Leave = true
	j.do(leave)
	j.plan(1, 0, 1, 1)
	j.at(0, 1, 1, 1, j.more(0)...)
	late.learn(j.do(j.sync(1)))
	states := []Checkpoint{ahead.state(testID.Session, 3), late.state(testID.Session, 3)}
	if states[1].Closed != 0 || states[1].MasterClosed != 2 {
		t.Fatalf("%+v", states)
	}
	uneven := slices.Clone(states) // of a session whose ranks were not in step
	uneven[0].Remembers, uneven[1].Remembers = false, false
	j.refuses(restoring(0, 1, "y", uneven...), ErrRestore, "is forgotten")
	j.do(restoring(0, 1, "x", states...))
	want := position.Set{{To: position.Position{Epoch: 1}}}.Subtract(leave.Consumed)
	if got := within(j.s.returned, 0); !got.Equal(want) {
		t.Errorf("%d epochs are closed, and of the first is returned %v, want %v", j.s.Closed(), got, want)
	}
}
