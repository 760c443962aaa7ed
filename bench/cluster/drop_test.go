package cluster_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/client"
)

const (
	droppedEpochs = 3
	droppedBatch  = 40
	droppedRows   = 450 + 50 + 800 // that pass the filter, in an epoch
)

// droppingSpec has a filter that most rows of the first file pass, a tenth of the third, all of the last two, and of
// the others none.
func droppingSpec(t *testing.T) *pb.Spec {
	t.Helper()
	s, err := spec.Parse([]byte(`
dataset: {uri: ` + sortedFiles(t, 3000, 500, 100) + `/}
filter: label < 450 or label >= 1100 and label < 1150 or label >= 2200
features: [{label: label}]
batch_size: ` + fmt.Sprint(droppedBatch) + `
last_batch: drop
epochs: ` + fmt.Sprint(droppedEpochs) + `
shuffle: true
seed: 3
provenance: true
`))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// epochsOf is what ranks handed over of a job whose last batches are dropped.
type epochsOf struct {
	mu      sync.Mutex
	seen    map[row]int
	batches [droppedEpochs][]int // by rank
}

func newEpochsOf(world int) *epochsOf {
	e := &epochsOf{seen: map[row]int{}}
	for i := range e.batches {
		e.batches[i] = make([]int, world)
	}
	return e
}

// add counts a batch, and returns how many there are.
func (e *epochsOf) add(rank int, b *client.Batch) (batches int, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	defer b.Release()
	if b.Rows != droppedBatch || b.Valid != droppedBatch {
		return 0, fmt.Errorf("rank %d: a batch of %d rows, %d of them valid", rank, b.Rows, b.Valid)
	}
	for i, file := range b.Files {
		e.seen[row{b.Epoch, file, b.RowIDs[i]}]++
	}
	e.batches[b.Epoch][rank]++
	for _, byRank := range e.batches {
		for _, n := range byRank {
			batches += n
		}
	}
	return batches, nil
}

// missing is how many rows of each epoch nobody got. None came twice.
func (e *epochsOf) missing(t *testing.T) (rows [droppedEpochs]int) {
	t.Helper()
	for i := range rows {
		rows[i] = droppedRows
	}
	for r, n := range e.seen {
		if n != 1 {
			t.Fatalf("%+v was handed over %d times", r, n)
		}
		rows[r.epoch]--
	}
	return rows
}

// TestDroppedLastBatches has a rank begin when the others are through with the first epoch, and a worker die. All ranks
// get as many full batches as there are, and what is left is what they are told.
func TestDroppedLastBatches(t *testing.T) {
	t.Parallel()
	for _, world := range []int{2, 3} {
		t.Run(fmt.Sprint(world), func(t *testing.T) {
			c := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 2)
			jobs := openRanks(t, c, "job", droppingSpec(t), make([][]*pb.State, world))
			got := newEpochsOf(world)
			var ahead sync.WaitGroup
			ahead.Add(world - 1)
			var group errgroup.Group
			for rank, job := range jobs {
				group.Go(func() error {
					inNext := sync.OnceFunc(ahead.Done)
					if rank == 0 {
						ahead.Wait()
					} else {
						defer inNext()
					}
					for {
						b, err := job.Next(t.Context())
						if errors.Is(err, io.EOF) {
							return nil
						}
						if err != nil {
							return err
						}
						if rank > 0 && b.Epoch > 0 {
							inNext()
						}
						n, err := got.add(rank, b)
						if err != nil {
							return err
						}
						if n == 10 {
							if err := c.Workers()[0].Kill(); err != nil {
								return err
							}
						}
					}
				})
			}
			if err := group.Wait(); err != nil {
				t.Fatal(err)
			}
			want := slices.Repeat([]int{droppedRows / (world * droppedBatch)}, world)
			missing := got.missing(t)
			for epoch, batches := range got.batches {
				if !slices.Equal(batches, want) || missing[epoch] != droppedRows%(world*droppedBatch) {
					t.Errorf("epoch %d: %v batches, want %v; %d of %d rows are missing",
						epoch, batches, want, missing[epoch], droppedRows)
				}
			}
			for rank, job := range jobs {
				if told := job.Stats().Dropped; told != int64(missing[0]+missing[1]+missing[2]) {
					t.Errorf("rank %d is told of %d dropped rows; missing are %v", rank, told, missing)
				}
				closeJob(t, job)
			}
		})
	}
}

// inStep has ranks go on together, for so many steps or to the end, and returns how many there were.
func (e *epochsOf) inStep(t *testing.T, jobs []*client.Session, steps int) (n int) {
	t.Helper()
	for ; n != steps; n++ {
		batches := together(t, jobs)
		if !slices.ContainsFunc(batches, func(b *client.Batch) bool { return b != nil }) {
			return n
		}
		for rank, b := range batches {
			if b == nil || batches[0] == nil || b.Epoch != batches[0].Epoch {
				t.Fatalf("step %d: rank %d is not where rank 0 is", n, rank)
			}
		}
		for rank, b := range batches {
			if _, err := e.add(rank, b); err != nil {
				t.Fatal(err)
			}
		}
	}
	return n
}

// TestDroppedLastBatchesRestore goes on from a step of two ranks as three: all are in step, and no row comes twice.
func TestDroppedLastBatchesRestore(t *testing.T) {
	t.Parallel()
	const perEpoch, into = droppedRows / (2 * droppedBatch), 5 // steps of two ranks
	s := droppingSpec(t)
	c := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 2)
	got := newEpochsOf(3)
	jobs := openRanks(t, c, "job", s, make([][]*pb.State, 2))
	got.inStep(t, jobs, perEpoch+into)
	states := [][]*pb.State{{jobs[1].State()}, {}, {jobs[0].State()}}
	newEpochsOf(2).inStep(t, jobs, 3) // these come again
	for _, job := range jobs {
		closeJob(t, job)
	}
	jobs = openRanks(t, c, "job", s, states)
	const left = droppedRows - 2*into*droppedBatch // of the second epoch
	if n, want := got.inStep(t, jobs, -1), left/(3*droppedBatch)+droppedRows/(3*droppedBatch); n != want {
		t.Errorf("%d steps after the restore, want %d", n, want)
	}
	missing := got.missing(t)
	if want := [...]int{
		droppedRows % (2 * droppedBatch), left % (3 * droppedBatch),
		droppedRows % (3 * droppedBatch),
	}; missing != want {
		t.Errorf("%v rows are missing, want %v", missing, want)
	}
	for rank, job := range jobs {
		if told := job.Stats().Dropped; told != int64(missing[1]+missing[2]) {
			t.Errorf("rank %d is told of %d dropped rows; missing are %v", rank, told, missing)
		}
		closeJob(t, job)
	}
}
