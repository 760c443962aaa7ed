package columns

import (
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/penstock-ml/penstock/internal/footer"
)

// pages walks over a chunk's pages.
type pages struct {
	codecs  *codecs
	mem     *allowance
	chunk   *footer.Chunk
	source  Source // of the chunk's bytes
	length  int    // of the chunk
	chunkAt int64  // where it lies in the file
	pageAt  int    // where in the chunk the page lies that is being read
	nextAt  int    // and the one after it
	peeked  bool   // header is that of the page at nextAt
	header  header

	valuesLeft int64 // in the pages to come
	pageLeft   int   // values of the page whose levels are not decoded
	buffer     []byte
	buffered   bool // the page lies in buffer, where it stays until the next one's body is read

	dataPage  int           // number of the next data page
	index     []footer.Page // nil: nothing is passed over by it
	encrypted encrypted
}

func (p *pages) reset(chunk *footer.Chunk, source Source) {
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
	// headerBytes is more than most headers have, maxHeader more than any should: they hold the page's least and greatest value.
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
		if err == nil || len(data) >= min(left, maxHeader) {
			return err
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

// body checks and decompresses the page whose header was read, and moves behind it. The result is valid until the
// next call, or lies in the chunk.
func (p *pages) body() ([]byte, error) {
	h := &p.header
	stored, err := p.source.Bytes(p.nextAt+h.size, h.stored)
	if err != nil {
		return nil, err
	}
	stored = stored[:h.stored:h.stored]
	p.drop()
	if h.hasCRC && crc32.ChecksumIEEE(stored) != h.crc {
		return nil, errors.New("its checksum does not fit: the file is damaged")
	}
	if p.chunk.Crypt != nil {
		if stored, err = p.openPage(stored); err != nil {
			return nil, err
		}
	}
	if h.defLength+h.repLength > len(stored) {
		return nil, fmt.Errorf("levels of %d and %d bytes in a page of %d", h.repLength, h.defLength, len(stored))
	}
	if int64(h.uncompressed) > p.chunk.Uncompressed {
		return nil, fmt.Errorf("%d bytes when decompressed, the whole column chunk has %d", h.uncompressed, p.chunk.Uncompressed)
	}
	codec, raw := p.chunk.Codec, 0
	if h.kind == dataPageV2 {
		raw = h.repLength + h.defLength // these are not compressed
		if !h.packed {
			codec = codecNone
		}
	}
	if err := checkSize(codec, len(stored)-raw, h.uncompressed-raw); err != nil {
		return nil, err
	}
	if p.buffered = codec != codecNone; !p.buffered {
		return stored, nil
	}
	buffer, err := grow(p.mem, p.buffer[:0], h.uncompressed)
	if err != nil {
		return nil, err
	}
	p.buffer = buffer[:h.uncompressed]
	copy(p.buffer, stored[:raw])
	return p.buffer, p.codecs.decompress(codec, p.buffer[raw:], stored[raw:])
}
