package serve

import (
	"context"
	"fmt"

	"github.com/apache/arrow/go/v15/arrow/flight"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/wire"
	"github.com/penstock-ml/penstock/worker/pipeline"
	"github.com/penstock-ml/penstock/worker/tensor"
)

// outbox sends a stream's batches as Flight messages that refer to their memory. gRPC's calls return before the bytes
// have left, so it counts what is on its way: that is bounded, and belongs to the stream until it was written.
type outbox struct {
	sender *wire.Sender
	stream *pipeline.Stream
	room   chan struct{}
}

// newOutbox sends the schema at once, rather than with the first record, which may take its time: Arrow's C++ client
// can cancel a stream only after its schema came, so trainers that go would leave theirs behind.
func (s *Server) newOutbox(
	ctx context.Context, out flight.FlightService_DoGetServer, stream *pipeline.Stream, r *request,
) (*outbox, error) {
	sender, err := s.links.Sender(ctx, out, r.session, compression(r.GetCompression()), &s.messages)
	if err != nil {
		return nil, err
	}
	sender.Blocking = stream.Blocked
	if sender.Compresses() {
		stream.Compress()
	}
	if sender.Linked() {
		stream.Goes(pipeline.ByLink)
	}
	room, widths := pipeline.HandedOver, tensor.Packed
	if sender.Near() {
		stream.Share()
		room++ // a trainer that keeps all that it may copies the next one
		widths = tensor.Unpacked
	}
	if r.GetNarrow() && sender.Narrow() {
		stream.Narrow(widths)
	}
	if err := flight.NewRecordWriter(out, ipc.WithSchema(stream.Schema())).Close(); err != nil {
		return nil, sender.Close(err)
	}
	return &outbox{sender, stream, make(chan struct{}, room)}, nil
}

// compression is what a trainer asks for; what this worker does not know is none.
func compression(asked pb.Compression) wire.Compression {
	switch asked {
	case pb.Compression_LZ4:
		return wire.LZ4
	case pb.Compression_ZSTD:
		return wire.Zstd
	}
	return wire.None
}

// send sends a batch, which it releases when it was written.
func (o *outbox) send(ctx context.Context, b pipeline.Batch) error {
	message, err := Message(b)
	if err != nil {
		return err
	}
	if err := o.stream.Blocked(func() error { return o.take(ctx) }); err != nil {
		message.Release()
		return err
	}
	return o.sender.Send(message, func() { <-o.room })
}

// take waits for room for one more.
func (o *outbox) take(ctx context.Context) error {
	select {
	case o.room <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Message is a batch as internal/wire has it, on the same memory, which it has taken over. A batch that fails is
// released.
func Message(b pipeline.Batch) (*wire.Batch, error) {
	meta, err := proto.Marshal(b.Meta)
	if err != nil {
		b.Release()
		return nil, fmt.Errorf("marshal batch metadata: %w", err)
	}
	out := &wire.Batch{
		Rows: b.Rows, Nodes: make([]wire.Node, len(b.Nodes)), Buffers: b.Buffers, Meta: meta, Bytes: b.Bytes,
		Memory: b.Shared, More: b.More,
	}
	for i, n := range b.Nodes {
		out.Nodes[i] = wire.Node(n)
	}
	out.OnRelease(b.Release)
	return out, nil
}

// flush waits until all was written. What is lent comes back only behind the stream's end.
func (o *outbox) flush(ctx context.Context) error {
	if err := o.sender.Flush(); err != nil || o.sender.Near() {
		return err
	}
	return o.stream.Blocked(func() error {
		for range cap(o.room) {
			if err := o.take(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}
