// Chaos runs a session as real processes, breaks them while it runs, and counts what was handed over.
//
//	go run ./bench/chaos --faults 50 --seed 1
//
// The fleet is a MinIO server, three members of etcd, masters, workers and trainers, each a process; where it may, each
// in a network namespace of its own. A schedule, a pure function of the seed (schedule.go), kills, stops, slows and
// cuts them off (strike.go), one fault after each nth part of the rows. A job controller (job.go) does for the trainers
// what a launcher does: it takes checkpoints of all ranks together, and when a rank dies it starts all of them again
// from the last one, sometimes with another world size. What was handed over after that checkpoint is not of the job
// any more.
//
// With --without-states they are started again without (stateless.go), with --named masters take the checkpoints
// (named.go), with --full all ports have TLS and tokens (secure.go), and the spec filters, transforms and decodes
// pictures, and with --functions it calls a Python function (functions.go), whose processes have faults of their own.
//
// Trainers (trainer.go) write each row that they are handed into a ledger (ledger.go). In the end it is written as
// Parquet and recounted (recount.go): by DuckDB, with a query that shares no code with Penstock, or else in Go. The
// exit status is 0 only if every row of every epoch is there exactly once, with the values of the dataset.
//
// Every process is a role of this one binary. Each part has one owner: a goroutine keeps each process of the fleet, one
// drives the job, one each carries out a fault under way; run waits for all of them.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	clientcommand "github.com/penstock-ml/penstock/client/command"
	"github.com/penstock-ml/penstock/internal/cli"
	mastercommand "github.com/penstock-ml/penstock/master/command"
	"github.com/penstock-ml/penstock/master/store/storetest"
	workercommand "github.com/penstock-ml/penstock/worker/command"
	"github.com/penstock-ml/penstock/worker/transform"
)

const version = "chaos"

// parquetFormat is the one that a dataset is counted in.
const parquetFormat = "parquet"

// deterministic is the order in which the sequence of batches follows from spec and dataset alone.
const deterministic = "deterministic"

func main() {
	storetest.Main()
	os.Exit(cli.Main(command()))
}

// options are the program's flags.
type options struct {
	faults                     int
	seed                       uint64
	only                       []string
	workers, masters, trainers int
	rows, epochs               int
	perFault                   int
	lastBatch, order, format   string
	lease, compute, stuck      time.Duration
	planOnly, keep, loopback   bool
	mixed, stateless           bool
	full, named, functions     bool
	report, dir, python        string
}

func command() *cobra.Command {
	var o options
	cmd := &cobra.Command{
		Use:   "chaos",
		Short: "Break a fleet while a job runs on it, and count every row",
		Long: "Run a session as real processes on MinIO and a cluster of etcd, while a seeded schedule kills, " +
			"stops, slows and\n" +
			"cuts them off. The trainers resume from checkpoints. In the end every row that was handed over is " +
			"counted: the exit\n" +
			"status is 0 only if each row of each epoch is there exactly once, with its values.\n\n" +
			"Faults of the network need root on Linux, with ip and nft; without them they are left out. A MinIO " +
			"server is needed\n" +
			"(`make tools`), and for the recount a Python with duckdb (`make python`); without that it is done in Go.",
		Example: "  go run ./bench/chaos --faults 50 --seed 1\n" +
			"  go run ./bench/chaos --faults 20 --seed 7 --only workers,network --keep\n" +
			"  go run ./bench/chaos --faults 1000 --seed 3 --report report.md\n" +
			"  go run ./bench/chaos --faults 50 --seed 1 --plan",
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.IntVar(&o.faults, "faults", 50, "number of faults")
	flags.Uint64Var(&o.seed, "seed", 1, "seed of the schedule")
	flags.StringSliceVar(&o.only, "only", nil, "classes of faults (default: all of "+classNames()+")")
	flags.IntVar(&o.workers, "workers", 3, "worker processes")
	flags.IntVar(&o.masters, "masters", 3, "master processes")
	flags.IntVar(&o.trainers, "trainers", 3, "trainer processes at first; the job may go on with one less or one more")
	flags.IntVar(&o.rows, "rows", 60_000, "rows of the dataset")
	flags.IntVar(&o.epochs, "epochs", 0, "epochs (default: as many as the faults need, at least 3)")
	flags.IntVar(&o.perFault, "rows-per-fault", 9_000,
		"rows handed over from one fault to the next, if --epochs is not given")
	flags.BoolVar(&o.mixed, "mixed", false, "every other trainer is in Python")
	flags.BoolVar(&o.full, "full", false,
		"all ports have TLS and tokens, and the spec filters, transforms and decodes pictures")
	flags.BoolVar(&o.functions, "functions", false,
		"the spec calls a Python function, whose processes are killed and stopped, too")
	flags.BoolVar(&o.named, "named", false,
		"masters take named checkpoints, and ranks that are started again go on from them where they can")
	flags.BoolVar(&o.stateless, "without-states", false,
		"start ranks again without states: then rows may come twice that were handed over within a lease of a "+
			"rank's end, and no others")
	flags.StringVar(&o.lastBatch, "last-batch", "uneven", "uneven; or pad, with which trainers go in step")
	flags.StringVar(&o.order, "order", "fast",
		"fast; or deterministic, with --last-batch pad: then the sequence is compared with that of one trainer "+
			"without faults, too")
	flags.StringVar(&o.format, "format", parquetFormat,
		"format of the dataset's files: parquet; or jsonl or tar, of which workers make indexes")
	flags.DurationVar(&o.lease, "lease", 8*time.Second, "the trainers' lease")
	flags.DurationVar(&o.compute, "compute", 10*time.Millisecond, "what a training step takes")
	flags.DurationVar(&o.stuck, "stuck-after", 2*time.Minute, "fail when a trainer did not get a batch for so long")
	flags.BoolVar(&o.planOnly, "plan", false, "print the schedule and end")
	flags.BoolVar(&o.keep, "keep", false,
		"keep the folder of logs and ledgers (it is kept anyway when something fails)")
	flags.BoolVar(&o.loopback, "loopback", false,
		"do without network namespaces, even as root: batches then come in shared memory")
	flags.StringVar(&o.report, "report", "", "file that takes the report (Markdown)")
	flags.StringVar(&o.dir, "dir", "",
		"folder of logs and ledgers, which must be empty (default: a new one in the system's)")
	flags.StringVar(&o.python, "python", "",
		"Python with duckdb, and for --mixed and --functions with penstock (default: .venv/bin/python, else python3)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := o.check(); err != nil {
			return err
		}
		if o.planOnly {
			for _, f := range schedule(o.seed, o.faults, o.shape(!o.loopback && mayIsolate() == nil), o.only) {
				fmt.Fprintln(cmd.OutOrStdout(), f)
			}
			return nil
		}
		return o.main(cmd.Context())
	}
	cmd.AddCommand(
		hidden(mastercommand.Master(transform.Builtin(), version)),
		hidden(workercommand.Worker(transform.Builtin(), version)),
		hidden(clientcommand.Feed(version)), // of trainers in Python
		hidden(cli.Setup(trainerCommand())),
		hidden(cli.Setup(storageCommand())),
	)
	cmd.SilenceUsage = true
	return cmd
}

func hidden(cmd *cobra.Command) *cobra.Command {
	cmd.Hidden = true
	return cmd
}

func (o *options) check() error {
	var errs []error
	checkMin := func(flag string, value, minimum int) {
		if value < minimum {
			errs = append(errs, fmt.Errorf("--%s: want %d or more, found %d", flag, minimum, value))
		}
	}
	checkMin("faults", o.faults, 0)
	checkMin("workers", o.workers, 1)
	checkMin("masters", o.masters, 1)
	checkMin("trainers", o.trainers, 1)
	checkMin("rows", o.rows, 1000)
	checkMin("epochs", o.epochs, 0)
	checkMin("rows-per-fault", o.perFault, 1)
	errs = append(errs, checkClasses(o.only))
	if o.lastBatch != "uneven" && o.lastBatch != "pad" {
		errs = append(errs, fmt.Errorf("--last-batch: want uneven or pad, found %q", o.lastBatch))
	}
	if o.order != "fast" && o.order != deterministic {
		errs = append(errs, fmt.Errorf("--order: want fast or deterministic, found %q", o.order))
	}
	if o.stateless && (o.mixed || o.named || o.order == deterministic || o.lastBatch != "uneven") {
		errs = append(errs, errors.New(
			"--without-states goes with trainers in Go, --order fast and --last-batch uneven, and without --named"))
	}
	if !slices.Contains([]string{parquetFormat, "jsonl", "tar"}, o.format) {
		errs = append(errs, fmt.Errorf("--format: want %s, jsonl or tar, found %q", parquetFormat, o.format))
	}
	if o.format != parquetFormat && (o.full || o.functions) {
		errs = append(errs, fmt.Errorf("--full and --functions go with --format %s", parquetFormat))
	}
	if o.order == deterministic {
		o.lastBatch = "pad" // so that all ranks count the same steps
	}
	if o.epochs == 0 {
		o.epochs = max(3, (o.faults*o.perFault+o.rows-1)/o.rows)
	}
	return errors.Join(errs...)
}

func (o *options) shape(isolated bool) shape {
	return shape{
		Workers: o.workers, Masters: o.masters, Trainers: o.trainers, Lease: o.lease, Isolated: isolated,
		Functions: o.functions,
	}
}

// main runs the program where it belongs: in a network of its own if it can have one.
func (o *options) main(ctx context.Context) error {
	reason := mayIsolate()
	if o.loopback {
		reason = errors.New("--loopback")
	}
	if reason == nil && !isolated() {
		return runIsolated(ctx)
	}
	if reason != nil && !o.loopback && mustHaveAll() {
		return fmt.Errorf("no networks to cut: %w; leave their faults out with --loopback", reason)
	}
	if err := o.needPython(ctx); err != nil {
		return err
	}
	if err := o.folder(); err != nil {
		return err
	}
	return run(ctx, *o, reason)
}

// needPython finds the Python that trainers and functions run in, if there are some.
func (o *options) needPython(ctx context.Context) error {
	flag, need := "--mixed", "penstock"
	if o.functions {
		flag, need = "--functions", functionsNeed
	}
	if !o.mixed && !o.functions {
		return nil
	}
	if o.python = findPython(ctx, o.python, need); o.python == "" {
		return fmt.Errorf("%s: no Python with %s: `make python` makes one; or name one by --python", flag, need)
	}
	return nil
}

// folder makes the folder of logs and ledgers.
func (o *options) folder() (err error) {
	if o.dir == "" {
		o.dir, err = os.MkdirTemp("", "penstock-chaos-*")
		return err
	}
	if o.dir, err = filepath.Abs(o.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return err
	}
	if left, err := os.ReadDir(o.dir); err != nil || len(left) > 0 {
		return errors.Join(err, fmt.Errorf("--dir: %s is not empty", o.dir))
	}
	return nil
}
