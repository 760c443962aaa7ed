package columns

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

// blockSize is how many levels are decoded at once.
const blockSize = 4096

const blockWords = blockSize / 64

// block holds a run of levels as bitmaps.
type block struct {
	rep, def levels
	listDef  int
	rowDef   int

	n, pos int // levels in the block, and how many of them have been taken
	// Bits of the levels: whether a row starts here (lists), whether the row is not null, whether there is an
	// element, whether there is a value. Bits past n are not set in present.
	start, row, elem, present [blockWords]uint64
}

func (b *block) init(s shape) error {
	b.rep.init(s.maxRep)
	b.def.init(s.maxDef)
	b.rowDef, b.listDef = s.logical.RowNullDef, s.logical.ListDef
	if s.maxRep > 1 || s.maxDef > 255 || s.maxRep == 1 && (b.listDef < 1 || b.listDef > s.maxDef || b.rowDef >= b.listDef) {
		return fmt.Errorf("levels of %d repetitions and %d definitions cannot be read", s.maxRep, s.maxDef)
	}
	return nil
}

// decode reads the next n levels of the page, at most blockSize.
func (b *block) decode(n int) error {
	if err := b.def.decode(n); err != nil {
		return fmt.Errorf("definition levels: %w", err)
	}
	words := (n + 63) >> 6
	b.def.atLeast(b.def.max, b.present[:words])
	if n&63 != 0 {
		b.present[words-1] &= 1<<(n&63) - 1
	}
	if b.rep.max == 0 {
		return nil
	}
	if err := b.rep.decode(n); err != nil {
		return fmt.Errorf("repetition levels: %w", err)
	}
	b.elem = b.present
	if b.listDef < b.def.max {
		b.def.atLeast(b.listDef, b.elem[:words])
	}
	b.def.atLeast(b.rowDef, b.row[:words])
	for i, again := range b.rep.planes[0][:words] {
		mask := lowBits(min(n-i<<6, 64))
		b.start[i] = ^again & mask
		b.elem[i] &= mask
		if again&mask&^b.elem[i] != 0 {
			return errors.New("levels: a list goes on with an entry that is none")
		}
	}
	b.n, b.pos = n, 0
	return nil
}

// rows finds how far the block goes with at most n row starts from pos on.
func (b *block) rows(n int) (end int) {
	for i := b.pos >> 6; i<<6 < b.n; i++ {
		w := b.start[i]
		if i == b.pos>>6 {
			w &= ^uint64(0) << (b.pos & 63)
		}
		if c := bits.OnesCount64(w); c <= n {
			n -= c
			continue
		}
		for ; n > 0; n-- {
			w &= w - 1
		}
		return i<<6 + bits.TrailingZeros64(w)
	}
	return b.n
}

// levels decodes levels from 0 to max into bit planes: bit j of level i is bit i of planes[j].
type levels struct {
	max    int
	width  int
	runs   runs
	planes [][blockWords]uint64
}

func (l *levels) init(maxLevel int) {
	l.max, l.width = maxLevel, bits.Len(uint(maxLevel))
	l.planes = make([][blockWords]uint64, l.width)
}

// v1 begins the levels at the front of a v1 page and returns what follows them.
func (l *levels) v1(data []byte, e encoding) ([]byte, error) {
	if e != encodingRLE {
		return nil, fmt.Errorf("encoded as %s; only RLE can be read", e)
	}
	if len(data) < 4 {
		return nil, errShort
	}
	n := binary.LittleEndian.Uint32(data)
	if data = data[4:]; uint64(n) > uint64(len(data)) {
		return nil, fmt.Errorf("%d bytes in a page that has %d left: %w", n, len(data), errShort)
	}
	l.runs.begin(data[:n], l.width)
	return data[n:], nil
}

// decode reads n levels, at most blockSize.
func (l *levels) decode(n int) error {
	if l.max == 0 {
		return nil
	}
	r := &l.runs
	for pos := 0; pos < n; {
		if r.left == 0 {
			if err := r.next(); err != nil {
				return err
			}
			continue
		}
		m := min(n-pos, r.left)
		switch {
		case !r.packed:
			if r.value > uint64(l.max) {
				return fmt.Errorf("level %d where %d is the highest", r.value, l.max)
			}
			for j := range l.planes {
				fillBits(l.planes[j][:], pos, m, r.value>>j&1 != 0)
			}
		case l.width == 1:
			unpack1(&l.planes[0], pos, r.bits, r.at, m)
		case l.width == 2:
			unpack2(&l.planes[0], &l.planes[1], pos, r.bits, r.at, m)
		default:
			l.unpack(pos, m)
		}
		r.take(m)
		pos += m
	}
	return l.check(n)
}

// check finds levels above max.
func (l *levels) check(n int) error {
	if l.max == 1<<l.width-1 {
		return nil
	}
	var above [blockWords]uint64
	words := (n + 63) >> 6
	l.atLeast(l.max+1, above[:words])
	if n&63 != 0 {
		above[words-1] &= 1<<(n&63) - 1
	}
	for _, w := range above[:words] {
		if w != 0 {
			return fmt.Errorf("a level above %d, which is the highest", l.max)
		}
	}
	return nil
}

// atLeast sets bits of out where the level is t or more, for t below 1<<width. Bits past the last level are
// unspecified.
func (l *levels) atLeast(t int, out []uint64) {
	for i := range out {
		ge := ^uint64(0)
		for j := range l.planes {
			if t>>j&1 != 0 {
				ge &= l.planes[j][i]
			} else {
				ge |= l.planes[j][i]
			}
		}
		out[i] = ge
	}
}

// unpack takes m packed levels of any width.
func (l *levels) unpack(pos, m int) {
	for i := range m {
		v := bitsAt(l.runs.bits, (l.runs.at+i)*l.width) // width is at most 8
		w, b := (pos+i)>>6, (pos+i)&63
		for j := range l.planes {
			p := &l.planes[j][w]
			*p = *p&^(1<<b) | v>>j&1<<b
		}
	}
}

// unpack1 puts m bits of packed, from bit at on, into plane at pos.
func unpack1(plane *[blockWords]uint64, pos int, packed []byte, at, m int) {
	for m > 0 {
		k := min(m, 56) // bitsAt gives no fewer
		putBits(plane[:], pos, bitsAt(packed, at), k)
		pos, at, m = pos+k, at+k, m-k
	}
}

// unpack2 does so with m pairs of bits and two planes.
func unpack2(low, high *[blockWords]uint64, pos int, packed []byte, at, m int) {
	for m > 0 {
		k := min(m, 28)
		v := bitsAt(packed, at*2)
		putBits(low[:], pos, evenBits(v), k)
		putBits(high[:], pos, evenBits(v>>1), k)
		pos, at, m = pos+k, at+k, m-k
	}
}
