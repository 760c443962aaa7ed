package fake

import (
	"bytes"
	"context"
	"sync"

	"github.com/apache/arrow/go/v15/arrow/flight"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/code"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/wire"
)

// Codes are the bytes of functions that a fake was sent, by their hash. The zero value has none.
type Codes struct {
	mu    sync.Mutex
	bytes map[string][]byte
	parts int
}

// Parts is how many parts came so far.
func (c *Codes) Parts() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.parts
}

// Forget forgets all.
func (c *Codes) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes = nil
}

// Put takes a part; they come in order.
func (c *Codes) Put(p *pb.CodePart) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.parts++
	if err := code.CheckPart(p); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	if c.bytes == nil {
		c.bytes = make(map[string][]byte)
	}
	sum := string(p.GetSha256())
	if p.GetOffset() == 0 {
		c.bytes[sum] = nil
	}
	if p.GetOffset() != int64(len(c.bytes[sum])) {
		return code.Needed(p.GetSha256(), "parts before it are missing")
	}
	c.bytes[sum] = append(c.bytes[sum], p.GetData()...)
	return nil
}

// need asks for code that did not come, all of it; nil is there.
func (c *Codes) need(of *pb.StoredCode) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if of == nil || code.CheckWhole(of, c.bytes[string(of.GetSha256())]) == nil {
		return nil
	}
	return code.Needed(of.GetSha256(), "it did not come")
}

func (c *Codes) get(of *pb.StoredCode, offset int64) (*pb.CodePart, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p := range code.Parts(of, c.bytes[string(of.GetSha256())]) {
		if p.GetOffset() == offset {
			return proto.CloneOf(p), nil
		}
	}
	return nil, status.Error(codes.FailedPrecondition, "no such part")
}

// haveCode asks for the code that a rank offers, where the session's is not there, and makes it the session's.
func (m *Master) haveCode(offered *pb.StoredCode) error {
	if offered == nil || m.Code != nil && m.Codes.need(m.Code) == nil {
		return nil
	}
	if err := m.Codes.need(offered); err != nil {
		return err
	}
	m.Code = offered
	return nil
}

// PutCode takes a part.
func (m *Master) PutCode(_ context.Context, p *pb.CodePart) (*pb.PutCodeReply, error) {
	return answer(m, p, func(p *pb.CodePart) (*pb.PutCodeReply, error) { return &pb.PutCodeReply{}, m.Codes.Put(p) })
}

// GetCode gives a part of the session's.
func (m *Master) GetCode(_ context.Context, req *pb.GetCodeRequest) (*pb.CodePart, error) {
	return answer(m, req, func(req *pb.GetCodeRequest) (*pb.CodePart, error) {
		return m.Codes.get(m.Code, req.GetOffset())
	})
}

// DoAction takes a part of the code of a ticket.
func (w *Worker) DoAction(a *flight.Action, out flight.FlightService_DoActionServer) error {
	p, ticket := &pb.CodePart{}, &pb.Ticket{}
	if err := proto.Unmarshal(a.GetBody(), p); err != nil || a.GetType() != wire.CodeAction {
		return status.Errorf(codes.InvalidArgument, "action %q: %v", a.GetType(), err)
	}
	if err := proto.Unmarshal(p.GetTicket().GetTicket(), ticket); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	if !bytes.Equal(ticket.GetCode().GetSha256(), p.GetSha256()) {
		return status.Error(codes.PermissionDenied, "the ticket is of other code")
	}
	if w.TakeCode != nil {
		if err := w.TakeCode(out.Context(), p); err != nil {
			return err
		}
	}
	return w.Codes.Put(p)
}
