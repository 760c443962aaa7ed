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

// lookAhead is how far behind the end of a record a Cut may look before it tells where that is: a tar's sample ends
// where the next one begins, whose headers may be long.
const lookAhead = 8 << 20

// firstPeek is how much is looked at at least where what is there does not have all of a record.
const firstPeek = 64 << 10

// Stream cuts a file into its records, from the begin of one on.
type Stream struct {
	in     Bytes
	of     Opened
	limit  int64
	watch  Watch // nil: nobody watches
	member int64 // where it begins in the file from which on is counted
	at     int64 // of what comes next, from there on, decompressed
	to     int64 // where it ends; -1: where the file does
	goesOn bool  // the file does, behind that
}

// NewStream returns the stream of the records that begin at a byte of a file. Of a file that is compressed this counts
// from a member on, which begins somewhere in the file; else member is 0.
func NewStream(f *File, in Bytes, member, at int64) *Stream {
	return &Stream{in: in, of: f.Opened, limit: f.Limits.Record, member: member, at: at, to: -1}
}

// Until has the stream end where an extent does. If the file goes on behind that, a record must end there of which that
// can be seen, in what there is of the file behind it, or by itself.
func (s *Stream) Until(to int64, goesOn bool) { s.to, s.goesOn = to, goesOn }

// At is where the next record begins, or what is in front of it.
func (s *Stream) At() int64 { return s.at }

// Byte is a place in messages.
func (s *Stream) Byte(at int64) string {
	if s.member == 0 {
		return fmt.Sprintf("byte %d", at)
	}
	return fmt.Sprintf("byte %d of what byte %d of the file begins, decompressed", at, s.member)
}

// Next returns the next record, which is valid until the next call, and where it begins; io.EOF: there is none.
func (s *Stream) Next() (record []byte, at int64, err error) {
	want := 1
	for s.at != s.to {
		data, end, err := s.in.Peek(want)
		if err != nil {
			return nil, s.at, err
		}
		if len(data) == 0 && end {
			if s.to >= 0 {
				return nil, s.at, fmt.Errorf("%s: %w", s.Byte(s.at), errCut)
			}
			break
		}
		n, row, err := s.cut(data, end)
		switch {
		case err != nil:
			return nil, s.at, fmt.Errorf("%s: %w", s.Byte(s.at), err)
		case n < 0 || n > len(data):
			return nil, s.at, errors.New("a record was cut behind what there is of it, which is a bug")
		case n == 0 && end:
			return nil, s.at, fmt.Errorf("%s: %w", s.Byte(s.at), errCut)
		case int64(n) > s.limit, n == 0 && int64(len(data)) > s.limit+lookAhead:
			return nil, s.at, fmt.Errorf("%s: %w", s.Byte(s.at), tooLong(s.limit))
		case n == 0:
			want = max(firstPeek, int(min(2*int64(len(data)), s.limit+lookAhead+1)))
			continue
		}
		if s.watch != nil {
			if err := s.watch.Cut(data[:n], s.at, row); err != nil {
				return nil, s.at, fmt.Errorf("%s: %w", s.Byte(s.at), err)
			}
		}
		at = s.at
		s.at += int64(n)
		s.in.Pass(n)
		if row {
			return data[:n:n], at, nil
		}
		want = 1
	}
	return nil, s.at, io.EOF
}

// cut measures what comes next.
func (s *Stream) cut(data []byte, end bool) (n int, row bool, err error) {
	n, row, err = s.of.Cut(data, s.member+s.at, end && !s.goesOn)
	if n == 0 && err == nil && end && s.goesOn {
		if of, ok := s.of.(Ahead); ok {
			if left := int(min(int64(len(data)), s.to-s.at)); of.Closes(data, left) {
				n, row, err = s.of.Cut(data[:left], s.member+s.at, true)
			}
		}
	}
	if err == nil && s.to >= 0 && (int64(n) > s.to-s.at || n == 0 && end) {
		return 0, false, errEnd
	}
	return n, row, err
}

// ErrIndex says that what was read is not what the index says of it.
var ErrIndex = errors.New("the index is not that of the file")

var errEnd = fmt.Errorf("the extent does not end where a record does: %w", ErrIndex)

// Buffered are the bytes of a reader.
type Buffered struct {
	in   io.Reader
	grow func(buf []byte, n int) ([]byte, error)
	buf  []byte
	from int // of buf, what comes next
	to   int // of buf, the end of what was read
	end  bool
}

// NewBuffered returns the bytes of a reader, whose buffer grows by grow: it returns a slice of n bytes or more that
// begins with what buf holds.
func NewBuffered(in io.Reader, grow func(buf []byte, n int) ([]byte, error)) *Buffered {
	return &Buffered{in: in, grow: grow}
}

// bufferBytes is how long a buffer is at least: what is left in it is moved each time when it is read.
const bufferBytes = 4 * firstPeek

// Peek returns what there is, if it is enough, or fills the buffer.
func (b *Buffered) Peek(n int) ([]byte, bool, error) {
	if b.to-b.from < n && !b.end {
		if err := b.fill(n); err != nil {
			return nil, false, err
		}
	}
	return b.buf[b.from:b.to], b.end, nil
}

func (b *Buffered) fill(n int) (err error) {
	b.to = copy(b.buf, b.buf[b.from:b.to])
	b.from = 0
	if len(b.buf) < n || len(b.buf) == 0 {
		if b.buf, err = b.grow(b.buf[:b.to], max(n, bufferBytes)); err != nil {
			return err
		}
	}
	for b.to < len(b.buf) && !b.end {
		m, err := b.in.Read(b.buf[b.to:])
		b.to += m
		if errors.Is(err, io.EOF) {
			b.end = true
		} else if err != nil {
			return err
		}
	}
	return nil
}

// Pass moves on.
func (b *Buffered) Pass(n int) { b.from += n }
