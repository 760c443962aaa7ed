package parquet

import (
	"fmt"

	"github.com/penstock-ml/penstock/internal/formats/parquet/crypt"
	"github.com/penstock-ml/penstock/worker/formats/decode"
)

// encrypted is what opening the pages of an encrypted chunk takes.
type encrypted struct {
	opener crypt.Opener
	header []byte // of a page, opened
	page   []byte
}

// openHeader opens the encrypted header at nextAt, of a module of size bytes. Only the attempt tells whether it is that
// of a dictionary, which stands in front.
func (p *pages) openHeader(left int) (plain []byte, size int, err error) {
	data, err := p.source.Bytes(p.nextAt, min(crypt.PrefixSize, left))
	if err != nil {
		return nil, 0, err
	}
	if size, err = crypt.Size(data, left); err != nil {
		return nil, 0, err
	}
	if size > maxHeader {
		return nil, 0, fmt.Errorf("%d bytes; at most %d can be read", size, maxHeader)
	}
	if data, err = p.source.Bytes(p.nextAt, size); err != nil {
		return nil, 0, err
	}
	module, e := data[:size], &p.encrypted
	if p.nextAt == 0 {
		plain, err = e.opener.Open(e.header, p.chunk.Crypt, crypt.DictionaryPageHeader, 0, module)
	}
	if p.nextAt > 0 || err != nil {
		plain, err = e.opener.Open(e.header, p.chunk.Crypt, crypt.DataPageHeader, p.dataPage, module)
	}
	if err == nil {
		e.header = plain
	}
	return plain, size, err
}

// openPage opens the stored bytes of the page whose header was read.
func (p *pages) openPage(stored []byte) ([]byte, error) {
	size, err := p.chunk.Crypt.PlainSize(len(stored))
	if err != nil {
		return nil, err
	}
	e := &p.encrypted
	if e.page, err = decode.Grow(p.mem, e.page, size); err != nil {
		return nil, err
	}
	if p.header.kind == dictionaryPage {
		return e.opener.Open(e.page, p.chunk.Crypt, crypt.DictionaryPage, 0, stored)
	}
	return e.opener.Open(e.page, p.chunk.Crypt, crypt.DataPage, p.dataPage-1, stored) // drop has counted it
}
