package encode

import (
	"strings"

	"github.com/penstock-ml/penstock/internal/formats/parquet/thrift"
)

// createdBy names the writer.
const createdBy = "penstock convert"

// chunkInfo is what a footer says of a column chunk.
type chunkInfo struct {
	size, uncompressed int64
	values, nulls      int64
	bounds             bounds
	unbounded          bool  // a page with values has no bounds
	coded              bool  // by a dictionary
	dictionary         int64 // bytes of its page
	pages              int

	metadata, columnIndex, offsetIndex []byte // as files have them
	columnIndexAt, offsetIndexAt       int64  // bytes of the file
}

// count takes a page.
func (c *chunkInfo) count(p *page, k *kind, uncompressed int) {
	c.values += int64(p.levels)
	c.nulls += int64(p.levels - p.count)
	c.uncompressed += int64(uncompressed)
	c.pages++
	switch {
	case p.bounds.known:
		c.bounds.join(k, &p.bounds)
	case p.count > 0:
		c.unbounded = true
	}
}

// describe encodes a ColumnMetaData of a chunk at this byte of the file.
func (c *chunkInfo) describe(l *leaf, at int64) []byte {
	m := newMessage(nil)
	m.int32(1, l.kind.physical)
	encodings := []int{rleEncoding, plainEncoding}
	if c.coded {
		encodings = append(encodings, codedByNumbers)
	}
	m.numbers(2, encodings)
	m.list(3, len(l.path), thrift.Binary)
	for _, name := range l.path {
		m.out = appendBytes(m.out, name)
	}
	m.int32(4, zstdCompression)
	m.int64(5, c.values)
	m.int64(6, c.uncompressed)
	m.int64(7, c.size)
	m.int64(9, at+c.dictionary)
	if c.coded {
		m.int64(11, at)
	}
	m.begin(12)
	m.int64(3, c.nulls)
	if c.bounds.known && !c.unbounded {
		m.bytes(5, c.bounds.max)
		m.bytes(6, c.bounds.min)
		m.bool(7, c.bounds.maxExact)
		m.bool(8, c.bounds.minExact)
	}
	m.end()
	c.describeEncodings(m)
	return m.finish()
}

// describeEncodings says how many pages have which encoding.
func (c *chunkInfo) describeEncodings(m *message) {
	type stats struct{ page, encoding, pages int }
	all := []stats{{dataPageV2, plainEncoding, c.pages}}
	if c.coded {
		all = []stats{{dictionaryPage, plainEncoding, 1}, {dataPageV2, codedByNumbers, c.pages}}
	}
	m.list(13, len(all), thrift.Struct)
	for _, s := range all {
		m.element()
		m.int32(1, s.page)
		m.int32(2, s.encoding)
		m.int32(3, s.pages)
		m.end()
	}
}

// footer encodes a FileMetaData.
func (f *file) footer(schema []byte, leaves int) []byte {
	m := newMessage(nil)
	m.int32(1, 2) // version
	m.field(2, thrift.List)
	m.out = append(m.out, schema...)
	m.int64(3, f.rows)
	m.list(4, len(f.groups), thrift.Struct)
	for i := range f.groups {
		m.element()
		f.groups[i].describe(m)
		m.end()
	}
	m.bytes(6, []byte(createdBy))
	m.list(7, leaves, thrift.Struct)
	m.out = append(m.out, strings.Repeat("\x1c\x00\x00", leaves)...) // as the types say
	return m.finish()
}

// describe encodes a RowGroup.
func (g *group) describe(m *message) {
	var size, uncompressed int64
	m.list(1, len(g.chunks), thrift.Struct)
	for i := range g.chunks {
		c := &g.chunks[i]
		size += c.size
		uncompressed += c.uncompressed
		m.element()
		m.int64(2, 0) // the metadata stands here only
		m.field(3, thrift.Struct)
		m.out = append(m.out, c.metadata...)
		m.int64(4, c.offsetIndexAt)
		m.int32(5, len(c.offsetIndex))
		if len(c.columnIndex) > 0 {
			m.int64(6, c.columnIndexAt)
			m.int32(7, len(c.columnIndex))
		}
		m.end()
	}
	m.int64(2, uncompressed)
	m.int64(3, g.rows)
	m.int64(5, g.at)
	m.int64(6, size)
}
