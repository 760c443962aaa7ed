package encode

import (
	"bytes"
	"encoding/binary"
	"math/bits"

	"github.com/cespare/xxhash/v2"
)

// mostDictionary bounds the bytes of a dictionary.
const mostDictionary = 2 << 20

// dictionary numbers the different values of a chunk, as they come.
type dictionary struct {
	kind   *kind
	given  int      // values, of which some are the same
	plain  int      // their bytes
	values []byte   // that differ, in PLAIN encoding
	starts []uint32 // where in values each begins
	slots  []uint32 // hash table of numbers, plus 1
}

func (d *dictionary) reset(k *kind) {
	d.kind, d.given, d.plain, d.values, d.starts = k, 0, 0, d.values[:0], d.starts[:0]
	if len(d.slots) == 0 || len(d.slots) > 1<<12 {
		d.slots = make([]uint32, 1<<12)
	} else {
		clear(d.slots)
	}
}

// add appends the numbers of a page's values. It reports false once a dictionary cannot pay.
func (d *dictionary) add(values []byte, numbers []uint32) ([]uint32, bool) {
	hopeful := true
	d.kind.each(values, func(v []byte) bool {
		numbers = append(numbers, d.number(v))
		hopeful = d.hopeful()
		return hopeful
	})
	d.plain += len(values)
	return numbers, hopeful
}

func (d *dictionary) number(v []byte) uint32 {
	d.given++
	mask := uint64(len(d.slots) - 1)
	for at := hash(v) & mask; ; at = (at + 1) & mask {
		n := d.slots[at]
		if n == 0 {
			return d.append(v, at)
		}
		if bytes.Equal(d.at(n-1), v) {
			return n - 1
		}
	}
}

func (d *dictionary) append(v []byte, slot uint64) uint32 {
	n := uint32(len(d.starts))
	d.slots[slot] = n + 1
	if d.kind.width == 0 {
		d.values = binary.LittleEndian.AppendUint32(d.values, uint32(len(v)))
	}
	d.starts = append(d.starts, uint32(len(d.values)))
	d.values = append(d.values, v...)
	if 2*len(d.starts) > len(d.slots) {
		d.grow()
	}
	return n
}

func (d *dictionary) at(n uint32) []byte {
	from := d.starts[n]
	width := uint32(d.kind.width)
	if width == 0 {
		width = binary.LittleEndian.Uint32(d.values[from-4:])
	}
	return d.values[from : from+width]
}

func (d *dictionary) grow() {
	d.slots = make([]uint32, 4*len(d.slots))
	mask := uint64(len(d.slots) - 1)
	for n := range d.starts {
		at := hash(d.at(uint32(n))) & mask
		for d.slots[at] != 0 {
			at = (at + 1) & mask
		}
		d.slots[at] = uint32(n) + 1
	}
}

func hash(v []byte) uint64 {
	var x uint64
	switch len(v) {
	case 4:
		x = uint64(binary.LittleEndian.Uint32(v))
	case 8:
		x = binary.LittleEndian.Uint64(v)
	default:
		return xxhash.Sum64(v)
	}
	high, low := bits.Mul64(x, 0x9e3779b97f4a7c15) // of floats that are whole numbers, only high bits differ
	return high ^ low
}

// hopeful is false of a dictionary that is too large, or of values that repeat so seldom as if there were more than
// 65,536 of them: a row group has about as many.
func (d *dictionary) hopeful() bool {
	n := d.given
	switch n {
	case 1 << 10, 1 << 13, 1 << 16:
		if n-len(d.starts) < n>>10*n>>7 {
			return false
		}
	}
	return len(d.values) <= mostDictionary
}

// pays reports whether the dictionary and numbers take clearly less space than the values as they are.
func (d *dictionary) pays() bool {
	return d.given > 0 && (len(d.values)+d.given*d.width()/8)*10 < d.plain*7
}

// width is how many bits numbers take.
func (d *dictionary) width() int { return widthOf(uint32(max(1, len(d.starts)) - 1)) }
