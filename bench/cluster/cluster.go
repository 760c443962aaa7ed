// Package cluster runs a Penstock fleet as real processes on loopback: a master with an embedded etcd, workers and
// trainers, all from one binary. End-to-end tests and benchmarks stand on it. A Cluster may be used by many goroutines
// at once; Close ends all that it started. The processes also end by themselves when their parent dies, since
// they watch the standard input that it holds open.
package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"

	"google.golang.org/grpc"

	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/client"
	"github.com/penstock-ml/penstock/internal/process"
	"github.com/penstock-ml/penstock/internal/rpc"
)

// Config says what to run.
type Config struct {
	// Binary is the penstock binary; WorkerBinary is what workers run instead, such as a script around it.
	Binary, WorkerBinary string
	// Dir takes logs, etcd's data and the token; it must exist.
	Dir string
	// Env is added to the processes' environment ("NAME=value"), such as storage credentials.
	Env []string
	// MasterFlags and WorkerFlags are added to the commands.
	MasterFlags, WorkerFlags []string
}

// Cluster is a running fleet.
type Cluster struct {
	cfg   Config
	token rpc.Secret
	first []*process.Process

	mu        sync.Mutex
	master    *process.Process
	processes []*process.Process
	masters   int
	workers   int
}

// Build makes a penstock binary of this module in a folder.
func Build(ctx context.Context, dir string) (binary string, err error) {
	binary = filepath.Join(dir, "penstock")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", binary,
		"github.com/penstock-ml/penstock").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build penstock: %w\n%s", err, out)
	}
	return binary, nil
}

// Start runs a master and a number of workers, and returns when all of them are up.
func Start(ctx context.Context, cfg Config, workers int) (*Cluster, error) {
	c := &Cluster{cfg: cfg, token: rpc.NewSecret(rand.Text())}
	if err := os.WriteFile(c.TokenFile(), []byte(c.token.Reveal()), 0o600); err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	master, err := c.launchMaster(ctx, "")
	if err != nil {
		return nil, err
	}
	c.master = master
	if err := c.bringUp(ctx, workers); err != nil {
		_ = c.Close() // what it could add is in err, or follows from it
		return nil, err
	}
	return c, nil
}

func (c *Cluster) bringUp(ctx context.Context, workers int) error {
	if _, err := c.master.Announced(ctx); err != nil {
		return err
	}
	for range workers {
		w, err := c.launchWorker(ctx)
		if err != nil {
			return err
		}
		c.first = append(c.first, w)
	}
	for _, w := range c.first {
		if _, err := w.Announced(ctx); err != nil {
			return err
		}
	}
	return nil
}

// StartMaster runs one more master and returns when it is up. All masters need the same etcd and ticket key, by
// Config.MasterFlags.
func (c *Cluster) StartMaster(ctx context.Context) (process.Announcement, error) {
	first, err := c.master.Announced(ctx)
	if err != nil {
		return process.Announcement{}, err
	}
	m, err := c.launchMaster(ctx, first.Gossip)
	if err != nil {
		return process.Announcement{}, err
	}
	return m.Announced(ctx)
}

// KillMaster kills the first master with SIGKILL and waits for its end.
func (c *Cluster) KillMaster() error {
	if err := c.master.Kill(); err != nil {
		return err
	}
	return c.master.Wait()
}

func (c *Cluster) launchMaster(ctx context.Context, join string) (*process.Process, error) {
	c.mu.Lock()
	c.masters++
	name := fmt.Sprintf("master-%d", c.masters)
	c.mu.Unlock()
	flags := append([]string{
		"master", "--listen=127.0.0.1:0", "--gossip=127.0.0.1:0", "--join=" + join, "--data-dir=" +
			filepath.Join(c.cfg.Dir, name),
	}, c.cfg.MasterFlags...)
	return c.Run(ctx, name, flags...)
}

// StartWorker runs one more worker and returns when it is up.
func (c *Cluster) StartWorker(ctx context.Context) (*process.Process, error) {
	w, err := c.launchWorker(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := w.Announced(ctx); err != nil {
		return nil, err
	}
	return w, nil
}

func (c *Cluster) launchWorker(ctx context.Context) (*process.Process, error) {
	a, err := c.master.Announced(ctx)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.workers++
	name := fmt.Sprintf("worker-%d", c.workers)
	c.mu.Unlock()
	flags := append([]string{
		"worker", "--name=" + name, "--listen=127.0.0.1:0", "--gossip=127.0.0.1:0", "--join=" + a.Gossip,
	}, c.cfg.WorkerFlags...)
	return c.run(name, cmp.Or(c.cfg.WorkerBinary, c.cfg.Binary), flags)
}

// Workers are the workers that Start ran.
func (c *Cluster) Workers() []*process.Process { return c.first }

// Run starts the binary with a command of its own, under a name for its log. The process gets the cluster's token,
// unless it is told another one.
func (c *Cluster) Run(_ context.Context, name string, args ...string) (*process.Process, error) {
	return c.run(name, c.cfg.Binary, args)
}

func (c *Cluster) run(name, binary string, args []string) (*process.Process, error) {
	p, err := process.Start(process.Config{
		Name: name, Binary: binary, Args: slices.Insert(slices.Clone(args), 1, "--token-file="+c.TokenFile()),
		Env: c.cfg.Env,
		Log: filepath.Join(c.cfg.Dir, name+".log"),
	})
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.processes = append(c.processes, p)
	return p, nil
}

// MasterProcess is the master.
func (c *Cluster) MasterProcess() *process.Process { return c.master }

// Master is the master's gRPC address.
func (c *Cluster) Master(ctx context.Context) (string, error) {
	a, err := c.master.Announced(ctx)
	return a.Address, err
}

// Read has a new session of one trainer, in this process, take all batches of a spec (YAML; one pass if it has no
// limit), and returns what the trainer counted.
func (c *Cluster) Read(ctx context.Context, session, text string) (stats client.Stats, err error) {
	s, err := spec.Parse([]byte(text))
	if err != nil {
		return stats, err
	}
	s.Epochs = max(1, s.GetEpochs()) // where there is no limit
	master, err := c.Master(ctx)
	if err != nil {
		return stats, err
	}
	job, err := client.Open(ctx, client.Config{
		Masters: []string{master}, Session: session, Spec: s, WorldSize: 1,
		Dial:     func(address string) (*grpc.ClientConn, error) { return rpc.Dial(address, c.RPC()) },
		DialLink: rpc.LinkDialer(c.RPC()),
	})
	if err != nil {
		return stats, err
	}
	defer func() { err = errors.Join(err, job.Close()) }()
	for batch, err := range job.Batches(ctx) {
		if err != nil {
			return stats, err
		}
		batch.Release()
	}
	return job.Stats(), nil
}

// RPC is how to reach the cluster's ports.
func (c *Cluster) RPC() rpc.Config { return rpc.Config{Token: c.token} }

// TokenFile holds the token that all ports ask for.
func (c *Cluster) TokenFile() string { return filepath.Join(c.cfg.Dir, "token") }

// Close stops all processes, workers and trainers before the master, and waits for them.
func (c *Cluster) Close() error {
	c.mu.Lock()
	processes := slices.Clone(c.processes)
	c.mu.Unlock()
	slices.Reverse(processes)
	var errs []error
	for _, p := range processes {
		errs = append(errs, p.Stop())
	}
	return errors.Join(errs...)
}
