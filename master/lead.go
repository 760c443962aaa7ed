package master

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/penstock-ml/penstock/master/store"
)

// retryEvery is how long to wait after etcd failed before the next try.
const retryEvery = time.Second

// lead campaigns for the leadership and leads, again and again, until ctx ends.
func (m *Master) lead(ctx context.Context) error {
	m.health.SetServingStatus("", healthpb.HealthCheckResponse_SERVING)
	for ctx.Err() == nil {
		leadership, err := m.cfg.Store.Campaign(ctx, m.cfg.Advertise)
		if err != nil {
			m.pause(ctx, "cannot campaign for the leadership; trying on", err)
			continue
		}
		err = m.serveTerm(ctx, leadership)
		resignCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), retryEvery)
		err = errors.Join(err, leadership.Resign(resignCtx))
		cancel()
		if ctx.Err() == nil {
			m.pause(ctx, "leadership lost", err)
		}
	}
	return nil
}

// follow tells that this master is up once another leads; until then its answers would help nobody.
func (m *Master) follow(ctx context.Context) error {
	_ = m.cfg.Store.Observe(ctx, func(leader string) { // it returns when ctx ends
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

// serveTerm leads until the leadership or ctx ends.
func (m *Master) serveTerm(ctx context.Context, leadership *store.Leadership) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	t := &term{master: m, leadership: leadership, ctx: ctx, group: group, sessions: map[string]*runner{}}
	if err := t.load(); err != nil {
		cancel()
		return errors.Join(err, group.Wait())
	}
	group.Go(func() error {
		select {
		case <-leadership.Done():
			return store.ErrNotLeader
		case <-ctx.Done():
			return nil
		}
	})
	m.setTerm(t)
	m.cfg.Logger.Info("this master leads", "sessions", len(t.sessions))
	m.up()
	<-ctx.Done()
	m.setTerm(nil)
	t.close()
	return group.Wait()
}

func (m *Master) setTerm(t *term) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.term = t
}

// term is a time of leadership and the sessions run in it.
type term struct {
	master     *Master
	leadership *store.Leadership
	ctx        context.Context // ends with the term
	group      *errgroup.Group

	mu       sync.Mutex
	closed   bool
	sessions map[string]*runner
}

// load takes up all sessions that etcd knows.
func (t *term) load() error {
	metas, err := t.master.cfg.Store.List(t.ctx)
	if err != nil {
		return fmt.Errorf("master: %w", err)
	}
	for _, m := range metas {
		id := m.GetSession().GetId()
		_, err := t.start(id)
		if errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrUnknown) || errors.Is(err, store.ErrNotLeader) {
			return err
		}
		if err != nil { // one session's damage must not stop the others
			t.master.cfg.Logger.Error("a session cannot be taken up; delete it, or run the release that opened it", "session", id, "error", err)
		}
	}
	return nil
}

// start runs a session that lies in etcd, unless it runs already.
func (t *term) start(id string) (*runner, error) {
	if r, ok := t.find(id); ok {
		return r, nil
	}
	r, err := newRunner(t, id)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if other, ok := t.sessions[id]; ok {
		return other, nil
	}
	if t.closed {
		return nil, store.ErrNotLeader
	}
	t.sessions[id] = r
	t.group.Go(r.run)
	return r, nil
}

// close keeps sessions from being started while the term's goroutines are waited for.
func (t *term) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
}

func (t *term) find(id string) (*runner, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r, ok := t.sessions[id]
	return r, ok
}

func (t *term) forget(id string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.sessions, id)
}

func (t *term) all() []*runner {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]*runner, 0, len(t.sessions))
	for _, r := range t.sessions {
		out = append(out, r)
	}
	return out
}
