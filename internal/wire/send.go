package wire

import "google.golang.org/grpc"

// Sender sends batches on a stream whose server has a Codec. It belongs to one goroutine.
type Sender struct {
	out  grpc.ServerStream
	how  Compression
	pool *Pool
	// Blocking, if set, runs the part of each Send that waits while the connection takes no more.
	Blocking func(func() error) error
}

// NewSender sends on out. What it adds to the batches' memory is the pool's.
func NewSender(out grpc.ServerStream, how Compression, pool *Pool) *Sender {
	return &Sender{out: out, how: how, pool: pool}
}

// Send sends a batch, and refers to its buffers until it releases it: when gRPC has written them, or never will, which
// may be after Send has returned, or at once, where they are compressed. gRPC forgets what it has not written when a connection breaks,
// and a message that it was given when its stream had just been cancelled: these are never released. written is called when no
// memory of the message is left in either case.
func (s *Sender) Send(b *Batch, written func()) error {
	p := s.pool.parcel()
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
	p.fill(b, s.how)
	o := outgoing{parcel: p}
	err := s.hand(&o)
	if !o.taken {
		p.free()
	}
	return err
}

func (s *Sender) hand(o *outgoing) error {
	if s.Blocking == nil {
		return s.out.SendMsg(o)
	}
	return s.Blocking(func() error { return s.out.SendMsg(o) })
}
