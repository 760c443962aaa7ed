package cache

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestPolicies: each policy names an entry as long as there are any, and all of them one by one.
func TestPolicies(t *testing.T) {
	for name, make := range map[string]func() Policy{"lru": NewLRU} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { conform(t, make()) })
		})
	}
}

func conform(t *rapid.T, p Policy) {
	var there []uint32
	var free []uint32
	t.Repeat(map[string]func(*rapid.T){
		"add": func(*rapid.T) {
			n := uint32(len(there))
			if len(free) > 0 {
				n, free = free[0], free[1:]
			}
			p.Added(n, keyOf(int(n)))
			there = append(there, n)
		},
		"want": func(t *rapid.T) {
			if len(there) > 0 {
				p.Wanted(rapid.SampledFrom(there).Draw(t, "entry"))
			}
		},
		"remove": func(t *rapid.T) {
			if len(there) == 0 {
				return
			}
			i := rapid.IntRange(0, len(there)-1).Draw(t, "entry")
			p.Removed(there[i])
			free, there = append(free, there[i]), slices.Delete(there, i, i+1)
		},
		"evict": func(t *rapid.T) {
			n, ok := p.Next()
			i := slices.Index(there, n)
			if ok != (len(there) > 0) || ok && i < 0 {
				t.Fatalf("entry %d is to go: %v, of %v", n, ok, there)
			}
			if ok {
				p.Removed(n)
				free, there = append(free, n), slices.Delete(there, i, i+1)
			}
		},
	})
	for range there {
		n, ok := p.Next()
		if !ok {
			t.Fatal("none is to go, and some are there")
		}
		p.Removed(n)
	}
	if n, ok := p.Next(); ok {
		t.Fatalf("entry %d is to go, and is not there", n)
	}
}

// TestLRU: what was wanted least lately goes first.
func TestLRU(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := NewLRU()
		var order []uint32
		for n := range uint32(8) {
			p.Added(n, Key{})
			order = append(order, n)
		}
		for _, n := range rapid.SliceOf(rapid.Uint32Range(0, 7)).Draw(t, "wanted") {
			p.Wanted(n)
			i := slices.Index(order, n)
			order = append(slices.Delete(order, i, i+1), n)
		}
		for _, want := range order {
			if got, ok := p.Next(); !ok || got != want {
				t.Fatalf("%d goes, not %d", got, want)
			}
			p.Removed(want)
		}
	})
}
