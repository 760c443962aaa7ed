package tensor

import (
	"errors"
	"fmt"
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/images"
	"github.com/penstock-ml/penstock/worker/vector"
)

// image is [rows, H, W, C] or [rows, C, H, W]; null is all zeros. It is of raw pixels, exactly as many bytes a value,
// or of pictures, which are made here: they go from their encoded bytes straight to the batch.
type image struct {
	out    *pb.Output
	floats bool
	values int // of one
	planar bool
}

func newImage(p *pb.Program, o *pb.Output) (*image, error) {
	im := &image{out: o, floats: o.GetType().GetKind() == pb.Kind_FLOAT32, values: 1}
	for _, d := range o.GetShape() {
		im.values *= int(d) // tensors.Schema has checked it
	}
	pic := pictureOf(p, o)
	if pic != nil {
		last, first := []int32{pic.Height, pic.Width, pic.Channels}, []int32{pic.Channels, pic.Height, pic.Width}
		im.planar = !slices.Equal(o.GetShape(), last)
		if im.planar && !slices.Equal(o.GetShape(), first) {
			return nil, fmt.Errorf("shape %v of pictures with %v", o.GetShape(), pic)
		}
	}
	if im.floats != (pic != nil && pic.Floats) {
		return nil, fmt.Errorf("images of kind %v, made of others", o.GetType().GetKind())
	}
	return im, nil
}

// pictureOf is what the program says of an output's pictures; nil if it has raw pixels.
func pictureOf(p *pb.Program, o *pb.Output) *spec.Picture {
	next := len(p.GetSources())
	for _, s := range p.GetSteps() {
		if t := spec.TypeFromProto(s.GetType()); s.GetOuts() == 1 && int(o.GetSlots()[0]) == next &&
			t.Kind == pb.Kind_PICTURE {
			return &t.Picture
		}
		next += int(s.GetOuts())
	}
	return nil
}

func (im *image) size(_ *Window, from, to int) (n, spare int64) {
	return int64(im.bytes()) * int64(to-from), 0
}

// bytes of one.
func (im *image) bytes() int {
	if im.floats {
		return 4 * im.values
	}
	return im.values
}

func (im *image) build(b *Batch, w *Window, from, to int) error {
	v := w.Slots[im.out.GetSlots()[0]]
	if !isScalar(v, pb.Kind_BINARY) && v.Type.Kind != pb.Kind_PICTURE {
		return typeError(v, "binary or a picture")
	}
	each := im.bytes()
	floats := room[float32](b, ((to-from)*each+3)/4)
	values := bytesOf(floats)[:(to-from)*each]
	bad := badRows{of: w}
	for i := from; i < to; i++ {
		row := w.Source(i)
		dst := values[(i-from)*each:][:each]
		canvas := images.Canvas{Bytes: dst, Planar: im.planar}
		if im.floats {
			canvas.Floats = floats[(i-from)*im.values:][:im.values]
		}
		if err := im.one(v, row, canvas); err != nil && ofBytes(err) {
			bad.add(i, fmt.Errorf(": %w", err))
		} else if err != nil {
			return fmt.Errorf("%s row %d: %w", w.File.GetUri(), w.RowOf(row), err)
		}
	}
	if err := bad.any(); err != nil {
		return err
	}
	b.add(to - from)
	b.add((to-from)*im.values, values)
	return nil
}

// one writes the image of a row.
func (im *image) one(v *vector.Vector, row int, to images.Canvas) error {
	switch {
	case v.IsNull(row):
		clear(to.Bytes)
		return nil
	case v.Type.Kind == pb.Kind_PICTURE:
		return v.Pictures.Make(row, to)
	}
	src := value(v, row)
	if len(src) != im.values {
		return &images.DamageError{
			Err: fmt.Errorf("it has %d bytes; shape %v takes %d", len(src), im.out.GetShape(), im.values),
		}
	}
	copy(to.Bytes, src)
	return nil
}

// ofBytes reports whether no worker can make an image, because of its bytes.
func ofBytes(err error) bool {
	_, ok := errors.AsType[*images.DamageError](err)
	return ok
}
