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
	st       *stream
	a        *attempt
	ctx      context.Context // the attempt's
	silence  *time.Timer     // ends it
	patience time.Duration
	opened   bool // its schema came
}

// read streams from one worker, from after the last row received. It returns nil when the piece is complete, else
// why the stream ended.
func (st *stream) read(ctx context.Context, a *attempt, silences int) (err error) {
	defer signal(st.p.room) // which the attempt beside it may wait for
	attempt, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	in := &incoming{st: st, a: a, ctx: attempt, patience: st.terms.cfg.StreamTimeout << min(silences, maxSilences)}
	in.silence = time.AfterFunc(in.patience, func() { cancel(fmt.Errorf("%w for %v", errSilent, in.patience)) })
	defer in.silence.Stop()
	err = in.getWithCode(a.worker.GetAddress())
	if in.opened {
		st.fetcher.countStream(a.worker, -1)
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
	if local := in.st.terms.cfg.Local; local != nil {
		if here, err := local.Stream(in.ctx, address, request, in); here {
			return err
		}
	}
	worker, done, err := in.st.fetcher.pool.get(address)
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

// request asks for the piece from after the last row received.
func (in *incoming) request() *pb.StreamRequest {
	st, terms := in.st, in.st.terms
	st.shared.mu.Lock()
	defer st.shared.mu.Unlock()
	at := st.at.received
	return &pb.StreamRequest{
		Ticket: st.at.ticket, Program: terms.session.GetProgram(), Window: at.Window, K: at.K,
		Compression: terms.cfg.Compression, Narrow: true, Turns: st.shared.ledger.order().turns(),
	}
}

// Schema looks at the schema, and waits until there is room for a batch.
func (in *incoming) Schema(ctx context.Context, s *arrow.Schema) error {
	if layout := in.st.terms.layout; !layout.same(s) {
		return status.Errorf(codes.InvalidArgument, "sends schema %v; the session's is %v", s, layout.schema)
	}
	in.opened = true
	in.st.fetcher.countStream(in.a.worker, 1)
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
		in.st.resumed(in.a.worker)
	}
	if complete {
		return errComplete
	}
	return in.awaitRoom(ctx, size)
}

// full reports whether the queue has as many records of the worker's memory as it may: none that several pieces have a
// part of.
func (in *incoming) full() bool {
	st := in.st
	st.shared.mu.Lock()
	defer st.shared.mu.Unlock()
	return st.at.follows || st.at.leads() || st.at.lent() >= wire.Kept
}

// Return copies what is in the queue, so that the worker has its memory again.
func (in *incoming) Return() error {
	st := in.st
	st.shared.mu.Lock()
	var lent []*wireRecord
	for _, c := range st.at.queue {
		if c.rec.batch.Lent && !slices.Contains(lent, c.rec) {
			c.rec.retain()
			lent = append(lent, c.rec)
		}
	}
	st.shared.mu.Unlock()
	for _, rec := range lent {
		if err := in.replace(rec); err != nil {
			return err
		}
	}
	return nil
}

// replace has a copy of a record in its place in the queue, and releases it.
func (in *incoming) replace(rec *wireRecord) error {
	st := in.st
	defer rec.release()
	batch, err := rec.batch.Clone(&received)
	if err != nil {
		return err
	}
	own, err := st.terms.layout.bind(batch)
	if err != nil {
		return err
	}
	defer own.release()
	own.worker, own.bytes = rec.worker, rec.bytes // as it was counted
	st.shared.mu.Lock()
	defer st.shared.mu.Unlock()
	for i := range st.at.queue {
		if c := &st.at.queue[i]; c.rec == rec {
			own.retain()
			c.rec = own
			rec.release()
		}
	}
	return nil
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
	st, a := in.st, in.a
	in.silence.Stop()
	for {
		st.shared.mu.Lock()
		ok := st.mayReceive(n, st.terms.cfg.Budget)
		switch {
		case !ok:
			a.waits = time.Time{}
		case a.begun || a.waits.IsZero(): // for its first message it waits since it was begun
			a.waits = time.Now()
		}
		st.shared.mu.Unlock()
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
	st, a := in.st, in.a
	m := new(pb.BatchMeta)
	rec, err := st.terms.layout.bind(b)
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
	st.shared.mu.Lock()
	defer st.shared.mu.Unlock()
	st.fetcher.countWay(a.worker, b)
	switch {
	case a.lost:
		return false, errLost
	case st.at.gone || st.at.complete():
		return false, errComplete
	}
	before := st.at.received
	if complete, err = st.push(rec, m); err != nil {
		return false, err
	}
	p := st.at
	st.fetcher.hedging.waited(a.begun, time.Since(a.waits))
	a.begun = true
	if p.shard.Epoch == st.shared.ledger.current() {
		st.fetcher.since = time.Now()
	}
	if p.received != before {
		st.won(a, before)
	}
	st.shared.moved(p)
	st.shared.announce()
	signal(st.shared.ready)
	return complete, nil
}
