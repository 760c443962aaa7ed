// Package reach finds the fleet that a command reads from: that of the masters that are named, or, where no master
// answers, one of cmd/local in this process. It is used from one goroutine.
package reach

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/client"
	"github.com/penstock-ml/penstock/cmd/local"
	"github.com/penstock-ml/penstock/internal/cli"
	"github.com/penstock-ml/penstock/internal/rpc"
	workercommand "github.com/penstock-ml/penstock/worker/command"
	"github.com/penstock-ml/penstock/worker/transform"
)

const (
	checkTimeout   = 3 * time.Second
	connectTimeout = 30 * time.Second
	retryEvery     = 500 * time.Millisecond
	deleteTimeout  = 10 * time.Second
)

// Flags say which fleet.
type Flags struct {
	Stores cli.StorageFlags
	// Brings says that the session brings Python functions of its own, which a fleet in this process then runs.
	Brings bool
	// Names says that the session calls Python functions by name, for which a fleet in this process has an interpreter
	// only if one is named.
	Names bool

	release string
	ops     *transform.Registry
	local   bool
	connect time.Duration // how long to wait for a master
	masters []string
	ports   cli.RPCFlags
	python  workercommand.PythonFlags
}

// New returns the flags of a release, whose fleets in this process have the ops.
func New(release string, ops *transform.Registry) *Flags { return &Flags{release: release, ops: ops} }

// Register adds them.
func (f *Flags) Register(flags *pflag.FlagSet) {
	flags.StringSliceVar(&f.masters, "master", []string{"127.0.0.1:7070"}, "addresses of masters")
	flags.BoolVar(&f.local, "local", false,
		"read with a fleet in this process (default: where no master is named and none answers)")
	flags.DurationVar(&f.connect, "connect-timeout", connectTimeout, "how long to wait for a master that answers")
	f.ports.RegisterClient(flags)
	f.Stores.Register(flags)
	f.python.RegisterTrial(flags)
}

// Fleet is one that was reached.
type Fleet struct {
	masters []string
	rpc     rpc.Config
	local   client.Local // nil: it is elsewhere
	opened  bool         // a session was
}

// Reach runs do with a fleet. Shared says that others read the same session, which a fleet in this process cannot have.
func (f *Flags) Reach(cmd *cobra.Command, shared bool, do func(context.Context, *Fleet) error) error {
	here, err := f.isLocal(cmd, shared)
	if err != nil {
		return err
	}
	if here && f.Names && !f.python.Any() {
		return errors.New("the spec calls Python functions by name, and a fleet in this process has no interpreter " +
			"for them: add --python default=python3, the one that has their modules")
	}
	if here {
		cfg := local.Config{Release: f.release, Ops: f.ops, Stores: &f.Stores, Functions: f.python.Own(f.Brings)}
		return local.Beside(cmd, cfg, func(ctx context.Context, at local.Here) error {
			return do(ctx, &Fleet{masters: []string{at.Master}, rpc: at.RPC, local: at.Local})
		})
	}
	if f.python.Any() {
		return fmt.Errorf("--python: is of a fleet in this process, and the workers of %s have interpreters of their "+
			"own: leave it out, or read with --local", f.masters[0])
	}
	ports, err := f.ports.Config()
	if err != nil {
		return err
	}
	for _, address := range f.masters {
		// The client would wait for a master; some mistakes do not go away.
		if err := check(cmd.Context(), address, ports); err != nil {
			return err
		}
	}
	if err := f.await(cmd.Context(), ports); err != nil {
		return err
	}
	return do(cmd.Context(), &Fleet{masters: f.masters, rpc: ports})
}

// isLocal reports whether to read with a fleet in this process, and says so where nobody asked for it.
func (f *Flags) isLocal(cmd *cobra.Command, shared bool) (bool, error) {
	switch flags := cmd.Flags(); {
	case flags.Changed("local") && f.local && shared:
		return false, errors.New(
			"--local: a fleet in this process has no sessions but its own, and one rank; leave out --session and " +
				"--world-size, or run `penstock local` for all ranks")
	case flags.Changed("local"):
		return f.local, nil
	case flags.Changed("master"):
		return false, nil
	}
	conn, err := (&net.Dialer{Timeout: checkTimeout}).DialContext(cmd.Context(), "tcp", f.masters[0])
	switch {
	case err == nil:
		return false, conn.Close() // something answers; what it is shows with the first call
	case shared:
		return false, fmt.Errorf(
			"no master answers at %s, the default address: name the session's by --master, or start one (`penstock "+
				"master` and `penstock worker`, or `penstock local`)", f.masters[0])
	}
	_, err = fmt.Fprintf(cmd.ErrOrStderr(),
		"no master answers at %s: reading with a fleet in this process, as with --local (--master names another one)\n",
		f.masters[0])
	return true, err
}

func check(ctx context.Context, address string, cfg rpc.Config) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	return rpc.Check(ctx, address, cfg)
}

// await waits until a master answers.
func (f *Flags) await(ctx context.Context, ports rpc.Config) error {
	ctx, cancel := context.WithTimeout(ctx, f.connect)
	defer cancel()
	for {
		wrong := false
		err := rpc.AtLeader(ctx, f.masters, ports, func(ctx context.Context, m pb.MasterClient) error {
			_, err := m.GetFleet(ctx, &pb.GetFleetRequest{})
			wrong = rpc.NotMaster(err) != ""
			return err
		})
		if wrong {
			return err
		}
		if err == nil || !errors.Is(err, rpc.ErrUnavailable) && ctx.Err() == nil {
			return nil // whatever else it said, opening the session says it, too
		}
		cli.Status(os.Stderr, "waiting for a master: %v", err)
		select {
		case <-time.After(retryEvery):
		case <-ctx.Done():
			cli.Status(os.Stderr, "")
			if errors.Is(ctx.Err(), context.Canceled) {
				return ctx.Err()
			}
			return fmt.Errorf(
				"no master answered within %v (--connect-timeout): %w, or read with a fleet in this process: --local",
				f.connect, err)
		}
	}
}

// Open opens a session.
func (f *Fleet) Open(ctx context.Context, cfg client.Config) (*client.Session, error) {
	cfg.Masters, cfg.Local = f.masters, f.local
	cfg.Dial = func(address string) (*grpc.ClientConn, error) { return rpc.Dial(address, f.rpc) }
	cfg.DialLink = rpc.LinkDialer(f.rpc)
	s, err := client.Open(ctx, cfg)
	f.opened = f.opened || err == nil
	return s, err
}

// Delete removes a session, if there is one and the fleet does not end before it.
func (f *Fleet) Delete(ctx context.Context, session string) error {
	if f.local != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteTimeout)
	defer cancel()
	err := rpc.AtLeader(ctx, f.masters, f.rpc, func(ctx context.Context, m pb.MasterClient) error {
		_, err := m.DeleteSession(ctx, &pb.DeleteSessionRequest{Session: session})
		if status.Code(err) == codes.NotFound {
			return nil
		}
		return err
	})
	if err == nil || !f.opened { // the error of Open says enough
		return nil
	}
	return fmt.Errorf("delete the session %s: %w", session, err)
}
