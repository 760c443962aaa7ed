package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/bench/reference"
	"github.com/penstock-ml/penstock/internal/process"
	"github.com/penstock-ml/penstock/internal/rpc"
)

const session = "demo"

// fleet is a running demo.
type fleet struct {
	*job
	options
	cluster  *cluster.Cluster
	dir      string
	show     *progress
	workers  []*process.Process
	trainers []*process.Process

	last         []trainerReport // by rank
	killed       []*process.Process
	dead         int // workers that ended by themselves
	replacements map[string]bool
	report       Report
}

// run starts the fleet, kills as many workers as asked for, waits for the trainers and verifies.
func (j *job) run(ctx context.Context, o options, dir string, show *progress) (*Report, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	cfg := cluster.Config{Binary: binary, Dir: dir}
	if o.storageFile != "" {
		cfg.Env = []string{"PENSTOCK_STORAGE_CONFIG=" + o.storageFile}
	}
	c, err := cluster.Start(ctx, cfg, o.workers)
	if err != nil {
		return nil, err
	}
	f := &fleet{
		job: j, options: o, cluster: c, dir: dir, show: show, workers: c.Workers(),
		last: make([]trainerReport, o.trainers), replacements: map[string]bool{},
		report: Report{StallShare: []float64{}, Killed: []string{}, Resumes: []resume{}},
	}
	err = f.train(ctx)
	f.stopped(c.Close())
	if err != nil {
		return nil, err
	}
	if err := f.verify(ctx); err != nil {
		return nil, err
	}
	f.report.OK = len(f.report.Problems) == 0
	return &f.report, nil
}

// train opens the session and follows the trainers until all have ended.
func (f *fleet) train(ctx context.Context) error {
	master, err := f.cluster.Master(ctx)
	if err != nil {
		return err
	}
	if err := f.open(ctx, master); err != nil {
		return err
	}
	began := time.Now()
	ctx, cancel := context.WithCancel(ctx)
	var listeners sync.WaitGroup
	defer listeners.Wait()
	defer cancel()
	reports := make(chan rankReport)
	for rank := range f.options.trainers {
		if err := f.startTrainer(ctx, master, rank, reports, &listeners); err != nil {
			return err
		}
	}
	died := f.watch(ctx, &listeners)
	for running := f.options.trainers; running > 0; {
		select {
		case r := <-reports:
			if r.ended {
				running--
				if !f.last[r.rank].Done {
					return f.trainerFailed(r.rank)
				}
				continue
			}
			f.last[r.rank] = r.trainerReport
			f.showRun(time.Since(began))
		case p := <-died:
			if err := f.lost(p); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := f.maybeKill(ctx); err != nil {
			return err
		}
	}
	f.report.Seconds = time.Since(began).Seconds()
	f.show.end()
	return f.ended()
}

// watch tells of the master and of workers that end while the trainers run.
func (f *fleet) watch(ctx context.Context, listeners *sync.WaitGroup) <-chan *process.Process {
	died := make(chan *process.Process)
	for _, p := range append(slices.Clone(f.workers), f.cluster.MasterProcess()) {
		listeners.Go(func() {
			select {
			case <-p.Done():
			case <-ctx.Done():
				return
			}
			select {
			case died <- p:
			case <-ctx.Done():
			}
		})
	}
	return died
}

// lost takes note of a process that ended by itself. Without the master or any worker the trainers would wait forever.
func (f *fleet) lost(p *process.Process) error {
	if slices.Contains(f.killed, p) {
		return nil
	}
	err := p.Wait()
	if err == nil {
		err = fmt.Errorf("demo: %s ended by itself", p.Name)
	}
	f.dead++
	if p == f.cluster.MasterProcess() || f.alive() == 0 {
		return err
	}
	f.show.say("%s ended by itself; the others go on", p.Name)
	return nil // closing the cluster reports it
}

func (f *fleet) alive() int { return len(f.workers) - len(f.killed) - f.dead }

// trainerFailed says why; the others would wait for its lease to end.
func (f *fleet) trainerFailed(rank int) error {
	if err := f.trainers[rank].Wait(); err != nil {
		return err
	}
	return fmt.Errorf("demo: trainer %d ended without its last report", rank)
}

func (f *fleet) open(ctx context.Context, master string) error {
	conn, err := rpc.Dial(master, f.cluster.RPC())
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	_, err = pb.NewMasterClient(conn).Open(ctx, &pb.OpenRequest{Session: session, Spec: f.spec, WorldSize: uint32(f.options.trainers)})
	if err != nil {
		return fmt.Errorf("demo: open the session: %w", err)
	}
	return nil
}

// rankReport is what a trainer said, or that it ended.
type rankReport struct {
	trainerReport
	rank  int
	ended bool
}

// startTrainer runs a trainer whose goroutine here passes on what it says until it ends.
func (f *fleet) startTrainer(ctx context.Context, master string, rank int, reports chan<- rankReport, listeners *sync.WaitGroup) error {
	args := []string{
		"demo", "trainer", "--master=" + master, "--session=" + session, fmt.Sprint("--rank=", rank),
		fmt.Sprint("--world-size=", f.options.trainers), "--ledger=" + f.ledger(rank),
	}
	for i := range f.kill {
		// Spread over the first four fifths, so that each replacement has something to do.
		args = append(args, fmt.Sprint("--hold-at=", f.total*4*int64(i+1)/int64(5*(f.kill+1)*f.options.trainers)))
	}
	p, err := f.cluster.Run(ctx, fmt.Sprint("trainer-", rank), args...)
	if err != nil {
		return err
	}
	f.trainers = append(f.trainers, p)
	listeners.Go(func() {
		for {
			select {
			case line, ok := <-p.Lines():
				var r trainerReport
				if ok && json.Unmarshal(line, &r) != nil {
					continue
				}
				send(ctx, reports, rankReport{trainerReport: r, rank: rank, ended: !ok})
				if !ok {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	})
	return nil
}

func send(ctx context.Context, to chan<- rankReport, r rankReport) {
	select {
	case to <- r:
	case <-ctx.Done():
	}
}

// maybeKill kills a worker and starts another when a trainer holds for that, and lets trainers go on whose kill is done.
// Only a trainer that holds is sent the signal: it listens.
func (f *fleet) maybeKill(ctx context.Context) error {
	for i, t := range f.trainers {
		if f.last[i].Hold == 0 {
			continue
		}
		kill := f.last[i].Hold > len(f.killed)
		if kill {
			if err := f.killWorker(); err != nil {
				return err
			}
		}
		f.last[i].Hold = 0
		if err := t.Signal(syscall.SIGUSR1); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("demo: let %s go on: %w", t.Name, err)
		}
		if kill {
			if err := f.replace(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *fleet) killWorker() error {
	victim := f.victim()
	f.killed = append(f.killed, victim)
	if err := victim.Kill(); err != nil {
		return err
	}
	<-victim.Done()
	f.show.say("killed %s (SIGKILL); starting another", victim.Name)
	return nil
}

// victim is the living worker with the most open streams.
func (f *fleet) victim() *process.Process {
	var victim *process.Process
	most := -1
	for _, w := range f.workers {
		streams := 0
		for _, t := range f.last {
			streams += t.Streams[w.Name]
		}
		if streams > most && !slices.Contains(f.killed, w) {
			victim, most = w, streams
		}
	}
	return victim
}

func (f *fleet) replace(ctx context.Context) error {
	w, err := f.cluster.StartWorker(ctx)
	if err != nil {
		return err
	}
	f.workers = append(f.workers, w)
	f.replacements[w.Name] = true
	return nil
}

func (f *fleet) showRun(elapsed time.Duration) {
	var rows, bytes, stall, compute int64
	for _, t := range f.last {
		rows, bytes, stall, compute = rows+t.Rows, bytes+t.Bytes, stall+t.StallNs, compute+t.ComputeNs
	}
	f.show.show("training", rows, f.total, fmt.Sprintf("%s rows/s  %s/s  stalled %.0f%%  %d workers",
		humanize.Comma(int64(float64(rows)/elapsed.Seconds())), humanize.Bytes(uint64(float64(bytes)/elapsed.Seconds())),
		100*share(stall, stall+compute), f.alive()))
}

// ended takes the trainers' last words.
func (f *fleet) ended() error {
	var errs []error
	for _, t := range f.trainers {
		if err := t.Wait(); err != nil {
			errs = append(errs, err)
		}
	}
	f.report.Kills = len(f.killed)
	for _, p := range f.killed {
		f.report.Killed = append(f.report.Killed, p.Name)
	}
	if len(f.killed) < f.kill {
		f.report.Problems = append(f.report.Problems, fmt.Sprintf("only %d of %d workers were killed: the epoch was over before", len(f.killed), f.kill))
	}
	f.report.trainers(f.last, f.replacements)
	return errors.Join(errs...)
}

// stopped takes what closing the cluster found, and the workers' memory, known only now.
func (f *fleet) stopped(err error) {
	if err != nil {
		f.report.Problems = append(f.report.Problems, err.Error())
	}
	for _, w := range f.workers {
		f.report.WorkerPeakMemory = max(f.report.WorkerPeakMemory, w.PeakMemory())
	}
}

func (f *fleet) verify(ctx context.Context) error {
	interpreter, err := reference.New(ctx, f.spec, f.storage)
	if err != nil {
		return err
	}
	expected, err := interpreter.Expected(ctx, 0, func(done, total int64) { f.show.show("verifying", done, total, "row by row") })
	if err != nil {
		return err
	}
	f.show.end()
	ledgers := make([]string, len(f.trainers))
	for rank := range ledgers {
		ledgers[rank] = f.ledger(rank)
	}
	compared, err := reference.Compare(expected, ledgers...)
	if err != nil {
		return err
	}
	f.report.compare(compared)
	return nil
}

func (f *fleet) ledger(rank int) string {
	return filepath.Join(f.dir, fmt.Sprintf("trainer-%d.ledger", rank))
}
