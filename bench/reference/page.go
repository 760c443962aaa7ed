package reference

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/rle"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"
)

// page is a data page: levels, and where the values are that are not null.
type page struct {
	count      int     // of values, with nulls
	reps, defs []uint8 // nil: all are 0
	values     *values
	indices    []int32 // in values, which are a dictionary; nil: they are the page's own, in order
}

// pageReader reads the pages of a column chunk. It is made of parquet-go's page headers, levels, codecs and encodings;
// parquet-go's own reader of pages takes what is in LZ4 pages from the wrong buffer (its issue 608), and all of a
// column for compressed like its first chunk. Index pages and whatever else there may be are skipped.
type pageReader struct {
	leaf       leaf
	codec      format.CompressionCodec
	in         *bufio.Reader
	headers    *thrift.Decoder
	dictionary *values
}

func newPageReader(l leaf, file io.ReaderAt, chunk *format.ColumnMetaData) *pageReader {
	from := chunk.DataPageOffset
	if d := chunk.DictionaryPageOffset; d > 0 && d < from {
		from = d
	}
	in := bufio.NewReaderSize(io.NewSectionReader(file, from, chunk.TotalCompressedSize), readAhead)
	var protocol thrift.CompactProtocol
	return &pageReader{leaf: l, codec: chunk.Codec, in: in, headers: thrift.NewDecoder(protocol.NewReader(in))}
}

// next returns the next data page, or io.EOF.
func (r *pageReader) next() (p *page, err error) {
	defer recovered(&err)
	for {
		if _, err := r.in.Peek(1); err != nil {
			return nil, err
		}
		var h format.PageHeader
		if err := r.headers.Decode(&h); err != nil {
			return nil, fmt.Errorf("page header: %w", noEOF(err))
		}
		body, err := r.body(&h)
		if err != nil {
			return nil, err
		}
		switch {
		case h.Type == format.DictionaryPage && h.DictionaryPageHeader.Valid:
			err = r.readDictionary(&h, body)
		case h.Type == format.DataPage && h.DataPageHeader.Valid:
			p, err = r.dataV1(&h, body)
		case h.Type == format.DataPageV2 && h.DataPageHeaderV2.Valid:
			p, err = r.dataV2(&h, body)
		}
		if p != nil || err != nil {
			return p, err
		}
	}
}

// noEOF is for reads that must not end.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// maxPage is how many bytes a page may claim to have.
const maxPage = 1 << 30

func (r *pageReader) body(h *format.PageHeader) ([]byte, error) {
	n := h.CompressedPageSize
	if h.DataPageHeader.V.NumValues < 0 || h.DataPageHeaderV2.V.NumValues < 0 {
		return nil, errors.New("a page of less than no values")
	}
	if n < 0 || n > maxPage || h.UncompressedPageSize < 0 || h.UncompressedPageSize > maxPage {
		return nil, fmt.Errorf("a page of %d bytes, %d uncompressed", n, h.UncompressedPageSize)
	}
	body := make([]byte, n)
	if _, err := io.ReadFull(r.in, body); err != nil {
		return nil, fmt.Errorf("a page of %d bytes: %w", n, noEOF(err))
	}
	if h.CRC != 0 && crc32.ChecksumIEEE(body) != uint32(h.CRC) {
		return nil, errors.New("a page's checksum is wrong")
	}
	return body, nil
}

func (r *pageReader) decompress(data []byte, size int) ([]byte, error) {
	out, err := data, error(nil)
	switch r.codec {
	case format.Uncompressed:
	case format.Lz4Raw: // parquet-go tries ever larger buffers if the data is damaged
		var n int
		out = make([]byte, size)
		n, err = lz4.UncompressBlock(data, out)
		out = out[:max(n, 0)]
	default:
		out, err = parquet.LookupCompressionCodec(r.codec).Decode(make([]byte, size), data)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("decompress %v: %w", r.codec, err)
	case len(out) != size:
		return nil, fmt.Errorf("%d bytes uncompressed, not %d", len(out), size)
	}
	return out, nil
}

func (r *pageReader) readDictionary(h *format.PageHeader, body []byte) error {
	data, err := r.decompress(body, int(h.UncompressedPageSize))
	if err != nil {
		return fmt.Errorf("dictionary: %w", err)
	}
	if r.dictionary, err = decodeValues(r.leaf, format.Plain, data,
		int(h.DictionaryPageHeader.V.NumValues)); err != nil {
		return fmt.Errorf("dictionary: %w", err)
	}
	return nil
}

// dataV1 reads a page that is compressed as a whole and says of its levels how long they are.
func (r *pageReader) dataV1(h *format.PageHeader, body []byte) (*page, error) {
	data, err := r.decompress(body, int(h.UncompressedPageSize))
	if err != nil {
		return nil, err
	}
	header := &h.DataPageHeader.V
	p := &page{count: int(header.NumValues)}
	level := func(e format.Encoding, highest int) (out []uint8, err error) {
		if highest == 0 {
			return nil, nil
		}
		if e != format.RLE {
			return nil, fmt.Errorf("levels encoded as %v", e)
		}
		if len(data) < 4 || uint64(binary.LittleEndian.Uint32(data)) > uint64(len(data)-4) {
			return nil, errors.New("levels end before their length")
		}
		end := 4 + int(binary.LittleEndian.Uint32(data))
		out, err = levels(data[4:end], highest, p.count)
		data = data[end:]
		return out, err
	}
	if p.reps, err = level(header.RepetitionLevelEncoding, r.leaf.highestRep()); err != nil {
		return nil, err
	}
	if p.defs, err = level(header.DefinitionLevelEncoding, r.leaf.valueDef); err != nil {
		return nil, err
	}
	return p, r.fill(p, header.Encoding, data)
}

// dataV2 reads a page whose levels stand uncompressed in front of its values.
func (r *pageReader) dataV2(h *format.PageHeader, body []byte) (*page, error) {
	header := &h.DataPageHeaderV2.V
	nReps, nDefs := int(header.RepetitionLevelsByteLength), int(header.DefinitionLevelsByteLength)
	if nReps < 0 || nDefs < 0 || nReps+nDefs > min(len(body), int(h.UncompressedPageSize)) {
		return nil, fmt.Errorf("levels of %d and %d bytes in a page of %d", nReps, nDefs, len(body))
	}
	p := &page{count: int(header.NumValues)}
	var err error
	if p.reps, err = levels(body[:nReps], r.leaf.highestRep(), p.count); err != nil {
		return nil, err
	}
	if p.defs, err = levels(body[nReps:nReps+nDefs], r.leaf.valueDef, p.count); err != nil {
		return nil, err
	}
	data := body[nReps+nDefs:]
	if !header.IsCompressed.Valid || header.IsCompressed.V {
		if size := int(h.UncompressedPageSize) - nReps - nDefs; size == 0 {
			data = nil // there need be no frame around nothing
		} else if data, err = r.decompress(data, size); err != nil {
			return nil, err
		}
	}
	return p, r.fill(p, header.Encoding, data)
}

// levels decodes n levels, or none where all are 0.
func levels(data []byte, highest, n int) ([]uint8, error) {
	if highest == 0 || n == 0 {
		return nil, nil
	}
	e := rle.Encoding{BitWidth: bits.Len(uint(highest))}
	out, err := e.DecodeLevels(nil, data)
	if err != nil {
		return nil, fmt.Errorf("levels: %w", err)
	}
	if len(out) < n {
		return nil, fmt.Errorf("%d of %d levels", len(out), n)
	}
	return out[:n], nil
}

// fill adds the values to a page that has its levels.
func (r *pageReader) fill(p *page, e format.Encoding, data []byte) (err error) {
	present := p.count
	for _, d := range p.defs {
		if int(d) < r.leaf.valueDef {
			present--
		}
	}
	if e != format.PlainDictionary && e != format.RLEDictionary { //nolint:staticcheck // deprecated, and written all the same
		p.values, err = decodeValues(r.leaf, e, data, present)
		return err
	}
	if p.values = r.dictionary; p.values == nil {
		return errors.New("a page refers to a dictionary that is not there")
	}
	if p.indices, err = parquet.RLEDictionary.DecodeInt32(make([]int32, 0, present), data); err != nil {
		return fmt.Errorf("indices: %w", err)
	}
	if len(p.indices) < present {
		return fmt.Errorf("%d of %d indices", len(p.indices), present)
	}
	for _, i := range p.indices[:present] {
		if i < 0 || int(i) >= p.values.count {
			return fmt.Errorf("index %d of a dictionary of %d", i, p.values.count)
		}
	}
	return nil
}
