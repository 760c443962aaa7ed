package jpeg

import (
	"errors"
	"fmt"
	"slices"
)

// scan is the header of one.
type scan struct {
	all        [4]*component
	components []*component // of all
	from, to   int          // coefficients, in zigzag order
	high, low  int          // bits of them: those before, and those that come
}

var (
	errCorrupt = errors.New("its data are damaged")
	errScan    = errors.New("a scan's header is malformed")
)

// scan decodes one scan; done says that nothing behind it matters.
func (d *Decoder) scan(header []byte) (done bool, err error) {
	s := &d.scanning
	if err := d.scanHeader(s, header); err != nil {
		return false, err
	}
	d.bits.start(d.pos)
	err = d.eachMCU(s)
	if errors.Is(err, errEnough) {
		done, err = len(s.components) == d.Components, nil
	}
	d.pos = d.bits.pos
	for !done && d.pos+1 < len(d.bits.data) && !isMarker(d.bits.data[d.pos:]) {
		d.pos++ // what is left of the segment
	}
	return done, err
}

// isMarker reports whether a marker begins b that ends an entropy-coded segment.
func isMarker(b []byte) bool {
	return b[0] == 0xff && b[1] != 0 && (b[1] < markRST0 || b[1] > markRST7)
}

func (d *Decoder) scanHeader(s *scan, b []byte) error {
	if len(b) < 1 || b[0] < 1 || b[0] > 4 || len(b) != 4+2*int(b[0]) {
		return errScan
	}
	n := int(b[0])
	tail := b[1+2*n:]
	*s = scan{from: int(tail[0]), to: int(tail[1]), high: int(tail[2] >> 4), low: int(tail[2] & 15)}
	if !d.Progressive {
		s.from, s.to, s.high, s.low = 0, 63, 0, 0
	}
	blocks := 0
	for i := range n {
		c := d.component(b[1+2*i])
		dc, ac := b[2+2*i]>>4, b[2+2*i]&15
		if c == nil || dc > 3 || ac > 3 || slices.Contains(s.components, c) {
			return errScan
		}
		if err := d.prepare(c, s, dc, ac); err != nil {
			return err
		}
		s.all[i] = c
		s.components = s.all[:i+1]
		blocks += c.h * c.v
	}
	if n > 1 && blocks > 10 || s.from > s.to || s.to > 63 || s.from == 0 && s.to > 0 && d.Progressive ||
		s.from > 0 && n > 1 || s.low > 13 || s.high != 0 && s.high != s.low+1 {
		return errScan
	}
	return nil
}

func (d *Decoder) component(id uint8) *component {
	for i := range d.Components {
		if d.components[i].id == id {
			return &d.components[i]
		}
	}
	return nil
}

// prepare gives a component what its part of a scan needs.
func (d *Decoder) prepare(c *component, s *scan, dc, ac uint8) error {
	switch {
	case c.seen && !d.Progressive:
		return errors.New("a component comes twice")
	case !c.seen && d.hasQuant&(1<<c.table) == 0:
		return fmt.Errorf("quantisation table %d is missing", c.table)
	case s.from == 0 && s.high == 0 && d.hasTable[0]&(1<<dc) == 0, s.to > 0 && d.hasTable[1]&(1<<ac) == 0:
		return errors.New("a Huffman table is missing")
	}
	if !c.seen {
		c.quant, c.seen = d.quant[c.table], true
	}
	c.dcTable, c.acTable = &d.tables[0][dc], &d.tables[1][ac]
	return nil
}

// errEnough ends a scan early: no block that is wanted is left in it.
var errEnough = errors.New("enough")

// eachMCU decodes each block of a scan.
func (d *Decoder) eachMCU(s *scan) error {
	single := len(s.components) == 1
	across, down := ceilDiv(d.Width, 8*d.maxH), ceilDiv(d.Height, 8*d.maxV)
	if single {
		across, down = s.components[0].blocksX, s.components[0].blocksY
	}
	d.restartAt(s)
	left := d.restart
	for y := range down {
		if !d.Progressive && passed(s, y) {
			return errEnough
		}
		for x := range across {
			if d.restart > 0 {
				if left == 0 {
					if err := d.restartMarker(s); err != nil {
						return err
					}
					left = d.restart
				}
				left--
			}
			if single {
				if !d.decodeBlock(s, s.components[0], x, y) {
					return errCorrupt
				}
			} else if !d.mcu(s, x, y) {
				return errCorrupt
			}
		}
		if d.bits.overrun() {
			return errTruncated
		}
	}
	return nil
}

// mcu decodes the blocks of several components that lie together.
func (d *Decoder) mcu(s *scan, x, y int) bool {
	for _, c := range s.components {
		for v := range c.v {
			for h := range c.h {
				if !d.decodeBlock(s, c, x*c.h+h, y*c.v+v) {
					return false
				}
			}
		}
	}
	return true
}

// decodeBlock decodes one block, or what a progressive scan has of it.
func (d *Decoder) decodeBlock(s *scan, c *component, x, y int) bool {
	if !d.Progressive {
		return d.baseline(c, x, y)
	}
	block := (*[64]int16)(c.coefficients[64*(y*c.stride+x):])
	switch {
	case s.from == 0 && s.high == 0:
		return d.dcFirst(c, block, s)
	case s.from == 0:
		return d.dcRefine(block, s)
	case s.high == 0:
		return d.acFirst(c, block, s)
	}
	return d.acRefine(c, block, s)
}

// passed reports whether MCU row y lies below all that is wanted.
func passed(s *scan, y int) bool {
	if len(s.components) == 1 {
		return y >= s.components[0].wanted.Max.Y
	}
	for _, c := range s.components {
		if y*c.v < c.wanted.Max.Y {
			return false
		}
	}
	return true
}

// restartAt forgets what blocks depend on.
func (d *Decoder) restartAt(s *scan) {
	for _, c := range s.components {
		c.dc = 0
	}
	d.eobRun = 0
}

func (d *Decoder) restartMarker(s *scan) error {
	b := &d.bits
	if b.overrun() {
		return errTruncated
	}
	// The bits that are left fill up a byte. Whole bytes would be data that no MCU has.
	if b.n-b.pad >= 8 {
		return errCorrupt
	}
	for b.pos+1 < len(b.data) && b.data[b.pos] == 0xff && b.data[b.pos+1] == 0xff {
		b.pos++
	}
	switch {
	case b.pos+1 >= len(b.data):
		return errTruncated
	case b.data[b.pos] != 0xff || b.data[b.pos+1] < markRST0 || b.data[b.pos+1] > markRST7:
		return errCorrupt
	}
	b.start(b.pos + 2)
	d.restartAt(s)
	return nil
}

// baseline decodes a block, to samples if it is wanted.
func (d *Decoder) baseline(c *component, x, y int) bool {
	if w := &c.wanted; x < w.Min.X || x >= w.Max.X || y < w.Min.Y || y >= w.Max.Y {
		return d.bits.skip(c)
	}
	last, ok := d.coefficients(c)
	if ok {
		d.samples(c, x, y, last)
	}
	return ok
}

// dc reads what is added to the DC coefficient of the block before.
func (b *bits) dc(c *component) bool {
	if b.n < 32 {
		b.fill()
	}
	if e := c.dcTable.fast[b.acc>>(64-fastBits)]; e != 0 {
		b.acc <<= e & fastTaken
		b.n -= int(e & fastTaken)
		c.dc += int32(e) >> fastValue
		return true
	}
	size, ok := c.dcTable.symbol(b)
	if !ok || size > 15 {
		return false
	}
	c.dc += b.extended(int(size))
	return true
}

// coefficients reads a block, which it leaves dequantised. last is the place of the last AC coefficient that is not 0.
func (d *Decoder) coefficients(c *component) (last int, ok bool) {
	block, b := &d.block, &d.bits
	if !b.dc(c) {
		return 0, false
	}
	clear(block[:])
	block[0] = c.dc * c.quant[0]
	table, quant, k := c.acTable, &c.quant, 1
	acc, n := b.acc, b.n // kept in registers
	for k < 64 {
		if n < 32 {
			b.acc, b.n = acc, n
			b.fill()
			acc, n = b.acc, b.n
		}
		e := table.fast[acc>>(64-fastBits)]
		acc <<= e & fastTaken
		n -= int(e & fastTaken)
		if k += int(e >> fastRun & fastEnd); k < 64 && e != 0 {
			block[zigzag[k]&63] = int32(e) >> fastValue * quant[k]
			last = k
			k++
			continue
		}
		if b.acc, b.n = acc, n; e != 0 {
			return last, e&(fastEnd<<fastRun) == fastEnd<<fastRun
		}
		run, size, ok := b.slowly(table)
		if !ok || size == 0 && run == fastEnd {
			return last, ok
		}
		if k += run; size > 0 {
			if k > 63 {
				return 0, false
			}
			block[zigzag[k]&63] = b.extended(size) * quant[k]
			last = k
		}
		k++
		acc, n = b.acc, b.n
	}
	b.acc, b.n = acc, n
	return last, true
}

// slowly reads the code of an AC coefficient for which the table has no fast entry: the zeros before it, fastEnd if the block has no more
// coefficients, and its bits, which may be none.
func (b *bits) slowly(table *huffman) (run, size int, ok bool) {
	s, ok := table.symbol(b)
	if run, size = int(s>>4), int(s&15); size == 0 && run != 15 {
		run = fastEnd
	}
	return run, size, ok
}

// skip reads past a block, but for its DC coefficient.
func (b *bits) skip(c *component) bool {
	if !b.dc(c) {
		return false
	}
	table, acc, n := c.acTable, b.acc, b.n // kept in registers
	for k := 1; k < 64; {
		if n < 32 {
			b.acc, b.n = acc, n
			b.fill()
			acc, n = b.acc, b.n
		}
		e := table.skips[acc>>(64-fastBits)]
		next := k + int(e>>skipPassed)
		if ended := next >= skipEnd; e != 0 && (next <= 64 || ended && next < skipEnd+64) {
			acc <<= e & skipTaken
			n -= int(e & skipTaken)
			if k = next; ended {
				break
			}
			continue
		}
		b.acc, b.n = acc, n
		run, size, ok := b.slowly(table)
		if !ok || size == 0 && run == fastEnd {
			return ok
		}
		if k += run; size > 0 {
			if k > 63 {
				return false
			}
			b.take(size)
		}
		k++
		acc, n = b.acc, b.n
	}
	b.acc, b.n = acc, n
	return true
}

// zigzag is where the k-th coefficient of a block lies in it.
var zigzag = [64]uint8{ //nolint:gochecknoglobals // constants: nothing writes to them
	0, 1, 8, 16, 9, 2, 3, 10,
	17, 24, 32, 25, 18, 11, 4, 5,
	12, 19, 26, 33, 40, 48, 41, 34,
	27, 20, 13, 6, 7, 14, 21, 28,
	35, 42, 49, 56, 57, 50, 43, 36,
	29, 22, 15, 23, 30, 37, 44, 51,
	58, 59, 52, 45, 38, 31, 39, 46,
	53, 60, 61, 54, 47, 55, 62, 63,
}
