package records

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"

	"github.com/penstock-ml/penstock/internal/formats/format"
)

// behindBlock is how many bytes are read behind the one in which a block ends, since a decompressor looks ahead of it.
// There are as many: another block follows, and the member's sums.
const behindBlock = 8

// member reads a member of gzip.
type member struct {
	in     *counted
	header *gzip.Reader  // reads headers, and nothing behind them
	reused io.ReadCloser // of blocks; nil: none yet
	blocks io.ReadCloser // of this member
	begin  int64         // where its blocks begin, of what was taken of in
	twice  int64         // how many bytes the library counted twice
	crc    uint32        // of what was read
	size   int64
}

// open begins a member with its header. Block, unless it is nil, is told where each block begins but the first one.
func (m *member) open(in *counted, block func(block)) (err error) {
	if m.header == nil {
		m.header, err = gzip.NewReader(in.Reader)
	} else {
		err = m.header.Reset(in.Reader)
	}
	if err != nil {
		return err
	}
	m.in, m.begin, m.twice, m.crc, m.size = in, in.at(), 0, 0, 0
	if block != nil {
		m.blocks = flate.NewReaderOpts(in.Reader, m.telling(block))
		return nil
	}
	if m.reused == nil {
		m.reused = flate.NewReader(in.Reader)
	} else if of, ok := m.reused.(flate.Resetter); ok {
		err = of.Reset(in.Reader, nil)
	}
	m.blocks = m.reused
	return err
}

// resume begins in the middle of a member.
func (m *member) resume(in *counted, from *format.Restart, block func(block)) {
	m.in, m.begin, m.twice, m.crc, m.size = in, in.at(), 0, from.CRC, from.Size
	at := flate.InflateCheckpoint{UncompressedOffset: from.Size, BitOffset: from.Bit, Window: from.Window}
	options := []flate.ReaderOpt{flate.WithResumeFrom(at)}
	if block != nil {
		options = append(options, m.telling(block))
	}
	m.blocks = flate.NewReaderOpts(in.Reader, options...)
}

// block is where a block of a member begins, behind others.
type block struct {
	stored int64 // of what was taken of the input
	bit    uint8 // of the byte there
	ahead  int64 // how much was decompressed in front of it, and not read yet
	of     *member
	window []byte // what is in front of it, as far as it may refer to that; it is valid during the call alone
}

func (m *member) telling(f func(block)) flate.ReaderOpt {
	return flate.WithEobCallback(func(at flate.InflateCheckpoint) {
		if at.Final {
			return
		}
		// The library (1.20.4) counts those bytes twice that it looked ahead of a stored block. Behind one it has taken
		// what it counts, and nothing else.
		stored := m.begin + at.CompressedOffset - m.twice
		if over := stored - m.in.at(); over > 0 {
			m.twice, stored = m.twice+over, stored-over
		}
		f(block{stored, at.BitOffset, at.UncompressedOffset - m.size, m, at.Window})
	})
}

// restart is what it takes to begin with the block. The window is copied.
func (b block) restart() *format.Restart {
	size := b.of.size + b.ahead
	window := b.window[max(0, int64(len(b.window))-size):]
	ahead := window[max(0, int64(len(window))-b.ahead):]
	crc := crc32.Update(b.of.crc, crc32.IEEETable, ahead)
	return format.NewRestart(b.bit, crc, size, append([]byte(nil), window...))
}

// Read reads, up to the member's end: then its sums are checked.
func (m *member) Read(p []byte) (int, error) {
	n, err := m.blocks.Read(p)
	m.crc = crc32.Update(m.crc, crc32.IEEETable, p[:n])
	m.size += int64(n)
	if errors.Is(err, io.EOF) {
		err = m.end()
	}
	return n, err
}

// end checks the sums that end the member, and returns io.EOF if they are right.
func (m *member) end() error {
	var sums [8]byte
	if _, err := io.ReadFull(m.in, sums[:]); err != nil {
		return unexpected(err)
	}
	if binary.LittleEndian.Uint32(sums[:]) != m.crc || binary.LittleEndian.Uint32(sums[4:]) != uint32(m.size) {
		return gzip.ErrChecksum
	}
	return io.EOF
}
