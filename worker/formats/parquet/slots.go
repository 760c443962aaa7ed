package parquet

import "unsafe"

// slots are a dictionary's entries once more, if none is long: each is at a multiple of the same size, with its length
// in the last byte. To look one up is one access to memory, where ends and bytes are three, and copies of all of a slot
// need not know how long it is.
type slots struct {
	size   int // of a slot; 0: some entry is too long, or there is no memory for slots
	filled bool
	bytes  []byte
}

const (
	shortSlot = stepBytes
	longSlot  = 2 * stepBytes
)

// begin begins a dictionary, whose entry j ends at ends[j+1].
func (s *slots) begin(ends []int32) {
	longest := 0
	for j := 1; j < len(ends); j++ {
		longest = max(longest, int(ends[j]-ends[j-1]))
	}
	s.filled = false
	switch {
	case longest < shortSlot:
		s.size = shortSlot
	case longest < longSlot:
		s.size = longSlot
	default:
		s.size = 0
	}
}

// have fills the slots from the dictionary of b when they are first wanted, and says whether there are any.
func (s *slots) have(b *binaries) bool {
	if s.filled || s.size == 0 {
		return s.filled
	}
	n := (len(b.dictEnds) - 1) * s.size
	if n > len(s.bytes) {
		room := n + n/8 // of other row groups, too
		if !b.mem.Spare(int64(room - len(s.bytes))) {
			s.size = 0
			return false
		}
		s.bytes = make([]byte, room)
	}
	dict := b.dictData[:cap(b.dictData)]
	for j, end := range b.dictEnds[1:] {
		from, slot := b.dictEnds[j], s.bytes[j*s.size:][:s.size]
		if size := int(end - from); size <= stepBytes && int(from)+stepBytes <= len(dict) {
			*(*[stepBytes]byte)(slot) = *(*[stepBytes]byte)(dict[from:])
		} else {
			copy(slot, dict[from:end])
		}
		slot[s.size-1] = byte(end - from)
	}
	s.filled = true
	return true
}

// takeSlots copies slots to positions from at on. All codes must be of the dictionary.
func (b *binaries) takeSlots(at int, codes []uint32) error {
	pos, size := len(b.data), b.slots.size
	data, err := b.room(at+len(codes), len(codes)*size)
	if err != nil {
		return err
	}
	ends := b.ends[at+1 : at+1+len(codes)]
	slots, out := unsafe.Pointer(unsafe.SliceData(b.slots.bytes)), unsafe.Pointer(unsafe.SliceData(data))
	if size == shortSlot {
		for i, j := range codes {
			slot := unsafe.Add(slots, int(j)*shortSlot)
			copyStep(unsafe.Add(out, pos), slot, 0)
			pos += int(*(*byte)(unsafe.Add(slot, shortSlot-1)))
			ends[i] = int32(pos)
		}
	} else {
		for i, j := range codes {
			slot := unsafe.Add(slots, int(j)*longSlot)
			copyStep(unsafe.Add(out, pos), slot, 0)
			copyStep(unsafe.Add(out, pos), slot, stepBytes)
			pos += int(*(*byte)(unsafe.Add(slot, longSlot-1)))
			ends[i] = int32(pos)
		}
	}
	b.data = data[:pos]
	return nil
}
