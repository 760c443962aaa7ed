package parquet

import (
	"github.com/penstock-ml/penstock/worker/formats/decode"
	"github.com/penstock-ml/penstock/worker/vector"
)

// codable is values that know a dictionary and can be made of codes of it.
type codable interface {
	values
	// entries lets v see the dictionary.
	entries(v *vector.Vector)
	// lookUp makes the values of positions from at on of codes, all of which the dictionary has. Positions without a
	// bit in valid are null; nil: none is.
	lookUp(at int, codes []uint32, valid []uint64) error
}

// coded keeps a window's values as codes of their dictionary, so that a filter may test each entry once, and values are
// made only of windows that have rows left. Once a page of the window holds values, all become values.
type coded struct {
	codable
	lender lender // codable too, if it is one; else nil
	mem    *decode.Allowance
	valid  *validity // of the window's rows
	unread bool      // nobody wants values

	dict  *vector.Vector // never changed: the next dictionary has another vector
	index runs
	paged bool // the page holds codes
	rows  int  // of the window
	codes []uint32
	n     int  // how many positions have codes
	spelt bool // the window has values instead
}

// begin begins a chunk.
func (c *coded) begin() {
	c.dict, c.n = &vector.Vector{Type: c.dict.Type}, 0
}

func (c *coded) lend(stays bool) {
	if c.lender != nil {
		c.lender.lend(stays)
	}
}

func (c *coded) keep() {
	if c.lender != nil {
		c.lender.keep()
	}
}

func (c *coded) forget() {
	if c.lender != nil {
		c.lender.forget()
	}
}

func (c *coded) dictionary(data []byte, e encoding, n int) error {
	if c.n > 0 { // these are of the one before
		if err := c.spell(); err != nil {
			return err
		}
	}
	if err := c.codable.dictionary(data, e, n); err != nil {
		return err
	}
	c.dict = &vector.Vector{Type: c.dict.Type}
	c.entries(c.dict)
	return nil
}

func (c *coded) page(data []byte, e encoding, n int) error {
	if c.paged = e.indexed(); c.paged {
		return c.index.beginIndices(data)
	}
	return c.codable.page(data, e, n)
}

// reserve begins a window: columns that are coded have no lists.
func (c *coded) reserve(n, _ int) (err error) {
	c.rows, c.n, c.spelt = n, 0, false
	c.codes, err = decode.Grow(c.mem, c.codes, n)
	return err
}

func (c *coded) read(at, n int) error {
	if !c.paged {
		if err := c.spell(); err != nil {
			return err
		}
		return c.codable.read(at, n)
	}
	codes := c.codes[at : at+n]
	if err := c.index.unpack(codes, c.dict.Rows); err != nil {
		return err
	}
	if c.spelt {
		return c.lookUp(at, codes, nil)
	}
	c.n = at + n
	return nil
}

// spell makes values of the window's codes.
func (c *coded) spell() error {
	if c.spelt {
		return nil
	}
	if err := c.codable.reserve(c.rows, c.rows); err != nil {
		return err
	}
	c.spelt = true
	return c.lookUp(0, c.codes[:c.n], c.valid.bitmap())
}

// spread gives null rows the first code, which the dictionary has if it has any.
func (c *coded) spread(valid []uint64, from, n, present int) {
	if c.spelt {
		c.codable.spread(valid, from, n, present)
		return
	}
	expand(c.codes, c.codes[from:from+present], valid, from, from+n, 0)
	c.n = from + n
}

func (c *coded) into(v *vector.Vector, n int) {
	if c.spelt {
		v.Codes, v.Dict = nil, nil
		c.codable.into(v, n)
		return
	}
	*v = vector.Vector{Type: v.Type, Rows: v.Rows, Valid: v.Valid, Codes: c.codes[:n], Dict: c.dict}
}
