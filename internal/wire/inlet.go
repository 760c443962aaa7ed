package wire

import (
	"bytes"
	"errors"
	"io"
)

const (
	// ahead is what is read at once where messages begin. Bodies are read into their memory.
	ahead = 4 << 10
	// A reader of messages of which more than minMark is left sleeps until that has come, or maxMark of it: to be
	// woken for each segment of 64 KiB costs both sides more than to copy it.
	minMark, maxMark = 64 << 10, 1 << 20
)

// inlet is a link as its client reads it: small parts of messages through a buffer, bodies straight into the memory
// where they stay, and what follows a body, if it has come, with the body's end.
type inlet struct {
	from source
	buf  [ahead]byte
	rest []byte // of buf: what nobody has taken yet
	dry  bool   // the last read took all that had come
	due  int    // bytes that are on their way, and will surely come
	mark int    // what reads await
}

// source is where an inlet reads.
type source interface {
	// read waits for bytes. They fill p; what there are more may go to more.
	read(p, more []byte) (int, error)
	// await has the next reads sleep until n bytes have come, where that can be had. More than will come must not be
	// awaited.
	await(n int)
}

// Read reads a small part of a message.
func (in *inlet) Read(p []byte) (int, error) {
	if len(in.rest) == 0 {
		if len(p) >= len(in.buf) {
			return in.read(p, nil)
		}
		n, err := in.read(in.buf[:], nil)
		if n == 0 {
			return 0, err
		}
		in.rest = in.buf[:n]
	}
	n := copy(p, in.rest)
	in.rest = in.rest[n:]
	return n, nil
}

// pour writes up to n bytes of what is there already, and returns how many.
func (in *inlet) pour(to *bytes.Buffer, n int) int {
	n, _ = to.Write(in.rest[:min(n, len(in.rest))]) // never fails
	in.rest = in.rest[n:]
	return n
}

// expect notes that n bytes follow those that were taken.
func (in *inlet) expect(n int) { in.due = max(0, n-len(in.rest)) }

// read has the source sleep for what is due, and never for more.
func (in *inlet) read(p, more []byte) (int, error) {
	if in.dry || in.mark > in.due {
		in.mark = mark(in.due)
		in.from.await(in.mark)
	}
	n, err := in.from.read(p, more)
	in.dry = n < len(p)+len(more)
	in.due = max(0, in.due-n)
	return n, err
}

// fill reads a part of a body, as long as p.
func (in *inlet) fill(p []byte) error {
	n := copy(p, in.rest)
	in.rest = in.rest[n:]
	p = p[n:]
	for len(p) > 0 {
		n, err := in.read(p, in.buf[:])
		if n > len(p) {
			in.rest, n = in.buf[:n-len(p)], len(p)
		}
		p = p[n:]
		if err != nil && len(p) > 0 {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

// mark is how many of left bytes to await.
func mark(left int) int {
	if left < minMark {
		return 1
	}
	return min(left, maxMark)
}
