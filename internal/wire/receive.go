package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/flight"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/internal/arrowipc"
)

// doGet is the call, as Flight.proto has it.
const doGet = "/arrow.flight.protocol.FlightService/DoGet"

// Stream is a DoGet of any Flight server.
type Stream struct {
	ctx    context.Context
	in     grpc.ClientStream
	schema *arrow.Schema
	next   Message

	// Return, if it is set, is called after the last batch where batches are Lent: these are to be released soon then.
	Return func() error

	links *Links
	link  *link         // nil: batches come by gRPC
	kept  func() bool   // keeps ctx from closing the link; false: it has
	over  chan struct{} // closed when the status came, err: io.EOF is a good one
	err   error
}

// Get opens a stream and receives its schema. Batches lie in memory of the pool, and come on one of links if the server
// knows what that is; links may be nil. The stream ends with ctx, at the latest.
func Get(ctx context.Context, conn *grpc.ClientConn, links *Links, ticket []byte, pool *Pool) (*Stream, error) {
	s := &Stream{ctx: ctx, next: Message{pool: pool}, links: links}
	link := links.take(ctx)
	if link == nil {
		return s, s.open(ctx, conn, ticket)
	}
	err := s.open(metadata.AppendToOutgoingContext(ctx, asks, link.id), conn, ticket)
	first := !link.known
	link.known = true
	// A busy worker takes no link. Whatever else ends a stream, the link may have been taken.
	if err == nil || s.in != nil && status.Code(err) == codes.ResourceExhausted {
		switch md, failed := s.in.Header(); {
		case failed != nil:
			err = errors.Join(err, failed)
		case err == nil && len(md.Get(grants)) > 0:
			links.without(link.way, time.Time{})
			s.use(link)
			return s, nil
		case err != nil && len(md.Get(grants)) == 0:
			links.keep(link)
			return s, err
		case err == nil && first: // it leads elsewhere than the call
			links.avoid(link.way)
		}
	}
	_ = link.Close() // whatever it says, nobody uses it any more
	return s, err
}

// open makes the call, and receives the schema.
func (s *Stream) open(ctx context.Context, conn *grpc.ClientConn, ticket []byte) (err error) {
	s.in, err = conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, doGet,
		grpc.ForceCodecV2(NewCodec()), grpc.MaxCallRecvMsgSize(maxMessage))
	if err != nil {
		return err
	}
	// EOF: RecvMsg says why
	if err := s.in.SendMsg(&flight.Ticket{Ticket: ticket}); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := s.in.CloseSend(); err != nil {
		return err
	}
	if err := s.in.RecvMsg(&s.next); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("stream ended before its schema")
		}
		return tooLong(err)
	}
	defer s.next.free()
	if s.schema, err = arrowipc.Schema(s.next.header); err != nil {
		return fmt.Errorf("wire: the worker's schema: %w", err)
	}
	return nil
}

// maxMessage bounds a message by gRPC: what a worker sends is shorter.
const maxMessage = maxBody + maxHeader + maxMeta + 1<<10

// tooLong tells gRPC's refusal of a long message from a busy worker's, whose status is the same.
func tooLong(err error) error {
	if status.Code(err) == codes.ResourceExhausted && strings.HasPrefix(status.Convert(err).Message(),
		"grpc: received message larger than max") {
		return fmt.Errorf("%w: %s", errMessage, status.Convert(err).Message())
	}
	return err
}

// use receives from the link. gRPC keeps watch meanwhile: where its connection breaks, so does the stream.
func (s *Stream) use(l *link) {
	s.link, s.over = l, make(chan struct{})
	s.kept = context.AfterFunc(s.ctx, func() { _ = l.Close() }) // what is read from it fails then
	go func() {
		if s.err = s.in.RecvMsg(&flight.FlightData{}); s.err == nil {
			s.err = errors.New("wire: a batch came by gRPC; the stream's come on its link")
		}
		l.hurry()
		close(s.over)
	}()
}

// Schema of the stream's batches.
func (s *Stream) Schema() *arrow.Schema { return s.schema }

// Next receives the next batch, of which the caller owns the memory until it releases it. io.EOF is the stream's end.
func (s *Stream) Next() (*Batch, error) {
	var err error
	if s.link == nil {
		err = tooLong(s.in.RecvMsg(&s.next))
	} else {
		err = s.receive()
	}
	if err != nil {
		return nil, err
	}
	b, err := s.next.Batch()
	if err != nil {
		return nil, err
	}
	switch {
	case b.Lent:
		b.Way = InMemory
	case s.link != nil:
		b.Way = ByLink
	default:
		b.Way = ByGRPC
	}
	return b, nil
}

// receive takes the next message from the link. At the end, good or bad, the status says which it was.
func (s *Stream) receive() error {
	err := s.link.receive(&s.next)
	if err == nil {
		return nil
	}
	if errors.Is(err, errLoan) {
		s.links.avoid(s.link.way)
	}
	if !errors.Is(err, errEnd) {
		return s.lost(err)
	}
	if s.link.loans != nil {
		if err := s.giveBack(); err != nil {
			return s.lost(err)
		}
	}
	select {
	case <-s.over:
	case <-s.ctx.Done():
		return s.lost(context.Cause(s.ctx))
	}
	if !s.kept() {
		return s.lost(context.Cause(s.ctx))
	}
	if !errors.Is(s.err, io.EOF) {
		return s.lost(s.err)
	}
	if err := s.link.rest(); err != nil {
		return s.lost(err)
	}
	s.links.put(s.link)
	s.link = nil // what more is asked for, gRPC answers
	return io.EOF
}

// giveBack has all that is lent be given back.
func (s *Stream) giveBack() error {
	if s.Return != nil {
		if err := s.Return(); err != nil {
			return err
		}
	}
	return s.link.loans.end(s.ctx, s.over)
}

// lost closes the link, from which nothing more comes because of err. The status says more, if it comes.
func (s *Stream) lost(err error) error {
	s.kept()
	_ = s.link.Close() // whatever it says, nobody uses it any more
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-s.over:
		if s.err != nil && !errors.Is(s.err, io.EOF) {
			return s.err
		}
	case <-t.C:
	}
	if errors.Is(err, io.EOF) { // which is not the stream's
		err = errors.New("wire: the stream's link ended before its batches did")
	}
	return status.Error(codes.Unavailable, err.Error())
}

// Batch makes a batch of a message that was received. Its memory goes over to it.
func (m *Message) Batch() (*Batch, error) {
	b := &Batch{Meta: m.meta, Sent: m.size}
	how, err := b.parse(m.header, m.body)
	body := m.body
	if err == nil && how != None && body != nil {
		body, err = decompress(b, how, int64(len(body.Bytes)), m.pool)
	}
	if err != nil {
		m.free()
		return nil, err
	}
	if body != m.body {
		body.take(m.body)
		m.free()
	}
	m.body = nil
	b.Bytes = int64(len(m.header) + len(m.meta))
	if body != nil {
		b.Bytes += int64(cap(body.Bytes))
		b.release, b.Lent = body.Free, body.loan != nil
	}
	return b, nil
}
