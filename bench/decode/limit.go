package main

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// page is a compressed part of a file: a page, or what is behind its levels.
type page struct {
	packed []byte
	size   int // of it when decompressed
}

// pages finds what has to be decompressed of the columns, if anything, and by which codec.
func (f *fileBytes) pages() (pages []page, codec format.CompressionCodec, err error) {
	for _, g := range f.footer.RowGroups {
		for _, leaf := range f.leaves {
			c := &g.Chunks[leaf]
			if codec = format.CompressionCodec(c.Codec); codec == format.Uncompressed {
				return nil, codec, nil
			}
			r := bytes.NewReader(f.data[c.Offset:][:c.Length])
			d := thrift.NewDecoder(new(thrift.CompactProtocol).NewReader(r))
			for r.Len() > 0 {
				var h format.PageHeader
				if err := d.Decode(&h); err != nil {
					return nil, codec, fmt.Errorf("header of a page: %w", err)
				}
				at := c.Offset + c.Length - int64(r.Len())
				if _, err := r.Seek(int64(h.CompressedPageSize), 1); err != nil {
					return nil, codec, err
				}
				p := page{f.data[at:][:h.CompressedPageSize], int(h.UncompressedPageSize)}
				if v2, ok := h.DataPageHeaderV2.Get(); ok {
					levels := int(v2.RepetitionLevelsByteLength + v2.DefinitionLevelsByteLength)
					p.packed, p.size = p.packed[levels:], p.size-levels
					if compressed, said := v2.IsCompressed.Get(); said && !compressed {
						continue
					}
				}
				if p.size > 0 {
					pages = append(pages, p)
				}
			}
		}
	}
	return pages, codec, nil
}

// limit decompresses all pages, one after the other, to the same memory, and does nothing with them.
type limit struct {
	pages  []page
	zstd   *zstd.Decoder
	buffer []byte
}

// newLimit returns nil unless the file is compressed by zstd: of the codecs it is the one that worker/columns and pqarrow have the
// same library for.
func newLimit(f *fileBytes) (*limit, error) {
	pages, codec, err := f.pages()
	if err != nil || codec != format.Zstd {
		return nil, err
	}
	l := &limit{pages: pages}
	for _, p := range pages {
		l.buffer = slices.Grow(l.buffer, p.size)
	}
	l.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	return l, err
}

func (l *limit) run() error {
	for _, p := range l.pages {
		out, err := l.zstd.DecodeAll(p.packed, l.buffer[:0])
		if err != nil {
			return err
		}
		if len(out) != p.size {
			return fmt.Errorf("a page has %d bytes where its header says %d", len(out), p.size)
		}
	}
	return nil
}
