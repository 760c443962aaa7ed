package rpc

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// mostUnderWay bounds the requests that are under way on connections whose callers are known, in bytes: what has come of those that
// are still coming, and those that are being answered. Beyond it the connection with the most is closed, which nobody needs to be who is
// well: it is eight of the largest requests.
const mostUnderWay = 8 * MaxRequest

// loads is what all connections of a doorstep have under way. doorstep.mu guards it, and each load.
type loads struct {
	under int64
	of    map[*stranger]struct{} // that have any
}

// load is what one connection has under way.
type load struct {
	coming int   // requests
	loose  int64 // bytes that came meanwhile: which request's they are is not known before it is there
	held   int64 // bytes of the requests that are being answered
}

// underWay is a call's part.
type underWay struct {
	conn *stranger
	came sync.Once
}

type underWayKey struct{}

// begin says that a call's request is coming.
func begin(ctx context.Context) context.Context {
	s := strangerOf(ctx)
	if s == nil {
		return ctx
	}
	u := &underWay{conn: s}
	s.add(1, 0)
	context.AfterFunc(ctx, u.arrived) // if it never does
	return context.WithValue(ctx, underWayKey{}, u)
}

// arrived says that the request is not coming any more.
func (u *underWay) arrived() { u.came.Do(func() { u.conn.add(-1, 0) }) }

// answering says that a call's request is there; done, that it is answered.
func answering(ctx context.Context, request any) (done func()) {
	u, ok := ctx.Value(underWayKey{}).(*underWay)
	if !ok {
		return func() {}
	}
	u.arrived()
	message, _ := request.(proto.Message)
	bytes := int64(proto.Size(message))
	u.conn.add(0, bytes)
	return func() { u.conn.add(0, -bytes) }
}

// add adds to what a connection has under way, or takes from it.
func (s *stranger) add(coming int, held int64) {
	d := s.door
	d.mu.Lock()
	s.coming += coming
	s.held += held
	d.under += held
	if s.coming == 0 {
		d.under -= s.loose
		s.loose = 0
	}
	if d.of[s] = struct{}{}; s.coming == 0 && s.held == 0 {
		delete(d.of, s)
	}
	greedy := d.greedy()
	d.mu.Unlock()
	greedy.sendAway()
}

// carry adds what was read from a connection to what is coming on it, if anything is.
func (d *doorstep) carry(s *stranger, bytes int64) {
	d.mu.Lock()
	if s.coming > 0 {
		s.loose += bytes
		d.under += bytes
	}
	greedy := d.greedy()
	d.mu.Unlock()
	greedy.sendAway()
}

// greedy is the connection with the most under way, if that is too much of all; else nil.
func (d *doorstep) greedy() (most *stranger) {
	if d.under <= mostUnderWay {
		return nil
	}
	for s := range d.of {
		if most == nil || s.loose+s.held > most.loose+most.held {
			most = s
		}
	}
	return most
}

func (s *stranger) sendAway() {
	if s != nil {
		_ = s.Close() // who had it sees that
	}
}

// unary counts the requests of calls with one answer.
func unary(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	defer answering(ctx, request)()
	return handle(ctx, request)
}

// streaming counts the requests of the others.
func streaming(server any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	c := &counted{ServerStream: stream, done: func() {}}
	defer func() { c.done() }()
	return handle(server, c)
}

// counted is a stream whose newest request is counted.
type counted struct {
	grpc.ServerStream
	done func()
}

// RecvMsg implements grpc.ServerStream.
func (c *counted) RecvMsg(m any) error {
	c.done()
	c.done = func() {}
	err := c.ServerStream.RecvMsg(m)
	if err == nil {
		c.done = answering(c.Context(), m)
	}
	return err //nolint:wrapcheck // it is gRPC's
}

// uncompressed refuses compressed requests: a few bytes would become the largest ones. Nothing of Penstock's sends any.
type uncompressed struct{}

// Do implements grpc.Decompressor.
func (uncompressed) Do(io.Reader) ([]byte, error) {
	return nil, errors.New("this port takes no compressed requests; send them as they are")
}

// Type implements grpc.Decompressor: what gRPC knows besides none.
func (uncompressed) Type() string { return "gzip" }
