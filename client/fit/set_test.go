package fit

import (
	"bytes"
	"cmp"
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
			var data []byte
			offsets := []int32{0}
			for i := range uint32(rapid.IntRange(0, 3000).Draw(t, "values")) {
				id := seed + mixed(i)%2000
				text := append([]byte(stems[id%7]), byte(id), byte(id>>8))[:len(stems[id%7])+int(id%3)]
				if id == seed+1 {
					text = bytes.Repeat([]byte{'x', byte(id)}, blockSize)
				}
				data, offsets = append(data, text...), append(offsets, int32(len(data)+len(text)))
				want[0][string(text)]++
				keys = append(keys, intKey(int64(int32(id))))
				want[1][string(binary.BigEndian.AppendUint64(nil, keys[i]))]++
			}
			if err := texts.addTexts(data, offsets, func(int) bool { return false }); err != nil {
				t.Fatal(err)
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

// TestVocabulariesSort compares byCount with sorting all at once, for all sizes, and memory that runs out.
func TestVocabulariesSort(t *testing.T) {
	type entry struct {
		value string
		count uint64
	}
	rapid.Check(t, func(t *rapid.T) {
		f, err := openFolder("")
		if err != nil {
			t.Fatal(err)
		}
		defer f.close()
		s := byCount{
			folder: f, memory: rapid.SampledFrom([]int64{200, 5_000, 1 << 20}).Draw(t, "memory"),
			max: rapid.SampledFrom([]uint64{0, 1, 10, 100, 1000}).Draw(t, "max"),
		}
		spread := rapid.SampledFrom([]uint64{2, 50, 100, 1 << 40}).Draw(t, "spread")
		seed := rapid.Uint64().Draw(t, "seed")
		var want []entry
		for i := range rapid.IntRange(0, 1500).Draw(t, "values") {
			e := entry{strings.Repeat("x", i/200) + string(binary.BigEndian.AppendUint16(nil, uint16(i))), 1 + mix(seed+uint64(i))%spread}
			want = append(want, e)
			if err := s.add([]byte(e.value), e.count); err != nil {
				t.Fatal(err)
			}
		}
		slices.SortStableFunc(want, func(a, b entry) int { return cmp.Compare(b.count, a.count) })
		if s.max > 0 && uint64(len(want)) > s.max {
			want = want[:s.max]
		}
		var got []entry
		if err := s.each(func(value []byte, count uint64) error {
			got = append(got, entry{string(value), count})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got %d values, want %d", len(got), len(want))
		}
		if err := s.release(); err != nil {
			t.Fatal(err)
		}
	})
}
