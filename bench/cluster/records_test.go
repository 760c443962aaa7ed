package cluster_test

import (
	"bytes"
	endian "encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/bench/recordfiles"
	"github.com/penstock-ml/penstock/client"
	"github.com/penstock-ml/penstock/internal/formats/beside"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/formats/index"
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
	format := ""
	if k.kind == "ds" { // keys are large, so that the tokens do not show that they are numbers of four bytes
		format = ", format: {name: tokens, dtype: uint32}"
	}
	s, err := spec.Parse(fmt.Appendf(nil, "{dataset: {uri: '%s/'%s}, features: %s, shuffle: true, seed: 3, provenance: true, %s}",
		k.dir, format, recordfiles.Features(k.kind), more))
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

// TestIndexesThatAreNotThoseOfTheData: indexes beside the data that are deleted, cut, changed or made up between epochs
// cost a scan, or a clear error; a job that goes on elsewhere gets each row once.
func TestIndexesThatAreNotThoseOfTheData(t *testing.T) {
	t.Parallel()
	before := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 1)
	after := startCluster(t, cluster.Config{Binary: binary, Dir: t.TempDir()}, 2)
	forged := func(change func(p []format.Place) []format.Place) func(t *testing.T, path string) {
		return func(t *testing.T, path string) { forge(t, path, change) }
	}
	changes := map[string]func(t *testing.T, path string){
		"as they are": func(*testing.T, string) {},
		"deleted":     func(t *testing.T, path string) { must(t, os.Remove(path)) },
		"cut":         func(t *testing.T, path string) { must(t, os.Truncate(path, 50)) },
		"empty":       func(t *testing.T, path string) { must(t, os.Truncate(path, 0)) },
		"one bit": func(t *testing.T, path string) {
			data := text(t, path)
			must(t, os.WriteFile(path, []byte(data[:60]+string(data[60]^1)+data[61:]), 0o600))
		},
		"no extents": forged(func([]format.Place) []format.Place { return nil }),
		"fewer rows": forged(func(p []format.Place) []format.Place {
			p[0].Rows--
			return p
		}),
		"more rows": forged(func(p []format.Place) []format.Place {
			p[len(p)-1].Rows++
			return p
		}),
		"rows of one in the other": forged(func(p []format.Place) []format.Place {
			p[0].Rows++
			p[1].Rows--
			return p
		}),
		"the last extent alone": forged(func(p []format.Place) []format.Place { return p[len(p)-1:] }),
		"shifted": forged(func(p []format.Place) []format.Place {
			p[0].Stored.Length++
			p[0].Bytes++
			p[1].Stored.Offset++
			p[1].Stored.Length--
			p[1].Bytes--
			return p
		}),
	}
	for n, kind := range []string{"jsonl", "jsonl.gz", "tar"} {
		whole := newKeyed(t, kind, 2, 330, 30_000)
		run(t, 0, nil, "index", whole.dir+"/")
		for i, name := range slices.Sorted(maps.Keys(changes)) {
			id := fmt.Sprint(kind, "-", i)
			t.Run(id+" "+name, func(t *testing.T) {
				k, pack := whole.linked(t, filepath.Join(t.TempDir(), id))
				s := k.spec(t, "batch_size: 50, last_batch: uneven, epochs: 2")
				seen := &counted{keys: map[[2]int64]int{}}
				states := [][]*pb.State{nil}
				if (n+i)%2 == 0 { // else the index is met as it was changed
					jobs := openRanks(t, before, id, s, states)
					must(t, k.read(t, jobs, seen, 16)) // of 28: some come from the second epoch
					states = [][]*pb.State{{jobs[0].State()}}
					closeAll(t, jobs)
				}
				changes[name](t, pack)
				if err := k.rest(t, after, id, s, states, seen); err == nil {
					must(t, k.once(seen, 2))
				} else if !strings.Contains(err.Error(), "index") && !strings.Contains(err.Error(), "bad data: ") {
					t.Fatal(err)
				}
			})
		}
	}
}

// linked is the same dataset in another folder, and its pack of indexes there.
func (k *keyed) linked(t *testing.T, dir string) (other *keyed, pack string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Join(dir, beside.Folder), 0o700))
	paths, err := filepath.Glob(filepath.Join(k.dir, "part-*"))
	must(t, err)
	for _, path := range paths {
		must(t, os.Link(path, filepath.Join(dir, filepath.Base(path))))
	}
	packs, err := filepath.Glob(filepath.Join(k.dir, beside.Folder, "*"))
	if err != nil || len(packs) != 1 {
		t.Fatal(packs, err)
	}
	pack = filepath.Join(dir, beside.Folder, filepath.Base(packs[0]))
	must(t, os.WriteFile(pack, []byte(text(t, packs[0])), 0o600))
	return &keyed{dir, k.kind, k.rows}, pack
}

// rest reads what is left of a job.
func (k *keyed) rest(
	t *testing.T, c *cluster.Cluster, id string, s *pb.Spec, states [][]*pb.State, seen *counted,
) error {
	job, err := openRank(t.Context(), c, id, s, states, 0)
	if err != nil {
		return err
	}
	err = k.read(t, []*client.Session{job}, seen, 0)
	_ = job.Close() // which may say the same
	return err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// forge puts other extents into the indexes of a pack, whose digests are right.
func forge(t *testing.T, path string, change func([]format.Place) []format.Place) {
	t.Helper()
	all, err := index.Unpack([]byte(text(t, path)))
	must(t, err)
	for i, packed := range all {
		x, err := index.Parse(packed.Index)
		must(t, err)
		if x.Extents() < 2 {
			t.Fatalf("%s has %d extents", packed.Name, x.Extents())
		}
		b := index.NewBuilder(x.Of)
		for _, p := range change(x.Places()) {
			must(t, b.Add(p))
		}
		made, err := b.Index()
		must(t, err)
		all[i].Index = made.Bytes()
	}
	must(t, os.Remove(path))
	pack := index.Pack(all)
	must(t, os.WriteFile(filepath.Join(filepath.Dir(path), index.PackName(pack)), pack, 0o600))
}
