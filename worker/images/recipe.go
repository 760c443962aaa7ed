package images

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"math"

	"github.com/penstock-ml/penstock/worker/images/jpeg"
)

// Format is how pictures are encoded.
type Format uint8

// The formats.
const (
	JPEG Format = iota + 1
	PNG
	Any // of them, by the first bytes
)

// Recipe says how an encoded picture becomes pixels: decode, crop, resize, cut out the middle, mirror, normalise, in
// this order.
type Recipe struct {
	Format  Format
	Gray    bool        // one channel, luminance, in place of red, green and blue
	Upright bool        // JPEGs are turned as their EXIF says
	Crop    *RandomCrop // nil: all of it
	// Height and Width are what it is resized to, or else Shorter that of the two sides.
	Height, Width, Shorter int
	// Middles are heights and widths: the part in the middle of the resized picture, the part in the middle of that,
	// ...
	Middles [][2]int
	// Normal maps the bytes of each channel to what they are in floats; nil: bytes stay.
	Normal *[3][256]float32
}

// Choice is what is random of one picture.
type Choice struct {
	Crop   uint64 // seed
	Mirror bool   // left to right
}

// Canvas is where pixels go: to one of the slices, which has as many as the picture has in all channels.
type Canvas struct {
	Bytes  []uint8
	Floats []float32
	Planar bool // channel by channel, rather than pixel by pixel
}

// Room is the memory that a picture may take while it is made.
type Room struct {
	// Most is how many bytes one picture may take.
	Most int64
	// Take, unless it is nil, is asked for so many bytes beyond those that the Studio holds, before they are taken. An
	// error of it is Make's.
	Take func(bytes int64) error
}

// Studio is the memory in which pictures are made.
type Studio struct {
	decoder             jpeg.Decoder
	isPNG               bool
	png                 pngRows
	across, down        axis
	rows, columns, made []byte
}

// ErrMemory says that a picture takes more memory than it may. A worker that has more may make it.
var ErrMemory = errors.New("too large for this worker")

// DamageError says that no worker can make a picture of these bytes.
type DamageError struct{ Err error }

func (e *DamageError) Error() string { return e.Err.Error() }

func (e *DamageError) Unwrap() error { return e.Err }

// Channels is 3, or 1.
func (r *Recipe) Channels() int {
	if r.Gray {
		return 1
	}
	return 3
}

// rowsOf shows the rows of a decoded region: of each pixel four bytes, red, green, blue and one that means nothing, or,
// gray, one.
type rowsOf interface {
	Row(dst []byte, y int, gray bool)
}

// Make writes the picture of encoded bytes to a canvas. It takes at most about as much memory as there is room for.
func (s *Studio) Make(r *Recipe, encoded []byte, choice Choice, room Room, to Canvas) error {
	width, height, turn, err := s.open(r, encoded)
	if err != nil {
		return &DamageError{err}
	}
	return s.show(r, encoded, image.Pt(width, height), r.view(width, height, turn, choice), room, to)
}

// Size is how many pixels the picture that Make makes of encoded bytes has. It reads their header.
func (s *Studio) Size(r *Recipe, encoded []byte) (height, width int, err error) {
	width, height, turn, err := s.open(r, encoded)
	if err != nil {
		return 0, 0, &DamageError{err}
	}
	v := r.view(width, height, turn, Choice{}) // which is of one size, whatever is chosen
	if err := v.check(width, height); err != nil {
		return 0, 0, &DamageError{err}
	}
	size := v.window.Size()
	if turn.swap {
		size.X, size.Y = size.Y, size.X
	}
	return size.Y, size.X, nil
}

// check refuses a view of a picture of a size that has not as much.
func (v *view) check(width, height int) error {
	if v.window.Empty() || !v.window.In(image.Rectangle{Max: v.size}) {
		return fmt.Errorf(
			"the picture of %d x %d pixels is smaller than the part that is cut out of it; resize it to more",
			width, height)
	}
	return nil
}

// show makes a view of a picture of a size that was opened.
func (s *Studio) show(r *Recipe, encoded []byte, full image.Point, v view, room Room, to Canvas) error {
	width, height := full.X, full.Y
	if err := v.check(width, height); err != nil {
		return &DamageError{err}
	}
	s.across.set(v.box.Dx(), v.size.X, v.window.Min.X, v.window.Max.X)
	s.down.set(v.box.Dy(), v.size.Y, v.window.Min.Y, v.window.Max.Y)
	x0, x1 := s.across.span()
	y0, y1 := s.down.span()
	region := image.Rect(x0, y0, x1, y1).Add(v.box.Min)
	own, decoding := s.memory(region, v.window.Size())
	n := own + decoding
	if n > room.Most {
		return fmt.Errorf("%w: the picture has %d x %d pixels, which take %d bytes to decode; %d are allowed: "+
			"leave it out, have it stored smaller, or give workers %d MiB more (--memory)",
			ErrMemory, width, height, n, room.Most, (n-room.Most)>>20+1)
	}
	idle := s.idle(region)
	if n+idle > room.Most {
		s.decoder.Forget()
		idle = 0
	}
	if more := max(0, own-s.own()) + max(0, decoding+idle-s.decoder.Scratch()); more > 0 && room.Take != nil {
		if err := room.Take(more); err != nil {
			return fmt.Errorf("the picture of %d x %d pixels: %w", width, height, err)
		}
	}
	rows, err := s.decode(encoded, region)
	if err != nil {
		return &DamageError{err}
	}
	s.across.placed(x0, v.turn.mirrorsColumns())
	s.down.placed(y0, v.turn.mirrorsRows())
	s.resize(r, rows, region, v, to)
	return nil
}

// open reads the header. The size is that of the picture as it lies in the file.
func (s *Studio) open(r *Recipe, encoded []byte) (width, height int, t turn, err error) {
	if len(encoded) == 0 {
		return 0, 0, turn{}, errors.New("it has no bytes")
	}
	if s.isPNG = r.Format == PNG || r.Format == Any && bytes.HasPrefix(encoded, []byte("\x89PNG")); s.isPNG {
		width, height, err = s.png.open(encoded)
		return width, height, turn{}, err
	}
	if r.Format == Any && !bytes.HasPrefix(encoded, []byte("\xff\xd8")) {
		return 0, 0, turn{}, fmt.Errorf("it is neither a JPEG nor a PNG: it begins with %x",
			encoded[:min(len(encoded), 4)])
	}
	h, err := s.decoder.Open(encoded)
	if err == nil && r.Upright {
		t = turnOf(h.Orientation)
	}
	return h.Width, h.Height, t, err
}

// memory is about what a picture takes while it is made: of the studio's own, and to decode it.
func (s *Studio) memory(region image.Rectangle, made image.Point) (own, decoding int64) {
	own = int64(region.Dy()+s.down.most+rowsAtOnce)*int64(made.X)*3 +
		rowsAtOnce*int64(region.Dx()+s.across.most)*pixelBytes + slack
	if s.isPNG {
		return own, s.png.memory
	}
	return own, s.decoder.Memory(region)
}

// idle is what the decoder holds of pictures before, and the one that was opened does not use.
func (s *Studio) idle(region image.Rectangle) int64 {
	if s.isPNG {
		return s.decoder.Scratch()
	}
	return s.decoder.Idle(region)
}

func (s *Studio) decode(encoded []byte, region image.Rectangle) (rowsOf, error) {
	if s.isPNG {
		return &s.png, s.png.decode(encoded, region)
	}
	return &s.decoder, s.decoder.Decode(region)
}

// resize makes the window of the resized picture on the canvas: rows become shorter first, then fewer.
func (s *Studio) resize(r *Recipe, rows rowsOf, region image.Rectangle, v view, to Canvas) {
	channels := r.Channels()
	short := v.window.Dx() * channels
	long := (region.Dx() + s.across.most) * pixelBytes
	s.rows = grow(s.rows, rowsAtOnce*long)
	s.columns = grow(s.columns, short*roundUp(max(region.Dy(), s.down.end), rowsAtOnce)+slack)
	for y := 0; y < region.Dy(); y += rowsAtOnce {
		n := min(rowsAtOnce, region.Dy()-y) // rows that are left; those behind them mean nothing
		for k := range n {
			rows.Row(s.rows[k*long:], region.Min.Y+y+k, r.Gray)
		}
		if !r.Gray {
			s.across.acrossRows(s.columns[y*short:], s.rows)
			continue
		}
		for k := range n {
			s.across.acrossGray(s.columns[(y+k)*short:], s.rows[k*long:])
		}
	}
	s.png.picture = nil
	s.made = grow(s.made, short+slack)
	for y := range v.window.Dy() {
		if r.Normal == nil && !to.Planar && !v.turn.swap {
			s.down.down(to.Bytes[y*short:][:short], s.columns, y)
			continue
		}
		s.down.down(s.made[:short], s.columns, y)
		s.hang(r, v, y, to)
	}
}

// hang writes a row that was made to the canvas.
func (s *Studio) hang(r *Recipe, v view, y int, to Canvas) {
	channels, size := r.Channels(), v.window.Size()
	from, step := y*size.X, 1 // the pixel where the row begins, and how many it is to the next
	if v.turn.swap {
		from, step = y, size.Y
	}
	pixel, plane := channels, 1 // values from one pixel, and one channel, to the next
	if to.Planar {
		pixel, plane = 1, size.X*size.Y
	}
	row := s.made[:channels*size.X]
	if r.Normal != nil && to.Planar && !v.turn.swap && !r.Gray {
		n := lookUpPlanes(to.Floats[from:], plane, s.made, r.Normal, size.X)
		from, row = from+n, row[channels*n:]
	}
	for c := range min(channels, len(row)) {
		if at := from*pixel + c*plane; r.Normal != nil {
			lookUp(to.Floats[at:], row[c:], &r.Normal[c], step*pixel, channels)
		} else {
			pick(to.Bytes[at:], row[c:], step*pixel, channels)
		}
	}
}

// lookUp puts what the table has of every channels-th byte to every step-th value.
func lookUp(dst []float32, row []byte, table *[256]float32, step, channels int) {
	for at := 0; len(row) > 0; at += step {
		dst[at] = table[row[0]]
		row = row[min(channels, len(row)):]
	}
}

// pick puts every channels-th byte to every step-th.
func pick(dst, row []byte, step, channels int) {
	for at := 0; len(row) > 0; at += step {
		dst[at] = row[0]
		row = row[min(channels, len(row)):]
	}
}

// Scratch is the memory that the studio holds, in bytes.
func (s *Studio) Scratch() int64 { return s.decoder.Scratch() + s.own() }

func (s *Studio) own() int64 {
	return int64(cap(s.rows) + cap(s.columns) + cap(s.made) + cap(s.png.rgb))
}

// Normal is (x/255 - mean) / std for each byte x, in float32, for up to three channels.
func Normal(mean, std []float32) *[3][256]float32 {
	var tables [3][256]float32
	for c := range mean {
		for x := range 256 {
			tables[c][x] = (float32(x)/255 - mean[c]) / std[c]
		}
	}
	return &tables
}

// resized is the size that a picture, or a part of one, is resized to.
func (r *Recipe) resized(width, height int) (int, int) {
	switch {
	case r.Height > 0:
		return r.Width, r.Height
	case r.Shorter == 0:
		return width, height
	case width <= height:
		return r.Shorter, scaled(r.Shorter, height, width)
	}
	return scaled(r.Shorter, width, height), r.Shorter
}

// scaled is the longer side, cut off.
func scaled(shorter, long, short int) int {
	return int(math.Floor(float64(shorter) * float64(long) / float64(short)))
}
