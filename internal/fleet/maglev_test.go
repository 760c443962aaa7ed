package fleet

import (
	"fmt"
	"slices"
	"testing"
)

func named(n int) []Member {
	out := make([]Member, n)
	for i := range out {
		out[i].Name = fmt.Sprintf("worker-%d", i)
	}
	return out
}

func shares(m *Maglev) []int {
	out := make([]int, len(m.members))
	for _, i := range m.table {
		out[i]++
	}
	return out
}

func TestMaglevIsBalanced(t *testing.T) {
	for _, n := range []int{1, 2, 3, 10, 100, 1000} {
		s := shares(NewMaglev(named(n)))
		if low, high := slices.Min(s), slices.Max(s); high-low > 1 {
			t.Errorf("%d members have %d to %d slots", n, low, high)
		}
	}
}

// TestMaglevDisruption holds that a member's leaving moves its own keys and few others.
func TestMaglevDisruption(t *testing.T) {
	for _, n := range []int{2, 10, 100} {
		members := named(n)
		before := NewMaglev(members)
		gone := members[n/2].Name
		after := NewMaglev(slices.Delete(slices.Clone(members), n/2, n/2+1))
		moved, owned := 0, 0
		for i := range before.table {
			old := before.members[before.table[i]].Name
			switch {
			case old == gone:
				owned++
			case old != after.members[after.table[i]].Name:
				moved++
			}
		}
		if owned > tableSize/n+1 || moved > tableSize/50 {
			t.Errorf("%d members: %d slots were the lost member's, %d others of %d moved", n, owned, moved, tableSize)
		}
	}
}

func TestMaglevIsTheSameEverywhere(t *testing.T) {
	members := named(7)
	a := NewMaglev(members)
	slices.Reverse(members)
	b := NewMaglev(members)
	if !slices.Equal(a.table, b.table) {
		t.Error("the order of members matters")
	}
	// Pinned: another process, or a later version, must find the same warm caches.
	got := ""
	for i := range 5 {
		for _, m := range a.Candidates(fmt.Sprintf("s3://bucket/part-%d#0", i), 3) {
			got += m.Name[len("worker-"):]
		}
		got += " "
	}
	const want = "053 201 356 130 204 "
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestCandidates(t *testing.T) {
	if got := NewMaglev(nil).Candidates("k", 4); len(got) != 0 {
		t.Errorf("%v", got)
	}
	for _, n := range []int{1, 2, 3, 50} {
		m := NewMaglev(named(n))
		for k := range 200 {
			got := m.Candidates(fmt.Sprint(k), 4)
			names := map[string]bool{}
			for _, c := range got {
				names[c.Name] = true
			}
			if len(got) != min(n, 4) || len(names) != len(got) {
				t.Fatalf("%d members: %v", n, got)
			}
		}
	}
	twins := []Member{{Name: "a"}, {Name: "a"}}
	if got := NewMaglev(twins).Candidates("k", 2); len(got) != 2 {
		t.Errorf("%v", got)
	}
}

func TestMaglevWithMoreMembersThanSlots(t *testing.T) {
	m := NewMaglev(named(70_000))
	if s := shares(m); len(s) != maxMembers || slices.Min(s) < 1 {
		t.Errorf("%d members, one has %d slots", len(s), slices.Min(s))
	}
	if got := m.Candidates("k", 1000); len(got) != 1000 {
		t.Errorf("%d candidates", len(got))
	}
}
