package parquet

import (
	"errors"
	"math/bits"

	"github.com/penstock-ml/penstock/worker/formats/decode"
	"github.com/penstock-ml/penstock/worker/vector"
)

// nested makes the lists within a column's lists, level by level: in a block, a list of a level begins where one of the
// levels around it has an element, unless a level below that goes on. So do the elements of the innermost one.
type nested struct {
	mem    *decode.Allowance
	levels []nestedLevel
	out    []vector.Level
}

// nestedLevel is a level of lists within lists, as far as the window's are known.
type nestedLevel struct {
	lists   int
	offsets []int32
	valid   validity
}

func newNested(s shape, mem *decode.Allowance) *nested {
	return &nested{mem: mem, levels: make([]nestedLevel, s.maxRep-1), out: make([]vector.Level, s.maxRep-1)}
}

// begin begins a window.
func (n *nested) begin() (err error) {
	for i := range n.levels {
		l := &n.levels[i]
		l.lists = 0
		l.valid.reset()
		if l.offsets, err = decode.Grow(n.mem, l.offsets, 1); err != nil {
			return err
		}
	}
	return nil
}

// end ends the last list of each level, the innermost one with so many elements, and returns how many the outermost of
// these levels has.
func (n *nested) end(below int) int {
	for i := len(n.levels) - 1; i >= 0; i-- {
		l := &n.levels[i]
		l.offsets[l.lists], below = int32(below), l.lists
	}
	return below
}

// show returns the levels of the window that ended.
func (n *nested) show() []vector.Level {
	for i := range n.levels {
		l := &n.levels[i]
		n.out[i] = vector.Level{Offsets: l.offsets[:l.lists+1], Valid: l.valid.bitmap()}
	}
	return n.out
}

// decodeNested makes the bitmaps of the levels that were decoded, whose row and elem are those of the outermost lists.
func (b *block) decodeNested(n, words int) error {
	last, tail := words-1, lowBits((n-1)&63+1)
	var room [blockWords]uint64
	again := room[:words] // whether lists of a level go on here, or some within them
	b.rep.atLeast(1, again)
	for i, w := range again {
		b.start[i] = ^w
	}
	b.start[last] &= tail
	for k := 0; ; k++ { // elem is where lists around those of level k have an element
		again[last] &= tail //nolint:gosec // there is a word
		b.elem[last] &= tail
		wrong := uint64(0)
		for i, w := range again {
			wrong |= w &^ (b.elem[i] & (b.elem[i]<<1 | b.before[k]))
			b.before[k] = b.elem[i] >> 63
		}
		b.before[k] = b.elem[last] >> ((n - 1) & 63) & 1
		if wrong != 0 {
			return errors.New("levels: a list goes on with an entry that is none, or behind one")
		}
		if k == len(b.nested) {
			break
		}
		b.rep.atLeast(k+2, again)
		inner := &b.inner[k]
		for i := range words {
			inner.list[i] = b.elem[i] &^ again[i]
		}
		b.def.atLeast(int(b.nested[k].NullDef), inner.valid[:words])
		b.def.atLeast(int(b.nested[k].ElementDef), b.elem[:words])
	}
	b.n, b.pos = n, 0
	return nil
}

// takeNested does what takeLevels does for lists of lists. Each level's offsets count the lists of the next one.
func (c *column) takeNested(end, rows, elems int) (int, int, error) {
	b, levels := &c.block, c.nested.levels
	for k := range levels {
		l, more := &levels[k], 0
		for i := b.pos >> 6; i<<6 < end; i++ {
			more += bits.OnesCount64(b.inner[k].list[i] & b.mask(i, end))
		}
		var err error
		if l.offsets, err = decode.Grow(c.mem, l.offsets, l.lists+more+1); err != nil {
			return 0, 0, err
		}
	}
	for i := b.pos >> 6; i<<6 < end; i++ {
		mask := b.mask(i, end)
		begins, valid := b.start[i]&mask, b.row[i]
		offsets, at, set := c.offsets, &rows, &c.valid
		for k := range levels {
			l, lists := &levels[k], b.inner[k].list[i]&mask
			take(offsets, at, set, begins, valid, lists, l.lists)
			begins, valid = lists, b.inner[k].valid[i]
			offsets, at, set = l.offsets, &l.lists, &l.valid
		}
		elem := b.elem[i] & mask
		take(offsets, at, set, begins, valid, elem, elems)
		n := bits.OnesCount64(elem)
		c.elems.add(gatherBits(b.present[i], elem), n)
		elems += n
	}
	b.pos = end
	return rows, elems, nil
}

// take adds the lists of a word that begin there to those of a level, of which there are n: below says where what they
// hold begins, of which there are some before.
func take(offsets []int32, n *int, set *validity, begins, valid, below uint64, before int) {
	set.add(gatherBits(valid, begins), bits.OnesCount64(begins))
	for ; begins != 0; begins &= begins - 1 {
		offsets[*n] = int32(before + bits.OnesCount64(below&(begins&-begins-1)))
		*n++
	}
}
