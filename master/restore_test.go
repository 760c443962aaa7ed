package master_test

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// TestRestoreIntoANewEtcd moves a job of two ranks to masters that know nothing of it, as three ranks, while the
// leader changes in the middle of the restore.
func TestRestoreIntoANewEtcd(t *testing.T) {
	for _, id := range []string{"run", "another run"} {
		t.Run(id, func(t *testing.T) {
			const files, epochs = 4, 2
			s := newSpec(dataset(t, files))
			s.Epochs = epochs
			first := single(t)
			openSession(t, first, "run", s, 2)
			old := []*trainer{
				newTrainer(t, first, "run", 0, 2).mustJoin("a"),
				newTrainer(t, first, "run", 1, 2).mustJoin("b"),
			}
			var states []*pb.State
			for _, r := range old {
				eventually(t, "some was consumed", func() bool { check(t, r.sync()); return r.consume(2) > 0 })
				check(t, r.sync())
			}
			for _, r := range old {
				state := r.state()
				// A Sync may have told of the other rank since.
				state.Members, state.BaseVersion = []uint32{0, 1}, old[1].joined.GetBaseVersion()
				states = append(states, state)
			}
			first.stop()

			e := etcd(t, "")
			second := start(t, settings{endpoints: e.Endpoints()})
			openSession(t, second, id, s, 1)
			var ranks []*trainer
			for rank := range uint32(3) {
				ranks = append(ranks, newTrainer(t, second, id, rank, 3))
			}
			check(t, ranks[0].restore("c", true, states[1]))
			check(t, ranks[2].restore("d", true, states[0]))
			third := start(t, settings{endpoints: e.Endpoints()})
			second.stop()
			eventually(t, "all are restored", func() bool {
				restored := 0
				for i, states := range [][]*pb.State{{states[1]}, nil, {states[0]}} {
					ranks[i].master = third
					err := ranks[i].restore([]string{"c", "e", "d"}[i], true, states...)
					if status.Code(err) == codes.Unavailable { // it does not lead yet
						return false
					}
					check(t, err)
					if ranks[i].joined.GetKind() == pb.JoinKind_RESTORED {
						restored++
					}
				}
				return restored == 3
			})
			if got := ranks[0].joined.GetGeneration(); got != 2 {
				t.Errorf("the generation is %d, want 2", got)
			}
			eventually(t, "all are done", func() bool {
				finished := true
				for _, r := range ranks {
					check(t, r.sync())
					r.consume(1)
					finished = finished && r.finished()
				}
				return finished
			})
			once(t, files, epochs, append(ranks, old...)...)
		})
	}
}

// A state of nothing but ended epochs begins a new session at a later one.
func TestANewSessionBeginsAtAnEpoch(t *testing.T) {
	m := single(t)
	s := newSpec(dataset(t, 2))
	s.Epochs = 3
	opened := openSession(t, m, "run", s, 1)
	r := newTrainer(t, m, "run", 0, 1)
	check(t, r.restore("a", true, &pb.State{
		Version: 1, Session: opened.GetId(), Generation: opened.GetGeneration(), WorldSize: 1, ClosedEpochs: 2,
		ProgramDigest: opened.GetProgramDigest(), DatasetDigest: opened.GetDatasetDigest(),
		PlannerDigest: opened.GetPlannerDigest(),
	}))
	if r.joined.GetKind() != pb.JoinKind_RESTORED || r.joined.GetClosedEpochs() != 2 {
		t.Fatalf("joined: %v", r.joined)
	}
	r.work(r.finished)
	once(t, 2, 1, r)
	if got := position.SetFromProto(r.joined.GetBase()); len(got) > 0 {
		t.Errorf("the base is %v", got)
	}
}
