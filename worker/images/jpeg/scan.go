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
	blocksOf   [maxBlocks]mcuBlock
	blocks     []mcuBlock // of blocksOf: those of an MCU, as they come
	from, to   int        // coefficients, in zigzag order
	high, low  int        // bits of them: those before, and those that come
}

// maxBlocks is how many blocks an MCU may have.
const maxBlocks = 10

// mcuBlock says which blocks of a component one block of each MCU is: of the first MCU, block (x, y), and of those
// beside and below it, blocks that are as many away as an MCU has across and down.
type mcuBlock struct {
	*component
	x, y, across, down int
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
	d.pos = d.bits.start(d.data, d.pos)
	err = d.eachMCU(s)
	if errors.Is(err, errEnough) {
		done, err = len(s.components) == d.Components, nil
	}
	for !done && d.pos+1 < len(d.data) && !isMarker(d.data[d.pos:]) {
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
		c := d.component(b[1+2*i], s.components)
		dc, ac := b[2+2*i]>>4, b[2+2*i]&15
		if c == nil || dc > 3 || ac > 3 {
			return errScan
		}
		if err := d.prepare(c, s, dc, ac); err != nil {
			return err
		}
		s.all[i] = c
		s.components = s.all[:i+1]
		blocks += c.h * c.v
		if c.visits += s.to - s.from + 1; c.visits > maxVisits {
			return errors.New("its scans come to the same coefficients again and again")
		}
	}
	if n > 1 && blocks > maxBlocks || s.from > s.to || s.to > 63 || s.from == 0 && s.to > 0 && d.Progressive ||
		s.from > 0 && n > 1 || s.low > 13 || s.high != 0 && s.high != s.low+1 {
		return errScan
	}
	s.layOut()
	return nil
}

// layOut says which blocks an MCU has: one, if the scan has one component.
func (s *scan) layOut() {
	s.blocks = s.blocksOf[:0]
	for _, c := range s.components {
		across, down := c.h, c.v
		if len(s.components) == 1 {
			across, down = 1, 1
		}
		for y := range down {
			for x := range across {
				s.blocks = append(s.blocks, mcuBlock{c, x, y, across, down})
			}
		}
	}
}

// component is the first one of an id that a scan has not yet: some files give all the same one.
func (d *Decoder) component(id uint8, taken []*component) *component {
	for i := range d.Components {
		if c := &d.components[i]; c.id == id && !slices.Contains(taken, c) {
			return c
		}
	}
	return nil
}

// prepare gives a component what its part of a scan needs.
func (d *Decoder) prepare(c *component, s *scan, dc, ac uint8) error {
	if !d.Progressive {
		d.useStandard(dc, ac)
	}
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
	c.dcTable, c.acTable = &d.dcTables[dc], &d.acTables[ac]
	if !d.Progressive {
		c.dcTable.expand()
		c.acTable.expand()
	}
	return nil
}

// errEnough ends a scan early: no block that is wanted is left in it.
var errEnough = errors.New("enough")

// eachMCU decodes each block of a scan.
func (d *Decoder) eachMCU(s *scan) error {
	across, down := ceilDiv(d.Width, 8*d.maxH), ceilDiv(d.Height, 8*d.maxV)
	if len(s.components) == 1 {
		across, down = s.components[0].blocksX, s.components[0].blocksY
	}
	d.restartAt(s)
	left, next := d.restart, byte(markRST0)
	for y := range down {
		if !d.Progressive && passed(s, y) {
			return errEnough
		}
		for x := 0; x < across; {
			n := across - x
			if d.restart > 0 {
				if left == 0 {
					if err := d.restartMarker(s, next); err != nil {
						return err
					}
					left, next = d.restart, markRST0|(next+1)&7
				}
				n = min(n, left)
				left -= n
			}
			if !d.mcus(s, x, y, n) {
				return errCorrupt
			}
			x += n
		}
		if d.bits.left() < 0 {
			return errTruncated
		}
	}
	return nil
}

// mcus decodes n MCUs, of row y, from the x-th on.
func (d *Decoder) mcus(s *scan, x, y, n int) bool {
	if !d.Progressive {
		return d.baseline(s, x, y, n)
	}
	for end := x + n; x < end; x++ {
		for i := range s.blocks {
			if b := &s.blocks[i]; !d.progressive(s, b.component, b.x+x*b.across, b.y+y*b.down) {
				return false
			}
		}
	}
	return true
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

// restartMarker takes the marker that has to be next: another number is that of data which stand elsewhere.
func (d *Decoder) restartMarker(s *scan, next byte) error {
	switch left := d.bits.left(); {
	case left < 0:
		return errTruncated
	case left >= 8: // the bits that are left fill up a byte; whole bytes would be data that no MCU has
		return errCorrupt
	}
	for d.pos+1 < len(d.data) && d.data[d.pos] == 0xff && d.data[d.pos+1] == 0xff {
		d.pos++
	}
	switch {
	case d.pos+1 >= len(d.data):
		return errTruncated
	case d.data[d.pos+1] != next:
		return errCorrupt
	}
	d.pos = d.bits.start(d.data, d.pos+2)
	d.restartAt(s)
	return nil
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
