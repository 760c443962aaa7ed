package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/apache/arrow/go/v15/arrow/flight"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/code"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/ticket"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/worker/python"
)

// partsAtOnce bounds the parts that are being kept: some copy a megabyte, and the last of a code is hashed.
const partsAtOnce = 4

// Functions are users' functions, as far as others than streams ask for them. It is called by many goroutines at once.
type Functions interface {
	// Keep takes a part of the code that a ticket names.
	Keep(t *pb.Ticket, part *pb.CodePart) error
	// Calls says what functions by name the environment of a ticket has.
	Calls(ctx context.Context, t *pb.Ticket, calls []string) (*pb.CallsReply, error)
}

// KeepCode keeps a part of a session's code, which the part's ticket allows. Its status says what a stream's does, but
// for what is wrong with the part.
func (s *Server) KeepCode(ctx context.Context, p *pb.CodePart) error {
	t, err := ticket.VerifySigned(p.GetTicket(), *s.keys.Load(), time.Now())
	if err != nil {
		return status.Error(codes.PermissionDenied, err.Error())
	}
	rpc.Welcome(ctx)
	if of := t.GetCode(); !bytes.Equal(of.GetSha256(), p.GetSha256()) || of.GetSize() != p.GetSize() {
		return status.Error(codes.PermissionDenied, "the ticket was granted for other code; send the session's")
	}
	if err := code.CheckPart(p); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	switch {
	case s.functions == nil:
		return grpcError(fmt.Errorf("%w: it runs none", python.ErrCannotRun))
	case s.draining.Err() != nil:
		return grpcError(errDraining)
	}
	select {
	case s.coding <- struct{}{}:
		defer func() { <-s.coding }()
	case <-ctx.Done():
		return grpcError(ctx.Err())
	}
	err = grpcError(s.functions.Keep(t, p))
	if st := status.Convert(err); st.Code() == codes.DataLoss { // which is what is said of data
		return status.Error(codes.InvalidArgument, st.Message())
	}
	return err
}

func (s *Server) takeCode(a *flight.Action, out flight.FlightService_DoActionServer) error {
	p := &pb.CodePart{}
	if err := proto.Unmarshal(a.GetBody(), p); err != nil {
		return status.Error(codes.InvalidArgument, "the body of the action is no CodePart of Penstock")
	}
	return s.KeepCode(out.Context(), p)
}

// calls says what functions the worker has by name, if a ticket allows to ask: one that a master made to ask with.
// Tickets of streams, which trainers have, do not, for a session may be of a namespace without functions.
func (s *Server) calls(a *flight.Action, out flight.FlightService_DoActionServer) error {
	q := &pb.CallsRequest{}
	if err := proto.Unmarshal(a.GetBody(), q); err != nil {
		return status.Error(codes.InvalidArgument, "the body of the action is no CallsRequest of Penstock")
	}
	t, err := ticket.VerifySigned(q.GetTicket(), *s.keys.Load(), time.Now())
	if err != nil {
		return status.Error(codes.PermissionDenied, err.Error())
	}
	if t.GetFile() != nil {
		return status.Error(codes.PermissionDenied, "the ticket was granted for a stream; masters ask for functions")
	}
	rpc.Welcome(out.Context())
	switch {
	case s.functions == nil:
		return grpcError(fmt.Errorf("%w: it runs none", python.ErrCannotRun))
	case s.draining.Err() != nil:
		return grpcError(errDraining)
	}
	reply, err := s.functions.Calls(out.Context(), t, q.GetCalls())
	if err != nil {
		return grpcError(err)
	}
	body, err := proto.Marshal(reply)
	if err != nil {
		return fmt.Errorf("marshal functions: %w", err)
	}
	return out.Send(&flight.Result{Body: body})
}

// lacksCode reports whether a stream ends since its trainer is to send the session's code.
func lacksCode(err error) bool {
	_, ok := errors.AsType[*python.NeedCodeError](err)
	return ok
}
