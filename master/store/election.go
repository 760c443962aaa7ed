package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// Leadership is what a master may write by. It is lost when etcd has not heard of the master for the lease's
// time; every write compares its key, so that a master that has not noticed yet writes nothing.
type Leadership struct {
	store    *Store
	session  *concurrency.Session
	key      string
	revision int64 // at which key was created

	mu        sync.Mutex
	compactTo int64 // revision up to which the next Compact goes
}

// Campaign waits until the master at address leads, as long as ctx allows. The leadership lasts beyond ctx, until
// Resign or Done. The candidate who has waited longest is next.
func (s *Store) Campaign(ctx context.Context, address string) (*Leadership, error) {
	lead, err := s.stand(ctx, address)
	if err != nil {
		return nil, err
	}
	// A candidate whose lease has run out would wait for nothing.
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(lead.session.Ctx(), stop)() //nolint:contextcheck // the lease has a life of its own
	if err = lead.awaitTurn(waiting); err == nil {
		return lead, nil
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("store: campaign: %w", ctx.Err())
	}
	return nil, errors.Join(err, lead.Resign(context.WithoutCancel(ctx)))
}

// stand takes a lease and joins the candidates.
func (s *Store) stand(ctx context.Context, address string) (*Leadership, error) {
	call, cancel := s.call(ctx)
	defer cancel()
	ttl := int64((s.cfg.LeaseTTL + time.Second - 1) / time.Second)
	lease, err := s.client.Grant(call, ttl)
	if err != nil {
		return nil, readError("campaign: lease", err)
	}
	session, err := concurrency.NewSession(s.client, concurrency.WithLease(lease.ID))
	if err != nil {
		return nil, readError("campaign: keep the lease alive", err)
	}
	lead := &Leadership{store: s, session: session, key: fmt.Sprintf("%s%016x", s.keys.elections(), lease.ID)}
	resp, err := s.client.Put(call, lead.key, address, clientv3.WithLease(lease.ID))
	if err != nil {
		return nil, errors.Join(readError("campaign: stand", err), lead.Resign(context.WithoutCancel(ctx)))
	}
	lead.revision = resp.Header.Revision
	return lead, nil
}

// awaitTurn waits until no candidate is older.
func (l *Leadership) awaitTurn(ctx context.Context) error {
	elders := append(clientv3.WithLastCreate(), clientv3.WithMaxCreateRev(l.revision-1))
	for {
		call, cancel := l.store.call(ctx)
		resp, err := l.store.client.Get(call, l.store.keys.elections(), elders...)
		cancel()
		if err != nil {
			return readError("campaign: candidates", err)
		}
		if len(resp.Kvs) == 0 {
			return nil
		}
		elder := string(resp.Kvs[0].Key)
		if err := l.store.awaitChange(ctx, elder, resp.Header.Revision+1, clientv3.WithFilterPut()); err != nil {
			return err
		}
	}
}

// retry is the pause before etcd is asked again after a failure.
const retry = 250 * time.Millisecond

// awaitChange waits for an event of a key at or after a revision, or for an interruption after which the key
// must be read again.
func (s *Store) awaitChange(ctx context.Context, key string, revision int64, opts ...clientv3.OpOption) error {
	watch, stop := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer stop()
	for resp := range s.client.Watch(watch, key, append(opts, clientv3.WithRev(revision))...) {
		if resp.Err() != nil {
			break
		}
		if len(resp.Events) > 0 {
			return nil
		}
	}
	if !sleep(ctx, retry) {
		return fmt.Errorf("%w: watch %s: %w", ErrUnavailable, key, ctx.Err())
	}
	return nil
}

// Done is closed when the leadership is lost, as far as this process can tell, or resigned.
func (l *Leadership) Done() <-chan struct{} { return l.session.Done() }

// Resign gives the leadership up, at once for others to take.
func (l *Leadership) Resign(ctx context.Context) error {
	l.session.Orphan()
	call, cancel := l.store.call(ctx)
	defer cancel()
	if _, err := l.store.client.Revoke(call, l.session.Lease()); err != nil && !isLeaseGone(err) {
		return writeError("resign", err)
	}
	return nil
}

// held compares that the leadership still holds.
func (l *Leadership) held() clientv3.Cmp {
	return clientv3.Compare(clientv3.CreateRevision(l.key), "=", l.revision)
}

// Leader returns the address of the master that leads, or ErrNoLeader.
func (s *Store) Leader(ctx context.Context) (string, error) {
	kv, _, err := s.leader(ctx)
	switch {
	case err != nil:
		return "", err
	case kv == nil:
		return "", ErrNoLeader
	}
	return string(kv.Value), nil
}

func (s *Store) leader(ctx context.Context) (*mvccpb.KeyValue, int64, error) {
	call, cancel := s.call(ctx)
	defer cancel()
	resp, err := s.client.Get(call, s.keys.elections(), clientv3.WithFirstCreate()...)
	if err != nil {
		return nil, 0, readError("leader", err)
	}
	if len(resp.Kvs) == 0 {
		return nil, resp.Header.Revision, nil
	}
	return resp.Kvs[0], resp.Header.Revision, nil
}

// Observe calls f with the leader's address, "" while there is none, first as it is and then at every change,
// until ctx ends, whose error it returns. While etcd is unavailable it keeps trying.
func (s *Store) Observe(ctx context.Context, f func(address string)) error {
	var known int64 = -1
	for {
		kv, revision, err := s.leader(ctx)
		if err != nil {
			if !sleep(ctx, retry) {
				return ctx.Err()
			}
			continue
		}
		if kv == nil {
			kv = &mvccpb.KeyValue{}
		}
		if kv.ModRevision != known {
			known = kv.ModRevision
			f(string(kv.Value))
		}
		// All candidates are watched: if only the leader's key were, its end would be missed before it has one.
		if err := s.awaitChange(ctx, s.keys.elections(), revision+1, clientv3.WithPrefix()); err != nil {
			return ctx.Err()
		}
	}
}

// sleep reports whether d passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
