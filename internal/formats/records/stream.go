package records

import (
	"errors"
	"fmt"
	"io"
)

// Bytes are a file's, decompressed, from a place on that moves.
type Bytes interface {
	// Peek returns n bytes of what comes next, or more, or all that there are: then end is set. They are valid until
	// the next call.
	Peek(n int) (data []byte, end bool, err error)
	// Pass moves on.
	Pass(n int)
}

// firstPeek is how much is looked at before it is known how long a record is.
const firstPeek = 64 << 10

// Stream cuts a file into its records, from the begin of one on.
type Stream struct {
	in    Bytes
	of    Opened
	limit int64
	at    int64 // of what comes next, in the file, decompressed
}

// NewStream returns the stream of the records that begin at a byte of a file, decompressed.
func NewStream(f *File, in Bytes, at int64) *Stream {
	return &Stream{in: in, of: f.Opened, limit: f.Limits.Record, at: at}
}

// At is where the next record begins, or what is in front of it.
func (s *Stream) At() int64 { return s.at }

// Next returns the next record, which is valid until the next call, and where it begins; io.EOF: there is none.
func (s *Stream) Next() (record []byte, at int64, err error) {
	want := firstPeek
	for {
		data, end, err := s.in.Peek(want)
		if err != nil {
			return nil, s.at, err
		}
		if len(data) == 0 && end {
			return nil, s.at, io.EOF
		}
		n, row, err := s.of.Cut(data, s.at, end)
		switch {
		case err != nil:
			return nil, s.at, fmt.Errorf("byte %d: %w", s.at, err)
		case n < 0 || n > len(data):
			return nil, s.at, errors.New("a record was cut behind what there is of it, which is a bug")
		case n == 0 && end:
			return nil, s.at, fmt.Errorf("byte %d: %w", s.at, errCut)
		case int64(n) > s.limit, n == 0 && int64(len(data)) > s.limit:
			return nil, s.at, fmt.Errorf("byte %d: a record has more than %d bytes: if it is to be trusted, raise "+
				"dataset.format.%s", s.at, s.limit, optionRecord)
		case n == 0:
			want = max(want, 2*len(data))
			continue
		}
		at = s.at
		s.at += int64(n)
		s.in.Pass(n)
		if row {
			return data[:n:n], at, nil
		}
		want = firstPeek
	}
}

// Buffered are the bytes of a reader.
type Buffered struct {
	in   io.Reader
	grow func(buf []byte, n int) ([]byte, error)
	buf  []byte
	from int // of buf, what comes next
	end  bool
}

// NewBuffered returns the bytes of a reader, whose buffer grows by grow: it returns a slice of n bytes that begins with
// what buf holds. Nil: it is made.
func NewBuffered(in io.Reader, grow func(buf []byte, n int) ([]byte, error)) *Buffered {
	if grow == nil {
		grow = func(buf []byte, n int) ([]byte, error) { return append(buf, make([]byte, n-len(buf))...), nil }
	}
	return &Buffered{in: in, grow: grow}
}

// Peek fills the buffer.
func (b *Buffered) Peek(n int) ([]byte, bool, error) {
	for len(b.buf)-b.from < n && !b.end {
		if b.from > 0 {
			b.buf = b.buf[:copy(b.buf, b.buf[b.from:])]
			b.from = 0
		}
		have := len(b.buf)
		buf, err := b.grow(b.buf, max(n, cap(b.buf)))
		if err != nil {
			return nil, false, err
		}
		for have < n && !b.end {
			m, err := b.in.Read(buf[have:])
			have += m
			if errors.Is(err, io.EOF) {
				b.end = true
			} else if err != nil {
				return nil, false, err
			}
		}
		b.buf = buf[:have]
	}
	return b.buf[b.from:], b.end, nil
}

// Pass moves on.
func (b *Buffered) Pass(n int) { b.from += n }
