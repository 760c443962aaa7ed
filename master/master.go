// Package master is the control plane: it opens sessions, plans their blocks, grants their shards, records what was
// consumed, and tells workers which keys sign tickets. Decisions are pure (plan, session); store keeps them in etcd;
// this package is the I/O around them.
//
// Several masters may run; one leads. Only the leader answers trainers: it runs one goroutine for each session, which
// alone touches that session's state. Run owns all goroutines.
package master

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apache/arrow/go/v15/arrow/flight"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/api/ticket"
	"github.com/penstock-ml/penstock/internal/fleet"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/telemetry"
	"github.com/penstock-ml/penstock/master/access"
	"github.com/penstock-ml/penstock/master/observe"
	"github.com/penstock-ml/penstock/master/plan"
	"github.com/penstock-ml/penstock/master/store"
)

// describedBytes bounds the descriptions of files kept in memory.
const describedBytes = 64 << 20

// smallIndexBytes bounds the indexes of files that are read whole for their front.
const smallIndexBytes = 16 << 20

// minLease is the shortest lease that is taken.
const minLease = 100 * time.Millisecond

// Config says how a master runs. New fills in defaults and checks it.
type Config struct {
	// Listener is the control port, already bound.
	Listener net.Listener
	// HTTP is the port of the dashboard, metrics, probes and profiles, already bound; nil: there is none.
	HTTP net.Listener
	// Advertise is the address that trainers and workers dial; "" is the listener's.
	Advertise string
	// Fleet is how it finds workers and other masters; Self is filled in but for Name and Zone.
	Fleet fleet.Config
	RPC   rpc.Config
	// Access says who may do what; nil lets all do everything who show RPC's token, if there is one.
	Access *access.Control
	// Store is open; the master does not close it. Where it is nil, Run has Connect open it, and serves probes and
	// refusals meanwhile.
	Store   *store.Store
	Connect func(context.Context) (*store.Store, error)
	Storage storage.Storage
	Ops     spec.Catalog
	// Plan says how finely datasets are cut.
	Plan plan.Config
	// Signer signs tickets. Masters of one fleet have the same keys.
	Signer *ticket.Signer
	// Lease is how long a trainer may hand over rows without an acknowledged Sync; 0 means 90 s.
	Lease time.Duration
	// SessionTTL is how long after a trainer was heard of last a session is deleted, ended or not, and after it was
	// closed; 0: never.
	SessionTTL time.Duration
	// CloseAfter is how long after a trainer was heard of last a session is closed that has failed, that has finished
	// and not all have left, or that all have left between two epochs, and how long after it one sleeps in which nobody
	// is. Until then alerts see that it failed, and its trainers are told of its end. 0 means 10 minutes. It is never
	// less than two leases.
	CloseAfter time.Duration
	Logger     *slog.Logger
	// Code says which Python functions the sessions of a namespace may have for which Access says nothing; "" is none.
	Code access.Code
	// KeepHistory leaves it to others to compact etcd.
	KeepHistory bool
	// Scaling says how many workers there should be, and who keeps them.
	Scaling Scaling
	// Up, if set, is called once with the control and gossip addresses when this master leads or knows who does.
	Up func(address, gossip string)
}

// Master is a process's master.
type Master struct {
	cfg       Config
	signer    *ticket.Signer
	grpc      *grpc.Server
	health    *health.Server
	http      *telemetry.Server // or nil
	viewer    *viewer
	fleet     *fleet.Fleet
	places    *placement
	lists     *access.Turns // of sessions
	observed  *observe.Observer
	described *formats.Cache
	listings  *listings
	counts    *counter
	indexes   *indexer

	untrusted atomic.Int64 // column chunks planned whose statistics contradict themselves

	connected chan struct{} // closed once cfg.Store is there
	announce  sync.Once

	mu     sync.Mutex
	term   *term  // nil while another master leads
	leader string // the leader's address, as etcd told last; "" if there is none
}

// New prepares a master; Run runs it and closes its listener.
func New(cfg Config) (*Master, error) {
	if cfg.Listener == nil || cfg.Store == nil && cfg.Connect == nil || cfg.Storage == nil || cfg.Ops == nil ||
		cfg.Signer == nil || cfg.Logger == nil {
		return nil, errors.New("master: Listener, Store or Connect, Storage, Ops, Signer and Logger are needed")
	}
	cfg.Code = cmp.Or(cfg.Code, access.NoCode)
	if err := cfg.Code.Check(); err != nil {
		return nil, fmt.Errorf("master: code: %w", err)
	}
	cfg.Lease = cmp.Or(cfg.Lease, 90*time.Second)
	if cfg.Lease < minLease {
		return nil, fmt.Errorf("master: a lease of %v; at least %v is needed, which is several Syncs",
			cfg.Lease, minLease)
	}
	cfg.CloseAfter = max(cmp.Or(cfg.CloseAfter, 10*time.Minute), 2*cfg.Lease)
	if cfg.SessionTTL < 0 || cfg.SessionTTL > 0 && cfg.SessionTTL < cfg.Lease {
		return nil, fmt.Errorf(
			"master: sessions would be deleted %v after their last trainer's word; at least the lease, %v, is "+
				"needed, or 0 for never", cfg.SessionTTL, cfg.Lease)
	}
	var err error
	if cfg.Scaling.Config, err = cfg.Scaling.WithDefaults(); err != nil {
		return nil, fmt.Errorf("master: %w", err)
	}
	cfg.Advertise = cmp.Or(cfg.Advertise, cfg.Listener.Addr().String())
	self := &cfg.Fleet.Self
	self.Name = cmp.Or(self.Name, "master-"+cfg.Advertise)
	self.Role, self.Address = fleet.Master, cfg.Advertise
	cfg.Fleet.Logger = cfg.Logger
	m := &Master{
		cfg: cfg, connected: make(chan struct{}), signer: cfg.Signer, health: health.NewServer(), places: &placement{},
		observed:  observe.New(cfg.Scaling.Utilisation),
		described: formats.NewCache(describedBytes).IndexSmall(smallIndexBytes), listings: newListings(listingBytes),
		lists: access.NewTurns(listsAtOnce, listsOfOne),
	}
	if cfg.Store != nil {
		close(m.connected)
	}
	bounded := cfg.RPC
	bounded.MaxMessage = rpc.MaxRequest
	m.counts = &counter{
		places: m.places, signer: m.signer, pool: rpc.NewPool(bounded.Anonymous()), again: newRecounts(recountBytes),
		codePart: func(ctx context.Context, c store.Code, part int) ([]byte, error) {
			return m.cfg.Store.CodePart(ctx, c, part)
		},
	}
	m.indexes = newIndexer(m)
	if m.cfg.Access == nil {
		if m.cfg.Access, err = access.New(access.Config{Fleet: cfg.RPC.Token, Logger: cfg.Logger}); err != nil {
			return nil, err
		}
	}
	if m.grpc, err = rpc.NewServer(bounded, rpc.Guarded(m.cfg.Access.Gate)); err != nil {
		return nil, err
	}
	own := &service{master: m}
	pb.RegisterMasterServer(m.grpc, own)
	flight.RegisterFlightServiceServer(m.grpc, &flightInfo{master: m, turns: access.NewTurns(infosAtOnce, infosOfOne)})
	healthpb.RegisterHealthServer(m.grpc, m.health)
	m.viewer = &viewer{own: own, pool: rpc.NewPool(cfg.RPC)}
	if m.http, err = m.newHTTP(); err != nil {
		return nil, err
	}
	return m, nil
}

// Run serves until ctx ends.
func (m *Master) Run(ctx context.Context) error {
	var err error
	if m.fleet, err = fleet.New(m.cfg.Fleet); err != nil {
		return errors.Join(err, m.close())
	}
	m.cfg.Logger.Info("master is up", "address", m.cfg.Advertise, "gossip", m.fleet.Address())
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return m.fleet.Run(ctx) })
	group.Go(func() error { return m.followFleet(ctx) })
	group.Go(func() error {
		if err := m.connect(ctx); err != nil || ctx.Err() != nil {
			return err
		}
		group.Go(func() error { return m.follow(ctx) })
		return m.lead(ctx)
	})
	if m.http != nil {
		group.Go(func() error { return m.http.Run(ctx) })
	}
	group.Go(func() error {
		// It has been stopped before it began if ctx ended at once.
		if err := m.grpc.Serve(rpc.LimitStrangers(m.cfg.Listener)); err != nil &&
			!errors.Is(err, grpc.ErrServerStopped) {
			return fmt.Errorf("master: serve: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		m.health.Shutdown()
		hard := time.AfterFunc(5*time.Second, m.grpc.Stop)
		defer hard.Stop()
		m.grpc.GracefulStop()
		return nil
	})
	err = group.Wait()
	return errors.Join(err, m.fleet.Close(), m.counts.pool.Close(), m.viewer.pool.Close())
}

// connect opens the store if it is not open. That a master is to stop while it waits is no error.
func (m *Master) connect(ctx context.Context) error {
	if m.cfg.Store != nil {
		return nil
	}
	opened, err := m.cfg.Connect(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil //nolint:nilerr // it was to stop
	case err != nil:
		return fmt.Errorf("master: %w", err)
	}
	m.cfg.Store = opened
	close(m.connected)
	return nil
}

// store is that of etcd, nil while it does not answer for the first time.
func (m *Master) store() *store.Store {
	select {
	case <-m.connected:
		return m.cfg.Store
	default:
		return nil
	}
}

// close closes what Run would have served.
func (m *Master) close() error {
	err := m.cfg.Listener.Close()
	if m.cfg.HTTP != nil {
		err = errors.Join(err, m.cfg.HTTP.Close())
	}
	return err
}

// followFleet keeps placement and what is observed up to date. Each update gives trainers new tickets, so it makes one
// before theirs expire, too, and when another key signs them.
func (m *Master) followFleet(ctx context.Context) error {
	renew, keys := time.NewTicker(ticketLife/4), time.NewTicker(time.Second)
	defer renew.Stop()
	defer keys.Stop()
	for {
		key := m.signer.Key()
		workers := m.fleet.Members(fleet.Worker)
		m.observed.Follow(time.Now(), workers)
		m.places.update(workers)
		if err := m.counts.keep(workers); err != nil {
			m.cfg.Logger.Warn("cannot close connections to workers that are gone", "error", err)
		}
		for wait := true; wait; {
			select {
			case <-m.fleet.Changed():
				wait = false
			case <-renew.C:
				wait = false
			case <-keys.C:
				wait = m.signer.Key() == key
			case <-ctx.Done():
				return nil
			}
		}
	}
}
