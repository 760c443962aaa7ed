package cluster_test

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/client"
)

// named is a job whose ranks save what they have got when a named checkpoint is taken, as a training loop saves its
// model.
type named struct {
	*testing.T
	compute time.Duration
	mu      sync.Mutex
	ranks   []map[row]int           // what each was handed over
	batches [][][]row               // the same, of each rank in its order
	saved   map[string]map[row]int  // what all had at a checkpoint's newest step
	steps   map[string]uint64       // that step
	savedBy map[string]map[int]bool // the ranks that saved there
}

func newNamed(t *testing.T, before map[row]int, world int) *named {
	j := &named{
		T: t, saved: map[string]map[row]int{}, steps: map[string]uint64{}, savedBy: map[string]map[int]bool{},
		batches: make([][][]row, world),
	}
	for range world {
		j.ranks = append(j.ranks, map[row]int{})
	}
	maps.Copy(j.ranks[0], before)
	return j
}

// got takes in a batch of a rank.
func (j *named) got(rank int, b *client.Batch) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var batch []row
	for i, file := range b.Files {
		batch = append(batch, row{b.Epoch, file, b.RowIDs[i]})
		j.ranks[rank][batch[i]]++
	}
	j.batches[rank] = append(j.batches[rank], batch)
	c := b.Checkpoint
	if c == nil {
		return
	}
	if c.Step != j.steps[c.Name] {
		j.saved[c.Name], j.steps[c.Name], j.savedBy[c.Name] = map[row]int{}, c.Step, map[int]bool{}
	}
	for r, n := range j.ranks[rank] {
		j.saved[c.Name][r] += n
	}
	j.savedBy[c.Name][rank] = true
}

// read lets ranks read until ctx ends, or to the end. A rank that is fenced says whether by a restore.
func (j *named) read(ctx context.Context, jobs []*client.Session) error {
	return readAll(ctx, jobs, func(rank int, b *client.Batch) {
		j.got(rank, b)
		time.Sleep(j.compute) // what a training loop does with a batch
	})
}

// all is what all ranks were handed over, each row once.
func (j *named) all(rows int) {
	j.Helper()
	seen := map[row]int{}
	for _, rank := range j.ranks {
		for r, n := range rank {
			seen[r] += n
		}
	}
	for r, n := range seen {
		if n != 1 {
			j.Fatalf("%+v was handed over %d times", r, n)
		}
	}
	if len(seen) != rows {
		j.Errorf("%d different rows in all, want %d", len(seen), rows)
	}
}

// sequence is the rows of each step that all ranks took, of all ranks in their order.
func (j *named) sequence() [][]row {
	steps := make([][]row,
		len(slices.MinFunc(j.batches, func(a, b [][]row) int { return cmp.Compare(len(a), len(b)) })))
	for i := range steps {
		for _, rank := range j.batches {
			steps[i] = append(steps[i], rank[i]...)
		}
	}
	return steps
}

// TestNamedCheckpoint takes a checkpoint of four ranks by command while they read, and goes on from it with two, and
// then, with nothing left but the dataset and the file that the command wrote, with five, on another fleet.
func TestNamedCheckpoint(t *testing.T) {
	t.Parallel()
	const rows, epochs = 60_000, 2
	c := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 2)
	master, err := c.Master(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := provenanceSpec(t, rows, epochs)
	s.BatchSize = 20
	j := newNamed(t, nil, 4)
	j.compute = 20 * time.Millisecond // so that the epoch outlasts the search for a step, also where calls are slow
	jobs := openRanks(t, c, "job", s, make([][]*pb.State, 4))
	reading := make(chan error, 1)
	go func() { reading <- j.read(t.Context(), jobs) }()
	flags := []string{"--master", master, "--token-file", c.TokenFile()}
	text, _ := run(t, 0, nil, append([]string{"session", "checkpoint", "job", "noon", "--output", "json"}, flags...)...)
	list, _ := run(t, 0, nil, append([]string{"session", "checkpoints", "job"}, flags...)...)
	if !strings.Contains(list, "noon") || !strings.Contains(list, "GENERATION") {
		t.Errorf("the list says %q", list)
	}
	shown, _ := run(t, 0, nil, append([]string{"session", "restore", "job", "noon", "--world-size", "2"}, flags...)...)
	if !regexp.MustCompile(`generation +2\n`).MatchString(shown) {
		t.Errorf("restored, the session is %s", shown)
	}
	if err := <-reading; !errors.Is(err, client.ErrFenced) ||
		!strings.Contains(err.Error(), `put back to checkpoint "noon"`) {
		t.Fatalf("the old ranks end with %v", err)
	}
	for _, job := range jobs {
		_ = job.Close() // fenced
	}
	if len(j.savedBy["noon"]) != 4 {
		t.Fatalf("ranks %v saved their models", j.savedBy["noon"])
	}
	if n := len(j.saved["noon"]); n == 0 || n >= rows*epochs {
		t.Fatalf("%d rows of %d had come by then", n, rows*epochs)
	}

	again := newNamed(t, j.saved["noon"], 2)
	jobs = openRanks(t, c, "job", s, make([][]*pb.State, 2))
	if from := jobs[1].RestoredFrom(); from == nil || from.Name != "noon" || from.Step != j.steps["noon"] {
		t.Errorf("a rank goes on from %+v, want step %d", from, j.steps["noon"])
	}
	if err := again.read(t.Context(), jobs); err != nil {
		t.Fatal(err)
	}
	again.all(rows * epochs)
	for _, job := range jobs {
		closeJob(t, job)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}

	file := write(t, "noon.json", text)
	other := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 3)
	if master, err = other.Master(t.Context()); err != nil {
		t.Fatal(err)
	}
	run(t, 0, nil, "session", "restore", "elsewhere", "--from", file, "--world-size", "5", "--master", master,
		"--token-file", other.TokenFile())
	third := newNamed(t, j.saved["noon"], 5)
	jobs = openRanks(t, other, "elsewhere", nil, make([][]*pb.State, 5))
	if err := third.read(t.Context(), jobs); err != nil {
		t.Fatal(err)
	}
	third.all(rows * epochs)
	for _, job := range jobs {
		closeJob(t, job)
	}
}

// TestNamedCheckpointOfDeterministicOrder takes a checkpoint of two ranks by command while they read, and goes on from
// it with the very next step: with four ranks, and with one in a session that knows nothing of it.
func TestNamedCheckpointOfDeterministicOrder(t *testing.T) {
	t.Parallel()
	c := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 2)
	master, err := c.Master(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	flags := []string{"--master", master, "--token-file", c.TokenFile()}
	s := provenanceSpec(t, 20_000, 2)
	s.BatchSize, s.GlobalBatchSize, s.Order, s.Lanes = 0, 80, pb.Order_DETERMINISTIC, 4
	rest := func(id string, world int) [][]row { // what comes in a session
		jobs := openRanks(t, c, id, s, make([][]*pb.State, world))
		j := newNamed(t, nil, world)
		if err := j.read(t.Context(), jobs); err != nil {
			t.Fatal(err)
		}
		for _, job := range jobs {
			closeJob(t, job)
		}
		return j.sequence()
	}
	whole := rest("whole", 1)

	j := newNamed(t, nil, 2)
	j.compute = 20 * time.Millisecond // so that the epoch outlasts the search for a step, also where calls are slow
	jobs := openRanks(t, c, "job", s, make([][]*pb.State, 2))
	reading := make(chan error, 1)
	go func() { reading <- j.read(t.Context(), jobs) }()
	text, _ := run(t, 0, nil, append([]string{"session", "checkpoint", "job", "noon", "--output", "json"}, flags...)...)
	run(t, 0, nil, append([]string{"session", "restore", "job", "noon", "--world-size", "4"}, flags...)...)
	if err := <-reading; !errors.Is(err, client.ErrFenced) {
		t.Fatalf("the old ranks end with %v", err)
	}
	for _, job := range jobs {
		_ = job.Close() // fenced
	}
	step := int(j.steps["noon"])
	if len(j.savedBy["noon"]) != 2 || step == 0 || step >= len(whole) {
		t.Fatalf("ranks %v saved their models, at step %d of %d", j.savedBy["noon"], step, len(whole))
	}
	same := func(what string, got, want [][]row) {
		if !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("%s: %d steps, want %d, or their rows differ", what, len(got), len(want))
		}
	}
	same("before the checkpoint", j.sequence()[:step], whole[:step])
	same("after it, with four ranks", rest("job", 4), whole[step:])
	run(t, 0, nil, append([]string{
		"session", "restore", "other", "--from", write(t, "noon.json", text), "--world-size",
		"1",
	}, flags...)...)
	same("after it, in another session", rest("other", 1), whole[step:])
}
