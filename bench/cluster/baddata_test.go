package cluster_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/client"
	"github.com/penstock-ml/penstock/internal/formats/parquet"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/storage/storagetest"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
)

// badRows are the row groups of a dataset that a test damaged.
type badRows struct {
	files []*pb.File
	lost  map[row]bool // of epoch 0
}

// listed lists a spec's dataset, which lies on disk.
func listed(t *testing.T, s *pb.Spec) (*storage.Store, []*pb.File) {
	t.Helper()
	disk, err := storage.New(storage.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(disk.Close)
	files, err := disk.List(t.Context(), "", s.GetDataset().GetUri())
	if err != nil {
		t.Fatal(err)
	}
	return disk, files
}

// damage overwrites the pages of column cat_0 in row groups, named by file and number.
func damage(t *testing.T, s *pb.Spec, groups ...[2]int) *badRows {
	t.Helper()
	disk, files := listed(t, s)
	bad := &badRows{files: files, lost: map[row]bool{}}
	for _, g := range groups {
		f := pipelinetest.Footer(t, disk, files[g[0]])
		rg := f.RowGroups[g[1]]
		leaf := slices.IndexFunc(f.Leaves, func(l parquet.Leaf) bool { return l.Path[0] == "cat_0" })
		path := strings.TrimPrefix(files[g[0]].GetUri(), "file://")
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		clear(data[rg.Chunks[leaf].Offset:][:rg.Chunks[leaf].Length])
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		for i := range rg.Rows {
			bad.lost[row{0, int32(g[0]), rg.FirstRow + i}] = true
		}
		_, files = listed(t, s) // the next one may be of the same file
	}
	return bad
}

// check compares what was handed over with what there is and can be read.
func (b *badRows) check(t *testing.T, seen map[row]int, rows int, epochs uint32) {
	t.Helper()
	if want := (rows - len(b.lost)) * int(epochs); len(seen) != want {
		t.Errorf("%d different rows, want %d", len(seen), want)
	}
	for r, n := range seen {
		if n != 1 || b.lost[row{0, r.file, r.row}] {
			t.Fatalf("%+v was handed over %d times; cannot be read: %v", r, n, b.lost[row{0, r.file, r.row}])
		}
	}
}

// job is a rank of a test, and what it was told.
type job struct {
	*client.Session
	mu      sync.Mutex
	skipped []client.Skipped
}

func (j *job) told() []client.Skipped {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.skipped)
}

// openJob joins as a rank that notes what is left out.
func openJob(t *testing.T, c *cluster.Cluster, s *pb.Spec, change func(*client.Config)) *job {
	t.Helper()
	master, err := c.Master(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	j := &job{}
	cfg := client.Config{
		Masters: []string{master}, Session: "job", Spec: s,
		Dial:     func(address string) (*grpc.ClientConn, error) { return rpc.Dial(address, c.RPC()) },
		DialLink: rpc.LinkDialer(c.RPC()),
		OnSkip:   func(k client.Skipped) { j.mu.Lock(); j.skipped = append(j.skipped, k); j.mu.Unlock() },
	}
	if change != nil {
		change(&cfg)
	}
	if j.Session, err = client.Open(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	return j
}

// fails reads to the error in which a job must end.
func (j *job) fails(t *testing.T, words ...string) {
	t.Helper()
	for {
		b, err := j.Next(t.Context())
		if err == nil {
			b.Release()
			continue
		}
		if !errors.Is(err, client.ErrData) {
			t.Fatalf("%v; want bad data", err)
		}
		for _, w := range words {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%v; want %q", err, w)
			}
		}
		_ = j.Close() // it has failed
		return
	}
}

// TestBadRowGroupsAreSkipped: exactly the row groups that no worker can read are left out, while a worker dies;
// trainers, the master and `penstock session show` name them. One more than on_error allows fails the session.
func TestBadRowGroupsAreSkipped(t *testing.T) {
	t.Parallel()
	const rows, epochs = 20_000, 2
	s := provenanceSpec(t, rows, epochs)
	bad := damage(t, s, [2]int{0, 1}, [2]int{2, 0})
	c := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 3)

	s.OnError = &pb.OnError{Skip: 4}
	j := openJob(t, c, s, nil)
	seen := map[row]int{}
	take(t, j.Session, seen)
	if err := c.Workers()[0].Kill(); err != nil {
		t.Fatal(err)
	}
	for take(t, j.Session, seen) { //nolint:revive // to the end
	}
	bad.check(t, seen, rows, epochs)
	told := j.told()
	if len(told) != 4 || !strings.Contains(told[0].Cause, "column cat_0") ||
		!strings.Contains(told[0].Cause, "page at byte") {
		t.Errorf("told of %+v", told)
	}
	closeJob(t, j.Session)
	master, err := c.Master(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	show := func(output string) string {
		out, _ := run(t, 0, nil, "session", "show", "job", "--master="+master, "--token-file="+c.TokenFile(),
			"--output="+output)
		return out
	}
	for _, words := range []string{
		"finished, 4 skipped", bad.files[0].GetUri() + " extent 1, rows ",
		"column cat_0",
	} {
		if text := show("text"); !strings.Contains(text, words) {
			t.Errorf("session show lacks %q:\n%s", words, text)
		}
	}
	var shown struct {
		Skipped []struct {
			File string `json:"file"`
		} `json:"skipped"`
	}
	if err := json.Unmarshal([]byte(show("json")), &shown); err != nil || len(shown.Skipped) != 4 {
		t.Errorf("session show as JSON: %v, %+v", err, shown)
	}

	s.OnError.Skip = 3
	openJob(t, c, s, func(cfg *client.Config) { cfg.Session = "less" }).fails(t,
		"on_error lets 3 extents be left out", "row group", "column cat_0", "{skip: 4}")
	s.OnError = nil
	openJob(t, c, s, func(cfg *client.Config) { cfg.Session = "none" }).fails(t, "no worker can make batches of it",
		"row group", "column cat_0", "{skip: 1}")
}

// TestRestoreAroundSkippedRows restores states from before rows were skipped, and from after that, in the session and
// in another.
func TestRestoreAroundSkippedRows(t *testing.T) {
	t.Parallel()
	const rows, epochs = 20_000, 1
	s := provenanceSpec(t, rows, epochs)
	bad := damage(t, s, [2]int{1, 0}, [2]int{1, 1})
	s.OnError = &pb.OnError{Skip: 2}
	c := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 2)
	j := openJob(t, c, s, nil)
	type checkpoint struct {
		state *pb.State
		seen  map[row]int
	}
	var before, after *checkpoint
	seen := map[row]int{}
	for take(t, j.Session, seen) {
		state := j.State()
		now := &checkpoint{state, make(map[row]int, len(seen))}
		for r, n := range seen {
			now.seen[r] = n
		}
		switch state.GetSkippedRowGroups() {
		case 0:
			before = now
		case 2:
			if after == nil {
				after = now
			}
		}
	}
	bad.check(t, seen, rows, epochs)
	closeJob(t, j.Session)
	if before == nil || after == nil {
		t.Fatalf("no state from before or after the skip: %v, %v", before != nil, after != nil)
	}
	elsewhere := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 1)
	for name, at := range map[string]*checkpoint{"before": before, "after": after} {
		for place, fleet := range map[string]*cluster.Cluster{"here": c, "elsewhere": elsewhere} {
			got := make(map[row]int, rows)
			for r, n := range at.seen {
				got[r] = n
			}
			again := openJob(t, fleet, s, func(cfg *client.Config) {
				cfg.Restore = []*pb.State{at.state}
				if place != "here" { // there the policy may be another
					cfg.Session, cfg.Spec = name, proto.CloneOf(s)
					cfg.Spec.OnError.Skip = 5
				}
			})
			for take(t, again.Session, got) { //nolint:revive // to the end
			}
			bad.check(t, got, rows, epochs)
			if n := again.State().GetSkippedRowGroups(); n != 2 {
				t.Errorf("%s, %s: the state knows of %d skipped row groups, want 2", name, place, n)
			}
			closeJob(t, again.Session)
		}
	}
}

// TestRanksInStepWithBadRows: ranks that wait for each other end together where rows are left out.
func TestRanksInStepWithBadRows(t *testing.T) {
	t.Parallel()
	const rows, epochs = 1500, 2
	s := provenanceSpec(t, rows, epochs)
	bad := damage(t, s, [2]int{0, 0})
	s.BatchSize, s.LastBatch, s.OnError = 100, pb.LastBatch_PAD, &pb.OnError{Skip: 2}
	c := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 2)
	jobs := openRanks(t, c, "in-step", s, make([][]*pb.State, 2))
	seen := map[row]int{}
	for {
		batches := together(t, jobs)
		if (batches[0] == nil) != (batches[1] == nil) {
			t.Fatal("the ranks do not end together")
		}
		if batches[0] == nil {
			break
		}
		for _, b := range batches {
			for i := range b.Valid {
				seen[row{b.Epoch, b.Files[i], b.RowIDs[i]}]++
			}
			b.Release()
		}
	}
	bad.check(t, seen, rows, epochs)
	for _, j := range jobs {
		closeJob(t, j)
	}
}

// TestFilesThatAreNotWhatWasListed fail the session and are named, whatever may be skipped: overwritten, truncated and
// deleted ones.
func TestFilesThatAreNotWhatWasListed(t *testing.T) {
	t.Parallel()
	c := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 2)
	for name, spoil := range map[string]func(path string) error{
		"overwritten": func(path string) error { return os.WriteFile(path, []byte("other rows"), 0o600) },
		"truncated":   func(path string) error { return os.Truncate(path, 1000) },
		"deleted":     os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			s := provenanceSpec(t, 20_000, 1)
			s.OnError = &pb.OnError{Skip: 100}
			_, files := listed(t, s)
			j := openJob(t, c, s, func(cfg *client.Config) { cfg.Session, cfg.Budget = name, 1 })
			for _, f := range files {
				if err := spoil(strings.TrimPrefix(f.GetUri(), "file://")); err != nil {
					t.Fatal(err)
				}
			}
			j.fails(t, "part-0", "changed or vanished since it was listed")
			if told := j.told(); len(told) > 0 {
				t.Errorf("skipped %+v", told)
			}
		})
	}
}

// TestOneWorkerCannotRead: what one worker lacks, access to the store, is no fault of the data.
func TestOneWorkerCannotRead(t *testing.T) {
	t.Parallel()
	minio := storagetest.StartMinIO(t)
	minio.MakeBucket(t, "criteo")
	s := provenanceSpec(t, 20_000, 1)
	_, files := listed(t, s)
	for _, f := range files {
		minio.PutFile(t, "criteo", filepath.Base(f.GetUri()), strings.TrimPrefix(f.GetUri(), "file://"))
	}
	s.Dataset.Uri = []string{"s3://criteo/"}
	s.OnError = &pb.OnError{Skip: 100}
	c := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir(), Env: minio.Environ()}, 1)
	a, err := c.MasterProcess().Announced(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := c.Run(t.Context(), "stranger", "worker", "--name=stranger", "--listen=127.0.0.1:0",
		"--gossip=127.0.0.1:0", "--join="+a.Gossip,
		"--storage-config="+write(t, "storage.yaml",
			"profiles: {default: {credentials: anonymous, endpoint: \""+minio.Endpoint+"\"}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stranger.Announced(t.Context()); err != nil {
		t.Fatal(err)
	}
	j := openJob(t, c, s, nil)
	seen := map[row]int{}
	for take(t, j.Session, seen) { //nolint:revive // to the end
	}
	(&badRows{}).check(t, seen, 20_000, 1)
	if told := j.told(); len(told) > 0 {
		t.Errorf("skipped %+v", told)
	}
	closeJob(t, j.Session)

	if err := stranger.Kill(); err != nil {
		t.Fatal(err)
	}
	again := openJob(t, c, s, func(cfg *client.Config) { cfg.Session, cfg.Budget = "overwritten", 1 })
	for _, f := range files {
		minio.Put(t, "criteo", filepath.Base(f.GetUri()), []byte("other rows"))
	}
	again.fails(t, "s3://criteo/part-0", "changed or vanished since it was listed")
}
