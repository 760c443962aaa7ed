package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Compression is how the buffers of a stream's batches are compressed, each by itself: that of Arrow's IPC.
type Compression uint8

// LZ4 is LZ4_FRAME in Arrow's words.
const (
	None Compression = iota
	LZ4
	Zstd
)

// codec is its number in Arrow's Message.fbs.
func (c Compression) codec() byte { return byte(c) - 1 }

// compressionOf is what a header says.
func compressionOf(codec, method byte) (Compression, error) {
	if codec > 1 || method != 0 {
		return None, fmt.Errorf(
			"wire: compression codec %d with method %d; Arrow has LZ4_FRAME (0) and ZSTD (1), each buffer "+
				"by itself (0)",
			codec, method)
	}
	return Compression(codec + 1), nil
}

const (
	// lengthBytes stand before a compressed buffer: its length before.
	lengthBytes = 8
	// stored is the length that says that a buffer is not compressed.
	stored = -1
	// maxBody bounds what a message is decompressed to; workers send less (see worker.maxBatch).
	maxBody = 256 << 20
	// A body decompresses to likelyBody bytes, or to likelyRatio for each of its own, and no more: else few bytes had
	// memory set aside for very many. What would compress better is sent as it is.
	likelyBody  = 8 << 20
	likelyRatio = 1 << 10
)

// believable reports whether a compressed body may decompress to so many bytes.
func believable(bytes, packed int64) bool {
	return bytes <= maxBody && bytes <= likelyBody+likelyRatio*packed
}

// maxRatio is how many bytes a byte can decompress to, rounded up: memory is not set aside for a length that cannot be
// true.
func (c Compression) maxRatio() int64 {
	if c == LZ4 {
		return 256
	}
	return 1 << 16
}

// packer compresses and decompresses buffers; it is used by one goroutine at a time.
type packer struct {
	out   bytes.Buffer
	in    bytes.Reader
	lz4   *lz4.Writer
	unlz4 *lz4.Reader
	zstd  *zstd.Encoder
	unstd *zstd.Decoder
}

// compress makes a batch of b's with compressed buffers, in memory of the pool. Buffers that would not get shorter stay
// as they are, and so do all if nobody would believe how short they get.
func compress(b *Batch, c Compression, pool *Pool) (*Batch, error) {
	p := pool.packer()
	defer pool.packers.Put(p)
	out := &Batch{Rows: b.Rows, Nodes: b.Nodes, Meta: b.Meta, Buffers: make([][]byte, len(b.Buffers))}
	ends, bytes, err := p.packAll(b.Buffers, c)
	if err == nil && !believable(bytes, int64(p.out.Len())) {
		ends, _, err = p.packAll(b.Buffers, None)
	}
	if err != nil {
		return nil, fmt.Errorf("wire: compress: %w", err)
	}
	m := pool.Get(p.out.Len())
	copy(m.Bytes, p.out.Bytes())
	from := 0
	for i, end := range ends {
		out.Buffers[i] = m.Bytes[from:end]
		from = end
	}
	out.release = m.Free
	return out, nil
}

// packAll fills p.out, and returns where in it each buffer ends, and how many bytes they are decompressed and padded.
func (p *packer) packAll(buffers [][]byte, c Compression) (ends []int, bytes int64, err error) {
	p.out.Reset()
	ends = make([]int, len(buffers))
	for i, buf := range buffers {
		if err := p.pack(buf, c); err != nil {
			return nil, 0, err
		}
		ends[i] = p.out.Len()
		bytes += pad(int64(len(buf)))
	}
	return ends, bytes, nil
}

// pack appends a buffer to p.out.
func (p *packer) pack(buf []byte, c Compression) error {
	if len(buf) == 0 {
		return nil
	}
	at := p.out.Len()
	p.out.Write(make([]byte, lengthBytes))
	if c != None {
		if err := p.squeeze(buf, c); err != nil {
			return err
		}
	}
	length := int64(len(buf))
	if c == None || p.out.Len()-at-lengthBytes >= len(buf) {
		p.out.Truncate(at + lengthBytes)
		p.out.Write(buf)
		length = stored
	}
	binary.LittleEndian.PutUint64(p.out.Bytes()[at:], uint64(length))
	return nil
}

func (p *packer) squeeze(buf []byte, c Compression) (err error) {
	if c == LZ4 {
		if p.lz4 == nil {
			p.lz4 = lz4.NewWriter(nil)
			if err := p.lz4.Apply(lz4.ChecksumOption(false), lz4.BlockSizeOption(lz4.Block256Kb),
				lz4.ConcurrencyOption(1)); err != nil {
				return err
			}
		}
		p.lz4.Reset(&p.out)
		_, err := p.lz4.Write(buf)
		return errors.Join(err, p.lz4.Close())
	}
	if p.zstd == nil {
		p.zstd, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
			zstd.WithEncoderCRC(false))
		if err != nil {
			return err
		}
	}
	p.out.Grow(len(buf))
	packed := p.zstd.EncodeAll(buf, p.out.AvailableBuffer())
	p.out.Write(packed)
	return nil
}

var errPacked = errors.New("wire: a compressed batch cannot be made sense of")

// decompress replaces the buffers of b, which came from elsewhere in a body of so many bytes, by decompressed ones in
// memory of the pool.
func decompress(b *Batch, c Compression, body int64, pool *Pool) (*Memory, error) {
	lengths, total := make([]int64, len(b.Buffers)), int64(0)
	for i, buf := range b.Buffers {
		if len(buf) == 0 {
			continue
		}
		if len(buf) < lengthBytes {
			return nil, errPacked
		}
		n, packed := int64(binary.LittleEndian.Uint64(buf)), int64(len(buf)-lengthBytes)
		if n == stored {
			n = packed
		} else if n < 0 || n > packed*c.maxRatio() {
			return nil, fmt.Errorf("%w: it claims to have %d bytes, and is %d compressed", errPacked, n, packed)
		}
		lengths[i] = n
		if total += pad(n); !believable(total, body) {
			return nil, fmt.Errorf(
				"%w: it claims to have %d bytes or more, of %d compressed; a worker sends such a batch uncompressed",
				errPacked, total, body)
		}
	}
	m := pool.Get(int(total))
	p := pool.packer()
	defer pool.packers.Put(p)
	at := int64(0)
	for i, buf := range b.Buffers {
		if len(buf) == 0 {
			continue
		}
		dst := m.Bytes[at : at+lengths[i] : at+lengths[i]]
		if err := p.unpack(dst, buf, c); err != nil {
			m.Free()
			return nil, fmt.Errorf("%w: %w", errPacked, err)
		}
		b.Buffers[i] = dst
		at += pad(lengths[i])
	}
	return m, nil
}

// unpack decompresses a buffer that should fill dst.
func (p *packer) unpack(dst, buf []byte, c Compression) (err error) {
	n, packed := int64(binary.LittleEndian.Uint64(buf)), buf[lengthBytes:]
	switch {
	case n == stored:
		copy(dst, packed)
		return nil
	case c == LZ4:
		if p.unlz4 == nil {
			p.unlz4 = lz4.NewReader(nil)
		}
		p.in.Reset(packed)
		p.unlz4.Reset(&p.in)
		if _, err := io.ReadFull(p.unlz4, dst); err != nil {
			return err
		}
		if n, err := p.unlz4.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
			return errors.New("it is longer than it claims")
		}
		return nil
	}
	if p.unstd == nil {
		// Not what the packed bytes say that they hold is allocated, but what dst has is the most that they may.
		p.unstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxBody),
			zstd.WithDecodeAllCapLimit(true))
		if err != nil {
			return err
		}
	}
	out, err := p.unstd.DecodeAll(packed, dst[:0])
	if err == nil && len(out) != len(dst) {
		err = fmt.Errorf("it has %d bytes, and claims %d", len(out), len(dst))
	}
	return err
}
