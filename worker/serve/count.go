package serve

import (
	"fmt"
	"slices"
	"time"

	"github.com/apache/arrow/go/v15/arrow/flight"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/wire"
)

// actionCount is the Flight action that counts a shard's output rows.
const actionCount = "count"

// actionIndex is the one that makes a file's index.
const actionIndex = "index"

// ListActions names the actions.
func (s *Server) ListActions(_ *flight.Empty, out flight.FlightService_ListActionsServer) error {
	for _, a := range []*flight.ActionType{
		{
			Type: actionCount,
			Description: "takes a StreamRequest, and returns a CountReply: how many output rows each window of the " +
				"ticket's shard has",
		},
		{
			Type: actionIndex,
			Description: "takes a StreamRequest whose ticket has a file and no extents, and returns the file's index " +
				"in pieces: where the extents of a file are that does not say so itself",
		},
		{
			Type: wire.CodeAction,
			Description: "takes a CodePart, of the Python functions of the ticket's session, and returns nothing; " +
				"the parts come in order",
		},
		{
			Type: wire.CallsAction,
			Description: "takes a CallsRequest, and returns a CallsReply: what the functions of these names are " +
				"here; of all that there are, if it names none",
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
	case actionIndex:
		return s.index(a, out)
	case wire.CodeAction:
		return s.takeCode(a, out)
	case wire.CallsAction:
		return s.calls(a, out)
	}
	return status.Errorf(codes.Unimplemented, "no action %q; there are %q, %q, %q and %q", a.GetType(),
		actionCount, actionIndex, wire.CodeAction, wire.CallsAction)
}

// count counts the output rows of a shard's windows, from the columns alone that choose rows, and by the functions that
// do. It is admitted as a stream is, and its status says the same.
func (s *Server) count(a *flight.Action, out flight.FlightService_DoActionServer) error {
	return s.serve(out.Context(), a.GetBody(), func(r *request) error {
		counts, err := s.countAtWork(r, out)
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

// sayAtWork is how often who waits for a count is told, by a result without a body, that a worker is at work on it.
const sayAtWork = 10 * time.Second

// countAtWork counts, and says now and then that it does if the program calls functions, which may take long.
func (s *Server) countAtWork(r *request, out flight.FlightService_DoActionServer) (*pb.CountReply, error) {
	if slices.ContainsFunc(r.program.GetSteps(), func(s *pb.Step) bool { return s.GetPython() != nil }) {
		// Who does not wait any more ends the count's context.
		defer nowAndThen(func() { _ = out.Send(&flight.Result{}) })()
	}
	return s.pipeline.Count(r.ctx, r.ticket, r.program)
}

// nowAndThen has something said until end is called, which returns when it is said no more.
func nowAndThen(say func()) (end func()) {
	tick, over, ended := time.NewTicker(sayAtWork), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-tick.C:
				say()
			case <-over:
				return
			}
		}
	}()
	return func() {
		tick.Stop()
		close(over)
		<-ended
	}
}
