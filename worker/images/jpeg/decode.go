package jpeg

import (
	"errors"
	"fmt"
	"image"
)

// Decoder decodes one picture after another.
type Decoder struct {
	Header
	frame
	data       []byte
	pos        int // in data, of the next marker
	bits       bits
	components [4]component // the first Header.Components of them
	quant      [4][64]int32 // in zigzag order
	dcTables   [4]dcTable
	acTables   [4]acTable
	block      [64]int32       // the coefficients of a block, dequantised
	rows       [4]rows         // a row of each component, for colours
	region     image.Rectangle // that Decode was called for
	rgb        []byte          // a row, on its way to gray
}

// frame is what is forgotten with each picture.
type frame struct {
	maxH, maxV int
	restart    int // MCUs from a restart marker to the next; 0: there are none
	hasQuant   uint8
	hasTable   [2]uint8
	jfif       bool
	exif       bool
	adobe      bool
	transform  byte // Adobe's
	eobRun     int32
	scans      int
	scanning   scan
}

// component is one colour of the picture.
type component struct {
	id            uint8
	h, v          int // samples beside and above each other, of maxH and maxV
	table         uint8
	width, height int // in samples
	blocksX       int // that hold samples of the picture
	blocksY       int
	wanted        image.Rectangle // blocks that the region needs
	quant         [64]int32       // as it was when the component first came, in zigzag order
	seen          bool
	dc            int32 // of the block before
	dcTable       *dcTable
	acTable       *acTable
	plane         []byte  // samples of the wanted blocks, row by row
	coefficients  []int16 // of all blocks of a progressive picture, in natural order
	stride        int     // blocks of a row of coefficients
	visits        int     // of a block's coefficients, by all scans
}

// Memory is how many bytes decoding a region of the picture that was opened takes.
func (d *Decoder) Memory(region image.Rectangle) int64 {
	n := int64(len(d.data)) + padding
	for i := range d.Components {
		c := &d.components[i]
		wanted := d.blocksFor(c, region)
		n += 64 * int64(wanted.Dx()) * int64(wanted.Dy())
		if d.Progressive {
			across, down := d.padded(c)
			n += 128 * int64(across) * int64(down)
		}
		n += 8*int64(d.Width) + 64
	}
	return n
}

// Idle is how many bytes of Scratch decoding a region of the picture that was opened does not use: planes of larger
// pictures, and coefficients, which only progressive ones have.
func (d *Decoder) Idle(region image.Rectangle) (n int64) {
	for i := range d.components {
		c := &d.components[i]
		plane, coefficients := 0, 0
		if i < d.Components {
			wanted := d.blocksFor(c, region)
			plane = 64 * wanted.Dx() * wanted.Dy()
			if d.Progressive {
				across, down := d.padded(c)
				coefficients = 64 * across * down
			}
		}
		n += int64(max(0, cap(c.plane)-plane)) + 2*int64(max(0, cap(c.coefficients)-coefficients))
	}
	return n
}

// Forget gives up what is held of pictures before. The one that was opened can be decoded still.
func (d *Decoder) Forget() {
	d.bits.data, d.rgb = nil, nil
	for i := range d.components {
		d.components[i].plane, d.components[i].coefficients, d.rows[i].full = nil, nil, nil
	}
}

// padded is how many blocks the MCUs of an interleaved scan have of a component.
func (d *Decoder) padded(c *component) (across, down int) {
	return ceilDiv(d.Width, 8*d.maxH) * c.h, ceilDiv(d.Height, 8*d.maxV) * c.v
}

// blocksFor is which blocks a region needs: those of its samples, and of the samples beside them, for upsampling.
func (d *Decoder) blocksFor(c *component, region image.Rectangle) image.Rectangle {
	return image.Rect(
		max(0, region.Min.X*c.h/d.maxH-1)/8, max(0, region.Min.Y*c.v/d.maxV-1)/8,
		ceilDiv(min(c.width, ceilDiv(region.Max.X*c.h, d.maxH)+1), 8),
		ceilDiv(min(c.height, ceilDiv(region.Max.Y*c.v, d.maxV)+1), 8))
}

// These bound the work that a few bytes can ask for, since each scan of a progressive picture may touch every block:
// how many there may be, and how often they come to a block's coefficients. More than once for each of their 14 bits
// means nothing.
const (
	maxScans  = 200
	maxVisits = 64 * 14
)

// Decode decodes what a region of the picture needs, which must lie in it; Row shows it then.
func (d *Decoder) Decode(region image.Rectangle) error {
	if region.Empty() || !region.In(image.Rect(0, 0, d.Width, d.Height)) {
		return fmt.Errorf("region %v of a picture of %d x %d pixels", region, d.Width, d.Height)
	}
	d.region = region
	for i := range d.Components {
		c := &d.components[i]
		c.wanted = d.blocksFor(c, region)
		c.plane = grow(c.plane, 64*c.wanted.Dx()*c.wanted.Dy())
		c.visits = 0
		if d.Progressive {
			across, down := d.padded(c)
			c.stride = across
			c.coefficients = grow(c.coefficients, 64*across*down)
			clear(c.coefficients)
		}
	}
	for {
		marker, segment, err := d.next()
		switch {
		case errors.Is(err, errTruncated) && d.complete() && !d.Progressive:
			return nil // all is there but the end marker
		case err != nil:
			return err
		case marker == markEOI:
			if !d.complete() {
				return errors.New("it ends before all of its components came")
			}
			d.transformAll()
			return nil
		case marker != markSOS:
			if err := d.segment(marker, segment); err != nil {
				return err
			}
			continue
		}
		if d.scans++; d.scans > maxScans {
			return fmt.Errorf("it has more than %d scans", maxScans)
		}
		done, err := d.scan(segment)
		if err != nil || done {
			return err
		}
	}
}

// complete reports whether all components have come.
func (d *Decoder) complete() bool {
	for i := range d.Components {
		if !d.components[i].seen {
			return false
		}
	}
	return true
}

// transformAll makes samples of a progressive picture's coefficients.
func (d *Decoder) transformAll() {
	if !d.Progressive {
		return
	}
	for i := range d.Components {
		c := &d.components[i]
		for y := c.wanted.Min.Y; y < c.wanted.Max.Y; y++ {
			for x := c.wanted.Min.X; x < c.wanted.Max.X; x++ {
				from := c.coefficients[64*(y*c.stride+x):][:64]
				last := 0
				for k, at := range zigzag[:64] {
					v := int32(from[at])
					d.block[at] = v * c.quant[k]
					if v != 0 {
						last = k
					}
				}
				d.samples(c, x, y, last)
			}
		}
	}
}

// samples writes the block's samples to the plane of its component.
func (d *Decoder) samples(c *component, x, y, last int) {
	stride := 8 * c.wanted.Dx()
	idct(c.plane[8*(y-c.wanted.Min.Y)*stride+8*(x-c.wanted.Min.X):], stride, &d.block, last)
}

// Scratch is the memory that the decoder holds for pictures to come, in bytes.
func (d *Decoder) Scratch() int64 {
	n := int64(cap(d.bits.data))
	for i := range d.components {
		c := &d.components[i]
		n += int64(cap(c.plane)) + 2*int64(cap(c.coefficients)) + int64(cap(d.rows[i].full))
	}
	return n + int64(cap(d.rgb))
}

// grow returns n values on s's memory where that is large enough, with unspecified contents.
func grow[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
