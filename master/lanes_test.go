package master_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// laneTrainer is a scripted trainer in deterministic order.
type laneTrainer struct {
	*trainer
	handed uint64
	steps  map[uint32]*pb.EpochSteps
	starts []*pb.LaneStart
	part   *pb.CheckpointPart // goes out with each Sync
}

func newLaneTrainer(t *testing.T, m *node, session string, rank, world uint32) *laneTrainer {
	t.Helper()
	return &laneTrainer{trainer: newTrainer(t, m, session, rank, world), steps: map[uint32]*pb.EpochSteps{}}
}

// begin takes over the answer to a Join.
func (r *laneTrainer) begin() *laneTrainer {
	r.epoch, r.handed = r.joined.GetSteps().GetEpoch(), r.joined.GetSteps().GetHanded()
	r.starts = r.joined.GetStarts()
	return r
}

// share is the rows of each lane in a step.
func (r *laneTrainer) share() uint64 {
	s := r.joined.GetSession()
	return uint64(s.GetBatchSize()) * uint64(s.GetWorldSize()) / uint64(s.GetLanes())
}

func (r *laneTrainer) sync() error {
	req := r.request()
	req.Checkpoint = r.part
	req.Consumed, req.Steps = nil, &pb.RankSteps{Epoch: r.epoch, Handed: r.handed}
	epoch := r.epoch
	err := r.send(req)
	r.epoch = epoch // which is its own business here
	if err != nil {
		return err
	}
	for _, e := range r.last.GetSteps() {
		r.steps[e.GetEpoch()] = e
	}
	r.starts = append(r.starts, r.last.GetStarts()...)
	return nil
}

// hand hands over the next batch, if the epoch has it, and lists its rows. It ends epochs that are over.
func (r *laneTrainer) hand() (rows []string, ok bool) {
	r.t.Helper()
	told := r.steps[r.epoch]
	if r.handed == told.GetSteps() && told.GetFinal() {
		r.epoch, r.handed = r.epoch+1, 0
	}
	if told = r.steps[r.epoch]; r.handed >= told.GetSteps() {
		return nil, false
	}
	lanes := r.joined.GetSession().GetLanes()
	from, to := r.handed*r.share(), (r.handed+1)*r.share()
	for lane := r.rank * lanes / r.world; lane < (r.rank+1)*lanes/r.world; lane++ {
		at := from
		for _, g := range r.grants {
			if g.GetInterval().GetFrom().GetEpoch() != r.epoch || g.GetLane() != lane ||
				g.GetFirst()+g.GetRows() <= at || g.GetFirst() >= to {
				continue
			}
			if g.GetFirst() > at {
				r.t.Fatalf("rank %d lacks row %d of lane %d; a grant is %v", r.rank, at, lane, g)
			}
			all := r.rowsOf(g)
			end := min(to, g.GetFirst()+g.GetRows())
			rows = append(rows, all[at-g.GetFirst():end-g.GetFirst()]...)
			at = end
		}
		if at < to && !told.GetFinal() {
			r.t.Fatalf("rank %d has rows up to %d of lane %d, and was told of %v", r.rank, at, lane, told)
		}
	}
	r.handed++
	r.counters.Batches++
	return rows, true
}

// rowsOf names the output rows of a grant.
func (r *laneTrainer) rowsOf(g *pb.Grant) (out []string) {
	tk := r.open(g)
	from, to := g.GetInterval().GetFrom(), g.GetInterval().GetTo()
	window := uint32(0)
	for _, rg := range tk.GetExtents() {
		for _, n := range rg.GetOutputs() {
			for k := range uint64(n) {
				before := window < from.GetWindow() || window == from.GetWindow() && k < from.GetK()
				inShard := to.GetEpoch() == from.GetEpoch() && to.GetBlock() == from.GetBlock() &&
					to.GetShard() == from.GetShard()
				after := inShard && (window > to.GetWindow() || window == to.GetWindow() && k >= to.GetK())
				if !before && !after {
					out = append(out, fmt.Sprintf("%d %s %d.%d.%d", tk.GetEpoch(), tk.GetFile().GetUri(), rg.GetIndex(),
						window, k))
				}
			}
			window++
		}
	}
	if uint64(len(out)) != g.GetRows() {
		r.t.Fatalf("the grant %v has %d rows", g, len(out))
	}
	return out
}

// state is the trainer's checkpoint.
func (r *laneTrainer) state() *pb.State {
	s := r.trainer.state()
	s.ClosedEpochs, s.Handed, s.Base, s.Consumed = r.epoch, r.handed, nil, nil
	s.GlobalBatch = r.share() * uint64(r.joined.GetSession().GetLanes())
	for _, l := range r.starts {
		past := slices.ContainsFunc(l.GetRows(), func(n uint64) bool { return n > r.handed*r.share() })
		if l.GetEpoch() == r.epoch && !past && l.GetBlock() >= s.GetStart().GetBlock() {
			s.Start = l
		}
	}
	return s
}

// train has trainers go in step until a number of steps, or until all is done, and returns the global batches.
func train(t *testing.T, ranks []*laneTrainer, steps int) (batches []string) {
	t.Helper()
	for len(batches) != steps {
		var batch []string
		handed := 0
		eventually(t, "all ranks hand over a batch", func() bool {
			for _, r := range ranks {
				check(t, r.sync())
			}
			for _, r := range ranks[handed:] {
				rows, ok := r.hand()
				if !ok {
					return handed == 0 && r.last.GetFinished()
				}
				batch = append(batch, rows...)
				handed++
			}
			return true
		})
		if handed == 0 {
			return batches
		}
		batches = append(batches, strings.Join(batch, "\n"))
	}
	return batches
}

func joinAll(t *testing.T, m *node, session string, world uint32, states ...*pb.State) []*laneTrainer {
	t.Helper()
	ranks := make([]*laneTrainer, world)
	for i := range ranks {
		ranks[i] = newLaneTrainer(t, m, session, uint32(i), world)
		if len(states) == 0 {
			ranks[i].mustJoin(fmt.Sprint("start ", i))
		}
	}
	if len(states) > 0 {
		eventually(t, "the restore is done", func() bool {
			done := true
			for i, r := range ranks {
				var mine []*pb.State
				if i == 0 {
					mine = states
				}
				check(t, r.restore(fmt.Sprint("restored ", i), true, mine...))
				done = done && r.joined.GetKind() == pb.JoinKind_RESTORED
			}
			return done
		})
	}
	for _, r := range ranks {
		r.begin()
	}
	return ranks
}

func laneSpec(dir string, last pb.LastBatch) *pb.Spec {
	s := newSpec(dir)
	s.BatchSize, s.GlobalBatchSize, s.Order, s.Lanes, s.LastBatch, s.Epochs = 0, 16, pb.Order_DETERMINISTIC, 4, last, 2
	return s
}

// The global batches are the same for every world size, and have each row once.
func TestLanesGiveTheSameBatches(t *testing.T) {
	m := single(t)
	dir := dataset(t, 7)
	for _, last := range []pb.LastBatch{pb.LastBatch_UNEVEN, pb.LastBatch_DROP, pb.LastBatch_PAD} {
		var want []string
		for _, world := range []uint32{1, 2, 4} {
			session := fmt.Sprint(last, world)
			openSession(t, m, session, laneSpec(dir, last), world)
			got := train(t, joinAll(t, m, session, world), 0x7fffffff)
			if world == 1 {
				want = got
				seen := map[string]int{}
				for _, b := range got {
					for _, row := range strings.Split(b, "\n") {
						seen[row]++
					}
				}
				all := 2 * 7 * groups * rows
				if last == pb.LastBatch_DROP {
					all = 2 * (7 * groups * rows / 16) * 16
				}
				if len(seen) != all {
					t.Errorf("%v: %d rows, want %d", last, len(seen), all)
				}
				for row, n := range seen {
					if n != 1 {
						t.Errorf("%v: row %s was handed over %d times", last, row, n)
					}
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%v: %d ranks have other batches than one", last, world)
			}
		}
	}
}

// Lanes that have a part of a shard each share its ticket.
func TestLanesShareTickets(t *testing.T) {
	m := single(t)
	s := laneSpec(dataset(t, 1), pb.LastBatch_PAD)
	s.Lanes = 16
	openSession(t, m, "run", s, 1)
	r := joinAll(t, m, "run", 1)[0]
	eventually(t, "an epoch is granted", func() bool {
		check(t, r.sync())
		return r.steps[0].GetFinal()
	})
	shards := map[position.Position]bool{}
	for _, g := range r.grants {
		shards[position.FromProto(g.GetInterval().GetFrom()).ShardStart()] = true
		r.rowsOf(g) // by its ticket
	}
	if len(r.grants) < 16 || len(shards) > 2*groups || r.tickets != len(shards) { // of both epochs
		t.Errorf("%d grants, of %d shards, have %d tickets", len(r.grants), len(shards), r.tickets)
	}
}

// Any one state restores the job, with any number of ranks, also where nothing is left of its session.
func TestLanesRestored(t *testing.T) {
	m := single(t)
	dir := dataset(t, 7)
	openSession(t, m, "whole", laneSpec(dir, pb.LastBatch_UNEVEN), 1)
	want := train(t, joinAll(t, m, "whole", 1), 0x7fffffff)
	for _, after := range []int{1, 6, 13, 14, 15, 20} {
		session := fmt.Sprint("run ", after)
		openSession(t, m, session, laneSpec(dir, pb.LastBatch_UNEVEN), 2)
		ranks := joinAll(t, m, session, 2)
		got := train(t, ranks, after)
		states := []*pb.State{ranks[0].state(), ranks[1].state()}
		train(t, ranks, 2) // which are lost
		if after > 8 && after < 14 && states[0].GetStart().GetBlock() == 0 {
			t.Errorf("after %d steps, the states begin at %v", after, states[0].GetStart())
		}
		ranks = joinAll(t, m, session, 4, states...)
		if rest := train(t, ranks, 0x7fffffff); !slices.Equal(append(slices.Clone(got), rest...), want) {
			t.Errorf("after %d steps, 4 ranks go on with other batches", after)
		}
		elsewhere := start(t, settings{endpoints: etcd(t, "").Endpoints()})
		openSession(t, elsewhere, "new", laneSpec(dir, pb.LastBatch_UNEVEN), 1)
		ranks = joinAll(t, elsewhere, "new", 1, states[1])
		if rest := train(t, ranks, 0x7fffffff); !slices.Equal(append(slices.Clone(got), rest...), want) {
			t.Errorf("after %d steps, one rank goes on elsewhere with other batches", after)
		}
		elsewhere.stop()
	}
	r := newLaneTrainer(t, m, "whole", 0, 3)
	if err := r.join("x"); status.Code(err) != codes.InvalidArgument ||
		!strings.Contains(err.Error(), "world size 3 does not divide the 4 lanes") {
		t.Errorf("three ranks join: %v", err)
	}
}

// Another master goes on with the lanes as they lie in etcd.
func TestLanesTakenOver(t *testing.T) {
	endpoints := etcd(t, "").Endpoints()
	m := start(t, settings{endpoints: endpoints})
	dir := dataset(t, 7)
	openSession(t, m, "whole", laneSpec(dir, pb.LastBatch_UNEVEN), 1)
	want := train(t, joinAll(t, m, "whole", 1), 0x7fffffff)
	openSession(t, m, "run", laneSpec(dir, pb.LastBatch_UNEVEN), 2)
	ranks := joinAll(t, m, "run", 2)
	got := train(t, ranks, 5)
	m.stop()
	m = start(t, settings{endpoints: endpoints})
	for _, r := range ranks {
		r.master = m
	}
	ranks[1] = newLaneTrainer(t, m, "run", 1, 2) // which died, and had reported all but its last batch
	eventually(t, "the second master leads", func() bool { return ranks[1].join("again") == nil })
	ranks[1].begin()
	ranks[1].handed = cmp.Or(ranks[1].handed+1, 0)
	if got = append(got, train(t, ranks, 0x7fffffff)...); !slices.Equal(got, want) {
		t.Error("after a change of the master, other batches come")
	}
}
