package master

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/fleet"
)

func TestARevisionTellsGrantsAndFleet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &places{version: rapid.Uint64().Draw(t, "version")}
		revision := rapid.Uint64Range(0, 1<<44-1).Draw(t, "revision")
		if got, same := p.split(p.join(revision)); got != revision || !same {
			t.Fatalf("revision %d comes back as %d, same fleet: %v", revision, got, same)
		}
		next := &places{version: p.version + 1}
		if got, same := next.split(p.join(revision)); got != revision || same {
			t.Fatalf("for the next fleet, revision %d is %d, same fleet: %v", revision, got, same)
		}
		if got, _ := p.split(rapid.Uint64().Draw(t, "joined")); got >= 1<<44 {
			t.Fatalf("split makes %d", got)
		}
	})
}

func TestPlacement(t *testing.T) {
	var p placement
	shard := &pb.Shard{File: &pb.File{Uri: "file:///a"}, RowGroups: []*pb.RowGroup{{Index: 2}}}
	if got := p.get().workersFor(shard, "z"); len(got) != 0 || p.get().streamsFor(3) != 1 {
		t.Errorf("without a fleet: %v", got)
	}
	var members []fleet.Member
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		members = append(members, fleet.Member{Name: name, Address: name + ":1", Slots: 8, Draining: name == "c"})
	}
	p.update(members)
	first := p.get()
	got := first.workersFor(shard, "")
	if len(got) != candidates {
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
		if got := first.streamsFor(trainers); got != want {
			t.Errorf("%d streams for each of %d trainers, want %d", got, trainers, want)
		}
	}
	p.update(members)
	if p.get().version == first.version {
		t.Error("an update leaves the version")
	}
}

func TestPlacementPrefersTheTrainersZone(t *testing.T) {
	var members []fleet.Member
	zone := map[string]string{}
	for i, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} {
		m := fleet.Member{Name: name, Address: name + ":1", Zone: []string{"north", "south", "south", "south", "south", ""}[i%6]}
		zone[name], members = m.Zone, append(members, m)
	}
	var p placement
	p.update(members)
	for index := range uint32(50) {
		shard := &pb.Shard{File: &pb.File{Uri: "file:///a"}, RowGroups: []*pb.RowGroup{{Index: index}}}
		anywhere := p.get().workersFor(shard, "")
		for asked, near := range map[string]int{"south": candidates - 1, "north": 2, "east": 0} {
			got := p.get().workersFor(shard, asked)
			seen := map[string]bool{}
			for i, w := range got {
				seen[w.GetName()] = true
				if i < near && zone[w.GetName()] != asked {
					t.Errorf("candidate %d for zone %s is %s of zone %q", i, asked, w.GetName(), zone[w.GetName()])
				}
			}
			if len(got) != candidates || len(seen) != candidates {
				t.Errorf("candidates for zone %s: %v", asked, got)
			}
			if near == 0 && !slices.EqualFunc(got, anywhere, func(a, b *pb.Worker) bool { return a.GetName() == b.GetName() }) {
				t.Errorf("an unknown zone gets %v, no zone %v", got, anywhere)
			}
		}
	}
}
