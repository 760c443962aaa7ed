package transform

import (
	"errors"
	"fmt"
	"math"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/images"
	"github.com/penstock-ml/penstock/worker/rescue"
	"github.com/penstock-ml/penstock/worker/vector"
)

// Image ops compute nothing when they run: a vector of pictures is the encoded bytes and what to do with them. The
// tensor layout has each picture made where it lies in a batch, so that none is decoded that is not sent.

func isPicture(t spec.Type) bool { return t.Kind == pb.Kind_PICTURE }

// pictures is the words for Op.Inputs and Op.Output.
const pictures = "pictures"

// checkPictures refuses an input that is not of pictures.
func checkPictures(in spec.Type) error {
	if !isPicture(in) {
		return fmt.Errorf(
			"in: want pictures, found %v; decode_jpeg, decode_png or decode_image makes pictures of encoded ones", in)
	}
	return nil
}

// album is a vector's pictures.
type album struct {
	recipe  images.Recipe
	op      string         // that decodes
	encoded *vector.Vector // of bytes
	rows    Rows
	crops   Draws
	mirrors []mirror
	studio  *images.Studio
	room    images.Room
}

// mirror turns a picture if it draws a number below a limit.
type mirror struct {
	draws Draws
	below chance
}

// Make implements vector.Pictures.
func (a *album) Make(row int, to images.Canvas) (err error) {
	defer rescue.As(&err, rescue.Pictures)
	at := a.rows.Of(row)
	choice := images.Choice{Crop: a.crops.At(at)}
	for _, m := range a.mirrors {
		choice.Mirror = choice.Mirror != m.below.covers(m.draws.At(at))
	}
	encoded := a.encoded.Data[a.encoded.Ends[row]:a.encoded.Ends[row+1]]
	if err := a.studio.Make(&a.recipe, encoded, choice, a.room, to); err != nil {
		return fmt.Errorf("%s: %w", a.op, err)
	}
	return nil
}

// Size implements vector.Pictures.
func (a *album) Size(row int) (height, width int, err error) {
	defer rescue.As(&err, rescue.Pictures)
	encoded := a.encoded.Data[a.encoded.Ends[row]:a.encoded.Ends[row+1]]
	if height, width, err = a.studio.Size(&a.recipe, encoded); err != nil {
		err = fmt.Errorf("%s: %w", a.op, err)
	}
	return height, width, err
}

// decoding is the kernel that pictures begin with.
type decoding struct {
	album
	studio images.Studio
}

func (k *decoding) Place(rows Rows, room images.Room) { k.rows, k.room = rows, room }

func (k *decoding) Run(out *vector.Vector, in []*vector.Vector) error {
	k.encoded, k.album.studio = in[0], &k.studio
	out.Valid, out.Pictures = in[0].Valid, &k.album
	return nil
}

// amending is a kernel that adds to what is done with pictures.
type amending struct {
	album album
	rows  Rows
	amend func(a *album, rows Rows)
}

func (k *amending) Place(rows Rows, room images.Room) { k.rows, k.album.room = rows, room }

func (k *amending) Run(out *vector.Vector, in []*vector.Vector) error {
	before, ok := in[0].Pictures.(*album)
	if !ok {
		return errors.New("the pictures are none of a built-in op; decode them by one")
	}
	mirrors, cuts := k.album.mirrors[:0], k.album.recipe.Middles[:0]
	k.album = *before
	k.album.mirrors = append(mirrors, before.mirrors...)
	k.album.recipe.Middles = append(cuts, before.recipe.Middles...)
	k.amend(&k.album, k.rows)
	out.Valid, out.Pictures = in[0].Valid, &k.album
	return nil
}

func amend(f func(a *album, rows Rows)) (Kernel, error) { return &amending{amend: f}, nil }

// drawsOf is the sequence of an op's seed. The op's name keeps it apart from those of other ops with that seed.
func drawsOf(rows Rows, op string, seed int64) Draws { return rows.Draws(uint64(seed) + Hash(op)) }

func inferNormalPicture(in spec.Type) (spec.Type, error) {
	if in.Picture.Floats {
		return spec.Type{}, errors.New("in: the pictures are normalized already")
	}
	in.Picture.Floats = true
	return in, nil
}

func newNormalPicture(mean, std []float32) Kernel {
	tables := images.Normal(mean, std)
	return &amending{amend: func(a *album, _ Rows) { a.recipe.Normal = tables }}
}

// chance is a probability.
type chance float64

// covers reports whether a draw falls to it: with 1 each does, with 0 none.
func (c chance) covers(draw uint64) bool { return c >= 1 || draw < uint64(math.Ldexp(float64(c), 64)) }
