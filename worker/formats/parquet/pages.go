package parquet

import (
	"errors"
	"fmt"
	"hash/crc32"

	footer "github.com/penstock-ml/penstock/internal/formats/parquet"
	"github.com/penstock-ml/penstock/internal/formats/parquet/thrift"
	"github.com/penstock-ml/penstock/worker/formats/decode"
)

// pages walks over a chunk's pages.
type pages struct {
	codecs  *codecs
	mem     *decode.Allowance
	chunk   *footer.Chunk
	source  decode.Source // of the chunk's bytes
	length  int           // of the chunk
	chunkAt int64         // where it lies in the file
	pageAt  int           // where in the chunk the page lies that is being read
	nextAt  int           // and the one after it
	peeked  bool          // header is that of the page at nextAt
	header  header

	valuesLeft int64 // in the pages to come
	pageLeft   int   // values of the page whose levels are not decoded
	buffer     []byte
	stays      bool // the page's bytes stay where they are until the next one's body is read
	movable    bool // nobody else reads the chunk's bytes

	dataPage  int           // number of the next data page
	index     []footer.Page // nil: nothing is passed over by it
	encrypted encrypted
}

func (p *pages) reset(chunk *footer.Chunk, source decode.Source) {
	p.chunk, p.source, p.length, p.chunkAt = chunk, source, int(chunk.Length), chunk.Offset
	p.pageAt, p.nextAt, p.peeked, p.dataPage = 0, 0, false, 0
	p.valuesLeft, p.pageLeft, p.index = chunk.Values, 0, nil
}

// peekHeader reads the header of the next page that holds data or a dictionary; others are dropped. It returns
// false at the end of the chunk.
func (p *pages) peekHeader() (bool, error) {
	for !p.peeked {
		p.pageAt = p.nextAt
		if p.nextAt == p.length {
			return false, nil
		}
		h := &p.header
		if err := p.readHeader(h); err != nil {
			return false, err
		}
		p.peeked = true
		switch h.kind {
		case dataPage, dataPageV2:
			if int64(h.values) > p.valuesLeft {
				return false, fmt.Errorf("it has %d values where the footer leaves %d", h.values, p.valuesLeft)
			}
		case dictionaryPage:
		default:
			p.drop()
		}
	}
	return true, nil
}

const (
	// headerBytes is more than most headers have, maxHeader more than any should: they hold the page's least and
	// greatest value.
	headerBytes = 512
	maxHeader   = 16 << 20
)

// readHeader reads the header of the page at nextAt, whose length shows only then.
func (p *pages) readHeader(h *header) error {
	left := p.left()
	if p.chunk.Crypt != nil {
		plain, size, err := p.openHeader(left)
		if err != nil {
			return fmt.Errorf("header: %w", err)
		}
		return h.readOpened(plain, size, left)
	}
	for n := headerBytes; ; n *= 8 {
		data, err := p.source.Bytes(p.nextAt, min(n, left))
		if err != nil {
			return err
		}
		err = h.read(data[:min(len(data), maxHeader)], left)
		if !errors.Is(err, thrift.ErrShort) || len(data) >= left && left <= maxHeader {
			return err
		}
		if len(data) >= maxHeader {
			return fmt.Errorf(
				"header of more than %d bytes, which is the most that can be read: write the file without "+
					"statistics of this column", maxHeader)
		}
	}
}

// drop moves behind the page whose header was read.
func (p *pages) drop() {
	p.nextAt += p.header.size + p.header.stored
	p.peeked = false
	if p.header.kind == dataPage || p.header.kind == dataPageV2 {
		p.dataPage++
	}
}

// body checks and decompresses the page whose header was read, and moves behind it. Levels are those of v2, which are
// not compressed; those of v1 stand in front of the values. The results are valid until the next call, or lie in the
// chunk.
func (p *pages) body() (levels, values []byte, err error) {
	h := &p.header
	stored, err := p.source.Bytes(p.nextAt+h.size, h.stored)
	if err != nil {
		return nil, nil, err
	}
	stored = stored[:h.stored:h.stored]
	_, p.stays = p.source.(*decode.Whole)
	p.drop()
	if h.hasCRC && crc32.ChecksumIEEE(stored) != h.crc {
		return nil, nil, errors.New("its checksum does not fit: the file is damaged")
	}
	if p.chunk.Crypt != nil {
		if stored, err = p.openPage(stored); err != nil {
			return nil, nil, err
		}
		p.stays = true
	}
	split := h.repLength + h.defLength
	if split > len(stored) {
		return nil, nil, fmt.Errorf("levels of %d and %d bytes in a page of %d", h.repLength, h.defLength, len(stored))
	}
	codec := p.chunk.Codec
	// Arrow C++ before 3 says so of all pages (ARROW-10353)
	if h.kind == dataPageV2 && !h.packed && len(stored) == h.uncompressed {
		codec = codecNone
	}
	values, err = p.unpack(codec, stored[split:], h.uncompressed-split)
	return stored[:split], values, err
}

// unpack decompresses a page's bytes to size ones, which lie in the buffer unless they lie in src.
func (p *pages) unpack(codec int32, src []byte, size int) ([]byte, error) {
	if err := checkSize(codec, len(src), size); err != nil {
		return nil, err
	}
	if out, ok, err := p.codecs.asStored(codec, src, size, p.movable || p.chunk.Crypt != nil); ok || err != nil {
		return out, err
	}
	buffer, err := decode.Grow(p.mem, p.buffer[:0], size)
	if err != nil {
		return nil, err
	}
	p.buffer, p.stays = buffer[:size], true
	return p.buffer, p.codecs.decompress(codec, p.buffer, src)
}
