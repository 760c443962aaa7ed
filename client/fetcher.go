package client

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/wire"
)

// fetcher gets the rows that are granted: it opens streams from workers, which have the ledger take in what comes.
type fetcher struct {
	terms   *terms
	shared  *shared
	pool    *pool // of workers
	courier *courier

	// Under shared.mu.
	hedging      hedging
	since        time.Time        // a row of the open epoch came, or the first that is to come was granted
	errs         map[string]error // workers' newest, by address
	saidUnserved map[unserved]time.Time
	fetched      fetched
}

// fetched is the fetcher's part of Stats.
type fetched struct {
	received          int64
	ways              map[wire.Way]int64
	streams           map[string]int // by worker
	failovers, hedges int64
}

func newFetcher(t *terms, s *shared) *fetcher {
	workers := newPool(t.cfg.Dial, t.cfg.DialLink)
	return &fetcher{
		terms: t, shared: s, pool: workers, courier: newCourier(t, workers), since: time.Now(),
		hedging:      hedging{slow: make(map[string]time.Time)},
		saidUnserved: make(map[unserved]time.Time), errs: make(map[string]error),
		fetched: fetched{streams: make(map[string]int)},
	}
}

// run opens a stream whenever a slot is free, and waits for all of them in the end.
func (f *fetcher) run(ctx context.Context) {
	var streams sync.WaitGroup
	defer streams.Wait()
	for {
		select {
		case <-f.shared.slot:
		case <-ctx.Done():
			return
		}
		for {
			p, streamCtx := f.startable(ctx)
			if p == nil {
				break
			}
			streams.Go(func() {
				defer p.cancel()
				st := newStream(f, p)
				st.run(streamCtx)
				st.ended()
			})
		}
	}
}

// startable marks the next piece to stream as open and returns it, if a slot is free.
func (f *fetcher) startable(ctx context.Context) (*piece, context.Context) {
	f.shared.mu.Lock()
	defer f.shared.mu.Unlock()
	l := &f.shared.ledger
	p := l.order().startable()
	if p == nil {
		return nil, nil
	}
	p.open = true
	ctx, p.cancel = context.WithCancel(ctx)
	p.lead()
	if l.wantsMore() {
		signal(f.shared.wake)
	}
	return p, ctx
}

// granted notes that rows of the open epoch are to come, where none were. shared.mu must be held.
func (f *fetcher) granted() { f.since = time.Now() }

// countStream keeps Stats.StreamsByWorker.
func (f *fetcher) countStream(w *pb.Worker, n int) {
	f.shared.mu.Lock()
	defer f.shared.mu.Unlock()
	by := f.fetched.streams
	if by[w.GetName()] += n; by[w.GetName()] == 0 {
		delete(by, w.GetName())
	}
}

// countWay keeps Stats.Received and Ways, and says once that batches come by gRPC. shared.mu must be held.
func (f *fetcher) countWay(from *pb.Worker, b *wire.Batch) {
	n := &f.fetched
	n.received += b.Sent
	if n.ways == nil {
		n.ways = make(map[wire.Way]int64)
	}
	if n.ways[b.Way]++; b.Way == wire.ByGRPC && n.ways[b.Way] == 1 {
		f.terms.log.Info("batches come by gRPC, which costs more CPU time than a link: the worker has none to give, "+
			"or a proxy between lets only HTTP/2 through",
			"event", "no_link", "worker", from.GetName(), "address", from.GetAddress())
	}
}

// count fills in Stats. shared.mu must be held.
func (f *fetcher) count(st *Stats) {
	n := &f.fetched
	st.Received, st.Failovers, st.Hedges = n.received, n.failovers, n.hedges
	st.Ways, st.StreamsByWorker = maps.Clone(n.ways), maps.Clone(n.streams)
}

// noteError notes a worker's newest error.
func (f *fetcher) noteError(w *pb.Worker, err error) {
	f.shared.mu.Lock()
	defer f.shared.mu.Unlock()
	f.errs[w.GetAddress()] = err
}

// forgetErrors forgets those of workers that are not asked any more. shared.mu must be held.
func (f *fetcher) forgetErrors(asked map[string]bool) {
	maps.DeleteFunc(f.errs, func(address string, _ error) bool { return !asked[address] })
	f.courier.forget(asked)
}
