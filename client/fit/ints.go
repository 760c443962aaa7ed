package fit

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// intTable counts keys of numbers: open addressing with linear probing.
type intTable struct {
	slots []counted // a power of two; those whose count is 0 are free
	used  int
	homes [batch]uint32
}

type counted struct{ key, count uint64 }

const (
	batch       = 64   // keys whose slots are looked at before any is counted
	firstSlots  = 1024 // of any table
	countedSize = 16
)

func newIntTable() *intTable { return &intTable{slots: make([]counted, firstSlots)} }

// full reports whether there is no room for a batch of new keys.
func (t *intTable) full() bool { return t.used+batch > len(t.slots)/4*3 }

func (t *intTable) bytes() int64      { return int64(len(t.slots)) * countedSize }
func (t *intTable) grownBytes() int64 { return 3 * t.bytes() }

// mix spreads keys, whose bits are anything but random, over 64 bits.
func mix(key uint64) uint64 {
	key ^= key >> 32
	key *= 0xd6e8feb86659fd93
	key ^= key >> 32
	return key * 0xd6e8feb86659fd93
}

// add counts up to a batch of keys, for which there is room. The slots are looked at first, one by one without waiting:
// the memory brings them at the same time.
func (t *intTable) add(keys []uint64) {
	mask := uint64(len(t.slots) - 1)
	var seen uint64
	for i, key := range keys {
		home := mix(key) >> 32 & mask
		t.homes[i] = uint32(home)
		seen += t.slots[home].count
	}
	_ = seen
	for i, key := range keys {
		at := uint64(t.homes[i])
		for {
			s := &t.slots[at]
			if s.key == key && s.count != 0 {
				s.count++
				break
			}
			if s.count == 0 {
				*s = counted{key, 1}
				t.used++
				break
			}
			at = (at + 1) & mask
		}
	}
}

// put adds to the count of a key, for which there is room.
func (t *intTable) put(key, count uint64) {
	mask := uint64(len(t.slots) - 1)
	at := mix(key) >> 32 & mask
	for t.slots[at].count != 0 && t.slots[at].key != key {
		at = (at + 1) & mask
	}
	if t.slots[at].count == 0 {
		t.slots[at].key = key
		t.used++
	}
	t.slots[at].count += count
}

func (t *intTable) grow() {
	old := t.slots
	t.slots, t.used = makeTable[counted](2*len(old)), 0
	for _, s := range old {
		if s.count != 0 {
			t.put(s.key, s.count)
		}
	}
}

// sorted moves the counted keys, in their order, to the front. Only clear, or nothing, may follow.
func (t *intTable) sorted() source {
	n := 0
	for _, s := range t.slots {
		if s.count != 0 {
			t.slots[n] = s
			n++
		}
	}
	flagSort(t.slots[:n], 56, func(c *counted) uint64 { return c.key },
		func(a, b counted) int { return cmp.Compare(a.key, b.key) })
	return &intSource{list: t.slots[:n]}
}

// flagSort sorts by the bytes of keys from the one at shift on, by which it distributes a list in place (an American
// flag sort), and what is few, or has the same key, by comparing. That takes half the time of comparing all.
func flagSort[T any](list []T, shift int, key func(*T) uint64, compare func(a, b T) int) {
	for ; shift >= 0 && len(list) > 256; shift -= 8 {
		var ends [256]int
		for i := range list {
			ends[byte(key(&list[i])>>shift)]++
		}
		if ends[byte(key(&list[0])>>shift)] == len(list) {
			continue // all have the same byte
		}
		var starts [256]int
		at := 0
		for b, n := range ends {
			starts[b], ends[b] = at, at+n
			at += n
		}
		next := starts
		for b := range next {
			for next[b] < ends[b] {
				first := &list[next[b]]
				home := byte(key(first) >> shift)
				if int(home) != b {
					*first, list[next[home]] = list[next[home]], *first
				}
				next[home]++
			}
		}
		for b, from := range starts {
			flagSort(list[from:ends[b]], shift-8, key, compare)
		}
		return
	}
	slices.SortFunc(list, compare)
}

func (t *intTable) clear() {
	clear(t.slots)
	t.used = 0
}

func (t *intTable) len() int { return t.used }

// intSource shows sorted keys.
type intSource struct {
	list []counted
	at   [8]byte
	n    uint64
}

func (s *intSource) next() (bool, error) {
	if len(s.list) == 0 {
		return false, nil
	}
	binary.BigEndian.PutUint64(s.at[:], s.list[0].key)
	s.n, s.list = s.list[0].count, s.list[1:]
	return true, nil
}

func (s *intSource) key() []byte   { return s.at[:] }
func (s *intSource) count() uint64 { return s.n }
