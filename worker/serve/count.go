package serve

import (
	"fmt"

	"github.com/apache/arrow/go/v15/arrow/flight"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// actionCount is the Flight action that counts a shard's output rows.
const actionCount = "count"

// ListActions names the actions.
func (s *Server) ListActions(_ *flight.Empty, out flight.FlightService_ListActionsServer) error {
	for _, a := range []*flight.ActionType{
		{
			Type: actionCount,
			Description: "takes a StreamRequest, and returns a CountReply: how many output rows each window of the " +
				"ticket's shard has",
		},
		{
			Type: actionCode,
			Description: "takes a CodePart, of the Python functions of the ticket's session, and returns nothing; " +
				"the parts come in order",
		},
	} {
		if err := out.Send(a); err != nil {
			return err
		}
	}
	return nil
}

// DoAction does what an action says.
func (s *Server) DoAction(a *flight.Action, out flight.FlightService_DoActionServer) error {
	switch a.GetType() {
	case actionCount:
		return s.count(a, out)
	case actionCode:
		return s.takeCode(a, out)
	}
	return status.Errorf(codes.Unimplemented, "no action %q; there are %q and %q", a.GetType(), actionCount, actionCode)
}

// count counts the output rows of a shard's windows, from the columns alone that choose rows. It is admitted as a
// stream is, and its status says the same.
func (s *Server) count(a *flight.Action, out flight.FlightService_DoActionServer) error {
	return s.serve(out.Context(), a.GetBody(), func(r *request) error {
		counts, err := s.pipeline.Count(r.ctx, r.ticket, r.program)
		if err != nil {
			return reason(r.ctx, err)
		}
		body, err := proto.Marshal(counts)
		if err != nil {
			return fmt.Errorf("marshal counts: %w", err)
		}
		return out.Send(&flight.Result{Body: body})
	})
}
