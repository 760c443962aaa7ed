package master

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/master/store"
)

const (
	// retryEvery is how long to wait after etcd failed before the next try.
	retryEvery = time.Second
	// compactEvery is how often the leader has etcd forget the history of its keys.
	compactEvery = time.Minute
)

// lead campaigns for the leadership and leads, again and again, until ctx ends.
func (m *Master) lead(ctx context.Context) error {
	m.health.SetServingStatus("", healthpb.HealthCheckResponse_SERVING)
	for ctx.Err() == nil {
		leadership, err := m.cfg.Store.Campaign(ctx, m.cfg.Advertise)
		if err != nil {
			m.pause(ctx, "cannot campaign for the leadership; trying on", err)
			continue
		}
		t, err := m.serveTerm(ctx, leadership)
		resignCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), retryEvery)
		err = errors.Join(err, leadership.Resign(resignCtx))
		cancel()
		t.awaitReading()
		if ctx.Err() == nil {
			m.pause(ctx, "leadership lost", err)
		}
	}
	return nil
}

// follow keeps in mind who leads. It tells that this master is up once another one does; until then its answers would
// help nobody.
func (m *Master) follow(ctx context.Context) error {
	_ = m.cfg.Store.Observe(ctx, func(leader string) { // it returns when ctx ends
		m.mu.Lock()
		m.leader = leader
		m.mu.Unlock()
		if leader != "" && leader != m.cfg.Advertise {
			m.up()
		}
	})
	return nil
}

// up calls Config.Up, once.
func (m *Master) up() {
	m.announce.Do(func() {
		if m.cfg.Up != nil {
			m.cfg.Up(m.cfg.Advertise, m.fleet.Address())
		}
	})
}

func (m *Master) pause(ctx context.Context, what string, err error) {
	if ctx.Err() != nil {
		return
	}
	m.cfg.Logger.Warn(what, "error", err)
	select {
	case <-ctx.Done():
	case <-time.After(retryEvery):
	}
}

// serveTerm leads until the leadership or ctx ends. It returns the term, of which nothing runs any more but what reads
// datasets.
func (m *Master) serveTerm(ctx context.Context, leadership *store.Leadership) (*term, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	t := newTerm(ctx, m, leadership, group)
	group.Go(func() error {
		select {
		case <-leadership.Done():
			return store.ErrNotLeader
		case <-ctx.Done():
			return nil
		}
	})
	group.Go(func() error { return t.events.Run(ctx) })
	if err := t.load(); err != nil {
		cancel()
		t.close()
		return t, errors.Join(err, group.Wait())
	}
	group.Go(t.compact)
	group.Go(t.sweep)
	group.Go(t.sweepCode)
	group.Go(t.keepNotes)
	group.Go(t.emitWorkers)
	m.observed.Begin()
	m.observed.Tick(time.Now(), t.running())
	group.Go(t.observe)
	if t.scaler != nil {
		group.Go(t.scaler.run)
	}
	m.setTerm(t)
	t.events.Add(&pb.Event{Kind: pb.EventKind_LEADER, Words: fmt.Sprintf("master %s leads", m.cfg.Advertise)})
	m.cfg.Logger.Info("this master leads", "sessions", len(t.all()))
	m.up()
	<-ctx.Done()
	m.setTerm(nil)
	t.close()
	return t, group.Wait()
}

func (m *Master) setTerm(t *term) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.term = t
}

func (m *Master) leading() *term {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.term
}

// leaderAddress is whom trainers should ask, "" if nobody leads yet.
func (m *Master) leaderAddress() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.term != nil:
		return m.cfg.Advertise
	case m.leader == m.cfg.Advertise: // it takes up its sessions still, or has lost the leadership
		return ""
	}
	return m.leader
}
