package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
)

const (
	syncTimeout  = 10 * time.Second       // at most: see patience
	syncGap      = 20 * time.Millisecond  // events within it share a Sync
	sharedEvery  = 200 * time.Millisecond // while ranks may wait for each other's rows or steps
	leaveTimeout = 5 * time.Second
)

// control talks to the master: it says what was consumed and how the loop goes, and has the other parts take over what
// the master answers. Its calls are one goroutine's, unless they say that shared.mu must be held.
type control struct {
	terms        *terms
	shared       *shared
	fetcher      *fetcher
	handover     *handover
	masters      *masters
	knownSkipped map[Skipped]bool // of which the log has said that they are left out

	// Under shared.mu.
	revision uint64
	syncErr  error  // of the newest Sync
	saidIdle uint32 // epochs up to this one of which the log says that this rank waits for others
	fleet    fleet
}

// fleet is the control's part of Stats.
type fleet struct {
	workers, streams int
	cause            *pb.Cause
}

func newControl(t *terms, s *shared, f *fetcher, h *handover, m *masters) *control {
	c := &control{terms: t, shared: s, fetcher: f, handover: h, masters: m, knownSkipped: make(map[Skipped]bool)}
	for _, m := range t.joined.GetSkipped() {
		c.knownSkipped[skippedOf(m)] = true
	}
	return c
}

// count fills in Stats. shared.mu must be held.
func (c *control) count(st *Stats) {
	st.Workers, st.Streams, st.Cause = c.fleet.workers, c.fleet.streams, c.fleet.cause
}

// run Syncs until the session ends.
func (c *control) run(ctx context.Context) {
	failed, hungry, newest := 0, 0, known{}
	for {
		err := c.sync(ctx)
		c.synced(err)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			if failed > 0 {
				c.terms.log.Info("a master answers again", "event", "master_back", "attempts", failed+1)
			}
			failed = 0
		case !transient(err):
			c.shared.fail(c.terms.named(fencedOr(err)))
			return
		default:
			if failed == 0 {
				c.terms.log.Warn("Sync failed; streams go on, trying again", "event", "master_lost", "cause", err)
			}
			failed++
			_ = sleep(ctx, backoff(failed, c.terms.cfg.SyncEvery)) // its end is seen above
			continue
		}
		finished, idle, shared, now := c.progress()
		if finished {
			<-ctx.Done()
			return
		}
		delay := c.terms.cfg.SyncEvery
		if shared {
			delay = min(delay, sharedEvery)
		}
		if !idle {
			hungry = 0
		} else {
			// Nothing to stream until the master says so: ask more often, at first.
			if now != newest { // and so more may come soon
				newest, hungry = now, 0
			}
			delay = min(delay, syncGap<<min(hungry, 16))
			hungry++
		}
		c.pause(ctx, delay)
	}
}

// known is what the master has said: how many epochs are closed, and how many steps the loop's has, if ranks count
// them.
type known struct {
	closed uint32
	steps  uint64
}

// progress reports whether all epochs are closed, whether nothing of the open epoch is held, whether ranks may wait for
// each other, and what is known.
func (c *control) progress() (finished, idle, shared bool, now known) {
	c.shared.mu.Lock()
	defer c.shared.mu.Unlock()
	l := &c.shared.ledger
	idle = l.pacing.starved()
	shared = (idle || l.drained) && (!l.alone || l.pacing.counts())
	return l.finished, idle, shared, known{closed: l.epoch, steps: l.planned[l.current()].steps}
}

// synced notes how a Sync ended.
func (c *control) synced(err error) {
	c.shared.mu.Lock()
	defer c.shared.mu.Unlock()
	if c.syncErr = err; err == nil {
		c.fetcher.forgetErrors(c.shared.ledger.addresses())
	}
}

// pause waits for delay or an event, but at least syncGap.
func (c *control) pause(ctx context.Context, delay time.Duration) {
	if sleep(ctx, syncGap) != nil {
		return
	}
	t := time.NewTimer(delay - syncGap)
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.shared.wake:
	case <-ctx.Done():
	}
}

// patience is how long a master may take to answer a Sync: short enough that others can be asked before the lease ends.
func (c *control) patience() time.Duration { return min(syncTimeout, c.terms.lease/4) }

// sync makes one exchange with the master.
func (c *control) sync(ctx context.Context) error {
	c.shared.mu.Lock()
	select {
	case <-c.shared.wake: // what it was for goes into this request
	default:
	}
	req := c.request()
	c.shared.mu.Unlock()
	var reply *pb.SyncReply
	var sent time.Time
	err := c.masters.call(ctx, "sync", c.patience(), func(ctx context.Context, m pb.MasterClient) (err error) {
		sent = time.Now()
		reply, err = m.Sync(ctx, req)
		return err
	})
	if err != nil {
		return err
	}
	if reply.GetFailure() != "" {
		c.shared.fail(c.terms.failed(reply.GetFailure(), reply.GetBadData()))
		return nil
	}
	c.fetcher.pool.prune(c.apply(reply, sent))
	c.saySkipped(reply.GetSkipped())
	c.sayBadRows(req.GetBadRows())
	return nil
}

// request is this rank's complete state. shared.mu must be held.
func (c *control) request() *pb.SyncRequest {
	t, l := c.terms, &c.shared.ledger
	n, f := &c.handover.handed, &c.fetcher.fetched
	req := &pb.SyncRequest{
		Session: t.cfg.Session, Generation: t.joined.GetGeneration(), Rank: t.cfg.Rank,
		Incarnation: t.joined.GetIncarnation(), Nonce: t.nonce, Revision: c.revision, Zone: t.cfg.Zone,
		Counters: &pb.Counters{
			Rows: n.rows, Batches: int64(c.handover.stepsMade()), Bytes: n.bytes,
			StallNs: int64(n.stall), ComputeNs: int64(n.compute), Failovers: f.failovers, Hedges: f.hedges,
		},
	}
	buffered := 0.0 // batches
	if n.bytes > 0 {
		buffered = float64(l.queued) * float64(n.batches) / float64(n.bytes)
	}
	req.Pace = c.handover.pace.proto(buffered)
	l.request(req)
	l.pacing.report(req, c.shared.making())
	req.Checkpoint = c.handover.part()
	return req
}

// apply takes over a reply and returns the addresses of all workers that may be asked.
func (c *control) apply(reply *pb.SyncReply, sent time.Time) map[string]bool {
	sh := c.shared
	sh.mu.Lock()
	defer sh.mu.Unlock()
	c.revision = reply.GetRevision()
	c.handover.renew(sent)
	c.fleet = fleet{workers: int(reply.GetWorkers()), streams: int(reply.GetStreams()), cause: reply.GetCause()}
	starved := !sh.ledger.unread()
	if err := sh.ledger.apply(reply, sh.making()); err != nil {
		sh.failLocked(c.terms.named(fmt.Errorf("sync: %w", err)))
	}
	if starved && sh.ledger.unread() {
		c.fetcher.granted()
	}
	c.handover.obey(reply.GetCheckpoint())
	c.sayIdle()
	sh.announce()
	signal(sh.slot)
	if len(sh.ledger.released) > 0 {
		signal(sh.wake)
	}
	signal(sh.ready)
	return sh.ledger.addresses()
}

// sayIdle says once an epoch why Next waits when the rest of it is other ranks'. shared.mu must be held.
func (c *control) sayIdle() {
	l, world := &c.shared.ledger, c.terms.cfg.WorldSize
	if world < 2 || l.finished || c.saidIdle > l.epoch || !l.ahead() && (!l.through || !l.pacing.idles()) {
		return
	}
	if len(l.absent(world)) > 0 { // awaitRanks says for whom it waits
		return
	}
	c.saidIdle = l.epoch + 1
	what := "this rank has all that it gets of the epoch; it waits until the other ranks have taken theirs"
	if l.ahead() {
		what = "this rank has left the epoch; it waits until the other ranks have left it, too, or taken the rest"
	}
	c.terms.log.Info(what, "event", "waiting_for_ranks", "epoch", l.epoch)
}

// leave sends the last Sync.
func (c *control) leave(ctx context.Context) error {
	c.shared.mu.Lock()
	silent := errors.Is(c.shared.err, ErrFenced) || errors.Is(c.shared.err, errAbandoned)
	req := c.request()
	c.shared.mu.Unlock()
	if silent {
		return nil
	}
	req.Leave, req.WantsMore, req.Refused = true, false, nil // what it gives back is others' to try
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	each := trials{each: leaveTimeout}
	err := c.masters.persist(ctx, "leave", each, func(error) {}, func(ctx context.Context, m pb.MasterClient) error {
		_, err := m.Sync(ctx, req)
		return err
	})
	if err != nil {
		return c.terms.named(err)
	}
	return nil
}
