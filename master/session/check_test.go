package session

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

func TestCheckFinds(t *testing.T) {
	for says, damage := range map[string]func(s *State){
		"granted twice":           func(s *State) { s.returned = s.ranks[0].held },
		"base and rank 0":         func(s *State) { s.base = s.ranks[0].consumed },
		"nobody has":              func(s *State) { s.ranks[0].consumed = nil },
		"parts end at":            func(s *State) { s.frontier = pos(0, 0, 7) },
		"the frontier is":         func(s *State) { s.closed = 1 },
		"1 epochs are closed":     func(s *State) { s.closed, s.id.Epochs = 1, 0 },
		"not in memory":           func(s *State) { s.blocks.list = nil },
		"after the last shard":    func(s *State) { s.blocks.list[0].shards = 1 },
		"asked to release":        func(s *State) { s.ranks[0].releasing = s.ranks[0].consumed },
		"has departed or its lea": func(s *State) { s.ranks[0].expired = true },
	} {
		j := newJob(t, 1, 1)
		j.plan(0, 0, 1, 16)
		j.join(0, "a")
		j.more(0)
		j.do(j.sync(0, shard(0, 0, 0)))
		damage(j.s)
		if err := j.s.Check(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want an error that says %q", err, says)
		}
	}
}

func TestLoadRefusesDamage(t *testing.T) {
	id := testID
	id.Epochs = 1
	for _, head := range []*pb.SessionHead{
		nil,
		{WorldSize: maxWorld + 1},
		{WorldSize: 1, RestoreWorldSize: 1 << 31},
		{WorldSize: 1, Frontier: pos(0, 0, 1).Proto()},
		{WorldSize: 1, ClosedEpochs: 2},
	} {
		if _, err := Load(id, head, nil, nil, nil); err == nil {
			t.Errorf("%v was accepted", head)
		}
	}
}

// FuzzCalls lets a trainer say anything: the master neither panics nor breaks the partition.
func FuzzCalls(f *testing.F) {
	seed := func(s *pb.SyncRequest, r *pb.State) {
		a, _ := proto.Marshal(s)
		b, _ := proto.Marshal(r)
		f.Add(a, b)
	}
	first := position.Set{shard(0, 0, 0)}
	state := Checkpoint{
		Version: checkpointVersion, Session: testID.Session, Generation: 1, World: 1, Consumed: first,
		ProgramDigest: testID.ProgramDigest, DatasetDigest: testID.DatasetDigest, PlannerDigest: testID.PlannerDigest,
	}
	seed(&pb.SyncRequest{Consumed: first.Proto(), WantsMore: true}, state.Proto())
	state.Consumed = position.Set{{From: pos(0, 0, 9), To: pos(0, 7, 0)}, {From: pos(0, 9, 9), To: pos(0, 1<<30, 5)}}
	seed(&pb.SyncRequest{Consumed: state.Consumed.Proto(), Released: first.Proto(), Leave: true}, state.Proto())
	state.Consumed = position.Set{{From: pos(0, 9, 9), To: pos(0, 1<<30, 5)}} // begins after the epoch's last block
	seed(&pb.SyncRequest{}, state.Proto())
	f.Fuzz(func(t *testing.T, sync, state []byte) {
		var q pb.SyncRequest
		var m pb.State
		if proto.Unmarshal(sync, &q) != nil || proto.Unmarshal(state, &m) != nil {
			return
		}
		j := newJob(t, 1, 3)
		j.plan(0, 0, 2, 4)
		j.plan(0, 1, 2, 3)
		j.join(0, "a")
		j.more(0)
		j.do(Recall{Set: position.Set{shard(0, 0, 0)}})
		said := j.sync(0, position.SetFromProto(q.GetConsumed())...)
		said.Released, said.Leave, said.WantsMore = position.SetFromProto(q.GetReleased()), q.GetLeave(),
			q.GetWantsMore()
		said.Revision, said.Streams, said.Steps = 1<<40, 7, StepsFromProto(q.GetSteps())
		for _, c := range []Command{
			said, said, restoring(0, 1, "b", CheckpointFromProto(&m)),
			Planned{Blocks: 2, Shards: 4},
		} {
			_, _, _ = j.s.Apply(c)
			if err := j.s.Check(); err != nil {
				t.Fatalf("after %T: %v", c, err)
			}
			j.s.NeedsPlan()
		}
		j.s = j.reload()
		if k := j.s.ranks[0]; !k.departed {
			j.more(0, k.consumed...)
		}
	})
}
