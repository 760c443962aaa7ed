package cluster_test

import (
	"bytes"
	endian "encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/bench/recordfiles"
	"github.com/penstock-ml/penstock/client"
)

// keyed is a dataset whose rows are known by their keys.
type keyed struct {
	dir, kind string
	rows      map[int64]recordfiles.Row
}

// newKeyed writes some files of a kind, of about so many bytes a row.
func newKeyed(t *testing.T, kind string, files, rowsOfFile, long int) *keyed {
	t.Helper()
	k := &keyed{t.TempDir(), kind, map[int64]recordfiles.Row{}}
	r := rand.New(rand.NewPCG(43, uint64(files)))
	for f := range files {
		var rows []recordfiles.Row
		for range rowsOfFile {
			row := recordfiles.Row{
				Key: int64(1000 + len(k.rows)), X: float64(float32(r.NormFloat64())), Blob: make([]byte, r.IntN(long)),
				IDs: make([]int64, r.IntN(min(250, long/8))),
			}
			for i := 0; i < len(row.Blob); i += 8 {
				var eight [8]byte
				endian.LittleEndian.PutUint64(eight[:], r.Uint64()&0x7f7f7f7f7f7f7f7f)
				copy(row.Blob[i:], eight[:])
			}
			for i := range row.IDs {
				row.IDs[i] = int64(r.Int32())
			}
			rows = append(rows, row)
			k.rows[row.Key] = row
		}
		written, err := recordfiles.Write(kind, rows)
		if err != nil {
			t.Fatal(err)
		}
		for more, data := range written {
			putFile(t, filepath.Join(k.dir, fmt.Sprintf("part-%d.%s%s", f, kind, more)), data)
		}
	}
	return k
}

// spec reads all of it, with more of a spec's fields.
func (k *keyed) spec(t *testing.T, more string) *pb.Spec {
	t.Helper()
	s, err := spec.Parse(fmt.Appendf(nil, "{dataset: {uri: '%s/'}, features: %s, shuffle: true, seed: 3, provenance: true, %s}",
		k.dir, recordfiles.Features(k.kind), more))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// counted is how often each key came, by epoch.
type counted struct {
	mu   sync.Mutex
	keys map[[2]int64]int
}

// take counts the rows of a batch, and holds that they have their keys' values.
func (k *keyed) take(b *client.Batch, seen *counted) error {
	seen.mu.Lock()
	defer seen.mu.Unlock()
	for i := range b.Valid {
		var ids []int64
		if len(b.Sparse) > 0 {
			ids = b.Sparse[0].Values[b.Sparse[0].Offsets[i]:b.Sparse[0].Offsets[i+1]]
		}
		key := int64(-1)
		if k.kind != "ds" {
			key = b.Labels[0].I64[i]
		} else if len(ids) > 0 {
			key, ids = ids[0], ids[1:]
		}
		want, ok := k.rows[key]
		switch {
		case !ok:
			return fmt.Errorf("file %d, row %d: nobody wrote the key %d", b.Files[i], b.RowIDs[i], key)
		case len(b.Sparse) > 0 && !slices.Equal(ids, want.IDs):
			return fmt.Errorf("key %d has other ids", key)
		case len(b.Bytes) > 0 && !bytes.Equal(b.Bytes[0].Data[b.Bytes[0].Offsets[i]:b.Bytes[0].Offsets[i+1]], want.Blob):
			return fmt.Errorf("key %d has other bytes", key)
		case len(b.DenseNames) > 0 && math.Float32bits(b.Dense[i]) != math.Float32bits(float32(want.X)):
			return fmt.Errorf("key %d has the number %v, not %v", key, b.Dense[i], want.X)
		}
		seen.keys[[2]int64{int64(b.Epoch), key}]++
	}
	return nil
}

// read has ranks take so many batches each, or all that there are if that is 0.
func (k *keyed) read(t *testing.T, jobs []*client.Session, seen *counted, batches int) error {
	t.Helper()
	var group errgroup.Group
	for _, job := range jobs {
		group.Go(func() error {
			for n := 0; batches == 0 || n < batches; n++ {
				b, err := job.Next(t.Context())
				if errors.Is(err, io.EOF) {
					return nil
				}
				if err == nil {
					err = k.take(b, seen)
					b.Release()
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// once fails unless each key came once in each epoch.
func (k *keyed) once(seen *counted, epochs int64) error {
	if want := len(k.rows) * int(epochs); len(seen.keys) != want {
		return fmt.Errorf("%d rows came, of %d", len(seen.keys), want)
	}
	for key, n := range seen.keys {
		if n != 1 || key[0] >= epochs {
			return fmt.Errorf("key %d came %d times in epoch %d", key[1], n, key[0])
		}
	}
	return nil
}

// TestEachKindResumesElsewhere: a job on files of each kind that is put back in their middle goes on in a fleet that
// knows nothing of it, with other ranks, and gets each key once. The rows are also those of the reference.
func TestEachKindResumesElsewhere(t *testing.T) {
	t.Parallel()
	before := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 1)
	after := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 2)
	for _, kind := range recordfiles.Kinds() {
		t.Run(kind, func(t *testing.T) {
			k := newKeyed(t, kind, 2, 3000, 2000)
			s := k.spec(t, "batch_size: 100, last_batch: uneven, epochs: 1")
			seen := &counted{keys: map[[2]int64]int{}}
			jobs := openRanks(t, before, kind, s, make([][]*pb.State, 2))
			if err := k.read(t, jobs, seen, 11); err != nil {
				t.Fatal(err)
			}
			states := [][]*pb.State{{jobs[1].State()}, {}, {jobs[0].State()}}
			closeAll(t, jobs)
			if n := len(seen.keys); n < 1000 || n >= len(k.rows)/2 {
				t.Fatalf("%d rows came before", n)
			}
			jobs = openRanks(t, after, kind, s, states)
			if err := k.read(t, jobs, seen, 0); err != nil {
				t.Fatal(err)
			}
			closeAll(t, jobs)
			if err := k.once(seen, 1); err != nil {
				t.Fatal(err)
			}
			small := newKeyed(t, kind, 2, 300, 400)
			compare(t, after, kind+"-reference", small.spec(t, "batch_size: 100, last_batch: uneven, epochs: 1"))
		})
	}
}

// TestRecordsInOneSequence: a deterministic job on a tar and on JSON lines gets one sequence from all fleets, also if
// it is put back in its middle with other ranks.
func TestRecordsInOneSequence(t *testing.T) {
	t.Parallel()
	one := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 1)
	three := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 3)
	alive := three.Workers()
	for _, kind := range []string{"tar", "jsonl.gz"} {
		k := newKeyed(t, kind, 6, 2000, 500)
		s := k.spec(t, fmt.Sprintf("order: deterministic, lanes: %d, global_batch_size: %d, last_batch: uneven, epochs: 2",
			orderedLanes, orderedBatch))
		jobs := openOrdered(t, one, kind, s, 1, nil)
		want := readOrdered(t, jobs, step{}, 0, func(int) {})
		closeAll(t, jobs)
		checkWhole(t, want)
		jobs = openOrdered(t, three, kind, s, 4, nil)
		got := readOrdered(t, jobs, step{}, 0, func(n int) {
			if n == 5 {
				_ = alive[0].Kill() // fails only if it has ended
				alive = alive[1:]
			}
		})
		closeAll(t, jobs)
		equalSequences(t, kind+" with a worker that dies", got, want)
		jobs = openOrdered(t, one, kind+"-before", s, 2, nil)
		const at = 9
		got = readOrdered(t, jobs, step{}, at, func(int) {})
		state := jobs[1].State()
		closeAll(t, jobs)
		jobs = openOrdered(t, three, kind+"-after", s, 8, state)
		for at, rows := range readOrdered(t, jobs, step{n: at}, 0, func(int) {}) {
			got[at] = append(got[at], rows...)
		}
		closeAll(t, jobs)
		equalSequences(t, kind+", restored", got, want)
	}
}
