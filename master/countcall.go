package master

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/code"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/wire"
	"github.com/penstock-ml/penstock/master/store"
)

// sendTimeout bounds the call that sends a worker one part of a session's code.
const sendTimeout = 30 * time.Second

// callWithCode has a worker count a shard. One that lacks the session's code is sent that once.
func (c *count) callWithCode(ctx context.Context, w *pb.Worker, req *pb.StreamRequest) (*pb.CountReply, error) {
	asked := time.Now()
	counts, err := c.call(ctx, w, req)
	sum := code.Need(err)
	if sum == nil {
		return counts, err
	}
	if err := c.sendCode(ctx, w, req.GetTicket(), sum, asked); err != nil {
		return nil, err
	}
	if counts, err = c.call(ctx, w, req); code.Need(err) == nil {
		return counts, err
	}
	return nil, status.Error(codes.Aborted, "asks for the session's code again, which was sent to it; see its log")
}

// call has a worker count a shard.
func (c *count) call(ctx context.Context, w *pb.Worker, req *pb.StreamRequest) (*pb.CountReply, error) {
	reply := &pb.CountReply{}
	err := action(ctx, c.pool, w, "count", req, func(body []byte) (bool, error) {
		if err := proto.Unmarshal(body, reply); err != nil {
			return false, fmt.Errorf("the answer to a count: %w", err)
		}
		return true, nil
	})
	return reply, err
}

// sendCode sends a worker the session's code, unless that came since it asked. One worker gets it at a time.
func (c *count) sendCode(
	ctx context.Context, w *pb.Worker, signed *pb.SignedTicket, sum []byte, asked time.Time,
) error {
	if !bytes.Equal(sum, c.code.GetSha256()) {
		return status.Errorf(codes.Aborted, "asks for code %x, which is not the session's", sum)
	}
	c.sending.Lock()
	defer c.sending.Unlock()
	if c.sent[w.GetAddress()].After(asked) {
		return nil
	}
	for i := range code.Count(c.code.GetSize()) {
		data, err := c.codePart(ctx, store.CodeOf(c.session.GetNamespace(), sum), i)
		if err != nil {
			return status.Errorf(codes.Aborted, "the session's code, which the worker lacks, cannot be read: %v", err)
		}
		err = c.sendPart(ctx, w, &pb.CodePart{
			Ticket: signed, Sha256: sum, Size: c.code.GetSize(), Offset: int64(i) * code.PartBytes, Data: data,
		})
		if err != nil {
			return status.Errorf(codes.Aborted, "did not take the session's code: %v", err)
		}
	}
	if c.sent == nil {
		c.sent = map[string]time.Time{}
	}
	c.sent[w.GetAddress()] = time.Now()
	return nil
}

func (c *count) sendPart(ctx context.Context, w *pb.Worker, part *pb.CodePart) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	conn, err := c.pool.Get(w.GetAddress())
	if err != nil {
		return err
	}
	return wire.SendCode(ctx, conn, part)
}
