package records

import (
	"encoding/binary"
	"errors"
	"io"
)

// frame gives the bytes of one frame of zstd, whose blocks say how long they are, and no more.
// https://datatracker.ietf.org/doc/html/rfc8878#section-3.1.1
type frame struct {
	in    *counted
	hold  func(window int64) error
	ahead []byte // that were looked at, and are given next
	left  int64  // bytes of the block behind these
	sum   bool   // a checksum follows the last block
	begun bool
	last  bool // the block is the last one
	ended bool
}

var errFrame = errors.New("a frame goes on behind its last block: the file is damaged")

// drained fails if the decoder did not take all of the frame.
func (f *frame) drained() error {
	n, err := f.Read(make([]byte, 1))
	switch {
	case n > 0:
		return errFrame
	case errors.Is(err, io.EOF):
		return nil
	}
	return err
}

// Read reads.
func (f *frame) Read(p []byte) (int, error) {
	for len(f.ahead) == 0 && f.left == 0 {
		if f.ended {
			return 0, io.EOF
		}
		if err := f.next(); err != nil {
			return 0, unexpected(err)
		}
	}
	if len(f.ahead) > 0 {
		n := copy(p, f.ahead)
		f.ahead = f.ahead[n:]
		return n, nil
	}
	n, err := f.in.Read(p[:min(int64(len(p)), f.left)])
	f.left -= int64(n)
	return n, unexpected(err)
}

// next reads the frame's header, that of a block, or the checksum.
func (f *frame) next() error {
	switch {
	case !f.begun:
		return f.header()
	case f.last:
		f.ended = true
		if f.sum {
			f.left = 4
		}
		return nil
	}
	head := make([]byte, 3)
	if _, err := io.ReadFull(f.in, head); err != nil {
		return err
	}
	word := uint32(head[0]) | uint32(head[1])<<8 | uint32(head[2])<<16
	f.ahead, f.last, f.left = head, word&1 != 0, int64(word>>3)
	if kind := word >> 1 & 3; kind == 1 { // one byte that is repeated
		f.left = 1
	}
	return nil
}

func (f *frame) header() error {
	head := make([]byte, 5, 18)
	if _, err := io.ReadFull(f.in, head); err != nil {
		return err
	}
	flags := head[4]
	single := flags>>5&1 != 0
	n := []int{0, 1, 2, 4}[flags&3] // of the dictionary's id
	if !single {
		n++
	}
	switch size := flags >> 6; {
	case size > 0:
		n += 1 << size
	case single:
		n++
	}
	head = head[:5+n]
	if _, err := io.ReadFull(f.in, head[5:]); err != nil {
		return err
	}
	f.begun, f.ahead, f.sum = true, head, flags>>2&1 != 0
	if single { // the window is all of it
		return f.hold(contentSize(head[5:], flags))
	}
	exponent, eighths := head[5]>>3, int64(head[5]&7) //nolint:gosec // it has the window's byte if it is not single
	return f.hold(1<<(10+exponent) + 1<<(7+exponent)*eighths)
}

// contentSize is what a frame of a single segment says behind the dictionary's id of how long it is, decompressed.
func contentSize(fields []byte, flags byte) int64 {
	var size [8]byte
	copy(size[:], fields[[]int{0, 1, 2, 4}[flags&3]:])
	n := binary.LittleEndian.Uint64(size[:])
	if flags>>6 == 1 {
		n += 256
	}
	return int64(min(n, maxWindow+1))
}
