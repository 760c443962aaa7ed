package client

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
)

const (
	syncTimeout = 10 * time.Second       // at most: see patience
	syncGap     = 20 * time.Millisecond  // events within it share a Sync
	sharedEvery = 200 * time.Millisecond // while ranks may wait for each other's rows or steps
)

// control Syncs until the session ends.
func (s *Session) control(ctx context.Context) {
	failed, hungry, newest := 0, 0, known{}
	for {
		err := s.sync(ctx)
		s.synced(err)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			if failed > 0 {
				s.log.Info("a master answers again", "event", "master_back", "attempts", failed+1)
			}
			failed = 0
		case !transient(err):
			s.fail(fmt.Errorf("client: session %q: %w", s.cfg.Session, fencedOr(err)))
			return
		default:
			if failed == 0 {
				s.log.Warn("Sync failed; streams go on, trying again", "event", "master_lost", "cause", err)
			}
			failed++
			_ = sleep(ctx, backoff(failed, s.cfg.SyncEvery)) // its end is seen above
			continue
		}
		finished, idle, shared, told := s.progress()
		if finished {
			<-ctx.Done()
			return
		}
		delay := s.cfg.SyncEvery
		if shared {
			delay = min(delay, sharedEvery)
		}
		if !idle {
			hungry = 0
		} else {
			// Nothing to stream until the master says so: ask more often, at first.
			if told != newest { // and so more may come soon
				newest, hungry = told, 0
			}
			delay = min(delay, syncGap<<min(hungry, 16))
			hungry++
		}
		s.pause(ctx, delay)
	}
}

// known is what the master has told: how many epochs are closed, and how many steps the loop's has, if ranks count them.
type known struct {
	closed uint32
	steps  uint64
}

// progress reports whether all epochs are closed, whether nothing of the open epoch is held, whether ranks may wait for each other,
// and what is known.
func (s *Session) progress() (finished, idle, shared bool, told known) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &s.ledger
	idle = l.pacing().starved()
	shared = (idle || l.drained) && (!l.alone || l.pacing().counts())
	return s.finished, idle, shared, known{closed: l.epoch, steps: l.told[l.current()].steps}
}

// pause waits for delay or an event, but at least syncGap.
func (s *Session) pause(ctx context.Context, delay time.Duration) {
	if sleep(ctx, syncGap) != nil {
		return
	}
	t := time.NewTimer(delay - syncGap)
	defer t.Stop()
	select {
	case <-t.C:
	case <-s.wake:
	case <-ctx.Done():
	}
}

// patience is how long a master may take to answer a Sync: short enough that others can be asked before the lease ends.
func (s *Session) patience() time.Duration { return min(syncTimeout, s.lease/4) }

// sync makes one exchange with the master.
func (s *Session) sync(ctx context.Context) error {
	s.mu.Lock()
	select {
	case <-s.wake: // what it tells goes into this request
	default:
	}
	req := s.request()
	s.mu.Unlock()
	var reply *pb.SyncReply
	var sent time.Time
	err := s.masters.call(ctx, "sync", s.patience(), func(ctx context.Context, m pb.MasterClient) (err error) {
		sent = time.Now()
		reply, err = m.Sync(ctx, req)
		return err
	})
	if err != nil {
		return err
	}
	if reply.GetFailure() != "" {
		s.fail(s.sessionFailed(reply.GetFailure(), reply.GetBadData()))
		return nil
	}
	s.pool.prune(s.apply(reply, sent))
	s.tellSkipped(reply.GetSkipped())
	return nil
}

// request is this rank's complete state. s.mu must be held.
func (s *Session) request() *pb.SyncRequest {
	req := &pb.SyncRequest{
		Session: s.cfg.Session, Generation: s.joined.GetGeneration(), Rank: s.cfg.Rank, Incarnation: s.joined.GetIncarnation(),
		Nonce: s.nonce, Revision: s.revision, Zone: s.cfg.Zone,
		Counters: &pb.Counters{
			Rows: s.stats.Rows, Batches: int64(s.stepsMade()), Bytes: s.stats.Bytes,
			StallNs: int64(s.stats.Stall), ComputeNs: int64(s.stats.Compute), Failovers: s.stats.Failovers, Hedges: s.stats.Hedges,
		},
	}
	buffered := 0.0 // batches
	if s.stats.Bytes > 0 {
		buffered = float64(s.ledger.queued) * float64(s.stats.Batches) / float64(s.stats.Bytes)
	}
	req.Pace = s.pace.proto(buffered)
	s.ledger.request(req)
	s.ledger.pacing().report(req, s.making())
	req.Checkpoint = s.part()
	return req
}

// apply takes over a reply and returns the addresses of all workers that may be asked.
func (s *Session) apply(reply *pb.SyncReply, sent time.Time) map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision = reply.GetRevision()
	s.leaseEnds = sent.Add(s.lease)
	s.stats.Workers, s.stats.Streams, s.stats.Cause = int(reply.GetWorkers()), int(reply.GetStreams()), reply.GetCause()
	starved := !s.ledger.unread()
	if err := s.ledger.apply(reply, s.making()); err != nil {
		s.failLocked(fmt.Errorf("client: session %q: sync: %w", s.cfg.Session, err))
	}
	if starved && s.ledger.unread() {
		s.waiting.since = time.Now()
	}
	if s.checkpointing.obey(reply.GetCheckpoint(), s.stepsMade()); s.checkpointing.missed {
		signal(s.wake)
	}
	s.finished = reply.GetFinished() || s.ledger.epoch >= s.epochs
	s.sayIdle()
	s.tellReady()
	signal(s.slot)
	if len(s.ledger.released) > 0 {
		signal(s.wake)
	}
	signal(s.ready)
	return s.ledger.addresses()
}

// sayIdle says once an epoch why Next waits when the rest of it is other ranks'. s.mu must be held.
func (s *Session) sayIdle() {
	l := &s.ledger
	if s.cfg.WorldSize < 2 || s.finished || s.saidIdle > l.epoch || !l.ahead() && (!l.through || !l.pacing().idles()) {
		return
	}
	if len(l.absent(s.cfg.WorldSize)) > 0 { // awaitRanks says for whom it waits
		return
	}
	s.saidIdle = l.epoch + 1
	what := "this rank has all that it gets of the epoch; it waits until the other ranks have taken theirs"
	if l.ahead() {
		what = "this rank has left the epoch; it waits until the other ranks have left it, too, or taken the rest"
	}
	s.log.Info(what, "event", "waiting_for_ranks", "epoch", l.epoch)
}

// moved is called after rows of a piece were received. s.mu must be held.
func (s *Session) moved(p *piece) {
	if p.finished() {
		s.freed()
	}
}

// freed gives the slot of a piece that ended to the next one, of which the master is asked for more if few wait. s.mu must be held.
func (s *Session) freed() {
	signal(s.slot)
	if s.ledger.wantsMore() {
		signal(s.wake)
	}
}
