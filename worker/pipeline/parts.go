package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/worker/formats/decode"
	"github.com/penstock-ml/penstock/worker/rescue"
)

// partsParallel is how many pieces of an extent are read at a time.
const partsParallel = 16

// parts are the chunks of an extent of which pieces are in memory. It belongs to the goroutine that decodes; it owns
// those that read ahead, until close.
type parts struct {
	reader  *reader
	ctx     context.Context // of the stream
	chunks  []part
	sources []decode.Source
	due     chan *part // whose next piece is to be read
	readers errgroup.Group
}

// part is one chunk. What is known of it lies in front; the piece behind that is being read into next.
type part struct {
	of    *parts
	chunk storage.Range
	at    int // where in the chunk front begins
	front []byte
	next  []byte // of the size of a piece; nil if the whole chunk is in front
	ahead int    // how much of it is being read
	read  chan error
	own   []byte // memory beyond the unit's, which front may lie in

	shared bool // another part has the same front: the leaf is read as two kinds
}

func (r *reader) startParts(ctx context.Context, u *unit) *parts {
	g := u.groups[0]
	p := &parts{reader: r, ctx: ctx, chunks: make([]part, len(g.ranges)), due: make(chan *part, len(g.ranges))}
	for range min(partsParallel, len(g.ranges)) {
		p.readers.Go(func() error {
			for c := range p.due {
				c.read <- rescue.Call(rescue.Worker, c.fetch)
			}
			return nil
		})
	}
	if r.fronts == nil {
		r.fronts = make([][]byte, len(g.ranges))
	}
	buffer, overlap := u.buffer[u.pieces.next:], storage.Overlaps(u.ranges)
	for i, chunk := range g.ranges {
		c := &p.chunks[i]
		*c = part{
			of: p, chunk: chunk, front: g.chunks[i], read: make(chan error, 1), own: r.fronts[i],
			shared: overlap[i],
		}
		if int64(len(c.front)) < chunk.Length {
			c.next, buffer = buffer[:u.pieces.size:u.pieces.size], buffer[u.pieces.size:]
			c.readAhead()
		}
		p.sources = append(p.sources, c)
	}
	return p
}

// close waits for what is being read. The next extent's parts get the memory: it is not free, for the decoder refers
// to it until it reads a page of theirs.
func (p *parts) close() {
	close(p.due)
	_ = p.readers.Wait() // they return none
	for i := range p.chunks {
		p.reader.fronts[i] = p.chunks[i].own
	}
}

// readAhead has the piece behind front read.
func (c *part) readAhead() {
	if c.ahead = min(len(c.next), int(c.chunk.Length)-c.at-len(c.front)); c.ahead > 0 {
		c.of.due <- c // there is room for all
	}
}

// fetch runs in a reader's goroutine, while front does not change.
func (c *part) fetch() error {
	r, at := c.of.reader, c.chunk.Offset+int64(c.at+len(c.front))
	_, err := r.readInto(c.of.ctx, storage.Reading{}, []storage.Range{{Offset: at, Length: int64(c.ahead)}}, c.next)
	return err
}

// Bytes is that of decode.Source.
func (c *part) Bytes(from, n int) ([]byte, error) {
	if from < c.at {
		return nil, errors.New("its parts are not in the order in which they are looked at: the file is damaged")
	}
	for from+n > c.at+len(c.front) {
		if err := c.advance(from, n); err != nil {
			return nil, err
		}
	}
	return c.front[from-c.at:], nil
}

// advance adds the next piece to front, and drops what lies before from.
func (c *part) advance(from, n int) error {
	if c.ahead == 0 {
		return io.ErrUnexpectedEOF
	}
	stats := c.of.reader.stats
	err := stats.instead(&stats.decode, &stats.storage, func() error { return <-c.read })
	if err != nil {
		return err
	}
	drop := min(from-c.at, len(c.front))
	keep := c.front[drop:]
	if need := len(keep) + c.ahead; need > cap(c.front) || c.shared {
		if err := c.grow(max(need, n)); err != nil {
			return err
		}
	}
	c.front = c.front[:copy(c.front[:len(keep)], keep)+c.ahead]
	copy(c.front[len(keep):], c.next)
	c.at += drop
	c.readAhead()
	return nil
}

// grow gives the part a front in its own memory without bytes, for a page that is longer than a piece or because
// another part reads the old one.
func (c *part) grow(n int) error {
	r := c.of.reader
	if old := int64(cap(c.own)); int64(n) > old {
		got, err := r.quota.more(c.of.ctx, int64(n), int64(n)+int64(len(c.next)))
		if err != nil {
			return fmt.Errorf("a part of %d bytes: %w", n, err)
		}
		c.own = make([]byte, got)
		r.uncounted = true
		r.quota.Give(old) // what was in front before is no more
	}
	c.front, c.shared = c.own[:0], false
	return nil
}
