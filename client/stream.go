package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"time"

	"github.com/apache/arrow/go/v15/arrow/flight"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

// refusals is in how many rounds running all candidates must refuse a shard for good until the session fails: other
// workers may be candidates by then.
const refusals = 3

// Resume tells that a broken stream went on.
type Resume struct {
	// Shard is where the shard starts; Cursor is behind the last row that came before.
	Shard, Cursor position.Position
	File          string
	// From and To are the workers; they may be the same.
	From, To string
	// Pause is the time from the break to the first message of the new stream.
	Pause time.Duration
	// Cause ended the stream before.
	Cause error
}

// attempts is one stream's history over its workers.
type attempts struct {
	broken *Resume // of a stream that had begun, until it goes on
	at     time.Time
}

// openStreams opens a stream whenever a slot is free, and waits for all of them in the end.
func (s *Session) openStreams(ctx context.Context) {
	var streams sync.WaitGroup
	defer streams.Wait()
	for {
		select {
		case <-s.slot:
		case <-ctx.Done():
			return
		}
		for {
			p, streamCtx := s.startable(ctx)
			if p == nil {
				break
			}
			streams.Go(func() {
				defer p.cancel()
				s.stream(streamCtx, p)
			})
		}
	}
}

// startable marks the next piece to stream as open and returns it, if a slot is free.
func (s *Session) startable(ctx context.Context) (*piece, context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.ledger.startable()
	if p == nil {
		return nil, nil
	}
	p.open = true
	ctx, p.cancel = context.WithCancel(ctx)
	if s.ledger.wantsMore() {
		signal(s.wake)
	}
	return p, ctx
}

// stream reads a piece to its end, moving from worker to worker.
func (s *Session) stream(ctx context.Context, p *piece) {
	var a attempts
	refused := 0
	for round := 0; ctx.Err() == nil; round++ {
		workers := s.candidates(p)
		var last error
		permanent := 0
		for _, w := range workers {
			before := s.cursor(p)
			err := s.read(ctx, p, w, round, &a)
			if err == nil || ctx.Err() != nil {
				return
			}
			last = err
			if s.cursor(p) != before {
				round, refused, permanent = 0, 0, 0
			}
			if refusal(err) {
				permanent++
			}
		}
		refused++
		if len(workers) == 0 || permanent < len(workers) {
			refused = 0
		}
		if refused == refusals {
			s.fail(fmt.Errorf("client: session %q: shard %v: every worker refuses it: %w", s.cfg.Session, p.shard, last))
			return
		}
		if last != nil && round&(round-1) == 0 { // ever more rarely
			s.log.Warn("no worker serves a shard; trying on", "shard", p.shard, "file", p.file, "workers", len(workers), "error", last)
		}
		s.awaitCandidates(ctx, p, backoff(round, 2*time.Second))
	}
}

func (s *Session) cursor(p *piece) position.Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	return p.received
}

func (s *Session) candidates(p *piece) []*pb.Worker {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-p.fresh: // it is these that are tried now
	default:
	}
	return p.workers
}

// awaitCandidates waits for d, or until a Sync brought other workers.
func (s *Session) awaitCandidates(ctx context.Context, p *piece, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-p.fresh:
	case <-ctx.Done():
	}
}

// refusal reports whether a worker's error will not go away by asking it again. PermissionDenied does: a worker that
// has just started learns the master's keys, and the next Sync brings a ticket that has not expired.
func refusal(err error) bool {
	switch status.Code(err) {
	case codes.DataLoss, codes.InvalidArgument, codes.FailedPrecondition, codes.Unauthenticated, codes.Unimplemented:
		return true
	}
	return false
}

// workerError shows a worker's words without gRPC's frame around them; the status is underneath.
type workerError struct {
	name, address string
	err           error
}

func (e *workerError) Error() string {
	words := e.err.Error()
	if st, ok := status.FromError(e.err); ok {
		words = fmt.Sprintf("%s (%s)", st.Message(), st.Code())
	}
	return fmt.Sprintf("worker %s at %s: %s", e.name, e.address, words)
}

func (e *workerError) Unwrap() error { return e.err }

// read streams from one worker, from behind the last row received. It returns nil when the piece is complete, else
// why the stream ended.
func (s *Session) read(ctx context.Context, p *piece, w *pb.Worker, round int, a *attempts) (err error) {
	began := false
	defer func() {
		if err == nil || ctx.Err() != nil {
			return
		}
		err = &workerError{name: w.GetName(), address: w.GetAddress(), err: err}
		if began && a.broken == nil {
			a.broken = &Resume{Shard: p.shard, Cursor: s.cursor(p), File: p.file, From: w.GetName(), Cause: err}
			a.at = time.Now()
		}
	}()
	conn, done, err := s.pool.get(w.GetAddress())
	if err != nil {
		return err
	}
	defer done()
	attempt, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	patience := s.cfg.StreamTimeout << min(round, 10)
	silence := time.AfterFunc(patience, func() { cancel(fmt.Errorf("sent nothing for %v", patience)) })
	defer silence.Stop()
	rd, err := s.doGet(attempt, p, conn)
	if err != nil {
		return causeOf(attempt, err)
	}
	defer rd.Release()
	rd.worker = w.GetName()
	began = true
	s.countStream(w, 1)
	defer s.countStream(w, -1)
	for first := true; ; first = false {
		silence.Stop()
		if err := s.awaitRoom(attempt, p, rd.size); err != nil {
			return causeOf(attempt, err)
		}
		silence.Reset(patience)
		complete, err := s.receive(p, rd, first)
		if err != nil {
			return causeOf(attempt, err)
		}
		if a.broken != nil {
			s.resumed(a, w)
		}
		if complete {
			return nil
		}
	}
}

// countStream keeps Stats.StreamsByWorker.
func (s *Session) countStream(w *pb.Worker, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	by := s.stats.StreamsByWorker
	if by[w.GetName()] += n; by[w.GetName()] == 0 {
		delete(by, w.GetName())
	}
}

// causeOf prefers the reason why ctx was cancelled to gRPC's word for it.
func causeOf(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// reader is an open stream.
type reader struct {
	*flight.Reader
	layout *layout
	worker string
	size   int64 // bytes of the last record
}

// doGet opens a stream at the piece's cursor and checks its schema.
func (s *Session) doGet(ctx context.Context, p *piece, conn *grpc.ClientConn) (*reader, error) {
	s.mu.Lock()
	req := &pb.StreamRequest{
		Ticket: p.ticket, Program: s.session.GetProgram(), Window: p.received.Window, K: p.received.K,
	}
	s.mu.Unlock()
	ticket, err := proto.Marshal(req)
	if err != nil {
		return nil, fmt.Errorf("stream request: %w", err)
	}
	// What a message may hold is bounded by the worker; a limit here would look like a busy worker.
	stream, err := flight.NewClientFromConn(conn, nil).DoGet(ctx, &flight.Ticket{Ticket: ticket}, grpc.MaxCallRecvMsgSize(math.MaxInt32))
	if err != nil {
		return nil, err
	}
	rd, err := flight.NewRecordReader(stream)
	if errors.Is(err, io.EOF) {
		return nil, errors.New("stream ended before its schema")
	}
	if err != nil {
		return nil, err
	}
	l, err := s.agree(rd)
	if err != nil {
		rd.Release()
		return nil, err
	}
	return &reader{Reader: rd, layout: l}, nil
}

// agree returns the session's layout, which the first stream's schema sets.
func (s *Session) agree(rd *flight.Reader) (*layout, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.layout != nil {
		if !s.layout.same(rd.Schema()) {
			return nil, status.Errorf(codes.FailedPrecondition, "sends schema %v; the session's is %v", rd.Schema(), s.layout.schema)
		}
		return s.layout, nil
	}
	l, err := parseLayout(rd.Schema())
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	s.layout = l
	return l, nil
}

// awaitRoom waits until a message of about n bytes may be received within the budget.
func (s *Session) awaitRoom(ctx context.Context, p *piece, n int64) error {
	for {
		s.mu.Lock()
		ok := s.ledger.mayReceive(p, n, s.cfg.Budget)
		s.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-p.room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// receive takes in the next record, or the stream's end. It reports whether the piece is complete.
func (s *Session) receive(p *piece, rd *reader, first bool) (complete bool, err error) {
	if !rd.Next() {
		if err := rd.Err(); err != nil {
			return false, err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if p.gone {
			return true, nil
		}
		if err := s.ledger.end(p, first); err != nil {
			return false, err
		}
		s.moved(p)
		signal(s.ready)
		return true, nil
	}
	m := new(pb.BatchMeta)
	if err := proto.Unmarshal(rd.LatestAppMetadata(), m); err != nil {
		return false, fmt.Errorf("app_metadata: %w", err)
	}
	rec, err := rd.layout.bind(rd.Record())
	if err != nil {
		return false, err
	}
	if rec.rows != int(m.GetRows()) {
		return false, fmt.Errorf("record has %d rows; its app_metadata says %d", rec.rows, m.GetRows())
	}
	rec.worker, rd.size = rd.worker, rec.bytes
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.gone || p.complete() {
		return true, nil
	}
	complete, err = s.ledger.push(p, rec, m, first)
	if err == nil {
		s.moved(p)
		s.tellReady()
		signal(s.ready)
	}
	return complete, err
}

// resumed tells that a broken stream went on with worker w.
func (s *Session) resumed(a *attempts, w *pb.Worker) {
	r := *a.broken
	r.To, r.Pause = w.GetName(), time.Since(a.at)
	a.broken = nil
	if r.From != r.To {
		s.mu.Lock()
		s.stats.Failovers++
		s.mu.Unlock()
	}
	s.log.Info("stream resumed", "shard", r.Shard, "cursor", r.Cursor, "from", r.From, "to", r.To, "pause", r.Pause, "cause", r.Cause)
	if s.cfg.OnResume != nil {
		s.cfg.OnResume(r)
	}
}
