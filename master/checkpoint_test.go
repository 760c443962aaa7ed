package master_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/rpc/rpctest"
)

// take asks a master for the checkpoint noon of session run.
func take(t *testing.T, m *node) *pb.CreateCheckpointReply {
	t.Helper()
	ctx, cancel := timely(t)
	defer cancel()
	reply, err := m.CreateCheckpoint(ctx, &pb.CreateCheckpointRequest{Session: "run", Name: "noon", Nonce: "n"})
	check(t, err)
	return reply
}

// A leader is deposed between the parts of a checkpoint, and the next one ends when it is whole. What they took, a
// third one restores.
func TestACheckpointOutlivesLeaders(t *testing.T) {
	e := etcd(t, "127.0.0.1:0")
	wire := rpctest.NewWire(t, strings.TrimPrefix(e.Endpoints()[0], "http://"))
	first := start(t, settings{endpoints: []string{"http://" + wire.Address}, call: time.Second, ttl: 3 * time.Second})
	dir := dataset(t, 7)
	openSession(t, first, "whole", laneSpec(dir, pb.LastBatch_UNEVEN), 1)
	want := train(t, joinAll(t, first, "whole", 1), 0x7fffffff)
	openSession(t, first, "run", laneSpec(dir, pb.LastBatch_UNEVEN), 2)
	ranks := joinAll(t, first, "run", 2)
	got := train(t, ranks, 5)
	for _, r := range ranks {
		check(t, r.sync())
	}
	if reply := take(t, first); reply.GetStep() != 9 || len(reply.GetMissing()) != 2 {
		t.Fatalf("after 5 steps, the checkpoint begins with %v", reply)
	}
	got = append(got, train(t, ranks, 4)...)
	for _, r := range ranks {
		check(t, r.sync())
		if o := r.last.GetCheckpoint(); o.GetBatches() != r.handed {
			t.Fatalf("rank %d is at %d, and its order is %v", r.rank, r.handed, o)
		}
		r.part = &pb.CheckpointPart{Id: r.last.GetCheckpoint().GetId(), State: r.state()}
	}
	check(t, ranks[0].sync())

	second := start(t, settings{endpoints: e.Endpoints()})
	wire.Cut()
	if err := ranks[1].sync(); err == nil {
		t.Error("a leader that is cut off from etcd takes a part")
	}
	ranks[0].master = second
	eventually(t, "the second leads", func() bool { return ranks[0].sync() == nil })
	wire.Mend()
	if err := ranks[1].sync(); err == nil {
		t.Error("a deposed leader takes a part")
	}
	ranks[1].master = second
	if reply := take(t, second); reply.GetStep() != 9 || len(reply.GetMissing()) != 1 ||
		reply.GetMissing()[0].GetRank() != 1 {
		t.Errorf("the second leader waits for %v, want rank 1 at step 9", reply)
	}
	check(t, ranks[1].sync())
	if n := take(t, second).GetCheckpoint(); n.GetStep() != 9 || n.GetWorldSize() != 2 {
		t.Errorf("the checkpoint is %v", n)
	}
	awaitEvent(t, second, pb.EventKind_CHECKPOINT, "run", "checkpoint noon was taken, of step 9")
	first.stop()
	second.stop()

	third := start(t, settings{endpoints: e.Endpoints()})
	eventually(t, "the third leads", func() bool {
		s, err := third.RestoreSession(t.Context(), &pb.RestoreSessionRequest{
			Session: "run", Name: "noon",
			WorldSize: 4, Nonce: "r",
		})
		return err == nil && s.GetWorldSize() == 4
	})
	if rest := train(t, joinAll(t, third, "run", 4), 0x7fffffff); !slices.Equal(append(got, rest...), want) {
		t.Error("after the checkpoint, other batches come")
	}
	awaitEvent(t, third, pb.EventKind_CHECKPOINT, "run",
		"restored to checkpoint noon, of step 9, for 4 trainers; generation 2")
	_, err := third.DeleteCheckpoint(t.Context(), &pb.DeleteCheckpointRequest{Session: "run", Name: "noon"})
	check(t, err)
	awaitEvent(t, third, pb.EventKind_CHECKPOINT, "run", "checkpoint noon was deleted")
}
