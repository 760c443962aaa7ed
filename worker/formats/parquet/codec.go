package parquet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Codecs, numbered as in parquet.thrift.
const (
	codecNone   = 0
	codecSnappy = 1
	codecGzip   = 2
	codecBrotli = 4
	codecLZ4    = 5 // framed as Hadoop does, or raw
	codecZstd   = 6
	codecLZ4Raw = 7
)

// codecLimits returns a codec's name and the most bytes that a byte can decompress to, rounded up: a page that
// claims more is not believed, and no memory is set aside for it. That is 0 for a codec that is not known.
func codecLimits(codec int32) (name string, ratio int) {
	switch codec {
	case codecNone:
		return "uncompressed", 1
	case codecSnappy:
		return "snappy", 32
	case codecGzip:
		return "gzip", 1100
	case codecBrotli:
		return "brotli", 1 << 20
	case codecLZ4:
		return "lz4", 256
	case codecZstd:
		return "zstd", 1 << 16
	case codecLZ4Raw:
		return "lz4_raw", 256
	}
	return fmt.Sprintf("codec %d", codec), 0
}

func codecName(codec int32) string {
	name, _ := codecLimits(codec)
	return name
}

// maxPage bounds a decompressed page.
const maxPage = 1 << 30

var errLonger = errors.New("there is more than the header says")

// codecs decompresses pages. The zero value is ready for use.
type codecs struct {
	zstd   *zstd.Decoder
	gzip   gzip.Reader
	brotli *brotli.Reader
	input  bytes.Reader
	more   [1]byte  // what a reader should not have behind a page; here, since on the stack it would escape
	parts  [][]byte // of a page that is found as it is stored
}

// checkSize refuses to decompress a page of stored bytes to one of a size that it cannot have.
func checkSize(codec int32, stored, size int) error {
	name, ratio := codecLimits(codec)
	switch {
	case ratio == 0:
		return fmt.Errorf("compression codec %d cannot be read", codec)
	case size > maxPage:
		return tooLarge(size)
	case codec == codecNone && stored != size:
		return fmt.Errorf("it is not compressed, but has %d bytes where its header says %d", stored, size)
	case size > stored*ratio:
		return fmt.Errorf("%d bytes cannot come of %d by %s", size, stored, name)
	}
	return nil
}

// tooLarge is the error of a page that is sound, but beyond what can be read.
func tooLarge(size int) error {
	return fmt.Errorf(
		"%d bytes when decompressed; at most %d can be read: write the file with smaller pages, which is a writer's "+
			"data_page_size", size, maxPage)
}

// decompress fills dst with what src decompresses to, which must be exactly that many bytes. checkSize and asStored
// come first.
func (c *codecs) decompress(codec int32, dst, src []byte) error {
	if len(dst) == 0 {
		return nil
	}
	var n int
	var err error
	switch codec {
	case codecSnappy:
		n, err = snappyDecode(dst, src)
	case codecZstd:
		n, err = c.zstdDecode(dst, src)
	case codecLZ4Raw:
		n, err = lz4.UncompressBlock(src, dst)
	case codecLZ4:
		if n, err = hadoopDecode(dst, src); err != nil {
			n, err = lz4.UncompressBlock(src, dst)
		}
	case codecGzip:
		n, err = c.gunzip(dst, src)
	case codecBrotli:
		c.input.Reset(src)
		if c.brotli == nil {
			c.brotli = brotli.NewReader(&c.input)
		} else if err = c.brotli.Reset(&c.input); err != nil {
			break
		}
		n, err = c.readAll(c.brotli, dst)
	default:
		err = errors.New("no such codec")
	}
	if err != nil {
		return fmt.Errorf("decompress %s: %w", codecName(codec), err)
	}
	if n != len(dst) {
		return fmt.Errorf("decompress %s: %d bytes where the header says %d", codecName(codec), n, len(dst))
	}
	return nil
}

func (c *codecs) zstdDecode(dst, src []byte) (int, error) {
	if c.zstd == nil {
		var err error
		c.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			return 0, err
		}
	}
	out, err := c.zstd.DecodeAll(src, dst[:0:len(dst)])
	return len(out), err
}

// gunzip fills dst with what all members of src decompress to.
func (c *codecs) gunzip(dst, src []byte) (int, error) {
	c.input.Reset(src)
	defer c.input.Reset(nil)
	if err := c.gzip.Reset(&c.input); err != nil {
		return 0, fmt.Errorf("it does not begin as gzip does: %w", err)
	}
	n, err := c.readAll(&c.gzip, dst)
	switch {
	case errors.Is(err, gzip.ErrChecksum):
		err = errors.New("its checksum is not that of its bytes: the file is damaged")
	case err != nil && !errors.Is(err, errLonger):
		err = fmt.Errorf("it is damaged, or cut short: %w", err)
	}
	return n, err
}

// readAll fills dst from r, which must end there.
func (c *codecs) readAll(r io.Reader, dst []byte) (int, error) {
	n, err := io.ReadFull(r, dst)
	if err != nil {
		return n, err
	}
	switch m, err := io.ReadFull(r, c.more[:]); {
	case m > 0:
		return n, errLonger
	case err != io.EOF:
		return n, err
	}
	return n, nil
}

// hadoopDecode decompresses blocks of LZ4, each behind its length in dst. A block is of pieces, each behind its length
// in src.
func hadoopDecode(dst, src []byte) (int, error) {
	n, end := 0, 0 // of the block
	for len(src) >= 4 {
		length := uint64(binary.BigEndian.Uint32(src))
		src = src[4:]
		if n == end {
			if length > uint64(len(dst)-n) {
				return n, io.ErrUnexpectedEOF
			}
			end += int(length)
			continue
		}
		if length > uint64(len(src)) {
			return n, io.ErrUnexpectedEOF
		}
		m, err := lz4.UncompressBlock(src[:length], dst[n:end])
		if err != nil {
			return n, err
		}
		n, src = n+m, src[length:]
	}
	if n < end || len(src) > 0 {
		return n, io.ErrUnexpectedEOF
	}
	return n, nil
}
