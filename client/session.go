package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
	"github.com/penstock-ml/penstock/api/spec"
)

const leaveTimeout = 5 * time.Second

// Session is one rank's reading of a session.
type Session struct {
	cfg      Config
	log      *slog.Logger
	pool     *pool // of workers
	masters  *masters
	nonce    string // of the Join, and of this start for good
	joined   *pb.JoinReply
	session  *pb.Session
	lease    time.Duration
	batch    int
	pads     bool    // last batches
	layout   *layout // of what the program makes
	epochs   uint32
	cancel   context.CancelFunc
	done     chan struct{} // closed when all goroutines have ended
	leaveErr error         // read after done

	ready   chan struct{} // wakes Next
	wake    chan struct{} // wakes the control goroutine
	slot    chan struct{} // wakes the goroutine that opens streams
	build   *buffers      // the batch in the making; Next's
	stalled time.Duration // that Next has waited for it, over calls that ended with their contexts; Next's

	building map[string]int64 // its rows by worker; under mu

	knownSkipped map[Skipped]bool // the control goroutine's, once there is one

	mu           sync.Mutex
	ledger       ledger
	free         []*buffers
	err          error // why the session ended
	finished     bool
	lapsed       bool // the lease ran out, and the log says so
	saidUnserved map[unserved]time.Time
	saidAbsent   uint32 // epochs up to this one of which the log says that this rank waits for some that have not joined
	saidIdle     uint32 // epochs up to this one of which the log says that this rank waits for others
	revision     uint64
	leaseEnds    time.Time
	lastReturn   time.Time // of Next with a batch
	waiting      waiting
	lastRows     int // of that batch, without padding
	pace         loopPace
	hedging      hedging
	stats        Stats

	checkpointing checkpointing
}

// Open opens the session on the master (or attaches to it), joins it as a rank and begins to stream. It waits for a
// master as long as ctx allows; a spec with mistakes is an error that lists them all. The session lives until Close,
// until it fails, or until ctx ends.
func Open(ctx context.Context, cfg Config) (*Session, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Session{
		cfg:     cfg,
		log:     cfg.Logger.With("session", cfg.Session, "rank", cfg.Rank),
		nonce:   rand.Text(),
		pool:    newPool(cfg.Dial, cfg.DialLink),
		masters: &masters{addresses: cfg.Masters, pool: newPool(cfg.Dial, nil)},
		done:    make(chan struct{}),
		ready:   make(chan struct{}, 1),
		wake:    make(chan struct{}, 1),
		slot:    make(chan struct{}, 1),

		building: make(map[string]int64), knownSkipped: make(map[Skipped]bool), saidUnserved: make(map[unserved]time.Time),
		hedging: hedging{slow: make(map[string]time.Time)},
		stats:   Stats{RowsByWorker: make(map[string]int64), StreamsByWorker: make(map[string]int)},
	}
	if err := s.open(ctx); err != nil {
		s.masters.pool.close()
		return nil, fmt.Errorf("client: session %q: %w", cfg.Session, err)
	}
	ctx, s.cancel = context.WithCancel(ctx)
	go s.run(ctx)
	return s, nil
}

// begin takes over the answers of a master.
func (s *Session) begin(sent time.Time) error {
	if j := s.joined.GetSession(); j != nil {
		s.session = j
	}
	if s.session.GetState() == pb.SessionState_FAILED {
		return s.sessionFailed(s.session.GetFailure(), s.session.GetBadData())
	}
	layout, err := layoutOf(s.session.GetProgram())
	if err != nil {
		return fmt.Errorf("the program: %w", err)
	}
	s.layout = layout
	s.batch, s.pads = int(s.session.GetBatchSize()), s.session.GetSpec().GetLastBatch() == pb.LastBatch_PAD
	s.epochs = spec.Epochs(s.session.GetSpec())
	if s.batch < 1 {
		return fmt.Errorf("the master's spec has batch_size %d; it must be positive", s.batch)
	}
	if s.lease = time.Duration(s.joined.GetLeaseMs()) * time.Millisecond; s.lease <= 0 {
		return fmt.Errorf("the master gave a lease of %v; it must be positive", s.lease)
	}
	s.leaseEnds, s.waiting.since = sent.Add(s.lease), time.Now()
	j := s.joined
	s.ledger = ledger{
		steps: steps{batch: s.batch}, holdings: holdings{streams: 1}, epoch: j.GetClosedEpochs(),
		consumed: position.SetFromProto(j.GetConsumed()), alone: s.cfg.WorldSize == 1,
	}
	s.ledger.setBase(j)
	for _, m := range j.GetSkipped() {
		s.knownSkipped[skippedOf(m)] = true
	}
	return s.count()
}

// count has the ledger count steps, where ranks do.
func (s *Session) count() error {
	of, l := s.session.GetSpec(), &s.ledger
	c := steps{batch: s.batch, pads: s.pads, counted: of.GetLastBatch() == pb.LastBatch_DROP}
	if of.GetOrder() == pb.Order_DETERMINISTIC {
		n := s.session.GetLanes()
		if n == 0 || n%s.cfg.WorldSize != 0 || uint64(s.batch)%uint64(n/s.cfg.WorldSize) != 0 {
			return fmt.Errorf("the master's session has %d lanes; %d ranks with batches of %d rows cannot share them", n, s.cfg.WorldSize, s.batch)
		}
		c.pads, c.counted, c.lanes = false, true, newLanes(n, s.cfg.Rank, s.cfg.WorldSize, s.batch)
	}
	if c.pads || c.counted {
		l.countSteps(c, s.joined.GetSteps(), s.joined.GetStarts())
	} else {
		l.enter(s.beginsIn())
	}
	return nil
}

// run owns the session's goroutines: it Syncs until the session ends, waits for the streams, then leaves and closes
// the connections.
func (s *Session) run(ctx context.Context) {
	defer close(s.done)
	var streams sync.WaitGroup
	streams.Go(func() { s.openStreams(ctx) })
	s.control(ctx)
	s.fail(fmt.Errorf("client: session %q: %w", s.cfg.Session, context.Cause(ctx)))
	s.leaveErr = s.leave(context.WithoutCancel(ctx)) // what it holds goes back, whatever a stream waits for
	streams.Wait()
	s.pool.close()
	s.masters.pool.close()
}

// fail ends the session; the first reason counts.
func (s *Session) fail(err error) {
	s.mu.Lock()
	s.failLocked(err)
	s.mu.Unlock()
}

func (s *Session) failLocked(err error) {
	if s.err == nil {
		s.err = err
	}
	s.cancel()
	signal(s.ready)
}

// Close leaves the session: what this rank holds and has not consumed goes back at once. It stops all goroutines,
// within about leaveTimeout where no master answers, which is its error.
func (s *Session) Close() error {
	s.fail(ErrClosed)
	<-s.done
	return s.leaveErr
}

// Abandon ends the session as the end of this process would: no master hears of it, and what this rank holds goes back when its lease has
// run out. It stops all goroutines. After Close, and after an error that ended the session, it changes nothing.
func (s *Session) Abandon() {
	s.fail(errAbandoned)
	<-s.done
}

// leave sends the last Sync.
func (s *Session) leave(ctx context.Context) error {
	s.mu.Lock()
	silent := errors.Is(s.err, ErrFenced) || errors.Is(s.err, errAbandoned)
	req := s.request()
	s.mu.Unlock()
	if silent {
		return nil
	}
	req.Leave, req.WantsMore, req.Refused = true, false, nil // what it gives back is others' to try
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	err := s.masters.persist(ctx, "leave", trials{each: leaveTimeout}, func(error) {}, func(ctx context.Context, m pb.MasterClient) error {
		_, err := m.Sync(ctx, req)
		return err
	})
	if err != nil {
		return fmt.Errorf("client: session %q: %w", s.cfg.Session, err)
	}
	return nil
}
