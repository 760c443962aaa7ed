package images

import (
	"image"
	"math"
)

// view is what of a picture, as it lies in the file, becomes the result, and how.
type view struct {
	box    image.Rectangle // the part that is resized
	size   image.Point     // to this
	window image.Rectangle // of which this is the result
	turn   turn            // turned like this
}

// turn is how a picture is turned: the result's columns are the picture's rows if swap is set; then its rows or columns
// are reversed.
type turn struct{ swap, mirrorX, mirrorY bool }

// mirrorsColumns reports whether the columns of the picture, before it is turned, come in reverse.
func (t turn) mirrorsColumns() bool { return t.swap && t.mirrorY || !t.swap && t.mirrorX }

// mirrorsRows reports whether the rows do.
func (t turn) mirrorsRows() bool { return t.swap && t.mirrorX || !t.swap && t.mirrorY }

// turnOf is that of EXIF's orientation, 1 to 8.
func turnOf(orientation int) turn {
	return [8]turn{
		{},
		{mirrorX: true},
		{mirrorX: true, mirrorY: true},
		{mirrorY: true},
		{swap: true},
		{swap: true, mirrorX: true},
		{swap: true, mirrorX: true, mirrorY: true},
		{swap: true, mirrorY: true},
	}[orientation-1]
}

// view chooses what is made of a picture. All choices are made on the picture as it is seen, turned upright.
func (r *Recipe) view(width, height int, t turn, choice Choice) view {
	if t.swap {
		width, height = height, width
	}
	box := image.Rect(0, 0, width, height)
	if r.Crop != nil {
		box = r.Crop.box(width, height, choice.Crop)
	}
	w, h := r.resized(box.Dx(), box.Dy())
	window := image.Rect(0, 0, w, h)
	for _, size := range r.Middles {
		top := int(math.RoundToEven(float64(window.Dy()-size[0]) / 2))
		left := int(math.RoundToEven(float64(window.Dx()-size[1]) / 2))
		window = image.Rect(left, top, left+size[1], top+size[0]).Add(window.Min)
	}
	v := view{
		box:    t.back(box, width, height),
		size:   image.Pt(w, h),
		window: t.back(window, w, h),
		turn:   t,
	}
	if t.swap {
		v.size = image.Pt(h, w)
	}
	v.turn.mirrorX = v.turn.mirrorX != choice.Mirror
	return v
}

// back is where a part of a turned picture of the given size lies before it is turned.
func (t turn) back(part image.Rectangle, width, height int) image.Rectangle {
	if t.mirrorX {
		part.Min.X, part.Max.X = width-part.Max.X, width-part.Min.X
	}
	if t.mirrorY {
		part.Min.Y, part.Max.Y = height-part.Max.Y, height-part.Min.Y
	}
	if t.swap {
		part = image.Rectangle{Min: image.Pt(part.Min.Y, part.Min.X), Max: image.Pt(part.Max.Y, part.Max.X)}
	}
	return part
}
