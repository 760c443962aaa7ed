package wire

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow/go/v15/arrow/flight"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
)

// CodeAction is the Flight action by which a worker is sent a part of a session's code.
const CodeAction = "code"

// CallsAction is the Flight action that asks a worker what functions it has by name.
const CallsAction = "calls"

// SendCode sends a worker a part of a session's code, and waits until it has it. Its error is the worker's status.
func SendCode(ctx context.Context, conn grpc.ClientConnInterface, part *pb.CodePart) error {
	body, err := proto.Marshal(part)
	if err != nil {
		return fmt.Errorf("part of the code: %w", err)
	}
	stream, err := flight.NewFlightServiceClient(conn).DoAction(ctx, &flight.Action{Type: CodeAction, Body: body})
	if err == nil {
		_, err = stream.Recv()
	}
	if errors.Is(err, io.EOF) { // it has nothing to say
		return nil
	}
	return err
}

// AskCalls asks a worker what functions it has by names. Its error is the worker's status.
func AskCalls(ctx context.Context, conn grpc.ClientConnInterface, req *pb.CallsRequest) (*pb.CallsReply, error) {
	body, err := proto.Marshal(req)
	if err != nil {
		return nil, fmt.Errorf("names of functions: %w", err)
	}
	stream, err := flight.NewFlightServiceClient(conn).DoAction(ctx, &flight.Action{Type: CallsAction, Body: body})
	if err != nil {
		return nil, err
	}
	result, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	reply := &pb.CallsReply{}
	if err := proto.Unmarshal(result.GetBody(), reply); err != nil {
		return nil, fmt.Errorf("what functions a worker has: %w", err)
	}
	return reply, nil
}
