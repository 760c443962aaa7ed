package formats

import (
	"fmt"

	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/worker/formats/decode"
	"github.com/penstock-ml/penstock/worker/vector"
)

// Constants puts a program's sources together: those that a decoder reads of the file, and keys of partitions, of which
// the file's path, or its table, has the value. Decoders never see keys.
type Constants struct {
	format.Own
	Memory *decode.Allowance

	of     *format.Listed     // nil: it is forgotten
	values []*decode.Constant // of each source that is a key
	slots  []*vector.Vector   // of all sources
}

// Begin takes a file's values of keys.
func (c *Constants) Begin(of *format.Listed) error {
	if c.of == of {
		return nil
	}
	c.Forget()
	c.values, c.slots = make([]*decode.Constant, len(of.All)), make([]*vector.Vector, len(of.All))
	for i, s := range of.All {
		if _, ok := c.Place(i); ok {
			continue
		}
		v, err := decode.NewConstant(s.GetType(), s.GetDefault(), c.Memory)
		if err != nil {
			return fmt.Errorf("feature %s: %w", s.GetName(), err)
		}
		c.values[i] = v
	}
	c.of = of
	return nil
}

// Forget gives up the last file's values.
func (c *Constants) Forget() {
	for _, v := range c.values {
		if v != nil {
			v.Forget()
		}
	}
	c.of, c.values, c.slots = nil, nil, nil
}

// Join returns vectors of all sources in so many rows, by those of the decoder.
func (c *Constants) Join(own []*vector.Vector, rows int) (_ []*vector.Vector, err error) {
	if len(c.Sources) == len(c.slots) {
		return own, nil
	}
	for i, v := range c.values {
		if at, ok := c.Place(i); ok {
			c.slots[i] = own[at]
		} else if c.slots[i], err = v.Read(rows); err != nil {
			return nil, fmt.Errorf("feature %s: %w", c.of.All[i].GetName(), err)
		}
	}
	return c.slots, nil
}
