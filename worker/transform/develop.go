package transform

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/images"
	"github.com/penstock-ml/penstock/worker/vector"
)

// Functions get pictures as pixels. Image ops compute nothing when they run, and are of the last stage; for a function
// those that its pictures are of run once more right before it, on the rows that are there, and then the pictures are
// made.

// darkroom has the pixels of an input of pictures, in memory that it uses again.
type darkroom struct {
	input int   // of the function
	steps []int // that the pictures are of, from the one that decodes
	made  vector.Vector
	sizes []int32
	held  int64
}

// pixelsBeforeWait is how many bytes of pixels are made before it is said that the stream is at work.
const pixelsBeforeWait = 256 << 20

// findDarkrooms finds the image ops that functions' pictures are of. Those that no output shows run for functions
// alone.
func (c *Chain) findDarkrooms(outputs []*pb.Output) {
	maker := make(map[uint32]int)
	for i := range c.steps {
		if s := &c.steps[i]; isPicture(s.typ) {
			maker[uint32(s.slot)] = i
		}
	}
	developed, shown := map[int]bool{}, map[int]bool{}
	for _, at := range c.calling {
		f := c.steps[at].calls
		for i, slot := range c.steps[at].from {
			if _, is := maker[slot]; !is {
				continue
			}
			steps := c.albumOf(slot, maker)
			f.darkrooms = append(f.darkrooms, &darkroom{input: i, steps: steps})
			f.encoded = append(f.encoded, c.steps[steps[0]].from...)
			for _, step := range steps {
				developed[step] = true
			}
		}
	}
	for _, o := range outputs {
		for _, slot := range o.GetSlots() {
			for _, step := range c.albumOf(slot, maker) {
				shown[step] = true
			}
		}
	}
	c.order = slices.DeleteFunc(c.order, func(i int) bool {
		c.steps[i].apart = developed[i] && !shown[i]
		return c.steps[i].apart
	})
}

// albumOf are the steps that pictures are of, from the one that decodes; none if these are no pictures.
func (c *Chain) albumOf(slot uint32, maker map[uint32]int) (steps []int) {
	for at, is := maker[slot]; is; at, is = maker[slot] {
		steps, slot = append(steps, at), c.steps[at].from[0]
	}
	slices.Reverse(steps)
	return steps
}

// develop makes the pictures that a step's function is called with.
func (c *Chain) develop(ctx context.Context, s *step, slots []*vector.Vector, rows int) error {
	for _, d := range s.calls.darkrooms {
		for _, at := range d.steps {
			album := &c.steps[at]
			if k, ok := album.kernel.(Placed); ok {
				k.Place(c.rows, c.pictures)
			}
			if err := c.run(ctx, album, slots, rows); err != nil {
				return err
			}
			slots[album.slot] = &album.out
		}
		if err := c.print(ctx, d, slots[s.from[d.input]]); err != nil {
			return err
		}
		s.in[d.input], s.calls.sizes[d.input] = &d.made, d.sizes
		c.report(d.steps[0])
	}
	return nil
}

// print makes the pixels of all rows.
func (c *Chain) print(ctx context.Context, d *darkroom, v *vector.Vector) error {
	var bad failing
	if err := c.measure(d, v, &bad); err != nil {
		return err
	}
	pixels := int(d.made.Ends[v.Rows])
	need := int64(pixels+pixels/8) + 13*int64(v.Rows) // as vector.Grow grows
	if err := c.keep(need - d.held); err != nil {
		return err
	}
	d.held = max(d.held, need)
	data, said := vector.Grow(d.made.Data, pixels), 0
	for row := range v.Rows {
		begin, end := int(d.made.Ends[row]), int(d.made.Ends[row+1])
		if begin == end {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if end-said > pixelsBeforeWait && c.ask.Wait != nil {
			if err := c.ask.Wait(); err != nil {
				return err
			}
			said = end
		}
		if err := v.Pictures.Make(row, images.Canvas{Bytes: data[begin:end:end]}); err != nil {
			if err = bad.add(c.unmade(row, err)); err != nil {
				return err
			}
		}
	}
	d.made.Data = data
	slices.SortFunc(bad.rows, func(a, b RowError) int { return cmp.Compare(a.Row, b.Row) })
	return bad.err()
}

// unmade is why a picture cannot be made: because of its bytes, or for want of memory.
func (c *Chain) unmade(row int, err error) error {
	if _, ok := errors.AsType[*images.DamageError](err); ok {
		return &RowError{Row: row, What: "has no picture: " + err.Error(), Own: true}
	}
	return fmt.Errorf("row %d: %w", c.rows.Row(row), err)
}

// measure finds how large the pictures become. Of null ones there is nothing, nor of bad ones.
func (c *Chain) measure(d *darkroom, v *vector.Vector, bad *failing) error {
	known := v.Type.Picture
	made := vector.Vector{Type: v.Type, Rows: v.Rows, Valid: v.Valid, Data: d.made.Data}
	made.Ends, d.sizes = vector.Grow(d.made.Ends, v.Rows+1), vector.Grow(d.sizes, 2*v.Rows)
	made.Ends[0] = 0
	total := int64(0)
	for row := range v.Rows {
		height, width := int(known.Height), int(known.Width)
		if v.IsNull(row) {
			height, width = 0, 0
		} else if height == 0 {
			var err error
			if height, width, err = v.Pictures.Size(row); err != nil {
				if err = bad.add(c.unmade(row, err)); err != nil {
					return err
				}
				height, width = 0, 0
			}
		}
		if total += int64(height) * int64(width) * int64(known.Channels); total > math.MaxInt32 {
			return fmt.Errorf("row %d: the pictures of one call take more than 2 GiB; resize them before it",
				c.rows.Row(row))
		}
		d.sizes[2*row], d.sizes[2*row+1], made.Ends[row+1] = int32(height), int32(width), int32(total)
	}
	d.made = made
	return nil
}
