package master

import (
	"testing"

	"pgregory.net/rapid"

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

func TestAnUpdateMakesAnotherVersion(t *testing.T) {
	var p placement
	if first := p.get(); first.Workers != 0 || first.Streams(3) != 1 || p.get() != first {
		t.Errorf("without a fleet: %+v", first)
	}
	p.update([]fleet.Member{{Name: "a"}})
	first := p.get()
	p.update([]fleet.Member{{Name: "a"}})
	select {
	case <-first.outdated:
	default:
		t.Error("nobody is told of the update")
	}
	if p.get().version == first.version {
		t.Error("an update leaves the version")
	}
}
