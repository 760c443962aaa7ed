package local

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/penstock-ml/penstock/client"
	"github.com/penstock-ml/penstock/internal/cli"
	gossip "github.com/penstock-ml/penstock/internal/fleet"
	"github.com/penstock-ml/penstock/internal/process"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/master"
	"github.com/penstock-ml/penstock/master/access"
	mastercommand "github.com/penstock-ml/penstock/master/command"
	"github.com/penstock-ml/penstock/worker"
	workercommand "github.com/penstock-ml/penstock/worker/command"
	"github.com/penstock-ml/penstock/worker/python"
	"github.com/penstock-ml/penstock/worker/transform"
)

// masterMemory is what a master in the worker's process takes. Trainers there raise the limit by their budgets.
const masterMemory = 64 << 20

// Here is a fleet within this process, to whoever reads from it.
type Here struct {
	Master string // its address
	RPC    rpc.Config
	Local  client.Local
}

// Config says what a fleet within this process is made of.
type Config struct {
	Release string
	Ops     *transform.Registry
	Stores  *cli.StorageFlags
	// Functions are run; nil: none are.
	Functions *workercommand.PythonFlags
}

// Beside runs do with a fleet in this process, at an address and with a token of its own, and ends the fleet with it.
// The fleet logs warnings only, unless --log-level says more.
func Beside(cmd *cobra.Command, cfg Config, do func(context.Context, Here) error) (err error) {
	if !cmd.Flags().Changed("log-level") {
		_ = cmd.Flags().Set("log-level", "warn") // a level that there is
	}
	l := &local{release: cfg.Release, ops: cfg.Ops, stores: *cfg.Stores, listen: "127.0.0.1:0", list: &worker.Local{}}
	if cfg.Functions != nil {
		l.functions = *cfg.Functions
	}
	f := &fleet{}
	if f.logger, err = cli.Logger(cmd, cmd.ErrOrStderr()); err != nil {
		return err
	}
	up := make(chan process.Announcement, 1)
	f.feed = func(ctx context.Context) error {
		select {
		case a := <-up:
			return do(ctx, Here{Master: a.Address, RPC: rpc.Config{Token: f.token}, Local: l.list})
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return l.keep(cmd, f, func(a process.Announcement) error {
		up <- a
		return nil
	})
}

// here has a fleet be a master and a worker within this process.
func (l *local) here(cmd *cobra.Command, f *fleet, data string) error {
	st, err := l.stores.Open()
	if err != nil {
		return err
	}
	memory, maxMemory := cli.Bytes(worker.DefaultMemory), workercommand.MaxMemory()
	if set := cmd.Flags().Lookup("memory"); set != nil && set.Changed && set.Value == pflag.Value(&l.memory) {
		memory, maxMemory = l.memory, 0 // not another's flag, whose fleet this is
	}
	if err := workercommand.CheckMemory(memory); err != nil {
		return err
	}
	functions, err := l.functions.Config(f.logger)
	if err != nil {
		return err
	}
	if functions != nil && l.prints != nil {
		functions.Logger = python.Printing(f.logger, l.prints.add)
	}
	members := gossip.Config{Self: gossip.Member{Version: l.release}, Bind: "127.0.0.1:0", Secret: f.token}
	f.start = func(ctx context.Context) (_ server, err error) {
		cfg := master.Config{
			RPC: rpc.Config{Token: f.token}, Fleet: members, Storage: st, Ops: l.ops, Logger: f.logger,
			SessionTTL: mastercommand.SessionTTL, Code: access.Code(l.functions.Code()),
		}
		if cfg.Listener, err = cli.Listen(ctx, "listen", l.listen); err != nil {
			return nil, err
		}
		if cfg.HTTP, err = cli.Listen(ctx, "http", "127.0.0.1:0"); err != nil {
			return nil, errors.Join(err, cfg.Listener.Close())
		}
		f.logger.Info("HTTP is up", "address", cfg.HTTP.Addr())
		return startMaster(ctx, data, cfg), nil
	}
	f.work = func(ctx context.Context, join string) error {
		kept, err := l.cache.Open(f.logger) //nolint:contextcheck // it is closed, below
		if err != nil {
			return err
		}
		if kept != nil {
			defer kept.Close() //nolint:errcheck // what is there is found again
		}
		cfg := worker.Config{
			RPC: rpc.Config{Token: f.token}, Fleet: members, Storage: st, Ops: l.ops, Logger: f.logger,
			Memory: int64(memory), MaxMemory: int64(maxMemory), Local: l.list, Version: l.release, Python: functions,
			Cache: kept,
		}
		cfg.Fleet.Join = []string{join}
		return work(ctx, cfg)
	}
	return nil
}

// work runs a worker in this process until ctx ends.
func work(ctx context.Context, cfg worker.Config) (err error) {
	if cfg.Listener, err = new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
		return fmt.Errorf("local: %w", err)
	}
	if err := workercommand.Run(ctx, cfg, masterMemory); err != nil || ctx.Err() != nil {
		return err
	}
	return errors.New("local: the worker has ended")
}

// hereMaster is a master in this process. A goroutine of its own runs it.
type hereMaster struct {
	up, done     chan struct{}
	announcement process.Announcement // set before up is closed
	err          error                // set before done is closed
	end          context.CancelFunc
}

// startMaster runs a master, which is there until it is stopped: those that it serves end before. It closes the ports.
func startMaster(ctx context.Context, data string, cfg master.Config) *hereMaster {
	m := &hereMaster{up: make(chan struct{}), done: make(chan struct{})}
	ctx, m.end = context.WithCancel(context.WithoutCancel(ctx))
	cfg.Up = func(address, gossip string) {
		m.announcement = process.Announcement{Address: address, Gossip: gossip, HTTP: cfg.HTTP.Addr().String()}
		close(m.up)
	}
	go func() {
		defer close(m.done)
		m.err = mastercommand.Embedded(ctx, data, cfg)
		_, _ = cfg.Listener.Close(), cfg.HTTP.Close() // which are open only if it did not come to run
	}()
	return m
}

func (m *hereMaster) Announced(ctx context.Context) (process.Announcement, error) {
	select {
	case <-m.up:
		return m.announcement, nil
	case <-m.done:
		return process.Announcement{}, errors.Join(errors.New("local: the master ended before it was up"), m.err)
	case <-ctx.Done():
		return process.Announcement{}, fmt.Errorf("local: wait for the master: %w", ctx.Err())
	}
}

func (m *hereMaster) Done() <-chan struct{} { return m.done }

func (m *hereMaster) Status() string { return "in this process" }

func (m *hereMaster) Wait() error {
	<-m.done
	return m.err
}

func (m *hereMaster) Stop() error {
	m.end()
	return m.Wait()
}
