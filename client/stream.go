package client

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

const (
	// refusals is in how many rounds running all candidates must refuse a shard for good until the session fails: other
	// workers may be candidates by then.
	refusals = 3
	// busyPatience is how long all candidates may be busy until the log says so: where trainers share a fleet, they are
	// now and then.
	busyPatience = 30 * time.Second
	// sayUnservedEvery is how often the log says that no worker serves a shard, for the same reason.
	sayUnservedEvery = 10 * time.Second
)

var errNoWorkers = errors.New("the fleet has no workers")

// unserved is a reason for which no worker serves a shard, and how grave it is.
type unserved struct {
	code  codes.Code
	level slog.Level
}

// Resume tells that a broken stream, or one that was late, went on.
type Resume struct {
	// Shard is where the shard starts; Cursor is after the last row that came before.
	Shard, Cursor position.Position
	File          string
	// From and To are the workers; they may be the same.
	From, To string
	// Pause is the time to the first rows of the new stream: from the break, or since nothing came.
	Pause time.Duration
	// Cause ended the stream before.
	Cause error
}

// stream is a piece's way over its workers, and that of those which follow it. The goroutine that runs it owns the
// attempts, of which it waits for each.
type stream struct {
	fetcher *fetcher
	terms   *terms
	shared  *shared
	p       *piece // the first

	// Under shared.mu.
	at       *piece     // whose rows are to come
	racing   []*attempt // that run: one, or two
	broken   *Resume    // of a stream that had begun, until it goes on
	brokenAt time.Time
	took     time.Time // when rows came last
}

func newStream(f *fetcher, p *piece) *stream {
	return &stream{fetcher: f, terms: f.terms, shared: f.shared, p: p, at: p, took: time.Now()}
}

// flow goes on to the piece that follows a complete one. shared.mu must be held.
func (st *stream) flow() bool {
	if !st.at.complete() || !st.at.leads() {
		return false
	}
	st.at = st.at.next
	return true
}

// ended has pieces that the stream was to read on into get another one.
func (st *stream) ended() {
	st.shared.mu.Lock()
	defer st.shared.mu.Unlock()
	delete(st.shared.ledger.waits, st.p)
	for p := st.at; p != nil && p.refused == nil && (p == st.at || p.follows); p = p.next {
		if !p.gone && !p.complete() {
			p.open, p.follows = false, false
			signal(st.shared.slot)
		}
	}
}

// mayReceive reports whether a message of about n bytes may be received within a budget. Else the stream is woken when
// there is more room. shared.mu must be held.
func (st *stream) mayReceive(n, budget int64) bool {
	l := &st.shared.ledger
	if l.mayReceive(st.at, n, budget) {
		return true
	}
	if l.waits == nil {
		l.waits = make(map[*piece]struct{})
	}
	l.waits[st.p] = struct{}{}
	return false
}

// run reads the piece to its end, moving from worker to worker.
func (st *stream) run(ctx context.Context) {
	refused, silences := 0, 0
	for number := 0; ctx.Err() == nil; number++ {
		r := &round{silences: silences, workers: st.candidates()}
		for w := r.next(); w != nil; w = r.next() {
			if st.race(ctx, r, w) || ctx.Err() != nil {
				return
			}
		}
		if r.moved {
			number, refused = 0, 0
		}
		if silences = r.silences; r.silent {
			silences++
		}
		if refused++; len(r.workers) == 0 || r.permanent < len(r.tried) {
			refused = 0
		}
		if refused == refusals {
			st.refuse(r.blame, r.last)
			return
		}
		st.sayUnserved(ctx, r)
		st.awaitCandidates(ctx, backoff(number, 2*time.Second))
		if r.last != nil && status.Code(r.last) == codes.ResourceExhausted {
			st.awaitUse(ctx)
		}
	}
}

// awaitUse waits until half of what the piece may have in its queue was taken, so that it does not ask busy workers for
// what there is hardly room for: others may wait for their places and memory.
func (st *stream) awaitUse(ctx context.Context) {
	for {
		budget := st.terms.cfg.Budget
		st.shared.mu.Lock()
		ok := st.mayReceive(budget/int64(st.shared.ledger.order().shares())/2, budget)
		st.shared.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-st.p.room:
		case <-ctx.Done():
			return
		}
	}
}

// refuse ends the piece's stream, which every candidate refuses: the master decides, or the session ends.
func (st *stream) refuse(b blame, last *workerError) {
	if b.own != nil {
		st.shared.fail(st.refusedBy(b.own))
		return
	}
	report := &pb.RefusedStream{Cause: pb.RefusalCause_UNREADABLE}
	if b.changed != nil {
		report.Cause, last = pb.RefusalCause_CHANGED, b.changed
	}
	report.Words = last.words()
	st.shared.mu.Lock()
	defer st.shared.mu.Unlock()
	report.At = st.at.received.Proto()
	st.at.refused = report
	signal(st.shared.wake)
	st.terms.log.Warn("every worker refuses a shard; the master decides", "event", "shard_refused",
		"shard", st.p.shard, "cursor", st.at.received, "file", st.p.file, "cause", last)
}

// refusedBy is the session's end by a shard that every worker refuses.
func (st *stream) refusedBy(last *workerError) error {
	err := &RefusedError{
		Session: st.terms.cfg.Session, Shard: st.p.shard, File: st.p.file, Address: last.address, Err: last,
	}
	if stranger(last) {
		return errors.Join(ErrNoWorker, err)
	}
	return err
}

// sayUnserved says that no candidate serves the piece: once in a while for each kind of reason, whatever the piece.
func (st *stream) sayUnserved(ctx context.Context, r *round) {
	cause, code, level := errNoWorkers, codes.OK, slog.LevelWarn
	if r.last != nil {
		cause, code = r.last, status.Code(r.last)
	}
	st.shared.mu.Lock()
	if code == codes.ResourceExhausted && time.Since(st.took) < busyPatience {
		level = slog.LevelDebug
	}
	why := unserved{code, level}
	said := st.fetcher.saidUnserved
	due := time.Since(said[why]) >= sayUnservedEvery
	if due {
		said[why] = time.Now()
	}
	st.shared.mu.Unlock()
	if due {
		st.terms.log.Log(ctx, level, "no worker serves a shard; trying on", "event", "no_worker",
			"shard", st.p.shard, "file", st.p.file, "workers", len(r.workers), "cause", cause)
	}
}

// candidates are the piece's workers, best first; those that were late lately come last.
func (st *stream) candidates() []*pb.Worker {
	st.shared.mu.Lock()
	defer st.shared.mu.Unlock()
	select {
	case <-st.p.fresh: // it is these that are tried now
	default:
	}
	return st.fetcher.hedging.inOrder(st.at.workers, time.Now())
}

// awaitCandidates waits for d, or until a Sync brought other workers.
func (st *stream) awaitCandidates(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-st.p.fresh:
	case <-ctx.Done():
	}
}

// resumed says that a broken stream went on with worker w.
func (st *stream) resumed(w *pb.Worker) {
	st.shared.mu.Lock()
	if st.broken == nil {
		st.shared.mu.Unlock()
		return
	}
	r := *st.broken
	r.To, r.Pause = w.GetName(), time.Since(st.brokenAt)
	st.broken = nil
	if r.From != r.To {
		st.fetcher.fetched.failovers++
	}
	st.shared.mu.Unlock()
	st.terms.log.Info("stream resumed", "event", "stream_resumed", "shard", r.Shard, "file", r.File, "cursor", r.Cursor,
		"from", r.From, "to", r.To, "pause", r.Pause, "cause", r.Cause)
	if resume := st.terms.cfg.OnResume; resume != nil {
		resume(r)
	}
}

// failed notes that an attempt broke, if it had begun, and the stream with it: another one may go on beside it that had
// brought rows.
func (st *stream) failed(a *attempt, began bool, err error) error {
	err = &workerError{name: a.worker.GetName(), address: a.worker.GetAddress(), err: err}
	st.shared.mu.Lock()
	defer st.shared.mu.Unlock()
	if began && st.broken == nil && !a.lost && (a.rows || len(st.racing) < 2) {
		st.broken = &Resume{
			Shard: st.p.shard, Cursor: st.at.received, File: st.p.file, From: a.worker.GetName(), Cause: err,
		}
		st.brokenAt = time.Now()
	}
	return err
}

// push has the pieces that the stream reads take in what is theirs of a record. It reports whether they want no more.
// shared.mu must be held.
func (st *stream) push(rec *wireRecord, m *pb.BatchMeta) (complete bool, err error) {
	for {
		if complete, err = st.shared.ledger.push(st.at, rec, m); err != nil || !st.flow() {
			return complete, err
		}
	}
}

// end takes in that a stream ended well.
func (st *stream) end(a *attempt) error {
	st.shared.mu.Lock()
	defer st.shared.mu.Unlock()
	switch {
	case a.lost:
		return errLost
	case st.at.gone || st.at.complete():
		return nil
	}
	before := st.at.received
	for more := true; more; more = st.flow() {
		if err := st.shared.ledger.end(st.at); err != nil {
			return err
		}
	}
	st.won(a, before)
	st.shared.moved(st.at)
	signal(st.shared.ready)
	return nil
}
