package excluded

import (
	"math"
	"math/bits"

	"github.com/RoaringBitmap/roaring/v2"
)

// Rows is a set of rows of a file. It does not change.
type Rows struct {
	parts []part // ascending
	size  int64
}

// part has the rows whose numbers have the same upper 32 bits.
type part struct {
	high uint32
	low  *roaring.Bitmap
}

// Len is how many rows there are.
func (r *Rows) Len() (n int64) {
	for _, p := range r.parts {
		n += int64(p.low.GetCardinality())
	}
	return n
}

// Size is how many bytes of memory the set takes.
func (r *Rows) Size() int64 { return r.size }

// last is the last row; false: there is none.
func (r *Rows) last() (uint64, bool) {
	if len(r.parts) == 0 {
		return 0, false
	}
	p := r.parts[len(r.parts)-1]
	return uint64(p.high)<<32 | uint64(p.low.Maximum()), true
}

// clear clears bit i of a bitmap if row first+i is in the set, for i below n.
func (r *Rows) clear(bitmap []uint64, first uint64, n int) {
	end := first + uint64(n)
	for _, p := range r.parts {
		base := uint64(p.high) << 32
		from := max(first, base)
		if from >= end || from-base > math.MaxUint32 {
			continue
		}
		it := p.low.Iterator()
		for it.AdvanceIfNeeded(uint32(from - base)); it.HasNext(); {
			row := base + uint64(it.Next())
			if row >= end {
				break
			}
			at := row - first
			bitmap[at>>6] &^= 1 << (at & 63)
		}
	}
}

// Set is what several files tell of the rows of one: those that any of them does.
type Set []*Rows

// Size is how many bytes of memory it takes.
func (s Set) Size() (n int64) {
	for _, r := range s {
		n += r.Size()
	}
	return n
}

// Len is how many rows there are.
func (s Set) Len() (n int64) {
	all := map[uint32]*roaring.Bitmap{}
	for _, r := range s {
		for _, p := range r.parts {
			if all[p.high] == nil {
				all[p.high] = roaring.New()
			}
			all[p.high].Or(p.low)
		}
	}
	for _, low := range all {
		n += int64(low.GetCardinality())
	}
	return n
}

// Choose sets the bits of so many rows, from first on, that are not excluded, clears the others, and returns how many
// are set.
func (s Set) Choose(bitmap []uint64, first int64, rows int) (left int) {
	for i := range bitmap {
		bitmap[i] = ^uint64(0)
	}
	if len(bitmap) > 0 && rows&63 > 0 {
		bitmap[len(bitmap)-1] = 1<<(rows&63) - 1
	}
	for _, r := range s {
		r.clear(bitmap, uint64(first), rows)
	}
	for _, word := range bitmap {
		left += bits.OnesCount64(word)
	}
	return left
}
