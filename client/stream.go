package client

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
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
	// Shard is where the shard starts; Cursor is behind the last row that came before.
	Shard, Cursor position.Position
	File          string
	// From and To are the workers; they may be the same.
	From, To string
	// Pause is the time to the first rows of the new stream: from the break, or since nothing came.
	Pause time.Duration
	// Cause ended the stream before.
	Cause error
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
				st := &stream{Session: s, p: p, at: p, took: time.Now()}
				st.run(streamCtx)
				st.ended()
			})
		}
	}
}

// startable marks the next piece to stream as open and returns it, if a slot is free.
func (s *Session) startable(ctx context.Context) (*piece, context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.ledger.order().startable()
	if p == nil {
		return nil, nil
	}
	p.open = true
	ctx, p.cancel = context.WithCancel(ctx)
	p.lead()
	if s.ledger.wantsMore() {
		signal(s.wake)
	}
	return p, ctx
}

// stream is a piece's way over its workers, and that of those which follow it. The goroutine that runs it owns the attempts, of which it
// waits for each.
type stream struct {
	*Session
	p *piece // the first

	// Under Session.mu.
	at       *piece     // whose rows are to come
	racing   []*attempt // that run: one, or two
	broken   *Resume    // of a stream that had begun, until it goes on
	brokenAt time.Time
	took     time.Time // when rows came last
}

// flow goes on to the piece that follows a complete one. st.mu must be held.
func (st *stream) flow() bool {
	if !st.at.complete() || !st.at.leads() {
		return false
	}
	st.at = st.at.next
	return true
}

// ended has pieces that the stream was to read on into get another one.
func (st *stream) ended() {
	st.mu.Lock()
	defer st.mu.Unlock()
	delete(st.ledger.waits, st.p)
	for p := st.at; p != nil && p.refused == nil && (p == st.at || p.follows); p = p.next {
		if !p.gone && !p.complete() {
			p.open, p.follows = false, false
			signal(st.slot)
		}
	}
}

// mayReceive reports whether a message of about n bytes may be received within a budget. Else the stream is told when there is more room.
// st.mu must be held.
func (st *stream) mayReceive(n, budget int64) bool {
	if st.ledger.mayReceive(st.at, n, budget) {
		return true
	}
	if st.ledger.waits == nil {
		st.ledger.waits = make(map[*piece]struct{})
	}
	st.ledger.waits[st.p] = struct{}{}
	return false
}

// round is one of asking all candidates.
type round struct {
	silences int // rounds before it with a silent worker, without a row in between
	workers  []*pb.Worker
	tried    []*pb.Worker
	blame    // for those that refuse for good
	last     *workerError
	silent   bool // a worker was
	moved    bool // rows came
}

// next is the best candidate that was not tried, or nil.
func (r *round) next() *pb.Worker {
	for _, w := range r.workers {
		if !r.has(w) {
			return w
		}
	}
	return nil
}

func (r *round) has(tried *pb.Worker) bool {
	return slices.ContainsFunc(r.tried, func(t *pb.Worker) bool { return t.GetAddress() == tried.GetAddress() })
}

// skip has workers count as tried.
func (r *round) skip(workers []*pb.Worker) {
	for _, w := range workers {
		if !r.has(w) {
			r.tried = append(r.tried, w)
		}
	}
}

// again begins to ask all candidates but one anew.
func (r *round) again(but *pb.Worker) { r.tried, r.blame = []*pb.Worker{but}, blame{} }

// note takes in how an attempt ended. When it brought rows, the other candidates are to be asked again.
func (r *round) note(a *attempt, err *workerError) {
	if a.rows {
		r.again(a.worker)
		r.moved, r.silences = true, 0
	}
	r.silent = r.silent || errors.Is(err, errSilent)
	if r.last == nil || !stranger(err) { // a worker's own words say more
		r.last = err
	}
	r.blame.note(err)
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

// awaitUse waits until half of what the piece may have in its queue was taken, so that it does not ask busy workers for what there is
// hardly room for: others may wait for their places and memory.
func (st *stream) awaitUse(ctx context.Context) {
	for {
		st.mu.Lock()
		ok := st.mayReceive(st.cfg.Budget/int64(st.ledger.order().shares())/2, st.cfg.Budget)
		st.mu.Unlock()
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

// refusedBy is the session's end by a shard that every worker refuses.
func (st *stream) refusedBy(last *workerError) error {
	err := &RefusedError{Session: st.cfg.Session, Shard: st.p.shard, File: st.p.file, Address: last.address, Err: last}
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
	st.mu.Lock()
	if code == codes.ResourceExhausted && time.Since(st.took) < busyPatience {
		level = slog.LevelDebug
	}
	why := unserved{code, level}
	due := time.Since(st.saidUnserved[why]) >= sayUnservedEvery
	if due {
		st.saidUnserved[why] = time.Now()
	}
	st.mu.Unlock()
	if due {
		st.log.Log(ctx, level, "no worker serves a shard; trying on", "event", "no_worker", "shard", st.p.shard, "file", st.p.file,
			"workers", len(r.workers), "cause", cause)
	}
}

// candidates are the piece's workers, best first; those that were late lately come last.
func (st *stream) candidates() []*pb.Worker {
	st.mu.Lock()
	defer st.mu.Unlock()
	select {
	case <-st.p.fresh: // it is these that are tried now
	default:
	}
	return st.hedging.inOrder(st.at.workers, time.Now())
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

// resumed tells that a broken stream went on with worker w.
func (st *stream) resumed(w *pb.Worker) {
	st.mu.Lock()
	if st.broken == nil {
		st.mu.Unlock()
		return
	}
	r := *st.broken
	r.To, r.Pause = w.GetName(), time.Since(st.brokenAt)
	st.broken = nil
	if r.From != r.To {
		st.stats.Failovers++
	}
	st.mu.Unlock()
	st.log.Info("stream resumed", "event", "stream_resumed", "shard", r.Shard, "file", r.File, "cursor", r.Cursor, "from", r.From, "to", r.To, "pause", r.Pause, "cause", r.Cause)
	if st.cfg.OnResume != nil {
		st.cfg.OnResume(r)
	}
}

// lacks is how a worker begins its words when it lacks something that a program needs. Whatever else is Unimplemented, a
// worker did not say: another server did, or a proxy.
const lacks = "this worker cannot run the program"

// stranger reports whether what answered is no worker.
func stranger(err error) bool {
	return status.Code(err) == codes.Unimplemented && !strings.Contains(err.Error(), lacks)
}
