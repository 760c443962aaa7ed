package records

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sort"

	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/storage"
)

// extentBytes is about what the records of an extent have, decompressed; Version of each kind changes with it.
const extentBytes = 4 << 20

// A restart takes 32 KiB of the index. So restarts are so far apart that the index stays below a thousandth of the
// file, and there are no more of them than restartsOfFile: the block of a session that is one file lies in etcd with
// all of its restarts, and one answer to a trainer may have those of two blocks.
const (
	minSpacing     = 32 << 20
	restartsOfFile = 256
)

// spacingOf is how many stored bytes lie between the restarts of a file; 0: it has none.
func spacingOf(codec Codec, size int64) int64 {
	if codec != Gzip || size <= 2*minSpacing {
		return 0
	}
	return max(minSpacing, size/restartsOfFile)
}

// Scan cuts the file into extents of about extentBytes, each of which begins with a record.
func (f *File) Scan(ctx context.Context, in *format.Input, found func(format.Place) error) error {
	return f.scan(in.Reader(ctx), in.Take, found)
}

func (f *File) scan(in io.Reader, take func(bytes int64) error, found func(format.Place) error) error {
	u := NewUnpacked(f.Codec, in, 0, f.Limits, take)
	defer u.Close()
	u.restarts(f.Limits.Spacing)
	rows := NewBuffered(u, growing(take))
	at, err := f.passHeader(rows)
	if err != nil {
		return err
	}
	s := NewStream(f, rows, 0, at)
	if of, ok := f.Opened.(Watched); ok {
		s.watch = of.Watch(take)
	}
	c := &cutter{found: found, plain: f.Codec == Plain, extent: f.Limits.Extent, begin: at}
	for {
		_, at, err := s.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		c.borders = u.Borders()
		if err := c.row(at); err != nil {
			return err
		}
		u.Pass(c.passed)
		c.passed = 0
	}
	if s.watch != nil {
		if err := s.watch.End(s.At()); err != nil {
			return err
		}
	}
	c.borders = u.Borders()
	if err := c.end(s.At(), f.size); err != nil {
		return err
	}
	if of, ok := f.Opened.(Counted); ok && of.Records() != c.rows {
		return fmt.Errorf("it has %d records, and its header says %d: the file is damaged or cut off", c.rows,
			of.Records())
	}
	return nil
}

// passHeader passes over what is in no extent, and returns how long that is.
func (f *File) passHeader(in Bytes) (int64, error) {
	n := int(f.begin())
	if n == 0 {
		return 0, nil
	}
	data, _, err := in.Peek(n)
	if err == nil && len(data) < n {
		err = errCut
	}
	in.Pass(min(n, len(data)))
	return int64(n), err
}

// growing is how a buffer grows for which memory is taken: for the old one and the one that it is copied to.
func growing(take func(bytes int64) error) func(buf []byte, n int) ([]byte, error) {
	taken := int64(0)
	return func(buf []byte, n int) ([]byte, error) {
		if more := int64(len(buf)+n) - taken; take != nil && n > bufferBytes && more > 0 {
			if err := take(more); err != nil {
				return nil, err
			}
			taken += more
		}
		grown := make([]byte, n)
		copy(grown, buf)
		return grown, nil
	}
}

// cutter makes extents of records, which it is told in their order.
type cutter struct {
	found   func(format.Place) error
	extent  int64    // about how long each is
	plain   bool     // records can be read from any byte on
	begin   int64    // where the first extent begins, decompressed
	borders []Border // from the one on with which the current extent begins, or the one that waits
	passed  int      // of them, that are not needed any more

	index   int
	rows    int64  // of the extents so far
	current *begun // nil: no record was told yet
	waiting *begun // is complete, but for up to where its last bytes are stored
}

// begun is an extent, and where it begins and ends, decompressed.
type begun struct {
	format.Place
	from, to int64
	border   int64 // where the one lies with which it begins, as stored
}

// row tells of a record.
func (c *cutter) row(at int64) error {
	if err := c.settle(); err != nil {
		return err
	}
	if c.current == nil {
		c.first()
		return nil
	}
	border := c.borderAt(at)
	if b := c.current; at-b.from < c.extent || border.Stored == b.border {
		b.Rows++
		return nil
	}
	if err := c.close(at); err != nil {
		return err
	}
	c.current = &begun{from: at, border: border.Stored}
	c.current.Place = format.Place{
		Extent: format.Extent{FirstRow: c.rows, Rows: 1}, Index: c.index,
		Stored: storage.Range{Offset: border.Stored}, Skip: at - border.Bytes, Restart: border.Restart,
	}
	return nil
}

// first begins the first extent, which leaves nothing out behind the file's header.
func (c *cutter) first() {
	c.current = &begun{from: c.begin, border: c.borderAt(c.begin).Stored}
	c.current.Rows = 1
	if c.plain {
		c.current.Stored.Offset = c.begin
	} else {
		c.current.Skip = c.begin
	}
}

// borderAt is the one to begin with for what is at a byte.
func (c *cutter) borderAt(at int64) Border {
	if c.plain {
		return Border{Stored: at, Bytes: at}
	}
	i := c.beginOf(at)
	found := c.borders[i]
	if c.waiting == nil && c.current == nil { // nobody needs those in front of it
		c.pass(i)
	}
	return found
}

// beginOf is the last border to begin with that is not behind a byte.
func (c *cutter) beginOf(at int64) int {
	i := c.firstFrom(at+1) - 1
	return i - c.borders[i].back
}

func (c *cutter) pass(n int) { c.passed, c.borders = c.passed+n, c.borders[n:] }

// close ends the current extent where the next one begins.
func (c *cutter) close(at int64) error {
	b := c.current
	if b == nil {
		return nil
	}
	b.to, b.Bytes = at, at-b.from
	c.rows += b.Rows
	c.index++
	c.current, c.waiting = nil, b
	return c.settle()
}

// settle hands on the extent that waits, once there is a border at its end or behind it.
func (c *cutter) settle() error {
	b := c.waiting
	if b == nil {
		return nil
	}
	if c.plain {
		return c.hand(b.to, false)
	}
	i := c.firstFrom(b.to)
	if i == len(c.borders) {
		return nil
	}
	end := c.borders[i].end()
	c.pass(c.beginOf(b.to)) // it may have the next extent's first record
	return c.hand(end, false)
}

// firstFrom is the first border at a byte or behind it.
func (c *cutter) firstFrom(at int64) int {
	return sort.Search(len(c.borders), func(i int) bool { return c.borders[i].Bytes >= at })
}

func (c *cutter) hand(end int64, last bool) error {
	b := c.waiting
	c.waiting = nil
	if !c.plain && !last {
		next := c.borders[c.beginOf(b.to)]
		end = max(end, next.end())
		b.Shared, b.Over, b.Next = end-next.Stored, b.to-next.Bytes, next.Restart
	}
	b.Stored.Length = end - b.Stored.Offset
	return c.found(b.Place)
}

// end tells that there are no more records.
func (c *cutter) end(at, size int64) error {
	err := c.settle()
	if err == nil && c.waiting != nil {
		err = c.hand(size, false)
	}
	if b := c.current; b != nil && err == nil {
		c.rows += b.Rows
		b.to, b.Bytes = at, at-b.from
		c.current, c.waiting = nil, b
		err = c.hand(size, true)
	}
	return err
}
