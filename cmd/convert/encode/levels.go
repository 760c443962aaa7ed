package encode

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
)

// slots are levels of values, nulls and empty lists, as far as the steps to a leaf were gone.
type slots struct {
	def, rep []byte
	full     byte // definition level of what is there
	depth    byte // repetition level of what follows in the same list
	// at is where in the array those lie that are there. If dense, all are, side by side from a place on.
	at    []int32
	dense bool
	from  int

	otherDef, otherRep []byte // room
	otherAt            []int32
}

// begin has the levels of n rows of a column.
func (s *slots) begin(from, n int, lists bool) {
	s.def, s.rep = zeros(s.def, n), s.rep[:0]
	if lists {
		s.rep = zeros(s.rep, n)
	}
	s.full, s.depth, s.dense, s.from, s.at = 0, 0, true, from, s.at[:0]
}

// count is how many are there.
func (s *slots) count() int {
	if s.dense {
		return len(s.def)
	}
	return len(s.at)
}

// optional finds which of what is there is not null.
func (s *slots) optional(a arrow.Array) {
	s.full++
	switch {
	case s.dense && a.NullN() == 0:
		fill(s.def, s.full)
	case s.dense:
		s.dense, s.at = false, s.at[:0]
		if a.NullN() < a.Len() {
			s.scan(a.NullBitmapBytes(), a.Data().Offset()+s.from)
		}
	default:
		s.keep(a)
	}
}

// scan finds the bits of what is not null, of slots that were dense.
func (s *slots) scan(bitmap []byte, offset int) {
	for i := 0; i < len(s.def); i += 64 {
		for w := word(bitmap, offset+i, min(64, len(s.def)-i)); w != 0; w &= w - 1 {
			j := i + bits.TrailingZeros64(w)
			s.def[j] = s.full
			s.at = append(s.at, int32(s.from+j))
		}
	}
}

// keep leaves out nulls, of slots that are not dense.
func (s *slots) keep(a arrow.Array) {
	all := a.NullN() == 0
	none := a.NullN() == a.Len()
	kept, next := s.at[:0], 0
	for i := 0; next < len(s.at); i++ {
		i += bytes.IndexByte(s.def[i:], s.full-1)
		at := s.at[next]
		next++
		if all || !none && a.IsValid(int(at)) {
			s.def[i] = s.full
			kept = append(kept, at)
		}
	}
	s.at = kept
}

// hasNulls reports whether there are nulls where there may be none.
func (s *slots) hasNulls(a arrow.Array) bool {
	if a.NullN() == 0 {
		return false
	}
	for i := range s.count() {
		if a.IsNull(s.position(i)) {
			return true
		}
	}
	return false
}

func (s *slots) position(i int) int {
	if s.dense {
		return s.from + i
	}
	return int(s.at[i])
}

// mostLevels bounds what rows have of values, nulls and empty lists: nulls that have no type take no memory, so that
// a small file may have any number.
const mostLevels = 1 << 28

var (
	errLongLists = fmt.Errorf("a row has more than %d values: cut the longest lists", mostLevels)
	errManyLists = errors.New("lists have more than 2^31 values in one record batch: write smaller batches")
)

// repeated goes into lists.
func (s *slots) repeated(a array.ListLike) error {
	there := s.full
	s.full++
	s.depth++
	def, rep, at := s.otherDef[:0], s.otherRep[:0], s.otherAt[:0]
	next := 0
	for i := 0; i < len(s.def); i++ {
		if s.def[i] != there {
			n := bytes.IndexByte(s.def[i:], there)
			if n < 0 {
				n = len(s.def) - i
			}
			def, rep = append(def, s.def[i:i+n]...), append(rep, s.rep[i:i+n]...)
			if i += n; i == len(s.def) {
				break
			}
		}
		from, to := a.ValueOffsets(s.position(next))
		next++
		if from == to {
			def, rep = append(def, there), append(rep, s.rep[i])
			continue
		}
		switch {
		case to > math.MaxInt32:
			return errManyLists
		case int64(len(def))+to-from > mostLevels:
			return errLongLists
		}
		for k := from; k < to; k++ {
			def, rep, at = append(def, s.full), append(rep, s.depth), append(at, int32(k))
		}
		rep[len(rep)-int(to-from)] = s.rep[i]
	}
	s.otherDef, s.otherRep, s.otherAt = s.def, s.rep, s.at
	s.def, s.rep, s.at = def, rep, at
	s.dense = len(at) > 0 && len(at) == len(def) && int(at[len(at)-1]-at[0]) == len(at)-1 && ascending(at)
	if s.dense {
		s.from = int(at[0])
	}
	return nil
}

// ascending is true of what lies one after another; lists may lie in any order.
func ascending(at []int32) bool {
	for i := 1; i < len(at); i++ {
		if at[i] != at[i-1]+1 {
			return false
		}
	}
	return true
}

// word has n bits of a bitmap, at most 64.
func word(bitmap []byte, bit, n int) (w uint64) {
	if at, shift := bit>>3, bit&7; at+9 <= len(bitmap) {
		w = binary.LittleEndian.Uint64(bitmap[at:])>>shift | uint64(bitmap[at+8])<<(64-shift)
		return w & (1<<n - 1)
	}
	for i := range n {
		w |= uint64(bitmap[(bit+i)>>3]>>((bit+i)&7)&1) << i
	}
	return w
}

func zeros(b []byte, n int) []byte {
	if cap(b) < n {
		return make([]byte, n)
	}
	b = b[:n]
	clear(b)
	return b
}

func fill(b []byte, v byte) {
	for i := range b {
		b[i] = v
	}
}
