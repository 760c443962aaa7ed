package demo

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"google.golang.org/grpc"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/cmd/local"
	"github.com/penstock-ml/penstock/internal/process"
	"github.com/penstock-ml/penstock/internal/rpc"
)

const session = "demo"

// showEvery is after how many rows progress is shown, while they are counted.
const showEvery = 4096

// fleet is a running demo.
type fleet struct {
	*job
	options
	dir      string
	token    rpc.Secret
	show     *progress
	master   *process.Process // which keeps the workers
	trainers []*process.Process
	http     string // the dashboard's address

	last   []trainerReport // by rank
	alive  int             // workers that serve, as seen last
	report Report
}

// run starts the fleet, kills as many workers as asked for, waits for the trainers, verifies, and tells what it found.
// A fleet that does not stay has ended by then.
func (j *job) run(
	ctx context.Context, o options, dir string, show *progress, onReport func(*Report) error,
) (*Report, error) {
	f := &fleet{
		job: j, options: o, dir: dir, token: rpc.NewSecret(rand.Text()), show: show,
		last: make([]trainerReport, o.trainers),
		report: Report{
			StallShare: []float64{}, Killed: []string{}, Resumes: []resume{}, Workers: []int{}, Decisions: []string{},
			values: j.written != nil,
		},
	}
	if err := f.start(); err != nil {
		return nil, err
	}
	end := sync.OnceFunc(f.end)
	defer end()
	err := f.train(ctx)
	if err != nil || !o.stay {
		end()
	}
	if err != nil {
		return nil, err
	}
	if err := f.verify(); err != nil {
		return nil, err
	}
	f.report.OK = len(f.report.Problems) == 0
	if err := onReport(&f.report); err != nil || !o.stay {
		return &f.report, err
	}
	show.say("\nthe fleet stays, and so does its dashboard, http://%s/, with all that happened; Ctrl-C ends them",
		f.http)
	<-ctx.Done()
	end()
	f.report.OK = len(f.report.Problems) == 0
	return &f.report, nil
}

// start starts the master, which keeps the workers. Those of a fleet that changes are a CPU each, so that more of them
// do more.
func (f *fleet) start() (err error) {
	if err := os.WriteFile(f.tokenFile(), []byte(f.token.Reveal()), 0o600); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	flags := []string{"--scale-up-after=2s", "--scale-down-after=3s", "--worker-start-up=5s"}
	if f.storageFile != "" {
		flags = append(flags, "--storage-config="+f.storageFile)
	}
	minWorkers := f.workers
	if !f.steady {
		minWorkers = 1
		flags = append(flags, "--worker-cpus=1", "--worker-flag=--slots=2")
	}
	f.master, err = local.Apart{
		Listen: "127.0.0.1:0", TokenFile: f.tokenFile(), Data: filepath.Join(f.dir, "master"), Logs: f.dir,
		MinWorkers: minWorkers, MaxWorkers: f.workers, Flags: flags,
	}.Start()
	return err
}

// end ends all processes, the trainers before the master, and takes what that shows.
func (f *fleet) end() {
	for _, p := range slices.Backward(append([]*process.Process{f.master}, f.trainers...)) {
		if err := p.Stop(); err != nil {
			f.report.Problems = append(f.report.Problems, err.Error())
		}
	}
}

// ports is how to reach the fleet's.
func (f *fleet) ports() rpc.Config { return rpc.Config{Token: f.token} }

func (f *fleet) tokenFile() string { return filepath.Join(f.dir, "token") }

// train opens the session and follows the trainers until all have ended.
func (f *fleet) train(ctx context.Context) error {
	up, err := f.master.Announced(ctx)
	if err != nil {
		return err
	}
	master := up.Address
	f.http = up.HTTP
	f.show.say("the dashboard: http://%s/ asks for the token %s", up.HTTP, f.token.Reveal())
	conn, err := rpc.Dial(master, f.ports())
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := f.open(ctx, conn); err != nil {
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
	looks := make(chan look)
	listeners.Go(func() { f.watch(ctx, conn, looks) })
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
		case l := <-looks:
			f.looked(l)
		case <-f.master.Done(): // the trainers would wait forever
			return errors.Join(errors.New("demo: the master ended by itself"), f.master.Wait())
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := f.maybeKill(); err != nil {
			return err
		}
	}
	f.report.Seconds = time.Since(began).Seconds()
	f.show.end()
	return f.ended()
}

// trainerFailed says why; the others would wait for its lease to end.
func (f *fleet) trainerFailed(rank int) error {
	if err := f.trainers[rank].Wait(); err != nil {
		return err
	}
	return fmt.Errorf("demo: trainer %d ended without its last report", rank)
}

func (f *fleet) open(ctx context.Context, conn *grpc.ClientConn) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	_, err := pb.NewMasterClient(conn).Open(ctx, &pb.OpenRequest{
		Session: session, Spec: f.spec,
		WorldSize: uint32(f.options.trainers),
	})
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
func (f *fleet) startTrainer(
	ctx context.Context, master string, rank int, reports chan<- rankReport, listeners *sync.WaitGroup,
) error {
	binary, err := os.Executable()
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	args := []string{
		"demo", "trainer", "--master=" + master, "--token-file=" + f.tokenFile(), "--session=" + session,
		fmt.Sprint("--rank=", rank), fmt.Sprint("--world-size=", f.options.trainers), "--ledger=" + f.ledger(rank),
		"--kept=" + strings.Join(f.written.names(), ","),
	}
	for i := range f.kill {
		// Spread over the first four fifths, so that each replacement has something to do.
		args = append(args, fmt.Sprint("--hold-at=", f.total*4*int64(i+1)/int64(5*(f.kill+1)*f.options.trainers)))
	}
	if !f.steady {
		args = append(args, f.pace()...)
	}
	name := fmt.Sprint("trainer-", rank)
	p, err := process.Start(process.Config{
		Name: name, Binary: binary, Args: args,
		Log: filepath.Join(f.dir, name+".log"),
	})
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

// pace has a trainer be slow for its first rows and its last ones: for as long as the fleet takes to follow, or as
// somebody does who opens the dashboard.
func (f *fleet) pace() []string {
	each := f.total / int64(f.options.trainers)
	until, from, slowLast := each*3/100, each*88/100, 6*time.Second // as slow, the first rows take a quarter of that
	if f.stay {
		until, from, slowLast = each*12/100, each*80/100, 20*time.Second
	}
	batches := max(1, (each-from)/f.spec.GetBatchSize())
	return []string{
		fmt.Sprint("--slow-until=", until), fmt.Sprint("--slow-from=", from), fmt.Sprint("--slow-step=",
			slowLast/time.Duration(batches)),
	}
}

func send(ctx context.Context, to chan<- rankReport, r rankReport) {
	select {
	case to <- r:
	case <-ctx.Done():
	}
}

// maybeKill kills a worker when a trainer holds for that, and lets trainers go on whose kill is done. Only a trainer
// that holds is sent the signal: it listens.
func (f *fleet) maybeKill() error {
	for i, t := range f.trainers {
		if f.last[i].Hold == 0 {
			continue
		}
		if f.last[i].Hold > len(f.report.Killed) {
			if done, err := f.killWorker(); err != nil || !done {
				return err
			}
		}
		f.last[i].Hold = 0
		if err := t.Signal(syscall.SIGUSR1); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("demo: let %s go on: %w", t.Name, err)
		}
	}
	return nil
}

func (f *fleet) showRun(elapsed time.Duration) {
	var rows, bytes, stall, compute int64
	for _, t := range f.last {
		rows, bytes, stall, compute = rows+t.Rows, bytes+t.Bytes, stall+t.StallNs, compute+t.ComputeNs
	}
	f.show.show("training", rows, f.total, fmt.Sprintf("%s rows/s  %s/s  stalled %.0f%%  %s",
		humanize.Comma(int64(float64(rows)/elapsed.Seconds())),
		humanize.Bytes(uint64(float64(bytes)/elapsed.Seconds())),
		100*share(stall, stall+compute), english.Plural(f.alive, "worker", "")))
}

// ended takes the trainers' last words.
func (f *fleet) ended() error {
	var errs []error
	for _, t := range f.trainers {
		if err := t.Wait(); err != nil {
			errs = append(errs, err)
		}
	}
	f.report.Kills = len(f.report.Killed)
	if f.report.Kills < f.kill {
		f.report.Problems = append(f.report.Problems,
			fmt.Sprintf("only %d of %d workers were killed: the epoch was over before", f.report.Kills, f.kill))
	}
	f.report.trainers(f.last)
	return errors.Join(errs...)
}

// verify recounts the rows that were delivered.
func (f *fleet) verify() error {
	again := newRecount(f.files, f.written)
	for rank := range f.trainers {
		before := again.delivered
		err := readLedger(f.ledger(rank), func(x record) {
			again.take(x)
			if again.delivered%showEvery == 0 {
				f.show.show("verifying", min(again.delivered, f.total), f.total, "row by row")
			}
		})
		if err != nil {
			return err
		}
		if n := again.delivered - before; n != f.last[rank].Rows {
			return fmt.Errorf("demo: trainer %d was handed %d rows, and wrote down %d", rank, f.last[rank].Rows, n)
		}
	}
	f.show.show("verifying", f.total, f.total, "row by row")
	f.show.end()
	f.report.take(again.finish())
	return nil
}

func (f *fleet) ledger(rank int) string {
	return filepath.Join(f.dir, fmt.Sprintf("trainer-%d.ledger", rank))
}
