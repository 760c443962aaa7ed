package parquet

import (
	"errors"
	"fmt"
)

// load moves to the next data page and hands its values on.
func (c *column) load() error {
	for c.valuesLeft > 0 {
		ok, err := c.peekHeader()
		if err != nil {
			return err
		}
		if !ok && c.jumped {
			c.valuesLeft = 0
			return nil
		}
		if !ok {
			break
		}
		if c.lender != nil {
			c.lender.keep()
		}
		switch {
		case c.header.kind == dictionaryPage:
			err = c.loadDictionary()
		case c.header.values == 0 && c.index == nil: // there may be very many, each of very many bytes
			c.drop()
		default:
			err = c.loadData()
		}
		if err != nil || c.pageLeft > 0 {
			return err
		}
	}
	return fmt.Errorf("the chunk ends with %d of its values missing", c.valuesLeft)
}

// loadDictionary reads the dictionary page whose header was read.
func (c *column) loadDictionary() error {
	if c.entries {
		return errors.New(
			"dictionary: it is not the chunk's first one, or stands behind pages that need one: the file is damaged")
	}
	_, data, err := c.body()
	if err != nil || c.untyped {
		return err
	}
	if err := c.values.dictionary(data, c.header.encoding, c.header.values); err != nil {
		return fmt.Errorf("dictionary: %w", err)
	}
	c.entries = true
	return nil
}

// loadData begins the data page whose header was read.
func (c *column) loadData() error {
	if err := c.checkPage(); err != nil {
		return err
	}
	levels, data, err := c.body()
	if err != nil {
		return err
	}
	if data, err = c.levels(levels, data); err != nil {
		return err
	}
	if err := c.checkRows(); err != nil {
		return err
	}
	if c.lender != nil {
		c.lender.lend(c.stays)
	}
	h := &c.header
	if c.untyped {
		data, h.encoding = nil, encodingPlain
	}
	if h.encoding.indexed() && !c.entries {
		if err := c.values.dictionary(nil, encodingPlain, 0); err != nil {
			return err
		}
		c.entries = true
	}
	if err := c.values.page(data, h.encoding, h.values); err != nil {
		return err
	}
	c.pageLeft = h.values
	c.valuesLeft -= int64(h.values)
	return nil
}

// levels gives the page's levels, which stand by themselves or in front of data, to the block and returns the values.
func (c *column) levels(levels, data []byte) ([]byte, error) {
	h := &c.header
	if h.kind == dataPageV2 {
		c.block.rep.runs.begin(levels[:h.repLength], c.block.rep.width)
		c.block.def.runs.begin(levels[h.repLength:], c.block.def.width)
		return data, nil
	}
	var err error
	if c.maxRep > 0 {
		if data, err = c.block.rep.v1(data, h.repEnc); err != nil {
			return nil, fmt.Errorf("repetition levels: %w", err)
		}
	}
	if c.maxDef > 0 {
		if data, err = c.block.def.v1(data, h.defEnc); err != nil {
			return nil, fmt.Errorf("definition levels: %w", err)
		}
	}
	return data, nil
}

// finish checks that the chunk holds nothing more than its rows.
func (c *column) finish() error {
	more := c.pageLeft > 0 || c.valuesLeft > 0 && !c.jumped || c.block.pos < c.block.n
	if c.nextAt < c.length && !more && !c.chunk.Loose {
		var h header
		more = c.readHeader(&h) == nil && (h.kind == dataPage || h.kind == dataPageV2) && h.values > 0
	}
	if more {
		return errors.New("it holds more values than the footer claims")
	}
	return nil
}
