package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/penstock-ml/penstock/client"
	"github.com/penstock-ml/penstock/internal/cli"
	"github.com/penstock-ml/penstock/internal/rpc"
)

// progressEvery is how often a trainer says how far it is.
const progressEvery = 100 * time.Millisecond

// budget of a trainer is small, so that a killed worker's streams are cut rather than buffered to their ends.
const budget = 64 << 20

// trainerReport is what a trainer process prints, one JSON object a line: how far it is, and whether it holds until
// the demo has killed a worker and says so with SIGUSR1.
type trainerReport struct {
	Rows         int64            `json:"rows"`
	Bytes        int64            `json:"bytes"`
	StallNs      int64            `json:"stall_ns"`
	ComputeNs    int64            `json:"compute_ns"`
	LongestPause time.Duration    `json:"longest_pause_ns"`
	Hold         int              `json:"hold,omitempty"` // counts from 1; the trainer waits for that many kills
	Done         bool             `json:"done,omitempty"`
	Resumes      []resume         `json:"resumes,omitempty"`
	RowsByWorker map[string]int64 `json:"rows_by_worker,omitempty"`
	Streams      map[string]int   `json:"streams,omitempty"` // open, by worker
}

// resume is a stream that went on at its cursor on another worker.
type resume struct {
	Cursor string        `json:"cursor"` // epoch/block/shard/window+row
	From   string        `json:"from"`
	To     string        `json:"to"`
	Pause  time.Duration `json:"pause_ns"`
}

// trainer is one data-parallel rank that writes down every row it is handed.
type trainer struct {
	session *client.Session
	ledger  *ledger
	rows    *delivered
	holds   []int64 // row counts at which to wait for a signal, those passed taken out
	held    int
	slow    slowness
	out     io.Writer

	mu      sync.Mutex
	resumes []resume

	report   trainerReport
	reported time.Time
}

// slowness is of a trainer whose accelerator takes a while for each batch, at the beginning and at the end.
type slowness struct {
	until, from int64 // rows
	step        time.Duration
}

func (s slowness) work(rows int64) {
	if s.step > 0 && (rows < s.until || rows >= s.from) {
		time.Sleep(s.step)
	}
}

// trainerCommand is what the demo runs as its trainers.
func trainerCommand() *cobra.Command {
	var (
		master, session, path string
		kept                  []string
		rank, world           uint32
		holds                 []int64
		slow                  slowness
		ports                 cli.RPCFlags
	)
	cmd := &cobra.Command{Use: "trainer", Short: "One trainer of the demo", Hidden: true, Args: cobra.NoArgs}
	flags := cmd.Flags()
	flags.StringVar(&master, "master", "", "the master's address")
	flags.StringVar(&session, "session", "", "session to read")
	flags.StringVar(&path, "ledger", "", "file that takes the rows handed over")
	flags.StringSliceVar(&kept, "kept", nil, "columns whose values are in the rows' checksums")
	flags.Uint32Var(&rank, "rank", 0, "rank")
	flags.Uint32Var(&world, "world-size", 1, "number of trainers")
	flags.Int64SliceVar(&holds, "hold-at", nil, "rows after which to wait for SIGUSR1")
	flags.Int64Var(&slow.until, "slow-until", 0, "rows up to which it is slow")
	flags.Int64Var(&slow.from, "slow-from", 0, "rows from which it is slow again")
	flags.DurationVar(&slow.step, "slow-step", 0, "time that it takes for a batch while it is slow")
	ports.Register(flags)
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		rpcConfig, err := ports.Config()
		if err != nil {
			return err
		}
		logger, err := cli.Logger(cmd, os.Stderr)
		if err != nil {
			return err
		}
		t := &trainer{holds: holds, slow: slow, out: cmd.OutOrStdout(), rows: newDelivered(kept)}
		if t.ledger, err = createLedger(path); err != nil {
			return err
		}
		t.session, err = client.Open(cmd.Context(), client.Config{
			Masters: []string{master}, Session: session, Rank: rank, WorldSize: world, Logger: logger,
			Dial:     func(address string) (*grpc.ClientConn, error) { return rpc.Dial(address, rpcConfig) },
			DialLink: rpc.LinkDialer(rpcConfig),
			OnResume: t.resumed,
			Budget:   budget,
		})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, t.session.Close()) }()
		return t.run(cmd.Context())
	}
	return cmd
}

func (t *trainer) resumed(r client.Resume) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.resumes = append(t.resumes, resume{Cursor: r.Cursor.String(), From: r.From, To: r.To, Pause: r.Pause})
}

func (t *trainer) run(ctx context.Context) error {
	goOn := make(chan os.Signal, 1)
	signal.Notify(goOn, syscall.SIGUSR1)
	defer signal.Stop(goOn)
	for {
		began := time.Now()
		batch, err := t.session.Next(ctx)
		if errors.Is(err, io.EOF) {
			return t.finish()
		}
		if err != nil {
			return err
		}
		if t.report.Rows > 0 {
			t.report.LongestPause = max(t.report.LongestPause, time.Since(began))
		}
		if err := t.take(batch); err != nil {
			return err
		}
		t.slow.work(t.report.Rows)
		if err := t.hold(ctx, goOn); err != nil {
			return err
		}
		if time.Since(t.reported) >= progressEvery {
			if err := t.say(); err != nil {
				return err
			}
		}
	}
}

func (t *trainer) take(batch *client.Batch) error {
	defer batch.Release()
	t.report.Rows += int64(batch.Valid)
	return t.rows.each(batch, t.ledger.add)
}

// hold waits where the demo wants to kill a worker, so that the kill is in the middle however small the dataset.
func (t *trainer) hold(ctx context.Context, goOn <-chan os.Signal) error {
	due := slices.IndexFunc(t.holds, func(rows int64) bool { return rows > t.report.Rows })
	if due < 0 {
		due = len(t.holds)
	}
	for ; due > 0; due-- {
		t.holds = t.holds[1:]
		t.held++
		t.report.Hold = t.held
		if err := t.say(); err != nil {
			return err
		}
		select {
		case <-goOn:
		case <-ctx.Done():
			return ctx.Err()
		}
		t.report.Hold = 0
	}
	return nil
}

func (t *trainer) finish() error {
	if err := t.ledger.close(); err != nil {
		return err
	}
	t.report.Done = true
	return t.say()
}

// say prints the report so far.
func (t *trainer) say() error {
	stats := t.session.Stats()
	t.report.Bytes, t.report.StallNs, t.report.ComputeNs = stats.Bytes, int64(stats.Stall), int64(stats.Compute)
	t.report.RowsByWorker, t.report.Streams = stats.RowsByWorker, stats.StreamsByWorker
	t.mu.Lock()
	t.report.Resumes = slices.Clone(t.resumes)
	t.mu.Unlock()
	t.reported = time.Now()
	if err := cli.PrintJSON(t.out, t.report); err != nil {
		return fmt.Errorf("trainer: %w", err)
	}
	return nil
}
