package parquet

import (
	"errors"
	"fmt"

	"github.com/penstock-ml/penstock/internal/formats/parquet/thrift"
)

// Page types, as in parquet.thrift.
const (
	dataPage       = 0
	indexPage      = 1
	dictionaryPage = 2
	dataPageV2     = 3
)

// encoding of values, numbered as in parquet.thrift.
type encoding int32

const (
	encodingPlain           encoding = 0
	encodingPlainDictionary encoding = 2
	encodingRLE             encoding = 3
	encodingDeltaPacked     encoding = 5
	encodingDeltaLength     encoding = 6
	encodingDeltaByteArray  encoding = 7
	encodingDictionary      encoding = 8
	encodingStreamSplit     encoding = 9
)

func (e encoding) String() string {
	names := [...]string{
		"PLAIN", "GROUP_VAR_INT", "PLAIN_DICTIONARY", "RLE", "BIT_PACKED", "DELTA_BINARY_PACKED",
		"DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY", "RLE_DICTIONARY", "BYTE_STREAM_SPLIT",
	}
	if e >= 0 && int(e) < len(names) {
		return names[e]
	}
	return fmt.Sprintf("encoding %d", int32(e))
}

// indexed reports whether values are numbers of dictionary entries.
func (e encoding) indexed() bool { return e == encodingDictionary || e == encodingPlainDictionary }

// dictionary reports whether dictionary pages may be so encoded: they are PLAIN by another name.
func (e encoding) dictionary() bool { return e == encodingPlain || e == encodingPlainDictionary }

// header is a page's header.
type header struct {
	size                 int // of the header itself
	kind                 int32
	uncompressed, stored int // bytes of the page
	crc                  uint32
	hasCRC               bool
	known                bool // it has the part that its kind needs

	values               int
	rows                 int // v2
	encoding             encoding
	defEnc, repEnc       encoding // v1
	defLength, repLength int      // v2
	packed               bool     // v2: values are compressed
}

// read parses the header at the front of data, of a page that has as many bytes at most as are left of its chunk.
func (h *header) read(data []byte, left int) error {
	if err := h.parse(data); err != nil {
		return err
	}
	return h.check(left - h.size)
}

// readOpened parses a header that was encrypted as a module of size bytes.
func (h *header) readOpened(plain []byte, size, left int) error {
	if err := h.parse(plain); err != nil {
		return err
	}
	h.size = size
	return h.check(left - size)
}

func (h *header) parse(data []byte) error {
	*h = header{kind: -1, packed: true}
	r := thrift.NewReader(data)
	for f := r.Next(0); f != thrift.Stop; f = r.Next(f) {
		switch f {
		case 1<<4 | thrift.I32:
			h.kind = r.Int32()
		case 2<<4 | thrift.I32:
			h.uncompressed = int(r.Int64())
		case 3<<4 | thrift.I32:
			h.stored = int(r.Int64())
		case 4<<4 | thrift.I32:
			h.crc, h.hasCRC = uint32(r.Int32()), true
		case 5<<4 | thrift.Struct:
			h.data(r)
		case 7<<4 | thrift.Struct:
			h.dictionary(r)
		case 8<<4 | thrift.Struct:
			h.dataV2(r)
		default:
			r.Skip(f)
		}
	}
	h.size = r.Pos()
	if err := r.Err(); err != nil {
		return fmt.Errorf("header: %w", err)
	}
	return nil
}

// check compares the header with the number of bytes behind it.
func (h *header) check(left int) error {
	needed := h.kind == dataPage || h.kind == dataPageV2 || h.kind == dictionaryPage
	switch {
	case h.kind < 0:
		return errors.New("header without a page type")
	case h.stored < 0 || h.uncompressed < 0:
		return fmt.Errorf(
			"header with sizes of %d and %d bytes, which pages of more than 2 GiB have: write the file with smaller "+
				"pages", h.stored, h.uncompressed)
	case h.stored != int(int32(h.stored)) || h.uncompressed != int(int32(h.uncompressed)):
		return tooLarge(max(h.stored, h.uncompressed))
	case h.stored > left:
		return fmt.Errorf("it has %d bytes, the column chunk only %d more", h.stored, left)
	case needed && !h.known:
		return fmt.Errorf("header of type %d without that type's part", h.kind)
	case h.values < 0 || h.rows < 0:
		return fmt.Errorf("header with %d values and %d rows", h.values, h.rows)
	case h.defLength < 0 || h.repLength < 0 || h.defLength+h.repLength > min(h.stored, h.uncompressed):
		return fmt.Errorf("header with levels of %d and %d bytes in a page of %d", h.repLength, h.defLength, h.stored)
	}
	return nil
}

// data reads a DataPageHeader.
func (h *header) data(r *thrift.Reader) {
	h.known = h.known || h.kind == dataPage
	for f := r.Next(0); f != thrift.Stop; f = r.Next(f) {
		switch f {
		case 1<<4 | thrift.I32:
			h.values = int(r.Int32())
		case 2<<4 | thrift.I32:
			h.encoding = encoding(r.Int32())
		case 3<<4 | thrift.I32:
			h.defEnc = encoding(r.Int32())
		case 4<<4 | thrift.I32:
			h.repEnc = encoding(r.Int32())
		default:
			r.Skip(f)
		}
	}
}

// dictionary reads a DictionaryPageHeader.
func (h *header) dictionary(r *thrift.Reader) {
	h.known = h.known || h.kind == dictionaryPage
	for f := r.Next(0); f != thrift.Stop; f = r.Next(f) {
		switch f {
		case 1<<4 | thrift.I32:
			h.values = int(r.Int32())
		case 2<<4 | thrift.I32:
			h.encoding = encoding(r.Int32())
		default:
			r.Skip(f)
		}
	}
}

// dataV2 reads a DataPageHeaderV2.
func (h *header) dataV2(r *thrift.Reader) {
	h.known = h.known || h.kind == dataPageV2
	for f := r.Next(0); f != thrift.Stop; f = r.Next(f) {
		switch f {
		case 1<<4 | thrift.I32:
			h.values = int(r.Int32())
		case 3<<4 | thrift.I32:
			h.rows = int(r.Int32())
		case 4<<4 | thrift.I32:
			h.encoding = encoding(r.Int32())
		case 5<<4 | thrift.I32:
			h.defLength = int(r.Int32())
		case 6<<4 | thrift.I32:
			h.repLength = int(r.Int32())
		case 7<<4 | thrift.False:
			h.packed = false
		default:
			r.Skip(f)
		}
	}
}
