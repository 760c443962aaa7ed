package arrow

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/penstock-ml/penstock/internal/formats/arrow"
	"github.com/penstock-ml/penstock/worker/formats/decode"
)

// buffer is one of a record batch.
type buffer struct {
	memory *decode.Allowance
	codecs *codecs

	source decode.Source
	length int64 // of what the source has
	codec  arrow.Codec
	opened bool   // data is what the source has, decompressed
	data   []byte // of this buffer, or of an earlier one
	size   int64
}

// reset has the buffer be another one.
func (b *buffer) reset(source decode.Source, length int64, codec arrow.Codec) {
	b.source, b.length, b.codec, b.opened = source, length, codec, false
	b.size = length
}

var errShort = errors.New("a buffer is too short: the file is damaged")

// bytes are n of its bytes from an offset on. Offsets of calls do not fall.
func (b *buffer) bytes(from, n int64) ([]byte, error) {
	if b.codec != arrow.Uncompressed && !b.opened {
		if err := b.open(); err != nil {
			return nil, err
		}
	}
	switch {
	case n == 0:
		return nil, nil
	case from < 0 || n < 0 || from > b.size-n:
		return nil, errShort
	case b.opened:
		return b.data[from : from+n], nil
	}
	data, err := b.source.Bytes(int(from), int(n))
	if err != nil {
		return nil, err
	}
	return data[:n], nil
}

// bits are those of runs, and the number of the first one.
func (b *buffer) bits(runs []run) (bits []byte, first int, err error) {
	all := span(runs)
	at := all.from >> 3
	bits, err = b.bytes(int64(at), int64((all.from+all.n+7)>>3-at))
	return bits, at << 3, err
}

// offsets returns where values from a number on begin: number n is where the last of them ends. They are int32, or
// int64 if large is set.
func (b *buffer) offsets(from, n int, large bool) (func(i int) int64, error) {
	if large {
		data, err := b.bytes(8*int64(from), 8*int64(n+1))
		return func(i int) int64 { return int64(binary.LittleEndian.Uint64(data[8*i:])) }, err
	}
	data, err := b.bytes(4*int64(from), 4*int64(n+1))
	return func(i int) int64 { return int64(int32(binary.LittleEndian.Uint32(data[4*i:]))) }, err
}

// open decompresses the buffer: its length stands in front, or -1 if it is not compressed after all.
func (b *buffer) open() error {
	b.opened, b.size = true, 0
	if b.length == 0 {
		return nil
	}
	const prefix = 8
	if b.length < prefix {
		return errShort
	}
	if b.length > math.MaxInt32 {
		return tooLarge(b.length)
	}
	stored, err := b.source.Bytes(0, int(b.length))
	if err != nil {
		return err
	}
	size := int64(binary.LittleEndian.Uint64(stored))
	stored = stored[prefix:b.length]
	plain := size == -1
	if plain {
		size = int64(len(stored))
	}
	if size < 0 || size > math.MaxInt32 {
		return tooLarge(size)
	}
	if b.data, err = decode.Grow(b.memory, b.data[:0], int(size)); err != nil {
		return err
	}
	b.size = size
	if plain {
		copy(b.data, stored)
		return nil
	}
	return b.codecs.decompress(b.codec, b.data[:size], stored)
}

func tooLarge(size int64) error {
	return fmt.Errorf("a compressed buffer of %d bytes; at most %d can be read: write smaller record batches",
		size, math.MaxInt32)
}

// codecs decompress buffers. The zero value is ready for use.
type codecs struct {
	input bytes.Reader
	lz4   *lz4.Reader
	zstd  *zstd.Decoder
	more  [1]byte // what should not be behind a buffer
}

// decompress fills dst with what src decompresses to, which must be exactly that many bytes.
func (c *codecs) decompress(codec arrow.Codec, dst, src []byte) (err error) {
	n := 0
	if codec == arrow.Zstd {
		if c.zstd == nil {
			if c.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1),
				zstd.WithDecodeAllCapLimit(true)); err != nil {
				return err
			}
		}
		var out []byte
		out, err = c.zstd.DecodeAll(src, dst[:0:len(dst)])
		n = len(out)
	} else {
		c.input.Reset(src)
		if c.lz4 == nil {
			c.lz4 = lz4.NewReader(&c.input)
		} else {
			c.lz4.Reset(&c.input)
		}
		if n, err = io.ReadFull(c.lz4, dst); err == nil {
			if extra, _ := c.lz4.Read(c.more[:]); extra > 0 {
				err = errors.New("there is more than the buffer says")
			}
		}
	}
	switch {
	case err != nil:
		return fmt.Errorf("decompress %s: %w", codec, err)
	case n != len(dst):
		return fmt.Errorf("decompress %s: %d bytes where the buffer says %d", codec, n, len(dst))
	}
	return nil
}
