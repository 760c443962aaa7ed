package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/process"
	"github.com/penstock-ml/penstock/internal/rpc"
)

const (
	// upTimeout bounds how long the fleet may take to be up.
	upTimeout = 2 * time.Minute
	// askEvery is how often the master is asked which workers are up, and askTimeout how long for an answer.
	askEvery, askTimeout = 20 * time.Millisecond, 5 * time.Second
)

// fleet is a master that keeps its workers itself, or one with a worker beside it in this process.
type fleet struct {
	workers int // that it begins with
	token   rpc.Secret
	// start starts the master.
	start func(context.Context) (server, error)
	// work runs a worker in this process that joins the fleet at an address of gossip, until ctx ends; nil: there is
	// none.
	work func(ctx context.Context, join string) error
	// feed goes on beside the fleet, from the beginning on, which ends with it; nil: there is nothing.
	feed   func(context.Context) error
	logger *slog.Logger
}

// server is a master that was started.
type server interface {
	// Announced waits until it is up.
	Announced(ctx context.Context) (process.Announcement, error)
	Done() <-chan struct{}
	// Status says how it ended.
	Status() string
	Wait() error
	Stop() error
}

// run brings the fleet up, says so, and keeps it until ctx or a part of it ends.
func (f *fleet) run(ctx context.Context, up func(process.Announcement) error) (err error) {
	master, err := f.start(ctx)
	if err != nil {
		return err
	}
	isUp := false
	defer func() {
		if stopped := master.Stop(); isUp || err != nil { // else it was told to end while it started
			err = errors.Join(err, stopped)
		}
	}()
	ctx, end := context.WithCancel(ctx)
	defer end()
	parts, ctx := errgroup.WithContext(ctx)
	if f.feed != nil {
		parts.Go(func() error {
			defer end()
			return f.feed(ctx)
		})
	}
	parts.Go(func() error {
		err := f.bringUp(ctx, parts, master, up)
		isUp = err == nil
		if ctx.Err() != nil {
			err = nil // it was to end
		}
		return err
	})
	return parts.Wait()
}

// bringUp waits until the fleet is up, and says so. To look after its master is one of the parts, and so is its worker
// in this process, if it has one.
func (f *fleet) bringUp(
	ctx context.Context, parts *errgroup.Group, master server, up func(process.Announcement) error,
) error {
	starting, cancel := context.WithTimeout(ctx, upTimeout)
	defer cancel()
	announced, err := master.Announced(starting)
	if err != nil {
		return err
	}
	parts.Go(func() error { // that it ended before it was up was said already
		select {
		case <-master.Done():
			return ended(master)
		case <-ctx.Done():
			return nil
		}
	})
	if f.work != nil {
		parts.Go(func() error { return f.work(ctx, announced.Gossip) })
	}
	if err := f.awaitWorkers(starting, announced.Address); err != nil {
		return err
	}
	return up(announced)
}

// awaitWorkers waits until the fleet has the workers that it begins with.
func (f *fleet) awaitWorkers(ctx context.Context, master string) error {
	conn, err := rpc.Dial(master, rpc.Config{Token: f.token})
	if err != nil {
		return err
	}
	defer conn.Close()
	for {
		n, err := workersOf(ctx, pb.NewMasterClient(conn))
		if err == nil && n >= f.workers {
			return nil
		}
		select {
		case <-time.After(askEvery):
		case <-ctx.Done():
			return fmt.Errorf("local: %d of %d workers are up: %w", n, f.workers, errors.Join(context.Cause(ctx), err))
		}
	}
}

func workersOf(ctx context.Context, m pb.MasterClient) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	fleet, err := m.GetFleet(ctx, &pb.GetFleetRequest{})
	for _, member := range fleet.GetMembers() {
		if member.GetRole() == "worker" {
			n++
		}
	}
	return n, err
}

// ended says that the master ended, and the fleet with it.
func ended(master server) error {
	return errors.Join(fmt.Errorf("local: the master ended by itself (%s), and the fleet with it", master.Status()),
		master.Wait())
}
