package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/flight"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"google.golang.org/grpc"
)

// doGet is the call, as Flight.proto has it.
const doGet = "/arrow.flight.protocol.FlightService/DoGet"

// Stream is a DoGet of any Flight server.
type Stream struct {
	in     grpc.ClientStream
	schema *arrow.Schema
	next   Message
}

// Get opens a stream and receives its schema. Batches lie in memory of the pool. The stream ends with ctx, at the latest.
func Get(ctx context.Context, conn *grpc.ClientConn, ticket []byte, pool *Pool) (*Stream, error) {
	// What a message may hold is bounded by the worker; a limit here would look like a busy worker.
	in, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, doGet,
		grpc.ForceCodecV2(NewCodec()), grpc.MaxCallRecvMsgSize(math.MaxInt32))
	if err != nil {
		return nil, err
	}
	if err := in.SendMsg(&flight.Ticket{Ticket: ticket}); err != nil && !errors.Is(err, io.EOF) { // EOF: RecvMsg says why
		return nil, err
	}
	if err := in.CloseSend(); err != nil {
		return nil, err
	}
	s := &Stream{in: in, next: Message{pool: pool}}
	if err := in.RecvMsg(&s.next); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("stream ended before its schema")
		}
		return nil, err
	}
	defer s.next.free()
	s.schema, err = schemaOf(s.next.header)
	return s, err
}

// Schema of the stream's batches.
func (s *Stream) Schema() *arrow.Schema { return s.schema }

// Next receives the next batch, of which the caller owns the memory until it releases it. io.EOF is the stream's end.
func (s *Stream) Next() (*Batch, error) {
	if err := s.in.RecvMsg(&s.next); err != nil {
		return nil, err
	}
	return s.next.Batch()
}

// Batch makes a batch of a message that was received. Its memory goes over to it.
func (m *Message) Batch() (*Batch, error) {
	b := &Batch{Meta: m.meta, Sent: m.size}
	var bytes []byte
	if m.body != nil {
		bytes = m.body.Bytes
	}
	how, err := b.parse(m.header, bytes)
	body := m.body
	if err == nil && how != None {
		body, err = decompress(b, how, int64(len(bytes)), m.pool)
	}
	if err != nil {
		m.free()
		return nil, err
	}
	if body != m.body {
		m.free()
	}
	m.body = nil
	b.Bytes = int64(len(m.header) + len(m.meta))
	if body != nil {
		b.Bytes += int64(cap(body.Bytes))
		b.release = body.Free
	}
	return b, nil
}

// schemaOf reads a schema's message. Arrow's reader of flatbuffers panics where they point outside.
func schemaOf(header []byte) (schema *arrow.Schema, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("wire: the first message is no Arrow schema, or it is cut short: %v", p)
		}
	}()
	r, err := ipc.NewReaderFromMessageReader(&only{ipc.NewMessage(memory.NewBufferBytes(header), memory.NewBufferBytes(nil))})
	if err != nil {
		return nil, fmt.Errorf("wire: schema: %w", err)
	}
	defer r.Release()
	return r.Schema(), nil
}

// only is a reader of one message.
type only struct{ message *ipc.Message }

func (o *only) Message() (*ipc.Message, error) {
	m := o.message
	if m == nil {
		return nil, io.EOF
	}
	o.message = nil
	return m, nil
}

func (o *only) Retain()  {}
func (o *only) Release() {}
