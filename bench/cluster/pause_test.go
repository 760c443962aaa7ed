package cluster_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/client"
	"github.com/penstock-ml/penstock/internal/process"
	"github.com/penstock-ml/penstock/internal/rpc"
)

// strikes is how many workers die in each benchmark of pauses.
const strikes = 20

// BenchmarkPauses strikes one worker after the other while a training loop takes batches as fast as they come, and
// reports the longest time that Next took after each strike, and how long broken streams waited for their first rows
// elsewhere.
func BenchmarkPauses(b *testing.B) {
	for _, c := range []struct {
		name   string
		strike func(*process.Process) error
	}{
		{"SIGKILL", (*process.Process).Kill},
		{"SIGSTOP", func(p *process.Process) error { return p.Signal(syscall.SIGSTOP) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			l := startLoop(b, 3)
			for b.Loop() {
				for range strikes {
					l.strike(c.strike)
				}
			}
			l.stop()
			b.ReportMetric(0, "ns/op") // the time of all strikes says nothing
			reportPauses(b, "next", l.pauses)
			reportPauses(b, "stream", l.streams)
		})
	}
}

func reportPauses(b *testing.B, what string, pauses []time.Duration) {
	for name, q := range map[string]float64{"p50": 0.5, "p90": 0.9, "max": 1} {
		b.ReportMetric(float64(quantile(pauses, q))/float64(time.Millisecond), what+"-"+name+"-ms")
	}
}

func quantile(pauses []time.Duration, q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(pauses))
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(q*float64(len(sorted)-1))]
}

// loop is a training loop on a fleet whose workers are struck.
type loop struct {
	b       *testing.B
	fleet   *cluster.Cluster
	job     *client.Session
	workers []*process.Process
	pauses  []time.Duration // of Next, one for each strike
	cancel  context.CancelFunc
	done    chan error

	mu      sync.Mutex
	batches int
	began   time.Time     // of the Next that runs
	longest time.Duration // that one took since the last strike
	streams []time.Duration
}

func startLoop(b *testing.B, workers int) *loop {
	s := provenanceSpec(b, 200_000, 1<<20)
	s.BatchSize = 1024
	s.Features = append(s.Features, &pb.Feature{Name: []string{"int_*"}, Layout: pb.Layout_DENSE})
	l := &loop{
		b: b, fleet: startCluster(b, cluster.Config{Binary: binary, Dir: b.TempDir()}, workers),
		done: make(chan error, 1),
	}
	l.workers = slices.Clone(l.fleet.Workers())
	master, err := l.fleet.Master(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	l.job, err = client.Open(context.WithoutCancel(b.Context()), client.Config{
		Masters: []string{master}, Session: "pauses", Spec: s, Logger: slog.New(slog.DiscardHandler),
		Dial:     func(address string) (*grpc.ClientConn, error) { return rpc.Dial(address, l.fleet.RPC()) },
		DialLink: rpc.LinkDialer(l.fleet.RPC()),
		OnResume: func(r client.Resume) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.streams = append(l.streams, r.Pause)
		},
	})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	l.cancel = cancel
	go func() { l.done <- l.run(ctx) }()
	eventually(l.b, "a batch comes", func() bool { return l.handed() > 0 })
	return l
}

func (l *loop) run(ctx context.Context) error {
	for {
		l.mu.Lock()
		l.began = time.Now()
		l.mu.Unlock()
		batch, err := l.job.Next(ctx)
		if err != nil {
			return err
		}
		batch.Release()
		l.mu.Lock()
		l.batches++
		l.longest = max(l.longest, time.Since(l.began))
		l.mu.Unlock()
	}
}

// stop ends the loop and its session.
func (l *loop) stop() {
	l.cancel()
	if err := <-l.done; !errors.Is(err, context.Canceled) && !errors.Is(err, io.EOF) {
		l.b.Error(err)
	}
	if err := l.job.Close(); err != nil {
		l.b.Error(err)
	}
}

// strike strikes a worker that streams come from, waits until they come from others, and has another take its place.
func (l *loop) strike(strike func(*process.Process) error) {
	var at int
	var victim *process.Process
	eventually(l.b, "a stream comes", func() bool {
		at = slices.IndexFunc(l.workers,
			func(p *process.Process) bool { return l.job.Stats().StreamsByWorker[p.Name] > 0 })
		return at >= 0
	})
	victim = l.workers[at]
	l.mu.Lock()
	before := l.batches
	l.longest, l.began = 0, time.Now()
	l.mu.Unlock()
	if err := strike(victim); err != nil {
		l.b.Fatal(err)
	}
	eventually(l.b, "streams come from others", func() bool {
		return l.job.Stats().StreamsByWorker[victim.Name] == 0 && l.handed() > before+20
	})
	l.mu.Lock()
	l.pauses = append(l.pauses, l.longest)
	l.mu.Unlock()
	if err := victim.Kill(); err != nil {
		l.b.Fatal(err)
	}
	next, err := l.fleet.StartWorker(l.b.Context())
	if err != nil {
		l.b.Fatal(err)
	}
	l.workers = append(slices.Delete(l.workers, at, at+1), next) // the oldest is struck next
	eventually(l.b, "the other worker's streams come", func() bool { return l.job.Stats().RowsByWorker[next.Name] > 0 })
}

func (l *loop) handed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.batches
}

// TestStoppedWorker stops a worker with SIGSTOP in the middle of an epoch: its streams go on elsewhere, the pause is
// told, and no row is lost or doubled. When it wakes, it may serve again.
func TestStoppedWorker(t *testing.T) {
	t.Parallel()
	const rows, epochs = 60_000, 3
	c := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 3)
	s := provenanceSpec(t, rows, epochs)
	master, err := c.Master(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var told []client.Resume
	job, err := client.Open(context.WithoutCancel(t.Context()), client.Config{
		Masters: []string{master}, Session: "stopped", Spec: s, Budget: 1 << 20, Logger: slog.New(slog.DiscardHandler),
		Dial:     func(address string) (*grpc.ClientConn, error) { return rpc.Dial(address, c.RPC()) },
		DialLink: rpc.LinkDialer(c.RPC()),
		OnResume: func(r client.Resume) { mu.Lock(); told = append(told, r); mu.Unlock() },
	})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[row]int{}
	for range 3 {
		take(t, job, seen)
	}
	var victim *process.Process
	eventually(t, "a stream comes", func() bool {
		for _, p := range c.Workers() {
			if job.Stats().StreamsByWorker[p.Name] > 0 {
				victim = p
			}
		}
		return victim != nil
	})
	if err := victim.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for range 2 * rows / 700 { // far beyond what was on its way
		take(t, job, seen)
	}
	stopped := time.Since(began)
	if err := victim.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for take(t, job, seen) { //nolint:revive // to the end
	}
	st := job.Stats()
	closeJob(t, job)
	if len(seen) != rows*epochs {
		t.Errorf("%d different rows, want %d", len(seen), rows*epochs)
	}
	for r, n := range seen {
		if n != 1 {
			t.Fatalf("%+v was handed over %d times", r, n)
		}
	}
	t.Logf("two epochs took %v beside a stopped worker; %d streams were opened twice, %d resumed: %+v",
		stopped, st.Hedges, st.Failovers, told)
	if st.Hedges == 0 || st.Failovers == 0 || int(st.Failovers) > len(told) {
		t.Errorf("%d streams were opened twice, %d went on elsewhere, of %d it was told",
			st.Hedges, st.Failovers, len(told))
	}
	for _, r := range told {
		if r.From == victim.Name && strings.Contains(r.Cause.Error(), "sent nothing for") &&
			r.Pause < 500*time.Millisecond {
			t.Errorf("resumed after %v, from a stopped worker: %+v", r.Pause, r)
		}
	}
}
