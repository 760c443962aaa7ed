package parquet

// skip passes over n rows: pages whose number of rows is known whole, others by decoding them.
func (c *column) skip(n int) error {
	if c.index != nil && n > 0 {
		var err error
		if n, err = c.jump(n); err != nil {
			return c.fail(err)
		}
	}
	for n > 0 {
		if c.index == nil && c.pageLeft == 0 && c.block.pos == c.block.n { // jump has passed over what an index lists
			skipped, err := c.skipPage(n)
			if err != nil {
				return c.fail(err)
			}
			if skipped > 0 {
				n -= skipped
				c.rowsLeft -= int64(skipped)
				continue
			}
		}
		m := min(n, blockSize)
		if c.maxRep == 0 && c.pageLeft > 0 {
			m = min(m, c.pageLeft)
		}
		if err := c.next(m); err != nil {
			return err
		}
		n -= m
	}
	return nil
}

// skipPage drops the next page if it is a data page of fewer than n rows, and says how many they were. Pages of lists
// should begin with a row, but arrow for Go writes some that do not: so the row behind dropped pages is decoded, after
// what may be left of the one before.
func (c *column) skipPage(n int) (int, error) {
	for c.valuesLeft > 0 {
		ok, err := c.peekHeader()
		if err != nil || !ok {
			return 0, err
		}
		h := &c.header
		rows := h.values
		switch {
		case h.kind == dictionaryPage:
			if err := c.loadDictionary(); err != nil {
				return 0, err
			}
			continue
		case c.maxRep > 0:
			if rows, err = c.listRows(); err != nil {
				return 0, err
			}
		}
		if rows == 0 || rows >= n {
			return 0, nil // it is read as any other
		}
		c.dropped = c.maxRep > 0
		c.block.begin()
		c.drop()
		c.valuesLeft -= int64(h.values)
		return rows, nil
	}
	return 0, nil
}

// listRows is how many rows begin in the page of a list column whose header was read, or 0 if only decoding tells.
// Headers of v2 pages say so, but nobody needs that to read them, and Arrow C++ before 12 has them claim as many rows
// as there are values (GH-34086). So the repetition levels, which are not compressed, are counted.
func (c *column) listRows() (int, error) {
	h := &c.header
	if h.kind != dataPageV2 || c.chunk.Crypt != nil {
		return 0, nil
	}
	data, err := c.source.Bytes(c.nextAt+h.size, h.repLength)
	if err != nil {
		return 0, err
	}
	c.block.rep.runs.begin(data[:h.repLength], c.block.rep.width)
	return c.block.rep.starts(h.values)
}
