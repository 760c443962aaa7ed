package jpeg

// progressive decodes what a scan has of a block.
func (d *Decoder) progressive(s *scan, c *component, x, y int) bool {
	block := (*[64]int16)(c.coefficients[64*(y*c.stride+x):])
	switch {
	case s.from == 0 && s.high == 0:
		return d.dcFirst(c, block, s)
	case s.from == 0:
		return d.dcRefine(block, s)
	case s.high == 0:
		return d.acFirst(c, block, s)
	}
	return d.acRefine(c, block, s)
}

func (d *Decoder) dcFirst(c *component, block *[64]int16, s *scan) bool {
	size, ok := c.dcTable.symbol(&d.bits)
	if !ok || size > 15 {
		return false
	}
	c.dc += d.bits.extended(int(size))
	block[0] = int16(c.dc << s.low)
	return true
}

func (d *Decoder) dcRefine(block *[64]int16, s *scan) bool {
	block[0] |= int16(d.bits.take(1) << s.low)
	return true
}

func (d *Decoder) acFirst(c *component, block *[64]int16, s *scan) bool {
	if d.eobRun > 0 {
		d.eobRun--
		return true
	}
	for k := s.from; k <= s.to; k++ {
		symbol, ok := c.acTable.symbol(&d.bits)
		if !ok {
			return false
		}
		run, size := int(symbol>>4), int(symbol&15)
		switch {
		case size > 0:
			if k += run; k > s.to {
				return false
			}
			block[zigzag[k]] = int16(d.bits.extended(size) << s.low)
		case run == 15:
			k += 15
		default:
			d.eobRun = 1<<run - 1 + d.bits.take(run)
			return true
		}
	}
	return true
}

// acRefine adds a bit to the coefficients that are not 0, and makes some of the others 1 or -1 in their last bit.
func (d *Decoder) acRefine(c *component, block *[64]int16, s *scan) bool {
	one := int16(1) << s.low
	k := s.from
	for d.eobRun == 0 && k <= s.to {
		symbol, ok := c.acTable.symbol(&d.bits)
		if !ok {
			return false
		}
		run, size := int(symbol>>4), int(symbol&15)
		value := int16(0)
		switch {
		case size > 1:
			return false
		case size == 1:
			value = -one
			if d.bits.take(1) == 1 {
				value = one
			}
		case run != 15:
			d.eobRun = 1<<run + d.bits.take(run)
			continue
		}
		if k = d.refine(block, k, s.to, run, one); value != 0 {
			if k > s.to {
				return false
			}
			block[zigzag[k]] = value
		}
		k++
	}
	if d.eobRun > 0 {
		d.refine(block, k, s.to, -1, one)
		d.eobRun--
	}
	return true
}

// refine adds a bit to the coefficients from k on that are not 0, up to the one behind `zeros` that are, or to the end
// if that is negative. It returns where it stopped.
func (d *Decoder) refine(block *[64]int16, k, to, zeros int, one int16) int {
	for ; k <= to; k++ {
		v := &block[zigzag[k]]
		if *v == 0 {
			if zeros == 0 {
				break
			}
			zeros--
			continue
		}
		if d.bits.take(1) == 0 || *v&one != 0 {
			continue
		}
		if *v > 0 {
			*v += one
		} else {
			*v -= one
		}
	}
	return k
}
