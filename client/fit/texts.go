package fit

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/maphash"
)

// textTable counts texts: open addressing with linear probing. Short texts lie in the table's entries, others one
// behind the other in blocks, so that a table of millions of them has few pointers.
type textTable struct {
	slots   []textSlot // a power of two; entry 0 is free
	entries []textEntry
	blocks  [][]byte
	spare   [][]byte // blocks of before clear
	seed    maphash.Seed
	a, b    [headSize]byte // for comparisons
	hashes  [batch]uint32
}

// textSlot names entry-1, whose text has a hash.
type textSlot struct{ hash, entry uint32 }

// textEntry is a text: head has all of it, zeros behind it, or its first four bytes, its block and its start there.
type textEntry struct {
	count  uint64
	length uint32
	head   [headSize]byte
}

const (
	headSize            = 12
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
	old := t.slots
	t.slots = makeTable[textSlot](slots)
	t.entries = append(make([]textEntry, 0, slots/4*3), t.entries...)
	for _, s := range old {
		if s.entry != 0 {
			t.place(s)
		}
	}
}

// place finds a place for a slot.
func (t *textTable) place(s textSlot) {
	at := t.home(s.hash)
	for t.slots[at].entry != 0 {
		at = (at + 1) & (len(t.slots) - 1)
	}
	t.slots[at] = s
}

func (t *textTable) home(hash uint32) int { return int(hash) & (len(t.slots) - 1) }

// text is an entry's, in the entry or in a block.
func (t *textTable) text(e *textEntry) []byte {
	if e.length <= headSize {
		return e.head[:e.length]
	}
	return t.long(&e.head, e.length)
}

func (t *textTable) long(head *[headSize]byte, length uint32) []byte {
	block, start := binary.LittleEndian.Uint32(head[4:]), binary.LittleEndian.Uint32(head[8:])
	return t.blocks[block][start:][:length]
}

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

func (t *textTable) grownBytes() int64 { return t.bytes() + 2*t.tableBytes() }

// look hashes up to a batch of texts, and looks at their slots and entries: the memory brings those of all texts at the
// same time.
func (t *textTable) look(data []byte, offsets []int32) {
	var seen uint64
	for i, to := range offsets[1:] {
		hash := uint32(maphash.Bytes(t.seed, data[offsets[i]:to]))
		t.hashes[i] = hash
		seen += uint64(t.slots[t.home(hash)].entry)
	}
	for i := range offsets[1:] {
		if entry := t.slots[t.home(t.hashes[i])].entry; entry != 0 {
			seen += t.entries[entry-1].count
		}
	}
	_ = seen
}

// count counts a text if it is there.
func (t *textTable) count(text []byte, hash uint32) bool {
	at := t.home(hash)
	for t.slots[at].entry != 0 {
		if t.slots[at].hash == hash {
			e := &t.entries[t.slots[at].entry-1]
			if int(e.length) == len(text) && bytes.Equal(t.text(e), text) {
				e.count++
				return true
			}
		}
		at = (at + 1) & (len(t.slots) - 1)
	}
	return false
}

// room reports how many bytes a new block must have for a text; 0: there is room.
func (t *textTable) room(text []byte) int64 {
	if len(text) <= headSize {
		return 0
	}
	if n := len(t.blocks); n > 0 && cap(t.blocks[n-1])-len(t.blocks[n-1]) >= len(text) {
		return 0
	}
	if n := len(t.spare); n > 0 && cap(t.spare[n-1]) >= len(text) {
		return 0
	}
	return int64(max(len(text), min(blockSize, firstBlock<<min(len(t.blocks), 10))))
}

// insert adds a text that is not there, for which there is a free entry, in a new block of so many bytes, if not 0.
func (t *textTable) insert(text []byte, hash uint32, block int64) {
	e := textEntry{count: 1, length: uint32(len(text))}
	copy(e.head[:], text)
	if len(text) > headSize {
		last := t.blockFor(text, block)
		binary.LittleEndian.PutUint32(e.head[4:], uint32(last))
		binary.LittleEndian.PutUint32(e.head[8:], uint32(len(t.blocks[last])))
		t.blocks[last] = append(t.blocks[last], text...)
	}
	t.entries = append(t.entries, e)
	t.place(textSlot{hash, uint32(len(t.entries))})
}

// blockFor is the block that has room for a text: the last one, a spare one, or a new one of so many bytes.
func (t *textTable) blockFor(text []byte, bytes int64) (last int) {
	last = len(t.blocks) - 1
	switch {
	case bytes > 0:
		t.blocks = append(t.blocks, make([]byte, 0, bytes))
	case last < 0 || cap(t.blocks[last])-len(t.blocks[last]) < len(text):
		t.blocks = append(t.blocks, t.spare[len(t.spare)-1][:0])
		t.spare = t.spare[:len(t.spare)-1]
	}
	return len(t.blocks) - 1
}

// sorted sorts the entries. Only clear, or nothing, may follow.
func (t *textTable) sorted() source {
	flagSort(t.entries, 24, func(e *textEntry) uint64 { return uint64(binary.BigEndian.Uint32(e.head[:])) }, t.compare)
	return &textSource{table: t, left: t.entries}
}

func (t *textTable) compare(a, b textEntry) int {
	if x, y := binary.BigEndian.Uint32(a.head[:]), binary.BigEndian.Uint32(b.head[:]); x != y {
		return cmp.Compare(x, y)
	}
	if a.length <= headSize && b.length <= headSize {
		if x, y := binary.BigEndian.Uint64(a.head[4:]), binary.BigEndian.Uint64(b.head[4:]); x != y {
			return cmp.Compare(x, y)
		}
		return cmp.Compare(a.length, b.length)
	}
	return bytes.Compare(t.copied(&t.a, a), t.copied(&t.b, b))
}

// copied is an entry's text, in to if it is short.
func (t *textTable) copied(to *[headSize]byte, e textEntry) []byte {
	*to = e.head
	if e.length <= headSize {
		return to[:e.length]
	}
	return t.long(to, e.length)
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
