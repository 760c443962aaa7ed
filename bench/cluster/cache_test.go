package cluster_test

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/internal/storage/storagetest"
)

// TestCache reads one dataset again and again: as another job, with other columns, by the worker that comes after one
// that was killed, and from a cache whose files were damaged.
func TestCache(t *testing.T) {
	t.Parallel()
	minio := storagetest.StartMinIO(t)
	minio.MakeBucket(t, "floats")
	type row struct{ A, B float64 }
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 4 {
		rows := make([]row, 40_000)
		for j := range rows {
			rows[j] = row{random.Float64(), random.Float64()}
		}
		path := filepath.Join(t.TempDir(), "part.parquet")
		must(t, parquet.WriteFile(path, rows, parquet.MaxRowsPerRowGroup(10_000)))
		minio.PutFile(t, "floats", fmt.Sprintf("%d.parquet", i), path)
	}
	kept := t.TempDir()
	c := startCluster(t, cluster.Config{
		Binary: binary, Dir: t.TempDir(), Env: minio.Environ(),
		WorkerFlags: []string{"--http=127.0.0.1:0", "--cache-dir=" + kept, "--cache-bytes=1GiB"},
	}, 1)
	worker := c.Workers()[0]
	// job reads all rows, and says how many bytes of data the worker read from storage for that.
	job := func(id, columns string) (rows []string, bytes float64) {
		t.Helper()
		s, err := spec.Parse(fmt.Appendf(nil,
			"{dataset: {uri: s3://floats/}, batch_size: 1000, epochs: 1, features: [{dense: %s}]}", columns))
		must(t, err)
		a, err := worker.Announced(t.Context())
		must(t, err)
		read := func() float64 {
			return scrape(t, c, a.HTTP)["penstock_cache_read_bytes_total"].GetMetric()[1].GetCounter().GetValue()
		}
		before := read()
		rows, err = readTable(t, c, id, s)
		must(t, err)
		return slices.Sorted(slices.Values(rows)), read() - before
	}
	some, first := job("some", "A")
	_, more := job("more", "'*'")
	if first == 0 || more == 0 {
		t.Fatalf("%g bytes were read, and %g for other columns", first, more)
	}
	expect := func(id string, bytes float64) {
		t.Helper()
		if rows, read := job(id, "A"); !slices.Equal(rows, some) {
			t.Errorf("%s: other rows", id)
		} else if read != bytes {
			t.Errorf("%s: %g bytes were read, not %g", id, read, bytes)
		}
	}
	expect("the same columns", 0)
	replace := func() {
		t.Helper()
		must(t, worker.Kill())
		must(t, worker.Wait())
		var err error
		worker, err = c.StartWorker(t.Context())
		must(t, err)
	}
	replace()
	expect("another worker", 0)
	must(t, filepath.WalkDir(kept, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "lock" {
			return err
		}
		return os.Truncate(path, 1000)
	}))
	replace() // which knows no footers
	expect("damaged files", first)
}
