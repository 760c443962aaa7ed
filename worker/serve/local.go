package serve

import (
	"context"

	"github.com/penstock-ml/penstock/internal/wire"
	"github.com/penstock-ml/penstock/worker/pipeline"
	"github.com/penstock-ml/penstock/worker/tensor"
)

// handover is a stream to a receiver in this process.
type handover struct {
	wire.Receiver
	ctx     context.Context // the receiver's
	cancel  func()          // ends it
	refused error           // by the receiver
}

// hand runs a stream whose batches the receiver reads where they are. Those that it keeps when the stream breaks off
// are at its expense from then on; behind one that came to its end they are waited for.
func (s *Server) hand(in *handover, r *request) error {
	ctx := r.ctx
	stream, err := s.open(r)
	if err != nil {
		return err
	}
	defer stream.Close()
	stream.Goes(pipeline.InMemory)
	if r.GetNarrow() {
		stream.Narrow(tensor.Unpacked)
	}
	if err := s.sending(r.place, func() error { return in.note(in.Schema(in.ctx, stream.Schema())) }); err != nil {
		return reason(ctx, err)
	}
	err = stream.Run(ctx, func(_ context.Context, b pipeline.Batch) error {
		if ctx.Err() != nil {
			b.Release()
			return context.Cause(ctx)
		}
		message, err := Message(b)
		if err != nil {
			return err
		}
		message.Lent, message.Way = true, wire.InMemory
		return s.sending(r.place, func() error {
			return stream.Blocked(func() error { return in.note(in.Batch(in.ctx, message)) })
		})
	})
	if err == nil {
		if err = in.note(in.Return()); err == nil {
			_ = s.sending(r.place, func() error { return stream.Await(ctx) })
		}
	}
	return reason(ctx, err)
}

// note keeps the receiver's error, which is nobody else's.
func (in *handover) note(err error) error {
	if err != nil && in.ctx.Err() == nil {
		in.refused = err
		in.cancel()
	}
	return err
}
