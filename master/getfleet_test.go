package master_test

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/fleet"
	"github.com/penstock-ml/penstock/master"
)

// Every master names the leader and all members, and knows how many streams workers report to it.
func TestGetFleet(t *testing.T) {
	endpoints := etcd(t, "").Endpoints()
	first := start(t, settings{
		endpoints: endpoints,
		Config:    master.Config{Fleet: fleet.Config{Self: fleet.Member{Name: "m1", Zone: "north", Version: "v1"}}},
	})
	second := start(t, settings{
		endpoints: endpoints,
		Config:    master.Config{Fleet: fleet.Config{Self: fleet.Member{Name: "m2"}, Join: []string{first.gossip}}},
	})
	worker := addWorker(t, second, fleet.Member{
		Name: "w", Address: "10.0.0.1:1", Zone: "south", Version: "v2",
		Slots: 8,
	})
	check(t, worker.Update(func(m *fleet.Member) { m.Draining = true }))
	want := []*pb.FleetMember{
		{Role: "master", Name: "m1", Address: first.address, Zone: "north", Version: "v1"},
		{Role: "master", Name: "m2", Address: second.address},
		{Role: "worker", Name: "w", Address: "10.0.0.1:1", Zone: "south", Version: "v2", Slots: 8, Draining: true},
	}
	ask := func(n *node) *pb.Fleet {
		got, err := n.GetFleet(t.Context(), &pb.GetFleetRequest{})
		check(t, err)
		return got
	}
	for _, n := range []*node{first, second} {
		eventually(t, "both masters know all", func() bool {
			got := ask(n)
			return got.GetLeader() == first.address &&
				slices.EqualFunc(got.GetMembers(), want, func(a, b *pb.FleetMember) bool { return proto.Equal(a, b) })
		})
		report := &pb.WorkerReport{Name: "w", Streams: 5, Slots: 8}
		eventually(t, "its streams are known", func() bool {
			_, err := n.SyncWorker(t.Context(), report)
			check(t, err)
			return ask(n).GetStreams() == 5
		})
	}
	first.stop()
	eventually(t, "the second master leads", func() bool {
		got := ask(second)
		return got.GetLeader() == second.address && len(got.GetMembers()) == 2
	})
}
