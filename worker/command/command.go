// Package command holds `penstock worker`, for main.go or a main of one's own with more ops. It is used from one
// goroutine.
package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/penstock-ml/penstock/internal/cli"
	"github.com/penstock-ml/penstock/internal/process"
	"github.com/penstock-ml/penstock/worker"
	"github.com/penstock-ml/penstock/worker/python"
	"github.com/penstock-ml/penstock/worker/transform"
)

// overhead is what a worker takes besides its streams' memory: code, connections, garbage.
const overhead = 96 << 20

// gcPercent is how much garbage, of what is in use, a worker lets come together below its limit: batches and buffers
// that come and go are most of it, so that to collect and give back memory, and to get it anew, costs more than to keep
// it.
const gcPercent = 400

// minMemory is enough for one stream of small row groups; with less, every stream is served alone.
const minMemory = 16 << 20

// workerFlags are the settings of `penstock worker`.
type workerFlags struct {
	listen, advertise, http string
	slots                   int
	memory, most, limit     cli.Bytes
	network                 bool
	functions               PythonFlags
	ports                   cli.RPCFlags
	stores                  cli.StorageFlags
	cache                   CacheFlags
	gossip                  cli.FleetFlags
}

// Worker returns `penstock worker`, which runs a worker with the given ops until it is interrupted.
func Worker(ops *transform.Registry, version string) *cobra.Command {
	f := workerFlags{memory: worker.DefaultMemory}
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Run a worker: shards in, tensor batches out",
		Long: "Run a worker. It keeps no state: start and stop as many as you like, at any time. It finds the " +
			"masters by\n" +
			"gossip, and drains on SIGTERM and SIGINT: its streams go on elsewhere, at the row.\n\n" +
			"--memory holds for all streams together: footers, column chunks and what is read ahead, decoded " +
			"windows, and batches\n" +
			"until they have left, or trainers on this machine have read them where they lie. A stream that needs " +
			"more waits for the\n" +
			"others, or ends with an error that says how much it takes. It reads ahead as far as its share of the " +
			"memory goes\n" +
			"(--memory / --slots), and row groups that are larger than half of that in pieces: more memory hides a " +
			"slower storage.\n" +
			"A stream of very many columns may need more than all of --memory: streams may then hold --max-memory " +
			"together. The\n" +
			"process takes up to 96 MiB more, which is the Go runtime's limit (GOMEMLIMIT, if set, wins); what the " +
			"system counts as\n" +
			"resident may have up to 50 MiB of the program's own file besides, which it takes away where it needs " +
			"them. In a\n" +
			"container give --memory-limit, the container's limit, in place of --memory.\n\n" +
			"With --code by-value it runs the Python functions that sessions bring, in processes of --python's " +
			"interpreter. They run\n" +
			"as the worker's user, and may do what that may: allow it where all who may open sessions are trusted so " +
			"far, or give\n" +
			"each namespace a user by --python-users. With --code by-name it runs only functions that the modules of " +
			"--python-modules\n" +
			"have, where penstock.op marks them. It starts if these modules import.\n\n" +
			"A Python process may take 512 MiB besides --memory, unless its functions ask for more, and all of them\n" +
			"--python-memory. --memory-limit holds for these, too, unless a python-host in another container has them.",
		Example: "  penstock worker --join 127.0.0.1:7946\n" +
			"  penstock worker --listen 0.0.0.0:7071 --advertise 10.0.0.7:7071 --gossip 0.0.0.0:7946 --join " +
			"master:7946 --memory 2GiB\n" +
			"  penstock worker --join 127.0.0.1:7946 --cache-dir /mnt/ssd/penstock --cache-bytes 500GiB\n" +
			"  penstock worker --join 127.0.0.1:7946 --code by-value --python default=/opt/venv/bin/python\n" +
			"  penstock worker --join 127.0.0.1:7946 --code by-name --python default=/opt/venv/bin/python " +
			"--python-modules default=mypkg.features",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd, ops, version) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", "127.0.0.1:0", "Flight address to listen on; port 0 takes a free one")
	flags.StringVar(&f.advertise, "advertise", "", "Flight address that trainers can reach (default: --listen)")
	flags.StringVar(&f.http, "http", "",
		"address of metrics, probes and profiles (default: none); port 0 takes a free one")
	flags.IntVar(&f.slots, "slots", 0, "streams served at once (default: two for each CPU)")
	flags.Var(&f.memory, "memory", "bytes that all streams may hold together")
	flags.Var(&f.most, "max-memory",
		"what --memory becomes once a stream needs more, if it is more (default: an eighth of the memory that there "+
			"is, unless --memory or --memory-limit is given)")
	flags.Lookup("max-memory").DefValue = "" // said above
	flags.Var(&f.limit, "memory-limit",
		"bytes that the process may take, such as its container's limit: --memory is then what leaves room "+
			"for the rest")
	flags.BoolVar(&f.network, "network", false,
		"send batches by network to trainers of this user on this machine, too, who else read them where the worker "+
			"made them")
	cmd.MarkFlagsMutuallyExclusive("memory", "memory-limit")
	cmd.MarkFlagsMutuallyExclusive("max-memory", "memory-limit")
	f.functions.Register(flags)
	f.functions.RegisterWorker(flags)
	f.ports.RegisterPorts(flags)
	f.stores.Register(flags)
	f.cache.Register(flags)
	f.gossip.Register(flags, "127.0.0.1:0", "127.0.0.1:7946")
	return cli.Setup(cmd)
}

func (f *workerFlags) run(cmd *cobra.Command, ops *transform.Registry, version string) error {
	output, err := cli.Output(cmd)
	if err != nil {
		return err
	}
	if f.slots < 0 {
		return fmt.Errorf("--slots: want 0 or more, found %d", f.slots)
	}
	logger, err := cli.Logger(cmd, os.Stderr)
	if err != nil {
		return err
	}
	functions, err := f.functions.Config(logger)
	if err != nil {
		return err
	}
	kept, err := f.cache.Open(logger)
	if err != nil {
		return err
	}
	if kept != nil {
		defer kept.Close() //nolint:errcheck // what is there is found again
	}
	if f.limit > 0 {
		if f.memory, err = f.within(f.functions.within(functions), memoryOf(kept)); err != nil {
			return err
		}
	}
	if err := CheckMemory(f.memory); err != nil {
		return err
	}
	if !cmd.Flags().Changed("memory") && !cmd.Flags().Changed("max-memory") && f.limit == 0 {
		f.most = MaxMemory()
	}
	cfg := worker.Config{
		Advertise: f.advertise, Slots: f.slots, Memory: int64(f.memory), MaxMemory: int64(f.most), Network: f.network,
		Ops: ops, Version: version, Logger: logger, Python: functions,
		Cache: kept,
	}
	if cfg.RPC, err = f.ports.Config(); err != nil {
		return err
	}
	if cfg.Fleet, err = f.gossip.Config(cfg.RPC.Token); err != nil {
		return err
	}
	if cfg.Storage, err = f.stores.Open(); err != nil {
		return err
	}
	if cfg.Listener, err = cli.Listen(cmd.Context(), "listen", f.listen); err != nil {
		return fmt.Errorf("worker: %w", err)
	}
	if cfg.HTTP, err = cli.ListenHTTP(cmd, f.http, cfg.Logger); err != nil {
		return errors.Join(err, cfg.Listener.Close())
	}
	if cfg.HTTP != nil {
		defer cfg.HTTP.Close() //nolint:errcheck // fails where the worker ran, which closes it
	}
	cfg.Up = func(address, gossip string) {
		if output == "json" {
			_ = cli.Announce(cmd.OutOrStdout(), address, gossip, cfg.HTTP)
		}
	}
	return Run(cmd.Context(), cfg, 0)
}

// within is what streams may hold within --memory-limit, beside what the worker, its Python processes and its cache
// take.
func (f *workerFlags) within(processes, cache int64) (cli.Bytes, error) {
	theirs := cli.Bytes(processes + cache)
	most := f.limit - overhead - f.limit/16 - theirs
	least := cli.Bytes(128<<20) + theirs + theirs/15 // a sixteenth of all is left
	least = (least + 1<<20 - 1) >> 20 << 20
	if most >= minMemory {
		return most, nil
	}
	var why, do string
	if cache > 0 {
		takes := cli.Bytes(cache)
		why, do = fmt.Sprintf(": the cache takes %v", &takes), ", or a smaller --cache-bytes"
	}
	if processes > 0 {
		takes := cli.Bytes(processes)
		why += fmt.Sprintf(": Python processes may take %v, 512MiB for each CPU unless --python-processes or "+
			"--python-memory says otherwise", &takes)
		do += ", or have fewer of them"
	}
	return 0, fmt.Errorf("--memory-limit: %v leaves too little for streams%s; want %v or more%s", &f.limit, why, &least,
		do)
}

// Run runs a worker until ctx ends, and has the Go runtime keep to what its streams may hold, what a worker takes
// besides, and what others in its process do: others.
func Run(ctx context.Context, cfg worker.Config, others int64) error {
	if cfg.Python != nil {
		if err := python.Hide(); err != nil {
			return errors.Join(err, cfg.Listener.Close())
		}
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		// Collect in time: what streams hold is bounded, but without a limit garbage may be as much again.
		debug.SetMemoryLimit(cfg.Memory + overhead + memoryOf(cfg.Cache) + others)
		if os.Getenv("GOGC") == "" { // below the limit memory is there to be used
			debug.SetGCPercent(gcPercent)
		}
	}
	w, err := worker.New(cfg) //nolint:contextcheck // what it registers is called later
	if err != nil {
		return errors.Join(err, cfg.Listener.Close())
	}
	return w.Run(ctx)
}

// MaxMemory is what streams may hold once one of them needs more than usual, where nobody says: an eighth of the memory
// that there is.
func MaxMemory() cli.Bytes {
	most := process.Memory(os.DirFS("/")) / 8
	if os.Getenv("GOMEMLIMIT") != "" {
		most = min(most, max(0, debug.SetMemoryLimit(-1)-overhead)) // which does not grow
	}
	return cli.Bytes(most)
}

// CheckMemory checks what streams may hold as --memory says it.
func CheckMemory(memory cli.Bytes) error {
	if memory < minMemory {
		return fmt.Errorf("--memory: want 16MiB or more, found %v", &memory)
	}
	return nil
}
