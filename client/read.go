package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/apache/arrow/go/v15/arrow/flight"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
)

// read streams from one worker, from behind the last row received. It returns nil when the piece is complete, else
// why the stream ended.
func (st *stream) read(ctx context.Context, a *attempt, round int) (err error) {
	defer signal(st.p.room) // which the attempt beside it may wait for
	began := false
	defer func() {
		if err != nil && ctx.Err() == nil {
			err = st.failed(a, began, err)
		}
	}()
	w := a.worker
	conn, done, err := st.pool.get(w.GetAddress())
	if err != nil {
		return err
	}
	defer done()
	attempt, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	patience := st.cfg.StreamTimeout << min(round, 10)
	silence := time.AfterFunc(patience, func() { cancel(fmt.Errorf("sent nothing for %v", patience)) })
	defer silence.Stop()
	rd, err := st.doGet(attempt, conn)
	if err != nil {
		return causeOf(attempt, err)
	}
	defer rd.Release()
	rd.worker = w.GetName()
	began = true
	st.countStream(w, 1)
	defer st.countStream(w, -1)
	for {
		silence.Stop()
		if err := st.awaitRoom(attempt, a, rd.size); err != nil {
			return causeOf(attempt, err)
		}
		silence.Reset(patience)
		complete, err := st.receive(a, rd)
		if err != nil {
			return causeOf(attempt, err)
		}
		if a.rows {
			st.resumed(w)
		}
		if complete {
			return nil
		}
	}
}

// failed notes that an attempt broke, if it had begun.
func (st *stream) failed(a *attempt, began bool, err error) error {
	err = &workerError{name: a.worker.GetName(), address: a.worker.GetAddress(), err: err}
	st.mu.Lock()
	defer st.mu.Unlock()
	if began && st.broken == nil {
		st.broken = &Resume{Shard: st.p.shard, Cursor: st.p.received, File: st.p.file, From: a.worker.GetName(), Cause: err}
		st.brokenAt = time.Now()
	}
	return err
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
func (st *stream) doGet(ctx context.Context, conn *grpc.ClientConn) (*reader, error) {
	st.mu.Lock()
	at := st.p.received
	req := &pb.StreamRequest{Ticket: st.p.ticket, Program: st.session.GetProgram(), Window: at.Window, K: at.K}
	st.mu.Unlock()
	ticket, err := proto.Marshal(req)
	if err != nil {
		return nil, fmt.Errorf("stream request: %w", err)
	}
	// What a message may hold is bounded by the worker; a limit here would look like a busy worker.
	get, err := flight.NewClientFromConn(conn, nil).DoGet(ctx, &flight.Ticket{Ticket: ticket}, grpc.MaxCallRecvMsgSize(math.MaxInt32))
	if err != nil {
		return nil, err
	}
	rd, err := flight.NewRecordReader(get)
	if errors.Is(err, io.EOF) {
		return nil, errors.New("stream ended before its schema")
	}
	if err != nil {
		return nil, err
	}
	l, err := st.agree(rd)
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
			return nil, status.Errorf(codes.InvalidArgument, "sends schema %v; the session's is %v", rd.Schema(), s.layout.schema)
		}
		return s.layout, nil
	}
	l, err := parseLayout(rd.Schema())
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	s.layout = l
	return l, nil
}

// awaitRoom waits until a message of about n bytes may be received within the budget.
func (st *stream) awaitRoom(ctx context.Context, a *attempt, n int64) error {
	for {
		st.mu.Lock()
		ok := st.ledger.mayReceive(st.p, n, st.cfg.Budget)
		switch {
		case !ok:
			a.waits = time.Time{}
		case a.begun || a.waits.IsZero(): // for its first message it waits since it was begun
			a.waits = time.Now()
		}
		st.mu.Unlock()
		if ok {
			return nil
		}
		select {
		case <-st.p.room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// receive takes in the next record, or the stream's end. It reports whether the piece is complete.
func (st *stream) receive(a *attempt, rd *reader) (complete bool, err error) {
	if !rd.Next() {
		if err := rd.Err(); err != nil {
			return false, err
		}
		return true, st.end(a)
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
	st.mu.Lock()
	defer st.mu.Unlock()
	p := st.p
	switch {
	case a.lost:
		return false, errLost
	case p.gone || p.complete():
		return true, nil
	}
	before := p.received
	complete, err = st.ledger.push(p, rec, m, !a.begun)
	if err != nil {
		return false, err
	}
	st.hedging.waited(a.begun, time.Since(a.waits))
	a.begun = true
	if p.received != before {
		st.won(a, before)
	}
	st.moved(p)
	st.tellReady()
	signal(st.ready)
	return complete, nil
}

// end takes in that a stream ended well.
func (st *stream) end(a *attempt) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	p := st.p
	switch {
	case a.lost:
		return errLost
	case p.gone || p.complete():
		return nil
	}
	before := p.received
	if err := st.ledger.end(p, !a.begun); err != nil {
		return err
	}
	st.won(a, before)
	st.moved(p)
	signal(st.ready)
	return nil
}
