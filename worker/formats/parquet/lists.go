package parquet

import (
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/penstock-ml/penstock/worker/formats/decode"
	"github.com/penstock-ml/penstock/worker/vector"
)

// nextLists decodes n rows of a list column. A row ends where the next one starts, or with the chunk, so that
// one more level is looked at than is taken.
func (c *column) nextLists(n int) error {
	if err := c.beginLists(n); err != nil {
		return err
	}
	rows, elems := 0, 0
	for b := &c.block; ; {
		if b.pos == b.n {
			if rows == n && c.index != nil && c.pageLeft == 0 {
				break // the next page, which may not be there, begins with a row
			}
			more, err := c.nextBlock()
			if err != nil {
				return err
			}
			if !more {
				break
			}
		}
		end := b.rows(n - rows)
		if end == b.pos {
			break
		}
		if rows == 0 && !c.dropped && b.start[b.pos>>6]>>(b.pos&63)&1 == 0 {
			return errors.New("levels: a list goes on before a row has begun")
		}
		first := elems
		present, err := c.count(end, first, n)
		if err != nil {
			return err
		}
		if rows, elems, err = c.takeLevels(end, rows, first); err != nil {
			return err
		}
		if err := c.values.read(first, present); err != nil {
			return err
		}
		if present < elems-first {
			c.values.spread(c.elems.bits, first, elems-first, present)
		}
	}
	if rows < n {
		return fmt.Errorf("the chunk ends %d rows too early", int64(n-rows)+c.rowsLeft)
	}
	c.endLists(n, elems)
	return nil
}

// beginLists begins a window of n rows.
func (c *column) beginLists(n int) error {
	if err := c.values.reserve(0, 0); err != nil {
		return err
	}
	if c.counting = n <= vector.MaxCounted && c.nested == nil; c.counting {
		c.offsets = vector.Counting(n)
		return nil
	}
	if err := c.ownOffsets(n); err != nil || c.nested == nil {
		return err
	}
	return c.nested.begin()
}

// endLists ends the last list of a window of n rows, which have so many elements.
func (c *column) endLists(n, elems int) {
	if c.nested != nil {
		elems = c.nested.end(elems)
	}
	if !c.counting {
		c.offsets[n] = int32(elems)
	}
	c.dropped = false
}

// nextBlock decodes the next levels, unless there are none.
func (c *column) nextBlock() (more bool, err error) {
	if c.pageLeft == 0 {
		if c.valuesLeft == 0 {
			return false, nil
		}
		if err := c.load(); err != nil || c.pageLeft == 0 {
			return false, err
		}
	}
	m := min(c.pageLeft, blockSize)
	c.pageLeft -= m
	return true, c.block.decode(m)
}

// count reserves room for the elements of the block's levels up to end, behind those of the window of n rows so far,
// and for offsets, unless they are those of Counting. It counts which of the elements are not null.
func (c *column) count(end, elems, n int) (present int, err error) {
	b, before, others := &c.block, elems, uint64(0)
	for i := b.pos >> 6; i<<6 < end; i++ {
		mask := b.mask(i, end)
		elems += bits.OnesCount64(b.elem[i] & mask)
		present += bits.OnesCount64(b.present[i] & mask)
		others |= b.start[i]&b.elem[i]&mask ^ mask
	}
	if c.counting && others != 0 {
		counted := c.offsets[:before]
		if err := c.ownOffsets(n); err != nil {
			return 0, err
		}
		copy(c.offsets, counted)
		c.counting = false
	}
	return present, c.values.reserve(elems, c.likely(n))
}

// ownOffsets makes room for the offsets of n rows.
func (c *column) ownOffsets(n int) (err error) {
	if c.own, err = decode.Grow(c.mem, c.own[:0], n+offsetStep); err == nil {
		c.offsets = c.own[:n+1]
	}
	return err
}

// likely is about how many elements n rows have: as many as lists of the chunk's average; windows differ by a little.
func (c *column) likely(n int) int {
	return int(min(float64(c.chunk.Values)*float64(n)/float64(c.rows)*(1+1./16), math.MaxInt32))
}

// offsetStep is how many offsets are written at once, some behind the last: rows of a word are too few to predict how
// many.
const offsetStep = 4

// takeLevels takes the block's levels up to end into offsets and bitmaps, where the window has some rows and
// elements already, and returns how many it has then. There are offsets for all rows that start before end.
func (c *column) takeLevels(end, rows, elems int) (int, int, error) {
	if c.nested != nil {
		return c.takeNested(end, rows, elems)
	}
	rows, elems = c.takeFlat(end, rows, elems)
	return rows, elems, nil
}

// takeFlat does so for lists of scalars.
func (c *column) takeFlat(end, rows, elems int) (int, int) {
	b := &c.block
	for i := b.pos >> 6; i<<6 < end; i++ {
		mask := b.mask(i, end)
		start, elem, present := b.start[i]&mask, b.elem[i]&mask, b.present[i]&mask
		starts := bits.OnesCount64(start)
		if start&^b.row[i] == 0 {
			c.valid.addOnes(starts)
		} else {
			c.valid.add(gatherBits(b.row[i], start), starts)
		}
		switch {
		case c.counting: // they stand there
		case start&elem == ^uint64(0): // rows of one element
			for k, offsets := 0, (*[64]int32)(c.offsets[rows:]); k < len(offsets); k++ {
				offsets[k] = int32(elems + k)
			}
		case elem == ^uint64(0):
			for k := 0; k < starts; k += offsetStep {
				offsets := (*[offsetStep]int32)(c.offsets[rows+k : rows+k+offsetStep])
				for j := range offsets {
					offsets[j] = int32(elems + bits.TrailingZeros64(start))
					start &= start - 1
				}
			}
		default:
			for k := 0; start != 0; k++ {
				c.offsets[rows+k] = int32(elems + bits.OnesCount64(elem&(start&-start-1)))
				start &= start - 1
			}
		}
		rows += starts
		n := bits.OnesCount64(elem)
		if present == elem {
			c.elems.addOnes(n)
		} else {
			c.elems.add(gatherBits(present, elem), n)
		}
		elems += n
	}
	b.pos = end
	return rows, elems
}

// mask has the bits of word i that lie from pos to end.
func (b *block) mask(i, end int) uint64 {
	mask := lowBits(min(end-i<<6, 64))
	if i == b.pos>>6 {
		mask &= ^uint64(0) << (b.pos & 63)
	}
	return mask
}

// gatherBits packs the bits of w together that mask has.
func gatherBits(w, mask uint64) (out uint64) {
	if mask == ^uint64(0) {
		return w
	}
	for k := 0; mask != 0; k++ {
		out |= w >> bits.TrailingZeros64(mask) & 1 << k
		mask &= mask - 1
	}
	return out
}
