package client

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"iter"
	"sync"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// Session is one rank's reading of a session.
type Session struct {
	terms    *terms        // what was settled at the opening
	shared   *shared       // the ledger, and the one mutex
	fetcher  *fetcher      // gets rows from workers
	handover *handover     // makes batches of them
	control  *control      // talks to the master
	done     chan struct{} // closed when all goroutines have ended
	leaveErr error         // read after done
}

// Open opens the session on the master (or attaches to it), joins it as a rank and begins to stream. It waits for a
// master as long as ctx allows; a spec with mistakes is an error that lists them all. The session lives until Close,
// until it fails, or until ctx ends.
func Open(ctx context.Context, cfg Config) (*Session, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	t := &terms{cfg: cfg, log: cfg.Logger.With("session", cfg.Session, "rank", cfg.Rank), nonce: rand.Text()}
	m := &masters{addresses: cfg.Masters, pool: newPool(cfg.Dial, nil)}
	sent, err := opening{t, m, bundleOf(&cfg)}.run(ctx)
	var s *Session
	if err == nil {
		s, err = newSession(t, m, sent)
	}
	if err != nil {
		m.pool.close()
		return nil, t.named(err)
	}
	ctx, s.shared.cancel = context.WithCancel(ctx)
	go s.run(ctx)
	return s, nil
}

// newSession is the session of a Join that was sent at a time. It begins with run.
func newSession(t *terms, m *masters, sent time.Time) (*Session, error) {
	s := &Session{terms: t, shared: newShared(), done: make(chan struct{})}
	if err := t.begin(&s.shared.ledger); err != nil {
		return nil, err
	}
	s.fetcher = newFetcher(t, s.shared)
	s.handover = newHandover(t, s.shared)
	s.handover.renew(sent)
	s.control = newControl(t, s.shared, s.fetcher, s.handover, m)
	return s, nil
}

// run owns the session's goroutines: it Syncs until the session ends, waits for the streams, then leaves and closes
// the connections.
func (s *Session) run(ctx context.Context) {
	defer close(s.done)
	var streams sync.WaitGroup
	streams.Go(func() { s.fetcher.run(ctx) })
	s.control.run(ctx)
	s.shared.fail(s.terms.named(context.Cause(ctx)))
	s.leaveErr = s.control.leave(context.WithoutCancel(ctx)) // what it holds goes back, whatever a stream waits for
	streams.Wait()
	s.fetcher.pool.close()
	s.control.masters.pool.close()
}

// Close leaves the session: what this rank holds and has not consumed goes back at once. It stops all goroutines,
// within about leaveTimeout where no master answers, which is its error.
func (s *Session) Close() error {
	s.shared.fail(ErrClosed)
	<-s.done
	return s.leaveErr
}

// Abandon ends the session as the end of this process would: no master hears of it, and what this rank holds goes back
// when its lease has run out. It stops all goroutines. After Close, and after an error that ended the session, it
// changes nothing.
func (s *Session) Abandon() {
	s.shared.fail(errAbandoned)
	<-s.done
}

// Next returns the next batch: exactly batch_size rows, all of one epoch; Batch.Epoch says of which. When this rank
// has nothing more of an epoch to get, what is left is a shorter last batch, or dropped, as the spec says. If another
// rank dies after that, rows of its shards may come late and make one more short batch. io.EOF comes after all epochs.
//
// If the spec pads last batches, all ranks get equally many batches of an epoch, all of batch_size rows: see
// Batch.Valid. Where all get equally many, Next waits for ranks that have not joined, at most for Config.JoinTimeout.
//
// Returning a batch is what makes its rows consumed. When ctx ends, Next returns its error at once and loses nothing;
// any other error ends the session. It waits, and says so in the log, while the lease has run out because no master
// can be reached.
func (s *Session) Next(ctx context.Context) (*Batch, error) { return s.handover.next(ctx, false) }

// NextOfEpoch is Next, but for the error ErrEpochEnd where an epoch ends, once for each. The loop is then in the next
// epoch, so that a State says that nothing is left of the one before.
func (s *Session) NextOfEpoch(ctx context.Context) (*Batch, error) { return s.handover.next(ctx, true) }

// Batches ranges over Next until io.EOF; any other error is yielded last.
func (s *Session) Batches(ctx context.Context) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		for {
			b, err := s.Next(ctx)
			if errors.Is(err, io.EOF) || !yield(b, err) || err != nil {
				return
			}
		}
	}
}

// LeaveEpoch ends an epoch for this rank before its end, if the loop is in it still: Next goes on with the epoch after
// it, and a State names that. The rest goes to the ranks that are still in the epoch, and to nobody once all have left
// it; where ranks count no outputs, Next waits for that. Like Next it is for the one goroutine.
func (s *Session) LeaveEpoch(epoch uint32) error { return s.handover.leaveEpoch(epoch) }

// Prepare copies rows, as they come, into the batch that Next returns next, until it is whole: Next is the quicker for
// it. It reports false if something came over stop before. Like Next it is for the one goroutine.
func (s *Session) Prepare(stop <-chan struct{}) bool { return s.handover.prepare(stop) }

// State is this rank's checkpoint as of the batch that Next returned last.
func (s *Session) State() *pb.State {
	s.shared.mu.Lock()
	at := s.handover.snapshot()
	s.shared.mu.Unlock()
	return s.terms.state(at)
}

// StateAfter is this rank's checkpoint as of a batch, for loops that read ahead; b may be released already.
func (s *Session) StateAfter(b *Batch) *pb.State { return s.terms.state(b.after) }

// Epoch is the one that the loop is in, from 0; the number of epochs after the last.
func (s *Session) Epoch() uint32 {
	s.shared.mu.Lock()
	defer s.shared.mu.Unlock()
	return s.shared.ledger.ended
}

// EpochBatches is how many batches this rank gets of the epoch that the loop is in, from its beginning on, where the
// master has told.
func (s *Session) EpochBatches() (n uint64, known bool) {
	s.shared.mu.Lock()
	defer s.shared.mu.Unlock()
	l := &s.shared.ledger
	e := l.planned[l.ended]
	return e.steps, l.pacing.counts() && e.final
}

// Info is the session as the master described it when this rank joined.
func (s *Session) Info() *pb.Session { return s.terms.session }

// PinnedSpec is the spec that the session was opened with, pinned to what it was resolved to then: the versions of ops,
// side tables, the fitted file, and Python functions by name. Serving by it (worker/apply) is refused where one of them
// is another. spec.Format writes it.
func (s *Session) PinnedSpec() (*pb.Spec, error) { return spec.PinnedSession(s.terms.session) }

// Schema is the schema of Batch.Record.
func (s *Session) Schema() *arrow.Schema { return s.terms.layout.schema }

// RestoredFrom is the named checkpoint that `penstock session restore` put the session back to, or nil. A training loop
// that loads the model that it saved there goes on in step with the data.
func (s *Session) RestoredFrom() *Checkpoint {
	if f := s.terms.session.GetRestoredFrom(); f.GetName() != "" {
		return &Checkpoint{Name: f.GetName(), Step: f.GetStep()}
	}
	return nil
}

// Planned returns how many rows an epoch has, if a master says that all of it is planned.
func (s *Session) Planned(ctx context.Context) (rows int64, known bool, err error) {
	cfg := &s.terms.cfg
	// its own, for the other one is the control goroutine's
	m := &masters{addresses: cfg.Masters, pool: s.control.masters.pool}
	var p *pb.Progress
	err = m.call(ctx, "get session", openTimeout, func(ctx context.Context, m pb.MasterClient) error {
		info, err := m.GetSession(ctx, &pb.GetSessionRequest{Session: cfg.Session})
		p = info.GetProgress()
		return err
	})
	if err != nil {
		return 0, false, err
	}
	return p.GetRowsPlanned(), p.GetBlocks() > 0 && p.GetBlocksPlanned() == p.GetBlocks(), nil
}

// Delete has the master forget the session, for all of its ranks: for sessions of which nobody needs a State any more.
// Call it once Close has returned. A session that is not there any more is no error.
func (s *Session) Delete(ctx context.Context) error {
	cfg := &s.terms.cfg
	m := &masters{addresses: cfg.Masters, pool: newPool(cfg.Dial, nil)}
	defer m.pool.close()
	return m.call(ctx, "delete session", leaveTimeout, func(ctx context.Context, m pb.MasterClient) error {
		_, err := m.DeleteSession(ctx, &pb.DeleteSessionRequest{Session: cfg.Session})
		if status.Code(err) == codes.NotFound {
			return nil
		}
		return err
	})
}
