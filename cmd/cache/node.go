package cache

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/internal/cache"
	"github.com/penstock-ml/penstock/internal/cache/bucket"
	"github.com/penstock-ml/penstock/internal/fleet"
	"github.com/penstock-ml/penstock/internal/telemetry"
)

// node is what the process has open.
type node struct {
	logger                 *slog.Logger
	self                   fleet.Member
	caches                 []*cache.Cache
	listener, httpListener net.Listener
	server                 *bucket.Server
	http                   *telemetry.Server // or nil
	fleet                  *fleet.Fleet
	members                atomic.Pointer[fleet.Maglev] // the caches of the fleet
}

// owner is a bucket.Owner.
func (n *node) owner(key cache.Key) (string, bool) {
	return bucket.Among(n.self.Name, n.members.Load)(key)
}

// look finds out who the members are.
func (n *node) look() { n.members.Store(fleet.NewMaglev(n.fleet.Members(fleet.Cache))) }

// run serves until ctx ends.
func (n *node) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return n.server.Run(ctx) })
	if n.http != nil {
		group.Go(func() error { return n.http.Run(ctx) })
	}
	group.Go(func() error { return n.fleet.Run(ctx) })
	group.Go(func() error {
		for {
			select {
			case <-ctx.Done():
				return n.fleet.Close() // others own its blobs from here on
			case <-n.fleet.Changed():
				n.look()
			}
		}
	})
	return group.Wait()
}

// close closes what is open. Ports may be closed already by those who served them.
func (n *node) close() error {
	for _, l := range []net.Listener{n.listener, n.httpListener} {
		if l != nil {
			_ = l.Close()
		}
	}
	var errs []error
	if n.fleet != nil {
		errs = append(errs, n.fleet.Close())
	}
	for _, c := range n.caches {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
