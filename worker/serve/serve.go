// Package serve is a worker's Flight port: it checks the ticket of a DoGet, opens the shard's stream in pipeline
// and sends its batches as long as the trainer's window takes them (docs/internals/streams.md describes the stream for
// Flight clients of any make). A Server handles calls concurrently; it owns a goroutine for each stream, for which Wait
// waits.
package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/arrow/go/v15/arrow/flight"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/code"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/ticket"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/wire"
	"github.com/penstock-ml/penstock/worker/images"
	"github.com/penstock-ml/penstock/worker/pipeline"
	"github.com/penstock-ml/penstock/worker/python"
	"github.com/penstock-ml/penstock/worker/rescue"
	"github.com/penstock-ml/penstock/worker/weakmap"
)

// Server implements Flight's DoGet, and DoAction for counts and indexes. Set the keys before it serves. The gRPC
// server's codec must be wire's (wire.NewCodec).
type Server struct {
	flight.BaseFlightServer
	pipeline  *pipeline.Pipeline
	slots     chan struct{}
	functions Functions     // nil: none
	coding    chan struct{} // taken by parts of code
	logger    *slog.Logger
	messages  wire.Pool
	links     wire.LinkServer
	keys      atomic.Pointer[map[string][]byte]
	programs  weakmap.Map[string, pb.Program] // by digest; nobody changes them

	draining context.Context // ends with errDraining
	drain    context.CancelCauseFunc

	mu       sync.Mutex
	places   map[*place]bool // of what runs
	relieved *place          // last
}

// New returns a server that runs up to slots streams at a time. Who asks for functions is answered by these, if they
// are not nil.
func New(p *pipeline.Pipeline, slots int, functions Functions, logger *slog.Logger) *Server {
	s := &Server{
		pipeline: p, slots: make(chan struct{}, slots), places: make(map[*place]bool), functions: functions,
		coding: make(chan struct{}, partsAtOnce), logger: logger,
	}
	s.draining, s.drain = context.WithCancelCause(context.Background())
	s.keys.Store(&map[string][]byte{})
	return s
}

// SetKeys replaces the public keys that verify tickets.
func (s *Server) SetKeys(keys map[string][]byte) { s.keys.Store(&keys) }

// Streams is the number of streams that run.
func (s *Server) Streams() int { return len(s.slots) }

// Drain refuses new streams and ends the running ones between two batches, whether or not their trainers read, so
// that these go on elsewhere at their cursors. It does not wait for them.
func (s *Server) Drain() { s.drain(errDraining) }

// Wait waits until all streams have ended and lets none begin any more. It is called last, after the gRPC server has
// stopped. If ctx ends before, its error names the files whose streams are left: nobody can end a read that the kernel
// does not.
func (s *Server) Wait(ctx context.Context) error {
	defer s.links.Close()
	defer s.pipeline.Close()
	for range cap(s.slots) {
		select {
		case s.slots <- struct{}{}:
		case <-ctx.Done():
			return fmt.Errorf("these files' streams have not ended, as where storage does not answer: %s",
				strings.Join(s.files(), ", "))
		}
	}
	return nil
}

// files are those of what runs.
func (s *Server) files() (uris []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.places {
		uris = append(uris, p.file)
	}
	slices.Sort(uris)
	return slices.Compact(uris)
}

// Enter takes over a connection that is to carry streams' batches beside gRPC, see rpc.Links.
func (s *Server) Enter(conn net.Conn) error { return s.links.Enter(conn) }

// ServeNear takes such connections over from trainers of this user on this machine, until ctx ends. The listener is
// wire.ListenNear's.
func (s *Server) ServeNear(ctx context.Context, l net.Listener) { s.links.ServeNear(ctx, l) }

// DoGet streams one shard from a cursor. Its status says what a trainer should do: see grpcError.
func (s *Server) DoGet(t *flight.Ticket, out flight.FlightService_DoGetServer) error {
	return s.serve(out.Context(), t.GetTicket(), func(r *request) error { return s.stream(out, r) })
}

// Local does what DoGet does for a trainer in this process: without the network, and with the batches' own memory. It
// returns the same statuses, or the receiver's error. When it returns, it has called the receiver for the last time.
func (s *Server) Local(ctx context.Context, q *pb.StreamRequest, to wire.Receiver) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in := &handover{Receiver: to, ctx: ctx, cancel: cancel}
	err := s.admit(ctx, q, cancel, func(r *request) error { return s.hand(in, r) }) //nolint:contextcheck // r.ctx is of ctx
	if in.refused != nil {
		return in.refused
	}
	return err
}

// request is one that a ticket allows.
type request struct {
	*pb.StreamRequest
	*place
	ticket  *pb.Ticket
	program *pb.Program
}

// serve runs what a serialised StreamRequest asks for in one of the slots, if its ticket allows it. It returns when
// that is done, when the server drains, or when the place goes to another stream.
func (s *Server) serve(ctx context.Context, body []byte, run func(*request) error) error {
	q := &pb.StreamRequest{}
	if err := proto.Unmarshal(body, q); err != nil {
		return status.Error(codes.InvalidArgument,
			"the Flight ticket is no StreamRequest of Penstock; take it from a grant, unchanged")
	}
	return s.admit(ctx, q, nil, run)
}

// admit is serve for a request that is not serialised. stop, if it is not nil, ends what run waits for, and admit waits
// for run's end; else admit's return does.
func (s *Server) admit(ctx context.Context, q *pb.StreamRequest, stop func(), run func(*request) error) (err error) {
	r := &request{StreamRequest: q}
	if r.ticket, err = ticket.Verify(r.StreamRequest, *s.keys.Load(), time.Now()); err != nil {
		return status.Error(codes.PermissionDenied, err.Error())
	}
	if r.program, err = s.programOf(q.GetProgram(), r.ticket); err != nil {
		return status.Error(codes.PermissionDenied, err.Error())
	}
	rpc.Welcome(ctx)
	if stop == nil { // the request is ours, and the program, which may be long, has been taken
		q.Program = nil
		rpc.Taken(ctx)
	}
	if s.draining.Err() != nil {
		return grpcError(errDraining)
	}
	if r.place, err = s.enter(ctx, r.ticket, q.GetTurns()); err != nil {
		return grpcError(err)
	}
	stopDraining := context.AfterFunc(s.draining, func() { r.cancel(errDraining) }) //nolint:contextcheck // the drain is the server's
	defer stopDraining()
	ended := make(chan error, 1)
	go func() {
		err := rescue.Call(rescue.Worker, func() error { return run(r) })
		s.leave(r.place)
		ended <- err
	}()
	select {
	case err = <-ended:
	case <-r.ctx.Done():
		// The stream may stand in a send that its trainer has no room for. To return ends out's context, and the send.
		err = context.Cause(r.ctx) //nolint:contextcheck // ctx is its parent
		switch moves := errors.Is(err, errDraining) || errors.Is(err, errYielded); {
		case moves && stop != nil:
			stop()
			if <-ended == nil {
				err = nil // the stream came to its end meanwhile
			}
		case moves:
		case stop == nil && ctx.Err() != nil:
			err = s.endOf(ended)
		default:
			err = <-ended
		}
	}
	if errors.Is(err, pipeline.ErrBusy) {
		s.yield() // who is held back has memory that this one may get when it comes again
	}
	if err != nil && ctx.Err() == nil {
		s.log(r.ticket, err)
	}
	return grpcError(err)
}

// endOf waits for the end of a stream whose caller has gone, or for a drain: a call that lasts longer has the gRPC
// server never stop.
func (s *Server) endOf(ended <-chan error) error {
	select {
	case err := <-ended:
		return err
	case <-s.draining.Done():
		return errDraining
	}
}

// programOf parses the program that a ticket was granted for, unless another stream has it.
func (s *Server) programOf(body []byte, t *pb.Ticket) (*pb.Program, error) {
	digest := string(t.GetProgramDigest())
	if p := s.programs.Get(digest); p != nil {
		return p, nil
	}
	p := &pb.Program{}
	if err := proto.Unmarshal(body, p); err != nil {
		return nil, fmt.Errorf("the ticket's program: %w", err)
	}
	s.programs.Put(digest, p)
	return p, nil
}

func (s *Server) log(t *pb.Ticket, err error) {
	logger := s.logger.With("session", t.GetSession(), "epoch", t.GetEpoch(), "block", t.GetBlock(), "shard",
		t.GetShard(),
		"file", t.GetFile().GetUri())
	var panicked *rescue.PanicError
	switch {
	case errors.As(err, &panicked):
		logger.Error("stream panicked", "error", err, "stack", string(panicked.Stack))
	case errors.Is(err, errDraining), errors.Is(err, errYielded):
		logger.Debug("stream ended, to go on elsewhere")
	case lacksCode(err):
		logger.Debug("stream waits for the session's code")
	default:
		logger.Warn("stream failed", "error", err)
	}
}

func (s *Server) stream(out flight.FlightService_DoGetServer, r *request) error {
	ctx := r.ctx // ends what does not send, too: a wait for memory, for storage, or for a row that passes the filter
	stream, err := s.open(r)
	if err != nil {
		return err
	}
	defer stream.Close()
	w, err := s.newOutbox(ctx, out, stream, r)
	if err != nil {
		return err
	}
	err = stream.Run(ctx, func(_ context.Context, b pipeline.Batch) error {
		return s.sending(r.place, func() error { return w.send(ctx, b) })
	})
	// The memory is the stream's until all of it has left, even the rows before an error.
	if flushed := s.sending(r.place, func() error { return w.flush(ctx) }); err == nil {
		err = flushed
	}
	return reason(ctx, s.sending(r.place, func() error { return w.sender.Close(err) }))
}

// open prepares a stream. While it waits for memory, others of a session that takes from them in turns give theirs up.
func (s *Server) open(r *request) (*pipeline.Stream, error) {
	if r.GetTurns() {
		ctx, opened := context.WithCancel(r.ctx)
		var relief sync.WaitGroup
		defer relief.Wait()
		defer opened()
		relief.Go(func() { s.relieveAll(ctx, r.session) })
	}
	stream, err := s.pipeline.Open(r.ctx, r.ticket, r.program, pipeline.Cursor{Window: r.GetWindow(), K: r.GetK()})
	return stream, reason(r.ctx, err)
}

// relieveAll relieves one stream of a session after the other while memory is waited for, until ctx ends.
func (s *Server) relieveAll(ctx context.Context, session string) {
	tick := time.NewTicker(pressedBack)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if s.pipeline.Pressed() {
			s.relieve(session)
		}
	}
}

// reason prefers why ctx was cancelled to the word that it was.
func reason(ctx context.Context, err error) error {
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

var errDraining = errors.New("this worker drains; go on with the next one")

// grpcError says in a status code who can help. Another worker, or this one later: RESOURCE_EXHAUSTED, UNAVAILABLE.
// Another worker: UNIMPLEMENTED (this one does not know the program, or cannot run its functions), OUT_OF_RANGE (it
// has too little memory), ABORTED (storage does not let it read, or it has a bug). Nobody: DATA_LOSS (what was read
// cannot be made sense of, or a function fails on it), FAILED_PRECONDITION (the file is not the one that was planned).
// With the detail NeedCode that is for the trainer, who sends the session's code.
func grpcError(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	if need, ok := errors.AsType[*python.NeedCodeError](err); ok {
		return code.Needed(need.SHA256, short(err.Error()))
	}
	return status.Error(codeOf(err), short(err.Error()))
}

func codeOf(err error) codes.Code {
	code := codes.DataLoss
	switch {
	case isOfFunction(err):
	case isAbsent(err):
		code = codes.NotFound
	case errors.Is(err, context.Canceled):
		code = codes.Canceled
	case errors.Is(err, pipeline.ErrBusy), errors.Is(err, errYielded):
		code = codes.ResourceExhausted
	case errors.Is(err, errDraining), errors.Is(err, context.DeadlineExceeded), storage.IsTransient(err),
		errors.Is(err, python.ErrNoProcess):
		code = codes.Unavailable
	case storage.IsOurs(err): // though a file be gone: it is one of this worker's configuration
		code = codes.Aborted
	case errors.Is(err, storage.ErrChanged), errors.Is(err, fs.ErrNotExist):
		code = codes.FailedPrecondition
	case errors.Is(err, pipeline.ErrProgram), errors.Is(err, python.ErrCannotRun):
		code = codes.Unimplemented
	case errors.Is(err, pipeline.ErrLimit), errors.Is(err, images.ErrMemory):
		code = codes.OutOfRange
	case isBug(err):
		code = codes.Aborted
	}
	return code
}

// isOfFunction reports whether a user's function failed, for whatever reason.
func isOfFunction(err error) bool {
	_, ok := errors.AsType[*python.FunctionError](err)
	return ok
}

// isAbsent reports whether there is no function by a name.
func isAbsent(err error) bool {
	_, ok := errors.AsType[*python.AbsentError](err)
	return ok
}

// isBug reports whether the worker panicked, or an op, and not what decodes a file: no policy leaves rows out for that.
func isBug(err error) bool {
	p, ok := errors.AsType[*rescue.PanicError](err)
	return ok && !p.Who.Decodes()
}

const (
	// maxMessage bounds a status's text: it travels in a header, of which some clients take 8 KB in all.
	maxMessage = 2 << 10
	// keptEnd is how much of it is its end, where a traceback has its point.
	keptEnd = 1300
)

func short(message string) string {
	if len(message) > maxMessage {
		message = message[:maxMessage-keptEnd] + " ... " + message[len(message)-keptEnd:]
	}
	return strings.ToValidUTF8(message, "\uFFFD")
}
