package encode

import (
	"errors"
	"math"
)

// Types of pages and encodings, numbered as in parquet.thrift.
const (
	dictionaryPage = 2
	dataPageV2     = 3

	plainEncoding   = 0
	rleEncoding     = 3
	codedByNumbers  = 8 // RLE_DICTIONARY
	zstdCompression = 6
)

// page is what a data page holds.
type page struct {
	rows, levels, count int // count is without nulls and empty lists
	def, rep            []byte
	values              []byte
	numbers             []uint32 // of the values, in the dictionary
	encoded             []byte   // levels
	repBytes            int      // of these
	bounds              bounds
}

func (p *page) reset() {
	p.rows, p.levels, p.count = 0, 0, 0
	p.def, p.rep, p.values = p.def[:0], p.rep[:0], p.values[:0]
}

// close encodes the levels, and finds the bounds.
func (p *page) close(l *leaf) {
	p.encoded, p.repBytes = p.encoded[:0], 0
	if l.maxRep > 0 {
		p.encoded = appendHybrid(p.encoded, p.rep, widthOf(uint32(l.maxRep)))
		p.repBytes = len(p.encoded)
	}
	if l.maxDef > 0 {
		p.encoded = appendHybrid(p.encoded, p.def, widthOf(uint32(l.maxDef)))
	}
	p.bounds = l.kind.boundsOf(p.values)
}

// write appends a data page, whose values are numbers of a dictionary's if it is coded.
func (c *chunk) write(p *page, coded bool) error {
	body, encoding := c.room[:0], plainEncoding
	if coded {
		encoding = codedByNumbers
		width := c.dict.width()
		body = appendHybrid(append(body, byte(width)), p.numbers, width)
	} else {
		body = c.leaf.kind.plain(body, p.values)
	}
	plain := len(body)
	stored, packed := c.compress(body)
	if len(p.encoded)+plain > math.MaxInt32 {
		return errors.New("a page would have more than 2 GiB: cut the longest lists")
	}
	from := len(c.out)
	m := newMessage(c.out)
	m.int32(1, dataPageV2)
	m.int32(2, len(p.encoded)+plain)
	m.int32(3, len(p.encoded)+len(stored))
	m.begin(8)
	m.int32(1, p.levels)
	m.int32(2, p.levels-p.count)
	m.int32(3, p.rows)
	m.int32(4, encoding)
	m.int32(5, len(p.encoded)-p.repBytes)
	m.int32(6, p.repBytes)
	m.bool(7, packed)
	m.end()
	c.out = m.finish()
	c.info.count(p, &c.leaf.kind, len(c.out)-from+len(p.encoded)+plain)
	c.out = append(append(c.out, p.encoded...), stored...)
	c.pages = append(c.pages, pageInfo{
		at: from, size: len(c.out) - from, row: c.row, nulls: int64(p.levels - p.count), empty: p.count == 0,
		bounds: p.bounds,
	})
	c.row += int64(p.rows)
	return nil
}

// writeDictionary appends the dictionary's page.
func (c *chunk) writeDictionary() {
	stored := c.zstd.EncodeAll(c.dict.values, c.room[:0])
	c.room = stored[:0]
	m := newMessage(c.out)
	m.int32(1, dictionaryPage)
	m.int32(2, len(c.dict.values))
	m.int32(3, len(stored))
	m.begin(7)
	m.int32(1, len(c.dict.starts))
	m.int32(2, plainEncoding)
	m.end()
	c.out = m.finish()
	c.info.uncompressed = int64(len(c.out) + len(c.dict.values))
	c.out = append(c.out, stored...)
	c.info.dictionary = int64(len(c.out))
}

// compress returns a page's values compressed, or as they are, if that is no longer. They lie in the chunk's room.
func (c *chunk) compress(body []byte) (stored []byte, packed bool) {
	if len(body) == 0 {
		return nil, false
	}
	all := c.zstd.EncodeAll(body, body)
	c.room = all[:0]
	if stored = all[len(body):]; len(stored) < len(body) {
		return stored, true
	}
	return body, false
}
