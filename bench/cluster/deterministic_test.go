package cluster_test

import (
	"context"
	endian "encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/client"
	"github.com/penstock-ml/penstock/cmd/demo/dataset"
	"github.com/penstock-ml/penstock/internal/process"
	"github.com/penstock-ml/penstock/internal/rpc"
)

const (
	orderedEpochs = 2
	orderedLanes  = 8
	orderedBatch  = 960 // rows of a step
)

// orderedSpec is a chain with floats, hashes, a filter and sampling, shuffled.
func orderedSpec(t *testing.T, rows int) *pb.Spec {
	t.Helper()
	paths, err := dataset.Criteo(t.Context(), t.TempDir(), rows, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := spec.Parse([]byte(`
dataset: {uri: ` + filepath.Dir(paths[0]) + `/}
filter: int_0 >= 2
features: [{label: label}, {dense: int_*}, {sparse: [cat_0, cat_1]}]
transforms:
  - {op: fill_null, in: int_*, value: 0}
  - {op: clamp, in: int_*, min: 0, max: 1000000}
  - {op: log1p, in: int_*}
  - {op: normalize, in: int_*, mean: 1.5, std: 2}
  - {op: sigrid_hash, in: [cat_0, cat_1], salt: 0, max: 1000000}
  - {op: sample, rate: 0.8}
global_batch_size: ` + fmt.Sprint(orderedBatch) + `
lanes: ` + fmt.Sprint(orderedLanes) + `
order: deterministic
last_batch: uneven
epochs: ` + fmt.Sprint(orderedEpochs) + `
seed: 5
shuffle: true
provenance: true
`))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// step is a place in the global sequence of batches.
type step struct {
	epoch uint32
	n     int
}

// sequence is the rows of each step, hashed one by one with all their values, over all ranks in order.
type sequence map[step][]uint64

// readOrdered reads ranks side by side from the steps where they are, up to a number of steps, or to the end if it is
// 0. After each batch of rank 0 it calls after with their number.
func readOrdered(t *testing.T, jobs []*client.Session, from step, count int, after func(batches int)) sequence {
	t.Helper()
	parts := make([]map[step][]uint64, len(jobs))
	var group errgroup.Group
	for rank, job := range jobs {
		group.Go(func() error {
			parts[rank] = make(map[step][]uint64)
			at := from
			for n := 1; count == 0 || n <= count; n++ {
				b, err := job.Next(t.Context())
				if errors.Is(err, io.EOF) {
					return nil
				}
				if err != nil {
					return err
				}
				if b.Epoch != at.epoch {
					at = step{epoch: b.Epoch}
				}
				if full := orderedBatch / len(jobs); b.Rows != full && b.Rows != b.Valid {
					return fmt.Errorf("rank %d: a padded batch of %d rows, want %d", rank, b.Rows, full)
				}
				parts[rank][at] = rowHashes(b)
				at.n++
				b.Release()
				if rank == 0 {
					after(n)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	all := make(sequence)
	for _, part := range parts { // by rank
		for at, rows := range part {
			all[at] = append(all[at], rows...)
		}
	}
	return all
}

// rowHashes hashes each row of a batch, bit for bit.
func rowHashes(b *client.Batch) []uint64 {
	out := make([]uint64, b.Valid)
	width := len(b.DenseNames)
	var buf []byte
	for i := range out {
		buf = endian.LittleEndian.AppendUint64(buf[:0], uint64(b.RowIDs[i])<<8|uint64(b.Files[i]))
		for _, v := range b.Dense[i*width : (i+1)*width] {
			buf = endian.LittleEndian.AppendUint32(buf, math.Float32bits(v))
		}
		for _, f := range b.Sparse {
			for _, v := range f.Values[f.Offsets[i]:f.Offsets[i+1]] {
				buf = endian.LittleEndian.AppendUint64(buf, uint64(v))
			}
			buf = append(buf, '|')
		}
		for _, l := range b.Labels {
			if l.I64 != nil {
				buf = endian.LittleEndian.AppendUint64(buf, uint64(l.I64[i]))
			}
		}
		for _, f := range b.Bytes {
			buf = append(buf, f.Data[f.Offsets[i]:f.Offsets[i+1]]...)
		}
		h := fnv.New64a()
		_, _ = h.Write(buf) // never fails
		out[i] = h.Sum64()
	}
	return out
}

// equalSequences fails the test at the first difference.
func equalSequences(t *testing.T, what string, got, want sequence) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d steps, want %d", what, len(got), len(want))
	}
	for at, rows := range want {
		if !slices.Equal(got[at], rows) {
			t.Fatalf("%s: step %+v has %d rows, want %d, or others than those", what, at, len(got[at]), len(rows))
		}
	}
}

// openOrdered opens a session with all of its ranks; states nil is no restore, else the first rank brings it.
func openOrdered(
	t *testing.T, c *cluster.Cluster, id string, s *pb.Spec, world int, state *pb.State,
) []*client.Session {
	t.Helper()
	master, err := c.Master(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	jobs := make([]*client.Session, world)
	var group errgroup.Group
	for rank := range jobs {
		cfg := client.Config{
			Masters: []string{master}, Session: id, Spec: s, Rank: uint32(rank), WorldSize: uint32(world),
			Dial:     func(address string) (*grpc.ClientConn, error) { return rpc.Dial(address, c.RPC()) },
			DialLink: rpc.LinkDialer(c.RPC()),
			Logger:   slog.New(slog.DiscardHandler),
		}
		if state != nil {
			cfg.Restore = []*pb.State{}
			if rank == 0 {
				cfg.Restore = []*pb.State{state}
			}
		}
		group.Go(func() (err error) {
			jobs[rank], err = client.Open(context.WithoutCancel(t.Context()), cfg)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	return jobs
}

func closeAll(t *testing.T, jobs []*client.Session) {
	t.Helper()
	for _, job := range jobs {
		closeJob(t, job)
	}
}

// TestSameSequence compares whole epochs, batch for batch and bit for bit, for several numbers of ranks and workers,
// with workers that are killed, stopped and woken.
func TestSameSequence(t *testing.T) {
	t.Parallel()
	s := orderedSpec(t, 40_000)
	var want sequence
	for _, workers := range []int{1, 3, 5} {
		c := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, workers)
		alive := slices.Clone(c.Workers())
		for i, world := range []int{1, 2, 4, 8} {
			what := fmt.Sprintf("%d ranks, %d workers", world, workers)
			jobs := openOrdered(t, c, fmt.Sprintf("ordered-%d", world), s, world, nil)
			var woken atomic.Bool
			got := readOrdered(t, jobs, step{}, 0, func(n int) {
				switch {
				case workers == 1 || len(alive) < 2:
				case n == 5 && i%2 == 1:
					_ = alive[0].Kill() // fails only if it has ended
					alive = alive[1:]
				case n == 5:
					_ = alive[0].Signal(syscall.SIGSTOP) // likewise
				case n == 30 && i%2 == 0 && !woken.Swap(true):
					_ = alive[0].Signal(syscall.SIGCONT) // likewise
				}
			})
			wake(alive)
			closeAll(t, jobs)
			if want == nil {
				want = got
				checkWhole(t, got)
			}
			equalSequences(t, what, got, want)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

func wake(workers []*process.Process) {
	for _, p := range workers {
		_ = p.Signal(syscall.SIGCONT) // fails only if it has ended
	}
}

// checkWhole checks that a sequence has epochs of different orders and the same number of steps as rows ask for.
func checkWhole(t *testing.T, s sequence) {
	t.Helper()
	first, second := s[step{}], s[step{epoch: 1}]
	if len(s) < 2*10 || len(first) != orderedBatch || slices.Equal(first, second) {
		t.Fatalf("%d steps; the first has %d rows, and the next epoch's is the same: %v",
			len(s), len(first), slices.Equal(first, second))
	}
	seen := make(map[uint64]bool)
	for at, rows := range s {
		for _, r := range rows {
			if at.epoch == 0 {
				if seen[r] {
					t.Fatalf("a row comes twice, again in step %+v", at)
				}
				seen[r] = true
			}
		}
	}
}

// TestSequenceRestores goes on from one rank's state with another number of ranks, in a fleet with a new master, a new
// etcd and other workers, and gets the rest of the sequence.
func TestSequenceRestores(t *testing.T) {
	t.Parallel()
	s := orderedSpec(t, 40_000)
	c := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 2)
	whole := openOrdered(t, c, "whole", s, 1, nil)
	want := readOrdered(t, whole, step{}, 0, func(int) {})
	closeAll(t, whole)
	steps := 0
	for at := range want {
		if at.epoch == 0 {
			steps++
		}
	}
	for _, r := range []struct{ at, before, after int }{{7, 2, 4}, {steps - 2, 4, 1}, {steps + 5, 1, 8}} {
		jobs := openOrdered(t, c, fmt.Sprintf("before-%d", r.at), s, r.before, nil)
		got := readOrdered(t, jobs, step{}, r.at, func(int) {})
		state := jobs[len(jobs)-1].State()
		closeAll(t, jobs)
		from := step{epoch: uint32(r.at / steps), n: r.at % steps}
		elsewhere := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 3)
		jobs = openOrdered(t, elsewhere, "after", s, r.after, state)
		for at, rows := range readOrdered(t, jobs, from, 0, func(int) {}) {
			if got[at] != nil {
				t.Fatalf("step %+v comes again after a restore at step %+v", at, from)
			}
			got[at] = rows
		}
		closeAll(t, jobs)
		if err := elsewhere.Close(); err != nil {
			t.Error(err)
		}
		equalSequences(t, fmt.Sprintf("restored at step %+v, from %d ranks to %d", from, r.before, r.after), got, want)
	}
}

// TestSequenceWithEachLastBatch reads whole epochs with full last batches: padded, they have the rows that uneven ones
// have; else the short step at the end of an epoch is missing. A worker dies, and the job is restored with other ranks.
func TestSequenceWithEachLastBatch(t *testing.T) {
	t.Parallel()
	// nine steps and a half in each epoch: which rows are sampled depends on the files' paths
	s := orderedSpec(t, 19_000)
	c := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 3)
	alive := slices.Clone(c.Workers())
	jobs := openOrdered(t, c, "uneven", s, 1, nil)
	padded := readOrdered(t, jobs, step{}, 0, func(int) {})
	closeAll(t, jobs)
	whole := maps.Clone(padded)
	maps.DeleteFunc(whole, func(_ step, rows []uint64) bool { return len(rows) < orderedBatch })
	if len(padded) != len(whole)+orderedEpochs {
		t.Fatalf("%d steps, %d of them whole: want one short step in each epoch", len(padded), len(whole))
	}
	for last, want := range map[pb.LastBatch]sequence{pb.LastBatch_PAD: padded, pb.LastBatch_DROP: whole} {
		s.LastBatch = last
		for _, world := range []int{1, 2, 4} {
			what := fmt.Sprintf("%v, %d ranks", last, world)
			jobs := openOrdered(t, c, fmt.Sprintf("%v-%d", last, world), s, world, nil)
			got := readOrdered(t, jobs, step{}, 0, func(n int) {
				if world == 2 && n == 5 && len(alive) > 1 {
					_ = alive[0].Kill() // fails only if it has ended
					alive = alive[1:]
				}
			})
			closeAll(t, jobs)
			equalSequences(t, what, got, want)
		}
		jobs := openOrdered(t, c, fmt.Sprintf("%v-before", last), s, 4, nil)
		got := readOrdered(t, jobs, step{}, 6, func(int) {})
		state := jobs[2].State()
		closeAll(t, jobs)
		jobs = openOrdered(t, c, fmt.Sprintf("%v-after", last), s, 2, state)
		maps.Copy(got, readOrdered(t, jobs, step{n: 6}, 0, func(int) {}))
		closeAll(t, jobs)
		equalSequences(t, fmt.Sprintf("%v, restored", last), got, want)
	}
}

// TestSameSequenceOnEachCPU compares epochs of workers that were built for CPUs with AVX2, where Go could fuse multiply
// and add, with those of workers for any. That compiles everything once more, so that only `make test-v3` does it.
func TestSameSequenceOnEachCPU(t *testing.T) {
	t.Parallel()
	if os.Getenv("PENSTOCK_CPU_LEVELS") == "" {
		t.Skip("NOT COMPARED: PENSTOCK_CPU_LEVELS is not set")
	}
	if runtime.GOARCH != "amd64" {
		t.Skipf("NOT COMPARED: this is %s", runtime.GOARCH)
	}
	s := orderedSpec(t, 40_000)
	var want sequence
	for _, level := range []string{"v1", "v3"} {
		built := filepath.Join(t.TempDir(), "penstock-"+level)
		build := exec.CommandContext(t.Context(), "go", "build", "-o", built, "github.com/penstock-ml/penstock")
		build.Env = append(os.Environ(), "GOAMD64="+level)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("build: %v\n%s", err, out)
		}
		if out, err := exec.CommandContext(t.Context(), built, "--help").CombinedOutput(); err != nil {
			if strings.Contains(string(out), "microarchitecture") {
				t.Skipf("NOT COMPARED: this CPU cannot run GOAMD64=%s", level)
			}
			t.Fatalf("%s: %v\n%s", built, err, out)
		}
		c := startCluster(t, cluster.Config{Binary: built, Dir: t.TempDir()}, 1)
		jobs := openOrdered(t, c, "cpu", s, 1, nil)
		got := readOrdered(t, jobs, step{}, 0, func(int) {})
		closeAll(t, jobs)
		if want == nil {
			want = got
		}
		equalSequences(t, "GOAMD64="+level, got, want)
	}
	t.Logf("GOAMD64=v1 and v3 gave the same bits in %d steps", len(want))
}
