package wire

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// leaving is how long a call may last whose client has closed its link, until that is a failure.
const leaving = time.Second

// maxHeld is how large a batch may be on a link that waits for the next one, with which it is written: two such are as
// much as the client sleeps for.
const maxHeld = maxMark / 2

// Sender sends batches on a stream whose server has a Codec. It belongs to one goroutine.
type Sender struct {
	out  grpc.ServerStream
	how  Compression
	pool *Pool
	// Blocking, if set, runs the part of each Send that waits while the connection takes no more. On a link that is the
	// write as a whole, the kernel's copy too.
	Blocking func(func() error) error

	link          *link   // nil: batches go by gRPC
	lender        *lender // of a near one
	ctx           context.Context
	linkServer    *LinkServer
	uninterrupted func() bool // until now, and from now on
	run           []*parcel   // that wait
}

// Narrow reports whether a batch's values may have fewer bytes than Arrow's: it goes on a link, as it is.
func (s *Sender) Narrow() bool { return s.link != nil && s.how == None }

// Linked reports whether batches go on a link, or a near one.
func (s *Sender) Linked() bool { return s.link != nil }

// Compresses reports whether batches are compressed.
func (s *Sender) Compresses() bool { return s.how != None }

// Near reports whether batches' memory, if that is shared, is lent to the client.
func (s *Sender) Near() bool { return s.lender != nil }

// Send sends a batch, and refers to its buffers until it releases it: when they were written, or never will be, or at
// once, where they are compressed. By gRPC this may be after Send has returned. gRPC forgets what it has not written
// when a connection breaks, and a message that it was given when its stream had just been cancelled: these are never
// released. written is called when no memory of the message is left in either case. What is lent is released when the
// client gives it back, or never will.
//
// On a link a small batch that has More waits for the next call of Send, Flush or Close, which sends both at once: who
// sends must have room for two.
func (s *Sender) Send(b *Batch, written func()) error {
	p, more := s.pool.parcel(), b.More && s.how == None // to compress the next one takes its time
	if s.how == None {
		release := b.release
		p.release = func() { release(); written() }
	} else {
		packed, err := compress(b, s.how, s.pool)
		b.Release()
		if err != nil {
			written()
			return err
		}
		b = packed
		p.release = func() { packed.Release(); written() }
	}
	switch {
	case s.lender != nil && b.Memory != nil:
		return s.lend(p, b)
	case s.link != nil:
		p.line(b, s.how)
		s.run = append(s.run, p)
		if more && len(s.run) == 1 && p.length <= maxHeld {
			return nil
		}
		return s.Flush()
	}
	p.fill(b, s.how)
	o := outgoing{parcel: p}
	err := s.blocking(func() error { return s.out.SendMsg(&o) })
	if !o.taken {
		p.free()
	}
	return err
}

// lend is Send on a near link.
func (s *Sender) lend(p *parcel, b *Batch) error {
	err := s.Flush()
	if err == nil {
		err = p.name(b)
	}
	if err != nil {
		p.free()
		return err
	}
	return s.broken(s.blocking(func() error { return s.lender.lend(p) }))
}

// Flush sends a batch that waits for the next one.
func (s *Sender) Flush() error {
	if len(s.run) == 0 {
		return nil
	}
	err := s.blocking(func() error { return s.link.send(s.run) })
	for _, p := range s.run {
		p.free()
	}
	s.run = s.run[:0]
	return s.broken(err)
}

// broken is what a trainer is told of a link that takes no more: why that was closed, or to go on at its cursor. A
// trainer that leaves closes the link, too, of which the worker may hear before it does of the call's end.
func (s *Sender) broken(err error) error {
	if err == nil {
		return nil
	}
	t := time.NewTimer(leaving)
	defer t.Stop()
	select {
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	case <-t.C:
		return status.Error(codes.Unavailable, err.Error())
	}
}

// blocking runs what may wait for the connection.
func (s *Sender) blocking(f func() error) error {
	if s.Blocking == nil {
		return f()
	}
	return s.Blocking(f)
}

// Close ends the stream's batches, all of which were sent unless err says why not. It returns err, or why they may not
// arrive. On a near link it waits until the client has given back all.
func (s *Sender) Close(err error) error {
	if s.link == nil {
		return err
	}
	if flushed := s.Flush(); err == nil {
		err = flushed
	}
	if err == nil {
		err = s.broken(s.end())
	}
	if !s.uninterrupted() && err == nil {
		err = context.Cause(s.ctx)
	}
	if err != nil || !s.linkServer.keep(s.link) {
		_ = s.link.Close() // whatever it says, the batches were sent or err says why not
	}
	if s.lender != nil {
		_ = s.lender.wait() // it has ended, or the link is closed: err says why
	}
	return err
}

// end tells the client that no batch follows, and waits until it has given back all.
func (s *Sender) end() error {
	if s.lender == nil {
		return s.link.end()
	}
	s.lender.end()
	if err := s.link.end(); err != nil {
		return err
	}
	return s.blocking(s.lender.wait)
}
