package place

import (
	"slices"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/fleet"
)

func TestPlacement(t *testing.T) {
	shard := &pb.Shard{File: &pb.File{Uri: "file:///a"}, Extents: []*pb.Extent{{Index: 2}}}
	if got := New(nil).For(shard, "z"); len(got) != 0 || New(nil).Streams(3) != 1 {
		t.Errorf("without a fleet: %v", got)
	}
	var members []fleet.Member
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		members = append(members, fleet.Member{Name: name, Address: name + ":1", Slots: 8, Draining: name == "c"})
	}
	places := New(members)
	got := places.For(shard, "")
	if len(got) != Candidates {
		t.Fatalf("%d candidates", len(got))
	}
	seen := map[string]bool{}
	for _, w := range got {
		if seen[w.GetName()] || w.GetName() == "c" || w.GetAddress() != w.GetName()+":1" {
			t.Errorf("candidates %v", got)
		}
		seen[w.GetName()] = true
	}
	for trainers, want := range map[int]uint32{0: 16, 1: 16, 2: 15, 10: 3, 1000: 1} { // 40 slots
		if got := places.Streams(trainers); got != want {
			t.Errorf("%d streams for each of %d trainers, want %d", got, trainers, want)
		}
	}
}

func TestPlacementPrefersTheTrainersZone(t *testing.T) {
	var members []fleet.Member
	zone := map[string]string{}
	for i, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} {
		m := fleet.Member{Name: name, Address: name + ":1", Zone: []string{
			"north", "south", "south", "south", "south",
			"",
		}[i%6]}
		zone[name], members = m.Zone, append(members, m)
	}
	places := New(members)
	for index := range uint32(50) {
		shard := &pb.Shard{File: &pb.File{Uri: "file:///a"}, Extents: []*pb.Extent{{Index: index}}}
		anywhere := places.For(shard, "")
		for asked, near := range map[string]int{"south": Candidates - 1, "north": 2, "east": 0} {
			got := places.For(shard, asked)
			seen := map[string]bool{}
			for i, w := range got {
				seen[w.GetName()] = true
				if i < near && zone[w.GetName()] != asked {
					t.Errorf("candidate %d for zone %s is %s of zone %q", i, asked, w.GetName(), zone[w.GetName()])
				}
			}
			if len(got) != Candidates || len(seen) != Candidates {
				t.Errorf("candidates for zone %s: %v", asked, got)
			}
			if near == 0 && !slices.EqualFunc(got, anywhere,
				func(a, b *pb.Worker) bool { return a.GetName() == b.GetName() }) {
				t.Errorf("an unknown zone gets %v, no zone %v", got, anywhere)
			}
		}
	}
}
