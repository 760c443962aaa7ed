package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/client"
)

const (
	paddedRows   = 380 // in two shards; with a filter other ranks get padding, and the last batches have some
	paddedEpochs = 2
	paddedWorld  = 4
)

// TestRestoreOfAPaddedStepThatARankLeft takes States of one step, some before others hand over the next one, and some
// when that has closed the epoch, or its rank has left. They restore the job, for other numbers of ranks too.
func TestRestoreOfAPaddedStepThatARankLeft(t *testing.T) {
	t.Parallel()
	s := provenanceSpec(t, paddedRows, paddedEpochs)
	s.Dataset.Uri = []string{sortedFiles(t, paddedRows, paddedRows/2, paddedRows/2) + "/"}
	s.Features = []*pb.Feature{{Name: []string{"label"}, Layout: pb.Layout_LABEL}}
	s.BatchSize, s.LastBatch = 50, pb.LastBatch_PAD
	s.Filter = "label >= 0" // all rows, which nobody knows before: they are not shared out
	c := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 1)
	for name, leaves := range map[string]func(j *padded, valid int) bool{
		"before any step": nil,
		"amid its rows":   func(j *padded, valid int) bool { return j.steps == 2 && valid > 0 },
		"in padding":      func(j *padded, valid int) bool { return j.steps == 2 && valid == 0 },
		"with the last":   func(j *padded, _ int) bool { return len(j.seen) == paddedRows },
	} {
		for _, again := range []bool{false, true} { // another comes in its place
			t.Run(fmt.Sprintf("%s, again %v", name, again), func(t *testing.T) {
				j := &padded{T: t, seen: map[row]int{}, leaves: leaves}
				j.jobs = openRanks(t, c, t.Name(), s, make([][]*pb.State, paddedWorld))
				if leaves == nil {
					j.leave(2)
				}
				for more := true; more; more = j.step() {
					if left := slices.Index(j.jobs, nil); again && left >= 0 {
						job, err := openRank(context.WithoutCancel(t.Context()), c, t.Name(), s,
							make([][]*pb.State, paddedWorld), left)
						if err != nil {
							t.Fatal(err)
						}
						j.jobs[left] = job
					}
				}
				j.end()
				if len(j.taken) < paddedEpochs {
					t.Errorf("%d checkpoints were taken", len(j.taken))
				}
				for i, at := range j.taken {
					states := make([][]*pb.State, 1+i%paddedWorld)
					for r := range states {
						states[r] = []*pb.State{}
					}
					for rank, state := range at.states {
						states[rank%len(states)] = append(states[rank%len(states)], state)
					}
					rest := &padded{T: t, seen: at.seen}
					rest.jobs = openRanks(t, c, fmt.Sprint(t.Name(), i), s, states)
					for rest.step() { //nolint:revive // to the end
					}
					rest.end()
				}
			})
		}
	}
}

// padded is a job whose ranks are in step.
type padded struct {
	*testing.T
	jobs   []*client.Session // nil: left
	seen   map[row]int
	steps  int
	valid  [paddedWorld]int                // rows of the newest batches
	leaves func(j *padded, valid int) bool // whether a rank does, with a batch of so many rows
	taken  []taken
}

// taken is a checkpoint, and the rows before it.
type taken struct {
	states map[int]*pb.State
	seen   map[row]int
}

// step has each rank get a batch, one after the other. It reports false if they are at their end.
func (j *padded) step() bool {
	j.Helper()
	j.steps++
	at := taken{map[int]*pb.State{}, maps.Clone(j.seen)}
	var order []int
	for r, job := range j.jobs {
		if job != nil {
			order, at.states[r] = append(order, r), job.State()
		}
	}
	rowsFirst := func(a, b int) int { return j.valid[b] - j.valid[a] } // those that get padding come late
	slices.SortStableFunc(order, rowsFirst)
	ranks, fresh, ended := len(order), slices.Clone(order), 0
	const slow = 10
	var tries [paddedWorld]int
	for len(order) > 0 {
		r := order[0]
		order = order[1:]
		fresh = slices.DeleteFunc(fresh, func(o int) bool { return o == r })
		b, blocked := j.next(r)
		switch {
		case blocked:
			order = append(order, r)
			if tries[r]++; tries[r] < slow { // its rows may be slow to come
				slices.SortStableFunc(order, rowsFirst)
			}
			continue
		case b == nil:
			ended++
			continue
		}
		j.valid[r] = b.Valid
		for i := range b.Valid {
			j.seen[row{b.Epoch, b.Files[i], b.RowIDs[i]}]++
		}
		left := j.leaves != nil && j.leaves(j, b.Valid)
		if left { // what it got counts
			for i := range b.Valid {
				at.seen[row{b.Epoch, b.Files[i], b.RowIDs[i]}]++
			}
			delete(at.states, r)
			j.leaves = nil
			j.leave(r)
		}
		if closes := j.closes(b.Epoch, fresh); len(fresh) > 0 && (closes || left) {
			late := taken{maps.Clone(at.states), maps.Clone(at.seen)}
			for _, o := range fresh {
				late.states[o] = j.jobs[o].State()
			}
			j.taken = append(j.taken, late)
		}
		b.Release()
	}
	if ended > 0 && ended < ranks {
		j.Fatalf("step %d: %d of %d ranks are at their end", j.steps, ended, ranks)
	}
	return ended == 0
}

// next is a rank's next batch, nil at its end; blocked says that others have to go on first.
func (j *padded) next(r int) (b *client.Batch, blocked bool) {
	j.Helper()
	ctx, cancel := context.WithTimeout(j.Context(), 100*time.Millisecond)
	defer cancel()
	b, err := j.jobs[r].Next(ctx)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, context.DeadlineExceeded) {
		j.Fatal(err)
	}
	return b, errors.Is(err, context.DeadlineExceeded)
}

// closes reports whether all rows of an epoch are handed over. Then some ranks hear of it.
func (j *padded) closes(epoch uint32, ranks []int) bool {
	rows := 0
	for r := range j.seen {
		if r.epoch == epoch {
			rows++
		}
	}
	for _, r := range ranks {
		j.hears(r, fmt.Sprintf("the end of epoch %d", epoch), func(s *pb.State) bool {
			return rows < paddedRows || s.GetMasterClosedEpochs() > epoch
		})
	}
	return rows == paddedRows
}

// leave ends a rank, and has all others hear of it.
func (j *padded) leave(rank int) {
	j.Helper()
	closeJob(j.T, j.jobs[rank])
	j.jobs[rank] = nil
	for r, job := range j.jobs {
		if job != nil {
			j.hears(r, fmt.Sprintf("the end of rank %d", rank), func(s *pb.State) bool {
				return slices.Contains(s.GetDeparted(), uint32(rank))
			})
		}
	}
}

// hears waits until a rank has heard of something.
func (j *padded) hears(r int, what string, heard func(s *pb.State) bool) {
	j.Helper()
	in := false
	defer func() {
		if !in { // it may have failed, which the next batch tells
			ctx, cancel := context.WithTimeout(context.WithoutCancel(j.Context()), time.Second)
			defer cancel()
			_, err := j.jobs[r].Next(ctx)
			j.Logf("the next batch of rank %d: %v", r, err)
			for o, job := range j.jobs {
				if job != nil {
					j.Logf("rank %d is at %v; its newest Sync: %v", o, job.State(), job.Waiting().Master)
				}
			}
		}
	}()
	eventually(j.T, fmt.Sprintf("rank %d hears of %s", r, what), func() bool { return heard(j.jobs[r].State()) })
	in = true
}

// end closes the job, which handed over each row once.
func (j *padded) end() {
	j.Helper()
	for _, job := range j.jobs {
		if job != nil {
			closeJob(j.T, job)
		}
	}
	for r, n := range j.seen {
		if n != 1 {
			j.Fatalf("%+v was handed over %d times", r, n)
		}
	}
	if len(j.seen) != paddedRows*paddedEpochs {
		j.Fatalf("%d different rows, want %d", len(j.seen), paddedRows*paddedEpochs)
	}
}
