package fit

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestSetsCount compares sets with maps: texts in entries, in blocks and longer than blocks, and ints, with memory that
// runs out at any time.
func TestSetsCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, err := openFolder("")
		if err != nil {
			t.Fatal(err)
		}
		defer f.close()
		memory := newBudget(rapid.SampledFrom([]int64{0, 100 << 10, 300 << 10, 64 << 20}).Draw(t, "memory"), 2)
		texts, ints := newSet(0, true, false, 0, f, memory), newSet(1, false, true, 0, f, memory)
		want := [2]map[string]uint64{{}, {}}
		stems := []string{"", "\x00", "a", "ab\x00", "abcdefghijkl", "abcdefghijklm", strings.Repeat("ü", 300)}
		for range rapid.IntRange(1, 4).Draw(t, "parts") {
			seed := rapid.Uint32().Draw(t, "seed")
			var keys []uint64
			for i := range uint32(rapid.IntRange(0, 3000).Draw(t, "values")) {
				id := seed + mixed(i)%2000
				text := append([]byte(stems[id%7]), byte(id), byte(id>>8))[:len(stems[id%7])+int(id%3)]
				if id == seed+1 {
					text = bytes.Repeat([]byte{'x', byte(id)}, blockSize)
				}
				if err := texts.addText(text); err != nil {
					t.Fatal(err)
				}
				want[0][string(text)]++
				keys = append(keys, intKey(int64(int32(id))))
				want[1][string(binary.BigEndian.AppendUint64(nil, keys[i]))]++
			}
			if err := ints.addKeys(keys); err != nil {
				t.Fatal(err)
			}
			if rapid.Bool().Draw(t, "spill") {
				if err := texts.spill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		for i, s := range []*set{texts, ints} {
			m, done, err := s.all()
			if err != nil {
				t.Fatal(err)
			}
			for _, key := range slices.Sorted(maps.Keys(want[i])) {
				if ok, err := m.next(); !ok || err != nil || string(m.key()) != key || m.count() != want[i][key] {
					t.Fatalf("set %d: %.20q with %d, want %.20q with %d", i, m.key(), m.count(), key, want[i][key])
				}
			}
			if ok, err := m.next(); ok || err != nil {
				t.Fatalf("set %d has more: %q, %v", i, m.key(), err)
			}
			done()
			if err := s.release(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func mixed(i uint32) uint32 { return uint32(mix(uint64(i))) }
