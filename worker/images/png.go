package images

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"

	"github.com/penstock-ml/penstock/worker/images/jpeg"
)

// maxPNGSide is the longest side of a PNG. By its header it may be 2^31-1, which nothing else bounds; and the weights
// of so many pixels, each of them rounded, may come to more than 1 only by less than makes 256 of 255.
const maxPNGSide = 1 << 18

// open reads the header of a PNG.
func (p *pngRows) open(data []byte) (width, height int, err error) {
	c, err := png.DecodeConfig(bytes.NewReader(data))
	err = namePNG(err)
	if err == nil && max(c.Width, c.Height) > maxPNGSide {
		err = fmt.Errorf(
			"too large: the picture has %d x %d pixels; a PNG may have %d on a side: leave it out, or have it "+
				"stored smaller",
			c.Width, c.Height, maxPNGSide)
	}
	if err == nil {
		p.memory = memoryOfPNG(data, c)
	}
	return c.Width, c.Height, err
}

// namePNG says of an end that came too soon what ended: other errors say it themselves.
func namePNG(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("png: it ends in the middle")
	}
	return err
}

// memoryOfPNG is what decoding a PNG takes: its pixels, and the two rows that it is read through.
func memoryOfPNG(data []byte, c image.Config) int64 {
	each := int64(4)
	// grays get colours, then; wherever it stands, for chunks may have any bytes
	transparent := bytes.Contains(data, []byte("tRNS"))
	switch _, palette := c.ColorModel.(color.Palette); {
	case palette, c.ColorModel == color.GrayModel && !transparent:
		each = 1
	case c.ColorModel == color.Gray16Model && !transparent:
		each = 2
	case c.ColorModel == color.Gray16Model, c.ColorModel == color.RGBA64Model, c.ColorModel == color.NRGBA64Model:
		each = 8
	}
	pixels := int64(c.Width) * int64(c.Height)
	const header, interlace = 12, 28 // IHDR, and in it whether the picture is interlaced
	if string(data[header:header+4]) != "IHDR" || data[interlace] == 1 {
		pixels += pixels/2 + 1 // that come in the last pass, which is a picture of its own until its end
	}
	return each*pixels + 16*int64(c.Width)
}

// pngRows shows a region of a decoded PNG by rows.
type pngRows struct {
	memory  int64 // that decoding takes, in bytes
	picture image.Image
	region  image.Rectangle
	rgb     []byte
}

func (p *pngRows) decode(data []byte, region image.Rectangle) (err error) {
	p.region = region
	p.picture, err = png.Decode(bytes.NewReader(data))
	return namePNG(err)
}

// Row writes a row of the region: of 16 bits the upper ones, without alpha.
func (p *pngRows) Row(dst []byte, y int, gray bool) {
	from, to := p.region.Min.X, p.region.Max.X
	switch picture := p.picture.(type) {
	case *image.Gray:
		grays(dst, picture.Pix[picture.PixOffset(from, y):][:to-from], 1, gray)
		return
	case *image.Gray16:
		grays(dst, picture.Pix[picture.PixOffset(from, y):][:2*(to-from)], 2, gray)
		return
	}
	rgb := dst
	if gray {
		p.rgb = grow(p.rgb, pixelBytes*(to-from))
		rgb = p.rgb
	}
	p.colours(rgb, y)
	if gray {
		jpeg.Luminance(dst[:to-from], rgb)
	}
}

// grays takes every step-th byte.
func grays(dst, pixels []byte, step int, gray bool) {
	for x := 0; x < len(pixels); x += step {
		if gray {
			dst[0], dst = pixels[x], dst[1:]
		} else {
			dst[0], dst[1], dst[2], dst = pixels[x], pixels[x], pixels[x], dst[pixelBytes:]
		}
	}
}

func (p *pngRows) colours(dst []byte, y int) {
	from, n := p.region.Min.X, p.region.Dx()
	switch picture := p.picture.(type) {
	case *image.RGBA: // opaque
		everyFourth(dst, picture.Pix[picture.PixOffset(from, y):][:4*n], 4, 1)
	case *image.NRGBA:
		everyFourth(dst, picture.Pix[picture.PixOffset(from, y):][:4*n], 4, 1)
	case *image.RGBA64:
		everyFourth(dst, picture.Pix[picture.PixOffset(from, y):][:8*n], 8, 2)
	case *image.NRGBA64:
		everyFourth(dst, picture.Pix[picture.PixOffset(from, y):][:8*n], 8, 2)
	case *image.Paletted:
		for x, index := range picture.Pix[picture.PixOffset(from, y):][:n] {
			switch c := picture.Palette[index].(type) {
			case color.NRGBA:
				dst[pixelBytes*x], dst[pixelBytes*x+1], dst[pixelBytes*x+2] = c.R, c.G, c.B
			case color.RGBA:
				dst[pixelBytes*x], dst[pixelBytes*x+1], dst[pixelBytes*x+2] = c.R, c.G, c.B
			}
		}
	}
}

// everyFourth leaves out alpha, of pixels of so many bytes, and all but the first byte of each channel.
func everyFourth(dst, pixels []byte, pixel, channel int) {
	for ; len(pixels) >= pixel; pixels, dst = pixels[pixel:], dst[pixelBytes:] {
		dst[0], dst[1], dst[2] = pixels[0], pixels[channel], pixels[2*channel]
	}
}
