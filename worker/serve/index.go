package serve

import (
	"slices"

	"github.com/apache/arrow/go/v15/arrow/flight"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/internal/rpc"
)

// indexPiece is how much of an index is sent at once.
const indexPiece = 1 << 20

// index makes the index of a file, and sends it in pieces. It is admitted as a stream is, and its status says the same.
// While it reads, it says now and then that it does.
func (s *Server) index(a *flight.Action, out flight.FlightService_DoActionServer) error {
	return s.serve(out.Context(), a.GetBody(), func(r *request) error {
		if len(r.ticket.GetExtents()) > 0 || r.ticket.GetFile() == nil {
			return status.Error(codes.PermissionDenied, "the ticket was granted for a stream, not for an index")
		}
		data, err := s.indexAtWork(r, out)
		if err != nil {
			return reason(r.ctx, err)
		}
		for piece := range slices.Chunk(data, indexPiece) {
			if err := out.Send(&flight.Result{Body: piece}); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *Server) indexAtWork(r *request, out flight.FlightService_DoActionServer) ([]byte, error) {
	// Who does not wait any more ends the context.
	defer nowAndThen(func() { _ = out.Send(&flight.Result{}) })()
	x, err := s.pipeline.Index(r.ctx, r.ticket, r.program)
	if err != nil {
		return nil, err
	}
	for _, why := range x.Passed {
		s.logger.Warn("a list of records is not used", "file", r.ticket.GetFile().GetUri(), "error", why)
	}
	if x.List != "" {
		out.SetTrailer(metadata.Pairs(rpc.ListTrailer, x.List))
	}
	return x.Bytes(), nil
}
