package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	footer "github.com/penstock-ml/penstock/internal/formats/parquet"
)

// blockSize is how many levels are decoded at once.
const blockSize = 4096

const blockWords = blockSize / 64

// block holds a run of levels as bitmaps.
type block struct {
	rep, def levels
	listDef  int
	rowDef   int
	nested   []footer.ListLevel

	n, pos int // levels in the block, and how many of them have been taken
	// Bits of the levels: whether a row starts here (lists), whether the row is not null, whether there is an
	// element, whether there is a value. Bits past n are not set in present.
	start, row, elem, present [blockWords]uint64
	// inner has those of the lists within lists, and before whether each level's list had an element at the level
	// before the block: 1, or 0.
	inner  []innerBits
	before []uint64
}

// innerBits are the bits of a block's levels about one level of lists within lists: whether a list begins here, and
// whether it is not null.
type innerBits struct{ list, valid [blockWords]uint64 }

func (b *block) init(s shape) error {
	b.rep.init(s.maxRep)
	b.def.init(s.maxDef)
	b.rowDef, b.listDef = s.logical.RowNullDef, s.logical.ListDef
	if !s.fits() {
		return fmt.Errorf("levels of %d repetitions and %d definitions cannot be read", s.maxRep, s.maxDef)
	}
	if s.maxRep > 1 {
		b.nested = s.logical.Nested[:s.maxRep-1]
		b.inner, b.before = make([]innerBits, len(b.nested)), make([]uint64, s.maxRep)
	}
	b.begin()
	return nil
}

// begin forgets the block: what comes next may go on with any list.
func (b *block) begin() {
	b.n, b.pos = 0, 0
	for i := range b.before {
		b.before[i] = 1
	}
}

// fits reports whether the definition levels of lists lie in one another as the lists do.
func (s shape) fits() bool {
	if s.maxRep > 1+len(s.logical.Nested) || s.maxDef > 255 {
		return false
	}
	null, element := s.logical.RowNullDef, s.logical.ListDef
	for rep := 1; rep <= s.maxRep; rep++ {
		if element < 1 || element > s.maxDef || null >= element {
			return false
		}
		if rep < s.maxRep {
			inner := s.logical.Nested[rep-1]
			if int(inner.NullDef) < element {
				return false
			}
			null, element = int(inner.NullDef), int(inner.ElementDef)
		}
	}
	return true
}

// decode reads the next n levels of the page, at most blockSize.
func (b *block) decode(n int) error {
	if err := b.def.decode(n); err != nil {
		return fmt.Errorf("definition levels: %w", err)
	}
	words := (n + 63) >> 6
	last, tail := words-1, lowBits((n-1)&63+1)
	b.def.atLeast(b.def.max, b.present[:words])
	b.present[last] &= tail
	if b.rep.max == 0 {
		return nil
	}
	if err := b.rep.decode(n); err != nil {
		return fmt.Errorf("repetition levels: %w", err)
	}
	b.def.atLeast(b.listDef, b.elem[:words])
	b.def.atLeast(b.rowDef, b.row[:words])
	if b.rep.max > 1 {
		return b.decodeNested(n, words)
	}
	again, wrong := b.rep.planes[0][:words], uint64(0)
	again[last] &= tail
	for i, w := range again {
		b.start[i] = ^w
		wrong |= w &^ b.elem[i]
	}
	if wrong != 0 {
		return errors.New("levels: a list goes on with an entry that is none")
	}
	b.start[last] &= tail
	b.elem[last] &= tail
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

// starts counts the rows that begin with the next n levels, which are repetition levels. They are decoded again after
// it.
func (l *levels) starts(n int) (rows int, err error) {
	defer func(r runs) { l.runs = r }(l.runs)
	for n > 0 {
		m := min(n, blockSize)
		if err := l.decode(m); err != nil {
			return 0, fmt.Errorf("repetition levels: %w", err)
		}
		again := l.planes[0][:(m+63)>>6]
		for _, plane := range l.planes[1:] {
			for i, w := range plane[:len(again)] {
				again[i] |= w
			}
		}
		again[len(again)-1] &= lowBits((m-1)&63 + 1)
		for _, w := range again {
			rows -= bits.OnesCount64(w)
		}
		rows, n = rows+m, n-m
	}
	return rows, nil
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
	switch l.width {
	case 0:
		return nil
	case 1:
		return l.decode1(n)
	case 2:
		if err := l.decode2(n); err != nil {
			return err
		}
	default:
		if err := l.decodeWide(n); err != nil {
			return err
		}
	}
	return l.check(n)
}

// decode1 reads levels of one bit, which go to the plane a word at a time: runs are mostly short.
func (l *levels) decode1(n int) error {
	r, out, word := &l.runs, &l.planes[0], uint64(0)
	for pos := 0; pos < n; {
		if r.left == 0 {
			if pos, word = shortRuns(r, out, pos, n, word); pos == n {
				break
			}
			if err := r.next(); err != nil {
				return err
			}
			continue
		}
		s := pos & 63
		m := min(n-pos, r.left, 64-s, 56) // bitsAt gives no more
		v := -r.value
		if r.packed {
			v = bitsAt(r.bits, r.at)
		}
		word |= v & (1<<(m&63) - 1) << s
		r.take(m)
		if pos += m; pos&63 == 0 || pos == n {
			out[(pos-1)>>6], word = word, 0
		}
	}
	return nil
}

// Bits of the header and the value of a repeated run, and those of the header of a packed one, that are clear and set
// if it is short.
const (
	repeatedMask, repeatedBits = 0xfe81, 0
	packedMask, packedBits     = 0xf1, 1
	pairMask, pairBits         = packedMask<<16 | repeatedMask, packedBits << 16
)

// shortRuns takes runs of fewer than 64 levels of one bit to out, from pos on, as long as they end at n or before. Word
// is what out has at pos's word so far, and what it has then. Repeated and packed runs mostly take turns: so two are
// taken at once, and where the next ones begin depends on a single byte.
func shortRuns(r *runs, out *[blockWords]uint64, pos, n int, word uint64) (int, uint64) {
	src, i := r.src, 0
	for pos < n && i+11 <= len(src) {
		v := binary.LittleEndian.Uint64(src[i:])
		repeated, m, size := -(v >> 8 & 1), int(v>>1&63), 2
		if k := int(v >> 17 & 7); v&pairMask == pairBits && m+8*k < 64 {
			packed := binary.LittleEndian.Uint64(src[i+3:]) & (1<<(8*k&63) - 1)
			v = repeated&(1<<(m&63)-1) | packed<<(m&63)
			m, size = m+8*k, 3+k
		} else if v&repeatedMask == repeatedBits {
			v = repeated & (1<<(m&63) - 1)
		} else if v&packedMask == packedBits {
			v, m, size = v>>8&(1<<(8*m&63)-1), 8*m, 1+m
		} else {
			break
		}
		if pos+m > n {
			break
		}
		s := pos & 63
		word |= v << s
		out[pos>>6&(blockWords-1)] = word
		full := uint64(s+m) >> 6
		word = word&(full-1) | v>>1>>(63-s)
		pos, i = pos+m, i+size
	}
	if r.src = src[i:]; pos&63 != 0 {
		out[pos>>6&(blockWords-1)] = word
	}
	return pos, word
}

// decode2 does so with levels of two bits and two planes.
func (l *levels) decode2(n int) error {
	r, low, high := &l.runs, uint64(0), uint64(0)
	for pos := 0; pos < n; {
		if r.left == 0 {
			if err := r.next(); err != nil {
				return err
			}
			continue
		}
		s := pos & 63
		m := min(n-pos, r.left, 64-s)
		v, w := -(r.value & 1), -(r.value >> 1)
		if r.packed {
			m = min(m, 28)
			pairs := bitsAt(r.bits, r.at*2)
			v, w = evenBits(pairs), evenBits(pairs>>1)
		}
		mask := lowBits(m)
		low |= v & mask << s
		high |= w & mask << s
		r.take(m)
		if pos += m; pos&63 == 0 || pos == n {
			l.planes[0][(pos-1)>>6], low = low, 0
			l.planes[1][(pos-1)>>6], high = high, 0
		}
	}
	return nil
}

// decodeWide reads levels of three bits and more.
func (l *levels) decodeWide(n int) error {
	r := &l.runs
	for pos := 0; pos < n; {
		if r.left == 0 {
			if err := r.next(); err != nil {
				return err
			}
			continue
		}
		m := min(n-pos, r.left)
		if r.packed {
			l.unpack(pos, m)
		} else {
			for j := range l.planes {
				fillBits(l.planes[j][:], pos, m, r.value>>j&1 != 0)
			}
		}
		r.take(m)
		pos += m
	}
	return nil
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
		out[i] = ^uint64(0)
	}
	for j := range l.planes {
		plane := l.planes[j][:len(out)]
		if t>>j&1 != 0 {
			for i, bits := range plane {
				out[i] &= bits
			}
		} else {
			for i, bits := range plane {
				out[i] |= bits
			}
		}
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
