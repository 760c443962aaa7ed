package parquet

// prefetcher is values whose memory can be brought into the caches before they are read. Columns take turns, a window
// at a time: what a column had in the caches near the core is gone when its turn comes again, and to wait for its first
// lines takes longer than to decode a few hundred numbers.
type prefetcher interface {
	// prefetch asks for the memory that the page's next n values are read from.
	prefetch(n int)
}

// prefetch asks for the memory that the next rows are read from, so that it comes while another column is decoded.
func (c *column) prefetch(rows int) {
	if c.prefetcher == nil || c.pageLeft == 0 {
		return
	}
	if c.maxRep > 0 {
		rows = c.likely(rows)
	}
	c.block.def.runs.prefetch()
	c.block.rep.runs.prefetch()
	c.prefetcher.prefetch(min(rows, c.pageLeft))
}

func (f *fixed[T]) prefetch(n int) {
	switch {
	case f.indexed:
		f.index.prefetch()
		// each line is likely to be needed
		if dict := bytesOf(f.dict)[:f.dictBytes()]; !f.ahead.on && len(dict)/cacheLine <= n {
			prefetch(dict)
		}
	case f.stream.encoding == encodingPlain:
		prefetch(f.stream.data[:min(n*f.width, len(f.stream.data))])
	}
}

func (v *narrow) prefetch(n int) {
	if v.paged {
		v.low.prefetch(n)
	} else {
		v.wide.prefetch(n)
	}
}

// prefetch asks for the beginning of what is left; the rest is read in order, as the CPU sees by itself.
func (r *runs) prefetch() { prefetch(r.src[:min(len(r.src), 2*cacheLine)]) }

// cacheLine is how many bytes come into a cache at once.
const cacheLine = 64
