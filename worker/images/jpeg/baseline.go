package jpeg

import (
	"image"
	"math"
)

// lookUps is how many look-ups in a table the bits of a filling are enough for, behind one of a DC coefficient.
const lookUps = (filled - valueBits) / pairBits

// baseline decodes n MCUs of row y, from the x-th on: to samples where they are wanted.
func (d *Decoder) baseline(s *scan, x, y, n int) bool {
	from, to := s.wanted(y)
	before := max(0, min(from-x, n))
	until := max(before, min(to-x, n))
	if !d.bits.skip(s.blocks, before) {
		return false
	}
	for mcu := x + before; mcu < x+until; mcu++ {
		for i := range s.blocks {
			b := &s.blocks[i]
			at := image.Pt(b.x+mcu*b.across, b.y+y*b.down)
			if !at.In(b.wanted) {
				if !d.bits.skip(s.blocks[i:i+1], 1) {
					return false
				}
				continue
			}
			last, ok := d.coefficients(b.component)
			if !ok {
				return false
			}
			d.samples(b.component, at.X, at.Y, last)
		}
	}
	return d.bits.skip(s.blocks, n-until)
}

// wanted is the first MCU of row y that has blocks that are wanted, and the one behind the last.
func (s *scan) wanted(y int) (from, to int) {
	from = math.MaxInt
	for i := range s.blocks {
		b := &s.blocks[i]
		if row := b.y + y*b.down; row >= b.wanted.Min.Y && row < b.wanted.Max.Y {
			from, to = min(from, b.wanted.Min.X/b.across), max(to, ceilDiv(b.wanted.Max.X, b.across))
		}
	}
	return from, to
}

// addDC adds to the DC coefficient of the block before what an entry of values has, if one has it.
func (c *component) addDC(acc uint64, n int) (uint64, int, bool) {
	e := c.dcTable.values[acc>>(64-valueBits)]
	c.dc += int32(e) >> valueShift
	return acc << (e & takenMask), n - int(e&takenMask), e != 0
}

// addSlowly adds to the DC coefficient of the block before what no entry has.
func (b *bits) addSlowly(c *component) bool {
	size, ok := c.dcTable.symbol(b)
	if !ok || size > 15 {
		return false
	}
	c.dc += b.extended(int(size))
	b.fill()
	return true
}

// coefficients reads a block, which it leaves dequantised. No AC coefficient behind the last-th is other than 0.
func (d *Decoder) coefficients(c *component) (last int, ok bool) {
	block, b, table, quant := &d.block, &d.bits, c.acTable, &c.quant
	acc, n := b.more(b.acc, b.n) // kept in registers
	if acc, n, ok = c.addDC(acc, n); !ok {
		b.acc, b.n = acc, n
		if !b.addSlowly(c) {
			return 0, false
		}
		acc, n = b.acc, b.n
	}
	clear(block[:])
	block[0] = c.dc * quant[0]
	k := 1
	for k < 64 {
		var e uint32
		var next int
		for range lookUps {
			e = table.pairs[acc>>(64-pairBits)]
			if next = k + int(e>>pairCount&127); next >= 64 {
				break
			}
			acc <<= e & takenMask
			n -= int(e & takenMask)
			put(block, quant, e, k, next)
			k = next
		}
		switch {
		case next < 64:
			acc, n = b.more(acc, n)
		case e == pairNone || next > 64 && (next <= pairEnd || next >= pairEnd+64):
			b.acc, b.n = acc, n
			run, size, ok := b.slowly(table)
			if !ok || size == 0 && run == blockEnd {
				return k - 1, ok
			}
			if k += run; size > 0 {
				if k > 63 {
					return 0, false
				}
				block[zigzag[k]&63] = b.extended(size) * quant[k]
			}
			k++
			acc, n = b.more(b.acc, b.n)
		default:
			if next > 64 {
				next -= pairEnd
			}
			put(block, quant, e, k, next)
			b.acc, b.n = acc<<(e&takenMask), n-int(e&takenMask)
			if last = next - 1; e>>pairLast == 0 { // the end alone
				last = k - 1
			}
			return last, true
		}
	}
	b.acc, b.n = acc, n
	return 63, true
}

// put writes the coefficients of an entry of pairs, which stands for those from the k-th up to the next. One that the
// entry has not is 0, and written to where the other one comes to lie, or where the block is 0 anyway.
func put(block, quant *[64]int32, e uint32, k, next int) {
	last, first := (next-1)&63, (k+int(e>>pairZeros&15))&63
	block[zigzag[last]&63] = int32(e<<8) >> 25 * quant[last]
	block[zigzag[first]&63] = int32(e) >> pairFirst * quant[first]
}

// blockEnd is a run of zeros up to the block's end.
const blockEnd = 64

// slowly reads the code of an AC coefficient that no entry has: the zeros before it, or blockEnd, and its bits, which
// may be none.
func (b *bits) slowly(table *acTable) (run, size int, ok bool) {
	s, ok := table.symbol(b)
	if run, size = int(s>>4), int(s&15); size == 0 && run != 15 {
		run = blockEnd
	}
	return run, size, ok
}

// skip reads past the blocks of n MCUs, but for their DC coefficients.
func (b *bits) skip(blocks []mcuBlock, n int) bool {
	for range n {
		for i := range blocks {
			if !b.skipBlock(blocks[i].component) {
				return false
			}
		}
	}
	return true
}

func (b *bits) skipBlock(c *component) (ok bool) {
	acc, n := b.more(b.acc, b.n) // kept in registers
	if acc, n, ok = c.addDC(acc, n); !ok {
		b.acc, b.n = acc, n
		if !b.addSlowly(c) {
			return false
		}
		acc, n = b.acc, b.n
	}
	table := c.acTable
	for k := 1; k < 64; {
		var e uint16
		var next int
		for range lookUps {
			e = table.skips[acc>>(64-pairBits)]
			if next = k + int(e>>skipCount); next >= 64 {
				break
			}
			acc <<= e & takenMask
			n -= int(e & takenMask)
			k = next
		}
		switch {
		case next < 64:
			acc, n = b.more(acc, n)
		case next == 64 || next > skipEnd && next < skipEnd+64:
			b.acc, b.n = acc<<(e&takenMask), n-int(e&takenMask)
			return true
		default:
			b.acc, b.n = acc, n
			run, size, ok := b.slowly(table)
			if !ok || size == 0 && run == blockEnd {
				return ok
			}
			if k += run; size > 0 {
				if k > 63 {
					return false
				}
				b.take(size)
			}
			k++
			acc, n = b.more(b.acc, b.n)
		}
	}
	b.acc, b.n = acc, n
	return true
}
