package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/wire"
)

// maxSilences bounds how often the patience with silent workers doubles.
const maxSilences = 4

// errSilent ends a stream of a worker that sends nothing.
var errSilent = errors.New("sent nothing")

// errComplete ends a stream whose piece wants no more.
var errComplete = errors.New("the piece is complete")

// received is the memory that batches of all sessions are received in: to write where nothing was yet is dear.
var received wire.Pool //nolint:gochecknoglobals // only a pool

// incoming takes in what the stream of an attempt brings.
type incoming struct {
	*stream
	a        *attempt
	ctx      context.Context // the attempt's
	silence  *time.Timer     // ends it
	patience time.Duration
	opened   bool // its schema came
}

// read streams from one worker, from behind the last row received. It returns nil when the piece is complete, else
// why the stream ended.
func (st *stream) read(ctx context.Context, a *attempt, silences int) (err error) {
	defer signal(st.p.room) // which the attempt beside it may wait for
	attempt, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	in := &incoming{stream: st, a: a, ctx: attempt, patience: st.cfg.StreamTimeout << min(silences, maxSilences)}
	in.silence = time.AfterFunc(in.patience, func() { cancel(fmt.Errorf("%w for %v", errSilent, in.patience)) })
	defer in.silence.Stop()
	err = in.get(a.worker.GetAddress())
	if in.opened {
		st.countStream(a.worker, -1)
	}
	if err == nil {
		err = st.end(a)
	}
	if err == nil || errors.Is(err, errComplete) {
		return nil
	}
	err = causeOf(attempt, err)
	if ctx.Err() == nil {
		err = st.failed(a, in.opened, err)
	}
	return err
}

// get opens a stream at the piece's cursor and receives it to its end.
func (in *incoming) get(address string) error {
	request := in.request()
	if in.cfg.Local != nil {
		if here, err := in.cfg.Local.Stream(in.ctx, address, request, in); here {
			return err
		}
	}
	worker, done, err := in.pool.get(address)
	if err != nil {
		return err
	}
	defer done()
	ticket, err := proto.Marshal(request)
	if err != nil {
		return fmt.Errorf("stream request: %w", err)
	}
	get, err := wire.Get(in.ctx, worker.conn, worker.links, ticket, &received)
	if err != nil {
		return err
	}
	get.Return = in.Return
	if err := in.Schema(in.ctx, get.Schema()); err != nil {
		return err
	}
	for {
		b, err := get.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := in.Batch(in.ctx, b); err != nil {
			return err
		}
	}
}

// request asks for the piece from behind the last row received.
func (in *incoming) request() *pb.StreamRequest {
	in.mu.Lock()
	defer in.mu.Unlock()
	at := in.at.received
	return &pb.StreamRequest{
		Ticket: in.at.ticket, Program: in.session.GetProgram(), Window: at.Window, K: at.K, Compression: in.cfg.Compression, Narrow: true,
		Turns: in.ledger.order().turns(),
	}
}

// Schema looks at the schema, and waits until there is room for a batch.
func (in *incoming) Schema(ctx context.Context, s *arrow.Schema) error {
	if !in.layout.same(s) {
		return status.Errorf(codes.InvalidArgument, "sends schema %v; the session's is %v", s, in.layout.schema)
	}
	in.opened = true
	in.countStream(in.a.worker, 1)
	return in.awaitRoom(ctx, 0)
}

// Batch takes a batch in, which it releases in the end, and waits until there is room for another one.
func (in *incoming) Batch(ctx context.Context, b *wire.Batch) error {
	size := b.Bytes
	if b.Lent && in.full() {
		own, err := b.Clone(&received)
		b.Release()
		if err != nil {
			return err
		}
		b = own
	}
	complete, err := in.receive(b)
	if err != nil {
		return err
	}
	if in.a.rows {
		in.resumed(in.a.worker)
	}
	if complete {
		return errComplete
	}
	return in.awaitRoom(ctx, size)
}

// full reports whether the queue has as many records of the worker's memory as it may: none that several pieces have a part of.
func (in *incoming) full() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.at.follows || in.at.leads() || in.at.lent() >= wire.Kept
}

// Return copies what is in the queue, so that the worker has its memory again.
func (in *incoming) Return() error {
	in.mu.Lock()
	var lent []*wireRecord
	for _, c := range in.at.queue {
		if c.rec.batch.Lent && !slices.Contains(lent, c.rec) {
			c.rec.retain()
			lent = append(lent, c.rec)
		}
	}
	in.mu.Unlock()
	for _, rec := range lent {
		if err := in.replace(rec); err != nil {
			return err
		}
	}
	return nil
}

// replace has a copy of a record in its place in the queue, and releases it.
func (in *incoming) replace(rec *wireRecord) error {
	defer rec.release()
	batch, err := rec.batch.Clone(&received)
	if err != nil {
		return err
	}
	own, err := in.layout.bind(batch)
	if err != nil {
		return err
	}
	defer own.release()
	own.worker, own.bytes = rec.worker, rec.bytes // as it was counted
	in.mu.Lock()
	defer in.mu.Unlock()
	for i := range in.at.queue {
		if c := &in.at.queue[i]; c.rec == rec {
			own.retain()
			c.rec = own
			rec.release()
		}
	}
	return nil
}

// failed notes that an attempt broke, if it had begun, and the stream with it: another one may go on beside it that had brought rows.
func (st *stream) failed(a *attempt, began bool, err error) error {
	err = &workerError{name: a.worker.GetName(), address: a.worker.GetAddress(), err: err}
	st.mu.Lock()
	defer st.mu.Unlock()
	if began && st.broken == nil && !a.lost && (a.rows || len(st.racing) < 2) {
		st.broken = &Resume{Shard: st.p.shard, Cursor: st.at.received, File: st.p.file, From: a.worker.GetName(), Cause: err}
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

// countWay keeps Stats.Received and Ways, and says once that batches come by gRPC. s.mu must be held.
func (s *Session) countWay(from *pb.Worker, b *wire.Batch) {
	s.stats.Received += b.Sent
	if s.stats.Ways == nil {
		s.stats.Ways = make(map[wire.Way]int64)
	}
	if s.stats.Ways[b.Way]++; b.Way == wire.ByGRPC && s.stats.Ways[b.Way] == 1 {
		s.log.Info("batches come by gRPC, which costs more CPU time than a link: the worker has none to give, or a proxy between lets only HTTP/2 through",
			"event", "no_link", "worker", from.GetName(), "address", from.GetAddress())
	}
}

// causeOf prefers the reason why ctx was cancelled to gRPC's word for it.
func causeOf(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// awaitRoom waits until a message of about n bytes may be received within the budget. A worker that may send must.
func (in *incoming) awaitRoom(ctx context.Context, n int64) error {
	st, a := in.stream, in.a
	in.silence.Stop()
	for {
		st.mu.Lock()
		ok := st.mayReceive(n, st.cfg.Budget)
		switch {
		case !ok:
			a.waits = time.Time{}
		case a.begun || a.waits.IsZero(): // for its first message it waits since it was begun
			a.waits = time.Now()
		}
		st.mu.Unlock()
		if ok {
			in.silence.Reset(in.patience)
			return nil
		}
		select {
		case <-st.p.room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// receive takes in a batch, which goes to the piece's queue or is released. It reports whether the piece is complete.
func (in *incoming) receive(b *wire.Batch) (complete bool, err error) {
	st, a := in.stream, in.a
	m := new(pb.BatchMeta)
	rec, err := in.layout.bind(b)
	if err != nil {
		b.Release()
		return false, err
	}
	defer rec.release()
	if err := proto.Unmarshal(b.Meta, m); err != nil {
		return false, fmt.Errorf("app_metadata: %w", err)
	}
	if rec.rows != int(m.GetRows()) {
		return false, fmt.Errorf("record has %d rows; its app_metadata says %d", rec.rows, m.GetRows())
	}
	rec.worker = a.worker.GetName()
	st.mu.Lock()
	defer st.mu.Unlock()
	st.countWay(a.worker, b)
	switch {
	case a.lost:
		return false, errLost
	case st.at.gone || st.at.complete():
		return false, errComplete
	}
	before := st.at.received
	if complete, err = st.push(rec, m, !a.begun); err != nil {
		return false, err
	}
	p := st.at
	st.hedging.waited(a.begun, time.Since(a.waits))
	a.begun = true
	if p.shard.Epoch == st.ledger.current() {
		st.waiting.since = time.Now()
	}
	if p.received != before {
		st.won(a, before)
	}
	st.moved(p)
	st.tellReady()
	signal(st.ready)
	return complete, nil
}

// push has the pieces that the stream reads take in what is theirs of a record. It reports whether they want no more. st.mu must be held.
func (st *stream) push(rec *wireRecord, m *pb.BatchMeta, first bool) (complete bool, err error) {
	for {
		if complete, err = st.ledger.push(st.at, rec, m, first); err != nil || !st.flow() {
			return complete, err
		}
	}
}

// end takes in that a stream ended well.
func (st *stream) end(a *attempt) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	switch {
	case a.lost:
		return errLost
	case st.at.gone || st.at.complete():
		return nil
	}
	before := st.at.received
	for more := true; more; more = st.flow() {
		if err := st.ledger.end(st.at, !a.begun); err != nil {
			return err
		}
	}
	st.won(a, before)
	st.moved(st.at)
	signal(st.ready)
	return nil
}
