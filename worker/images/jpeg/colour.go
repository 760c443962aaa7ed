package jpeg

import "encoding/binary"

// rows holds a row of one component that was stretched to the picture's size.
type rows struct{ full []byte }

// pixel is how many bytes a pixel of a row has: red, green, blue and one that means nothing.
const pixel = 4

// Row writes a row of the region that was decoded last: the region's width times four bytes, red, green, blue and one
// that means nothing, or times one, luminance, if gray is set. y counts from the top of the picture.
func (d *Decoder) Row(dst []byte, y int, gray bool) {
	n := d.region.Dx()
	luma := d.stretched(0, y)[:n]
	switch {
	case d.Components == 1 && gray, d.Components == 3 && gray && d.isYCC():
		copy(dst, luma)
	case d.Components == 1:
		for x, v := range luma {
			dst[pixel*x], dst[pixel*x+1], dst[pixel*x+2] = v, v, v
		}
	default:
		rgb := dst
		if gray {
			d.rgb = grow(d.rgb, pixel*n)
			rgb = d.rgb
		}
		d.colours(rgb[:pixel*n], luma, y)
		if gray {
			Luminance(dst, rgb)
		}
	}
}

// Luminance is what Pillow makes of RGB, of four bytes a pixel, in mode L.
func Luminance(dst, rgb []byte) {
	for ; len(rgb) >= pixel && len(dst) > 0; rgb, dst = rgb[pixel:], dst[1:] {
		dst[0] = byte((uint32(rgb[0])*19595 + uint32(rgb[1])*38470 + uint32(rgb[2])*7471 + 0x8000) >> 16)
	}
}

// colours writes a row as RGB; first is that of the first component.
func (d *Decoder) colours(dst, first []byte, y int) {
	second, third := d.stretched(1, y), d.stretched(2, y)
	if d.isYCC() {
		fromYCC(dst, first, second, third)
	} else {
		interleave(dst, first, second, third)
	}
	if d.Components < 4 {
		return
	}
	// Adobe's CMYK is stored inverted, so that what a plain file has as C, M and Y is red, green and blue here; a YCCK
	// file has them inverted once more.
	invert := byte(0)
	if d.isYCC() {
		invert = 255
	}
	for x, k := range d.stretched(3, y)[:len(first)] {
		inks := dst[pixel*x:][:3]
		for i, v := range inks {
			ink := uint32(255 - (v ^ invert))
			t := ink*uint32(k) + 128
			inks[i] = byte(max(0, int32(k)-int32((t>>8+t)>>8)))
		}
	}
}

// isYCC reports whether the first three components are luminance and chrominances, as libjpeg decides that.
func (d *Decoder) isYCC() bool {
	c := &d.components
	switch {
	case d.Components == 1:
		return true
	case d.Components == 4:
		return d.adobe && d.transform != 0
	case d.jfif:
		return true
	case d.adobe:
		return d.transform != 0
	}
	return c[0].id != 'R' || c[1].id != 'G' || c[2].id != 'B'
}

// fromYCCPlain is fromYCC on any CPU: it converts a row with 16 bits of fraction.
func fromYCCPlain(dst, luma, blues, reds []byte) {
	blues, reds, dst = blues[:len(luma)], reds[:len(luma)], dst[:pixel*len(luma)]
	for x, l := range luma {
		l, cb, cr := int32(l), int32(blues[x])-128, int32(reds[x])-128
		r := l + (91881*cr+1<<15)>>16
		g := l + (-22554*cb-46802*cr+1<<15)>>16
		b := l + (116130*cb+1<<15)>>16
		binary.LittleEndian.PutUint32(dst, uint32(clamp(r))|uint32(clamp(g))<<8|uint32(clamp(b))<<16)
		dst = dst[pixel:]
	}
}

func interleave(dst, r, g, b []byte) {
	for x := range r {
		dst[pixel*x], dst[pixel*x+1], dst[pixel*x+2] = r[x], g[x], b[x]
	}
}

// stretched is a row of a component at the picture's size, over the region's width.
func (d *Decoder) stretched(i, y int) []byte {
	c := &d.components[i]
	across, down := d.maxH/c.h, d.maxV/c.v
	switch {
	case across == 1 && down == 1:
		return c.row(y)[d.region.Min.X-8*c.wanted.Min.X:]
	case across == 1 && down == 2:
		return d.tall(i, y)
	case across == 2 && down == 1 && c.width > 2:
		return d.wide(i, y)
	case across == 2 && down == 2 && c.width > 2:
		return d.both(i, y)
	}
	out, from := d.fullRow(i), c.row(y/down)
	for x := range out {
		out[x] = from[(d.region.Min.X+x)/across-8*c.wanted.Min.X]
	}
	return out
}

func (d *Decoder) fullRow(i int) []byte {
	r := &d.rows[i]
	r.full = grow(r.full, d.region.Dx())
	return r.full
}

// row is a row of samples, from the left of the blocks that are wanted. One beyond the edge is the one at it.
func (c *component) row(y int) []byte {
	y = max(0, min(y, c.height-1)) - 8*c.wanted.Min.Y
	stride := 8 * c.wanted.Dx()
	return c.plane[y*stride:][:stride]
}

// nearest are the rows of samples that row y of the picture lies between, the nearer one first.
func (c *component) nearest(y int) (near, far []byte) { return c.row(y / 2), c.row(y/2 - 1 + y%2*2) }

// tall stretches downwards: 3/4 of the nearer row and 1/4 of the other.
func (d *Decoder) tall(i, y int) []byte {
	c, out := &d.components[i], d.fullRow(i)
	near, far := c.nearest(y)
	skip := d.region.Min.X - 8*c.wanted.Min.X
	near, far = near[skip:][:len(out)], far[skip:][:len(out)]
	bias := int32(1 + y%2)
	for x, v := range near {
		out[x] = byte((3*int32(v) + int32(far[x]) + bias) >> 2)
	}
	return out
}

// wide stretches to the right: 3/4 of the nearer sample and 1/4 of the other. What both makes of a row and itself is
// four times as much.
func (d *Decoder) wide(i, y int) []byte {
	row := d.components[i].row(y)
	return d.wider(i, row, row, 4*1, 4*2)
}

// both stretches in both directions.
func (d *Decoder) both(i, y int) []byte {
	near, far := d.components[i].nearest(y)
	return d.wider(i, near, far, 8, 7)
}

func (d *Decoder) wider(i int, near, far []byte, even, odd int16) []byte {
	c, r := &d.components[i], &d.rows[i]
	n := c.samples()
	r.full = grow(r.full, 2*n)
	stretch(r.full, near[:n], far[:n], even, odd)
	return r.full[d.region.Min.X-16*c.wanted.Min.X:]
}

// stretchPlain is stretch on any CPU: it makes 2n samples of n, or of two rows of n: 3/4 of the nearer one, and of the
// nearer row, and 1/4 of the other. even and odd are what is added to 16 times a sample before it is cut off.
func stretchPlain(dst, near, far []byte, even, odd int16) {
	stretchEnds(dst, near, far, even, odd)
	far = far[:len(near)]
	mixed := func(x int) int32 { return 3*int32(near[x]) + int32(far[x]) }
	before, v := mixed(0), mixed(min(1, len(near)-1))
	e, o := int32(even), int32(odd)
	dst = dst[2:]
	for x := 2; x < len(near); x++ {
		next := 3*int32(near[x]) + int32(far[x])
		pair := (*[2]byte)(dst)
		pair[0], pair[1] = byte((3*v+before+e)>>4), byte((3*v+next+o)>>4)
		dst, before, v = dst[2:], v, next
	}
}

// stretchEnds makes the first two samples and the last two.
func stretchEnds(dst, near, far []byte, even, odd int16) {
	mixed := func(x int) int { return 3*int(near[x]) + int(far[x]) }
	last, e, o := len(near)-1, int(even), int(odd)
	dst[0], dst[1] = byte((4*mixed(0)+e)>>4), byte((3*mixed(0)+mixed(min(1, last))+o)>>4)
	dst[2*last], dst[2*last+1] = byte((3*mixed(last)+mixed(max(0, last-1))+e)>>4), byte((4*mixed(last)+o)>>4)
}

// samples is how many samples of the picture a row of the wanted blocks has.
func (c *component) samples() int { return min(8*c.wanted.Dx(), c.width-8*c.wanted.Min.X) }
