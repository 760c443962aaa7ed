package transform

import (
	"errors"
	"fmt"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/images"
)

// sizes is the type in Python of sizes of pictures.
const sizes = "int | Sequence[int]"

func decodeJPEG() Op {
	return decodeOp("decode_jpeg", images.JPEG, "pictures, see below",
		"Makes pictures of JPEG files, baseline or progressive: the pixels that libjpeg-turbo makes.")
}

func decodePNG() Op {
	return decodeOp("decode_png", images.PNG, "pictures, see below",
		"Makes pictures of PNG files; alpha and the lower 8 of 16 bits are left out.")
}

func decodeImage() Op {
	return decodeOp("decode_image", images.Any,
		"pictures, see below: what begins with `89 50 4e 47` is a PNG, all else a JPEG",
		"Makes pictures of files that each are JPEG or PNG, by their first bytes.")
}

func decodeOp(name string, format images.Format, exact, summary string) Op {
	op := Op{
		Name:    name,
		Version: 1,
		Summary: summary,
		Exact:   exact,
		Fails:   "a row that is no such picture, or a damaged one",
		Maps:    true,
		Inputs:  "binary scalar, an encoded picture a row",
		Output:  pictures,
		Params: []Param{
			{
				Name: "mode", Want: Text, Default: "rgb", OneOf: []string{"rgb", "gray"},
				Doc: "channels: red, green and blue, or luminance",
			},
		},
		Example: fmt.Sprintf("{op: %s, in: photo}", name),
	}
	if format != images.PNG {
		op.Params = append(op.Params, Param{
			Name: "upright", Want: Bool, Default: false, Doc: "turn JPEGs as the orientation in their EXIF says",
		})
	}
	op.Infer = func(p Params, in []spec.Type) (spec.Type, error) {
		if in[0] != (spec.Type{Kind: pb.Kind_BINARY}) {
			return spec.Type{}, fmt.Errorf("in: want one binary value a row, an encoded picture, found %v", in[0])
		}
		channels := int32(3)
		if p.Text("mode") == "gray" {
			channels = 1
		}
		return spec.Type{Kind: pb.Kind_PICTURE, Picture: spec.Picture{Channels: channels}}, nil
	}
	op.New = func(p Params, _ []spec.Type) (Kernel, error) {
		recipe := images.Recipe{Format: format, Gray: p.Text("mode") == "gray", Upright: p.Bool("upright")}
		return &decoding{album: album{op: name, recipe: recipe}}, nil
	}
	return op
}

// maxSide is the longest side of a picture that ops make.
const maxSide = 1 << 15

// sides reads a size as torchvision takes it: one number, or height and width.
func sides(p Params) (given []int, err error) {
	for _, x := range p.Numbers("size") {
		if x != float64(int(x)) || x < 1 || x > maxSide {
			return nil, fmt.Errorf("size: want ints from 1 to %d, found %s", maxSide, show(p.Value("size")))
		}
		given = append(given, int(x))
	}
	if len(given) != 1 && len(given) != 2 {
		return nil, fmt.Errorf("size: want one int, or [height, width], found %s", show(p.Value("size")))
	}
	return given, nil
}

// square reads a size of which one number is both sides.
func square(p Params) (height, width int, err error) {
	given, err := sides(p)
	if err != nil {
		return 0, 0, err
	}
	return given[0], given[len(given)-1], nil
}

// checkResizable refuses pictures that were resized: it is done once, from the pixels of the file.
func checkResizable(in spec.Type) error {
	if err := checkPictures(in); err != nil {
		return err
	}
	switch p := in.Picture; {
	case p.Floats:
		return errors.New("in: the pictures are normalized already; put normalize last")
	case p.Height > 0 || p.Shorter > 0:
		return fmt.Errorf("in: found %v, which is resized already; resize once, from the decoded picture", in)
	}
	return nil
}

func resize() Op {
	return Op{
		Name:    "resize",
		Version: 1,
		Summary: "Resizes pictures: bilinear, with antialiasing, to the pixels that Pillow makes.",
		Exact: "resized to [height, width], or so that the shorter side has one size and the longer one " +
			"`floor(size * long / short)`",
		Maps:     true,
		Inputs:   pictures,
		Pictures: true,
		Output:   pictures,
		Params: []Param{{
			Name: "size", Want: Numbers, Required: true, Positional: true, Python: sizes,
			Doc: "[height, width], or one number: the shorter side, the ratio is kept",
		}},
		Example: "{op: resize, in: photo, size: [224, 224]}",
		Infer: func(p Params, in []spec.Type) (spec.Type, error) {
			if err := checkResizable(in[0]); err != nil {
				return spec.Type{}, err
			}
			given, err := sides(p)
			out := in[0]
			if len(given) == 1 {
				out.Picture.Shorter = int32(given[0])
			} else if len(given) == 2 {
				out.Picture.Height, out.Picture.Width = int32(given[0]), int32(given[1])
			}
			return out, err
		},
		New: func(p Params, _ []spec.Type) (Kernel, error) {
			given, err := sides(p)
			if err != nil {
				return nil, err
			}
			return amend(func(a *album, _ Rows) {
				if len(given) == 1 {
					a.recipe.Shorter = given[0]
				} else {
					a.recipe.Height, a.recipe.Width = given[0], given[1]
				}
			})
		},
	}
}

func centerCrop() Op {
	return Op{
		Name:     "center_crop",
		Version:  1,
		Summary:  "Cuts out the middle of resized pictures.",
		Exact:    "the part of [height, width] that begins at half of what is left on each side, rounded half to even",
		Maps:     true,
		Inputs:   pictures,
		Pictures: true,
		Output:   pictures,
		Params: []Param{{
			Name: "size", Want: Numbers, Required: true, Positional: true, Python: sizes,
			Doc: "[height, width], or one number for both",
		}},
		Example: "{op: center_crop, in: photo, size: 224}",
		Infer: func(p Params, in []spec.Type) (spec.Type, error) {
			if err := checkPictures(in[0]); err != nil {
				return spec.Type{}, err
			}
			height, width, err := square(p)
			if err != nil {
				return spec.Type{}, err
			}
			out := in[0]
			have := &out.Picture
			switch {
			case have.Height == 0 && have.Shorter == 0:
				return spec.Type{}, fmt.Errorf(
					"in: found %v, of which some may be smaller than the part; resize them first", in[0])
			case max(have.Height, have.Shorter) < int32(height) || max(have.Width, have.Shorter) < int32(width):
				return spec.Type{}, fmt.Errorf("size: found %s, which is more than the pictures have: %v",
					show(p.Value("size")), in[0])
			}
			have.Height, have.Width, have.Shorter = int32(height), int32(width), 0
			return out, nil
		},
		New: func(p Params, _ []spec.Type) (Kernel, error) {
			height, width, err := square(p)
			if err != nil {
				return nil, err
			}
			return amend(func(a *album, _ Rows) { a.recipe.Middles = append(a.recipe.Middles, [2]int{height, width}) })
		},
	}
}

func flip() Op {
	const name = "flip"
	return Op{
		Name:     name,
		Version:  1,
		Summary:  "Mirrors each picture, left to right, with probability p, anew in each epoch.",
		Exact:    "mirrored left to right if `draw < p * 2^64`, see below",
		Maps:     true,
		Inputs:   pictures,
		Pictures: true,
		Output:   pictures,
		Params: []Param{
			{Name: "p", Want: Share, Default: 0.5, Positional: true},
			{Name: "seed", Want: Int, Default: 0, Doc: "beside the spec's seed"},
		},
		Example: "{op: flip, in: photo}",
		Infer:   func(_ Params, in []spec.Type) (spec.Type, error) { return in[0], checkPictures(in[0]) },
		New: func(p Params, _ []spec.Type) (Kernel, error) {
			below, seed := chance(p.Number("p")), p.Int("seed")
			return amend(func(a *album, rows Rows) {
				a.mirrors = append(a.mirrors, mirror{draws: drawsOf(rows, name, seed), below: below})
			})
		},
	}
}

func randomResizedCrop() Op {
	const name = "random_resized_crop"
	return Op{
		Name:    name,
		Version: 1,
		Summary: "Resizes a part of each picture that is chosen at random, anew in each epoch. " +
			"It is torchvision's RandomResizedCrop.",
		Exact:    "a random part of each, resized",
		Maps:     true,
		Inputs:   pictures,
		Pictures: true,
		Output:   pictures,
		Params: []Param{
			{
				Name: "size", Want: Numbers, Required: true, Positional: true, Python: sizes,
				Doc: "[height, width], or one number for both",
			},
			{
				Name: "scale", Want: Numbers, Default: []float64{0.08, 1},
				Doc: "from and to: the part's share of the area, above 0",
			},
			{
				Name: "ratio", Want: Numbers, Default: []float64{3. / 4, 4. / 3},
				Doc: "from and to: the part's width by its height",
			},
			{Name: "seed", Want: Int, Default: 0, Doc: "beside the spec's seed"},
		},
		Example: "{op: random_resized_crop, in: photo, size: 224}",
		Infer: func(p Params, in []spec.Type) (spec.Type, error) {
			height, width, err := square(p)
			if err != nil {
				return spec.Type{}, err
			}
			out := in[0]
			out.Picture.Height, out.Picture.Width = int32(height), int32(width)
			return out, checkResizable(in[0])
		},
		New: func(p Params, _ []spec.Type) (Kernel, error) {
			crop, err := newCrop(p)
			if err != nil {
				return nil, err
			}
			height, width, err := square(p)
			if err != nil {
				return nil, err
			}
			seed := p.Int("seed")
			return amend(func(a *album, rows Rows) {
				a.crops = drawsOf(rows, name, seed)
				a.recipe.Crop, a.recipe.Height, a.recipe.Width = crop, height, width
			})
		},
	}
}

// newCrop reads the ranges of a random crop.
func newCrop(p Params) (*images.RandomCrop, error) {
	c := &images.RandomCrop{}
	for _, r := range []struct {
		name string
		into *[2]float64
		most float64
	}{{"scale", &c.Scale, 1}, {"ratio", &c.Ratio, 1000}} {
		given := p.Numbers(r.name)
		if len(given) != 2 || given[0] < 0.001 || given[1] < given[0] || given[1] > r.most {
			return nil, fmt.Errorf("%s: want two numbers that do not descend, from 0.001 to %v, found %s",
				r.name, r.most, show(p.Value(r.name)))
		}
		*r.into = [2]float64{given[0], given[1]}
	}
	for i, ratio := range c.Ratio {
		c.LogRatio[i] = log1p64(ratio - 1)
	}
	return c, nil
}
