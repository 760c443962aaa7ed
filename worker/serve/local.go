package serve

import (
	"context"

	"github.com/penstock-ml/penstock/internal/wire"
	"github.com/penstock-ml/penstock/worker/pipeline"
)

// handover is a stream to a receiver in this process.
type handover struct {
	wire.Receiver
	ctx     context.Context // the receiver's
	cancel  func()          // ends it
	refused error           // by the receiver
}

// hand runs a stream whose batches go over to the receiver, at whose expense they are from then on.
func (s *Server) hand(in *handover, r *request) error {
	ctx := r.ctx
	stream, err := s.pipeline.Open(ctx, r.ticket, r.program, pipeline.Cursor{Window: r.GetWindow(), K: r.GetK()})
	if err != nil {
		return reason(ctx, err)
	}
	defer stream.Close()
	if err := s.sending(r.place, func() error { return in.note(in.Schema(in.ctx, stream.Schema())) }); err != nil {
		return reason(ctx, err)
	}
	return reason(ctx, stream.Run(ctx, func(_ context.Context, b pipeline.Batch) error {
		if ctx.Err() != nil {
			b.Release()
			return context.Cause(ctx)
		}
		message, err := Message(b)
		if err != nil {
			return err
		}
		b.Detach()
		return s.sending(r.place, func() error {
			return stream.Blocked(func() error { return in.note(in.Batch(in.ctx, message)) })
		})
	}))
}

// note keeps the receiver's error, which is nobody else's.
func (in *handover) note(err error) error {
	if err != nil && in.ctx.Err() == nil {
		in.refused = err
		in.cancel()
	}
	return err
}
