package fit

import (
	"bytes"
	"hash/maphash"
	"slices"
)

// textTable counts texts: open addressing with linear probing. Texts lie one behind the other in blocks, so that a table
// of millions of them has few pointers.
type textTable struct {
	slots   []textSlot // a power of two; entry 0 is free
	entries []textEntry
	blocks  [][]byte
	spare   [][]byte // blocks of before clear
	seed    maphash.Seed
}

// textSlot names entry-1, whose text has a hash.
type textSlot struct{ hash, entry uint32 }

type textEntry struct {
	count  uint64
	block  uint32
	start  uint32
	length uint32
}

const (
	slotSize, entrySize = 8, 24
	firstBlock          = 16 << 10
	blockSize           = 1 << 20
)

func newTextTable() *textTable {
	t := &textTable{seed: maphash.MakeSeed()}
	t.resize(firstSlots)
	return t
}

// resize makes room for entries in three of four slots.
func (t *textTable) resize(slots int) {
	old := t.entries
	t.slots = make([]textSlot, slots)
	t.entries = append(make([]textEntry, 0, slots/4*3), old...)
	for i := range t.entries {
		hash := maphash.Bytes(t.seed, t.text(&t.entries[i]))
		at := t.home(hash)
		for t.slots[at].entry != 0 {
			at = (at + 1) & (len(t.slots) - 1)
		}
		t.slots[at] = textSlot{uint32(hash), uint32(i + 1)}
	}
}

func (t *textTable) home(hash uint64) int { return int(hash>>32) & (len(t.slots) - 1) }

func (t *textTable) text(e *textEntry) []byte { return t.blocks[e.block][e.start:][:e.length] }

func (t *textTable) full() bool { return len(t.entries) == cap(t.entries) }

func (t *textTable) grow() { t.resize(2 * len(t.slots)) }

func (t *textTable) tableBytes() int64 { return int64(len(t.slots)) * (slotSize + entrySize*3/4) }

func (t *textTable) bytes() int64 {
	n := t.tableBytes()
	for _, b := range t.blocks {
		n += int64(cap(b))
	}
	for _, b := range t.spare {
		n += int64(cap(b))
	}
	return n
}

func (t *textTable) grownBytes() int64 { return t.bytes() + t.tableBytes() }

// count counts a text if it is there.
func (t *textTable) count(text []byte, n uint64) (hash uint64, ok bool) {
	hash = maphash.Bytes(t.seed, text)
	at := t.home(hash)
	for t.slots[at].entry != 0 {
		if t.slots[at].hash == uint32(hash) {
			if e := &t.entries[t.slots[at].entry-1]; bytes.Equal(t.text(e), text) {
				e.count += n
				return hash, true
			}
		}
		at = (at + 1) & (len(t.slots) - 1)
	}
	return hash, false
}

// room reports how many bytes a new block must have for a text; 0: there is room.
func (t *textTable) room(text []byte) int64 {
	if n := len(t.blocks); n > 0 && cap(t.blocks[n-1])-len(t.blocks[n-1]) >= len(text) {
		return 0
	}
	if n := len(t.spare); n > 0 && cap(t.spare[n-1]) >= len(text) {
		return 0
	}
	return int64(max(len(text), min(blockSize, firstBlock<<min(len(t.blocks), 10))))
}

// insert adds a text that is not there, for which there is a free entry, in a new block of so many bytes, if not 0.
func (t *textTable) insert(text []byte, hash, n uint64, block int64) {
	switch last := len(t.blocks) - 1; {
	case block > 0:
		t.blocks = append(t.blocks, make([]byte, 0, block))
	case last < 0 || cap(t.blocks[last])-len(t.blocks[last]) < len(text):
		t.blocks = append(t.blocks, t.spare[len(t.spare)-1][:0])
		t.spare = t.spare[:len(t.spare)-1]
	}
	last := len(t.blocks) - 1
	e := textEntry{count: n, block: uint32(last), start: uint32(len(t.blocks[last])), length: uint32(len(text))}
	t.blocks[last] = append(t.blocks[last], text...)
	t.entries = append(t.entries, e)
	at := t.home(hash)
	for t.slots[at].entry != 0 {
		at = (at + 1) & (len(t.slots) - 1)
	}
	t.slots[at] = textSlot{uint32(hash), uint32(len(t.entries))}
}

// sorted sorts the entries. Only clear, or nothing, may follow.
func (t *textTable) sorted() source {
	slices.SortFunc(t.entries, func(a, b textEntry) int { return bytes.Compare(t.text(&a), t.text(&b)) })
	return &textSource{table: t, left: t.entries}
}

// clear keeps the memory, but for blocks of texts that are longer than others.
func (t *textTable) clear() {
	clear(t.slots)
	t.entries = t.entries[:0]
	for _, b := range t.blocks {
		if cap(b) <= blockSize {
			t.spare = append(t.spare, b)
		}
	}
	t.blocks = nil
}

func (t *textTable) len() int { return len(t.entries) }

// textSource shows sorted texts.
type textSource struct {
	table *textTable
	left  []textEntry
	at    textEntry
}

func (s *textSource) next() (bool, error) {
	if len(s.left) == 0 {
		return false, nil
	}
	s.at, s.left = s.left[0], s.left[1:]
	return true, nil
}

func (s *textSource) key() []byte   { return s.table.text(&s.at) }
func (s *textSource) count() uint64 { return s.at.count }
