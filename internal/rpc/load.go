package rpc

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

const (
	// maxUnderWay bounds the requests on connections whose callers are known, in bytes: what has come of those that
	// are still coming, and those that are being answered. Beyond it the connection with the most is closed, which
	// nobody needs to be who is well: it is eight of the largest requests.
	maxUnderWay = 8 * MaxRequest
	// maxOwed bounds the answers that have not been written yet, in bytes. No connection is owed more than is still
	// free, so that those who read nothing leave room for others, and who finds none is refused, and may try again.
	maxOwed   = 8 * MaxRequest
	maxAnswer = maxOwed / 2 // what is free, then, is as much
	// takeTimeout is how long an answer waits for its caller to take it, before the connection is closed.
	takeTimeout = time.Minute
)

// loads is what all connections of a strangerListener have under way. strangerListener.mu guards it, and each load.
type loads struct {
	under int64                  // requests
	of    map[*stranger]struct{} // that have any
	owed  int64                  // answers
}

// load is what one connection has under way.
type load struct {
	coming int   // requests
	loose  int64 // bytes that came meanwhile: which request's they are is not known before it is there
	held   int64 // bytes of the requests that are being answered
	owed   int64 // bytes of the answers that have not been written
	gone   bool  // it is closed, and nothing is owed any more
}

// underWay is a call's part.
type underWay struct {
	conn *stranger
	came sync.Once
	held atomic.Int64 // bytes of the request
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
	u.held.Store(bytes)
	u.conn.add(0, bytes)
	return u.taken
}

// taken says that the request is not held any more.
func (u *underWay) taken() {
	if bytes := u.held.Swap(0); bytes > 0 {
		u.conn.add(0, -bytes)
	}
}

// Taken says that a call's handler has what it needs of the request, and holds it no longer, though the call may go on
// for long.
func Taken(ctx context.Context) {
	if u, ok := ctx.Value(underWayKey{}).(*underWay); ok {
		u.taken()
	}
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
	s.note()
	greedy := d.greedy()
	d.mu.Unlock()
	greedy.sendAway()
}

// owe takes room for an answer, nil if there is none or the connection is closed.
func (s *stranger) owe(bytes int64) *debt {
	d := s.door
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.gone || s.owed+bytes > maxOwed-d.owed-bytes {
		return nil
	}
	s.owed += bytes
	d.owed += bytes
	return &debt{s, bytes, time.AfterFunc(takeTimeout, s.sendAway)}
}

// waive says that a connection is closed: gRPC drops the answers that it has for it.
func (d *strangerListener) waive(s *stranger) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.owed -= s.owed
	s.owed, s.gone = 0, true
}

// note keeps a connection among those that have requests under way while it does. door.mu must be held.
func (s *stranger) note() {
	if s.door.of[s] = struct{}{}; s.coming == 0 && s.held == 0 {
		delete(s.door.of, s)
	}
}

// all are the requests that a connection has under way, in bytes. door.mu must be held.
func (l *load) all() int64 { return l.loose + l.held }

// carry adds what was read from a connection to what is coming on it, if anything is.
func (d *strangerListener) carry(s *stranger, bytes int64) {
	d.mu.Lock()
	if s.coming > 0 {
		s.loose += bytes
		d.under += bytes
	}
	greedy := d.greedy()
	d.mu.Unlock()
	greedy.sendAway()
}

// greedy is the connection with the most requests under way, if that is too much of all; else nil.
func (d *strangerListener) greedy() (busiest *stranger) {
	if d.under <= maxUnderWay {
		return nil
	}
	for s := range d.of {
		if busiest == nil || s.all() > busiest.all() {
			busiest = s
		}
	}
	return busiest
}

func (s *stranger) sendAway() {
	if s != nil {
		_ = s.Close() // who had it sees that
	}
}

// unary counts the requests of calls with one answer, and the answer.
func unary(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	defer answering(ctx, request)()
	reply, err := handle(ctx, request)
	u, ok := ctx.Value(underWayKey{}).(*underWay)
	message, is := reply.(proto.Message)
	if !ok || !is || err != nil {
		return reply, err
	}
	size := proto.Size(message)
	if mem.IsBelowBufferPoolingThreshold(size) { // gRPC counts no references to it
		return reply, nil
	}
	if size > maxAnswer {
		return nil, status.Errorf(codes.ResourceExhausted,
			"the answer would have %d bytes, and may have %d; ask for less", size, maxAnswer)
	}
	d := u.conn.owe(int64(size))
	if d == nil {
		return nil, status.Error(codes.ResourceExhausted,
			"too many answers wait for their callers to read them; try again")
	}
	return &answer{message, d}, nil
}

// answer is a call's, on its way to codec.
type answer struct {
	proto.Message
	*debt
}

// debt is an answer's bytes until gRPC has written them: a handler's end says only that they wait for their turn, and a
// caller who reads nothing gives them none. It is the mem.BufferPool that they go back to. gRPC forgets to give back an
// answer that comes in the moment in which its caller gives it up, which is rare: it counts until late closes the
// connection.
type debt struct {
	conn  *stranger
	bytes int64
	late  *time.Timer
}

// Get implements mem.BufferPool.
func (*debt) Get(int) *[]byte { panic("rpc: nothing is taken out of a debt") }

// Put is called once the bytes were written, or never will be.
func (d *debt) Put(*[]byte) {
	d.late.Stop()
	door := d.conn.door
	door.mu.Lock()
	defer door.mu.Unlock()
	if !d.conn.gone {
		d.conn.owed -= d.bytes
		door.owed -= d.bytes
	}
}

// codec is gRPC's for protobuf, whose answers are debts.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(protocodec.Name)} }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	a, ok := v.(*answer)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	// gRPC's own pool has a megabyte for 33 KiB.
	bytes, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(make([]byte, 0, a.bytes), a.Message)
	if err != nil {
		a.Put(nil)
		return nil, err
	}
	return mem.BufferSlice{mem.NewBuffer(&bytes, a.debt)}, nil
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
