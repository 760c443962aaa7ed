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

// Scan cuts the file into extents of about extentBytes, each of which begins with a record.
func (f *File) Scan(ctx context.Context, in *format.Input, found func(format.Place) error) error {
	return f.scan(in.Reader(ctx), in.Take, found)
}

func (f *File) scan(in io.Reader, take func(bytes int64) error, found func(format.Place) error) error {
	u := NewUnpacked(f.Codec, in, 0, f.Limits, take)
	defer u.Close()
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
		c.members = u.Members()
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
	c.members = u.Members()
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
	members []Member // from the one on in which the current extent begins, or the one that waits
	passed  int      // of them, that are not needed any more

	index   int
	rows    int64  // of the extents so far
	current *begun // nil: no record was told yet
	waiting *begun // is complete, but for where the member ends that has its last bytes
}

// begun is an extent, and where it begins and ends, decompressed.
type begun struct {
	format.Place
	from, to int64
	member   int64 // where it begins in the file
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
	member := c.memberAt(at)
	if b := c.current; at-b.from < c.extent || member.Stored == b.member {
		b.Rows++
		return nil
	}
	if err := c.close(at); err != nil {
		return err
	}
	c.current = &begun{from: at, member: member.Stored}
	c.current.Place = format.Place{
		Extent: format.Extent{FirstRow: c.rows, Rows: 1}, Index: c.index,
		Stored: storage.Range{Offset: member.Stored}, Skip: at - member.Bytes,
	}
	return nil
}

// first begins the first extent, which leaves nothing out behind the file's header.
func (c *cutter) first() {
	c.current = &begun{from: c.begin, member: c.memberAt(c.begin).Stored}
	c.current.Rows = 1
	if c.plain {
		c.current.Stored.Offset = c.begin
	} else {
		c.current.Skip = c.begin
	}
}

// memberAt is the one that has a byte.
func (c *cutter) memberAt(at int64) Member {
	if c.plain {
		return Member{at, at}
	}
	i := c.firstFrom(at+1) - 1
	found := c.members[i]
	if c.waiting == nil && c.current == nil { // nobody needs those in front of it
		c.passed, c.members = c.passed+i, c.members[i:]
	}
	return found
}

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

// settle hands on the extent that waits, once it is known where its last member ends.
func (c *cutter) settle() error {
	b := c.waiting
	if b == nil {
		return nil
	}
	if c.plain {
		return c.hand(b.to, false)
	}
	i := c.firstFrom(b.to)
	if i == len(c.members) {
		return nil
	}
	end := c.members[i].Stored
	if i > 0 { // the one before may have the next extent's first record
		c.passed, c.members = c.passed+i-1, c.members[i-1:]
	}
	return c.hand(end, false)
}

// firstFrom is the first member that begins at a byte or behind it.
func (c *cutter) firstFrom(at int64) int {
	return sort.Search(len(c.members), func(i int) bool { return c.members[i].Bytes >= at })
}

func (c *cutter) hand(end int64, last bool) error {
	b := c.waiting
	c.waiting = nil
	b.Stored.Length = end - b.Stored.Offset
	if !c.plain && !last {
		next := c.members[c.firstFrom(b.to+1)-1]
		b.Shared, b.Over = end-next.Stored, b.to-next.Bytes
	}
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
