package cluster_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/client"
)

// memoryGroup is a control group of the kernel's whose processes are killed rather than take more memory than its
// limit.
type memoryGroup struct {
	dir     string
	version int
}

// newMemoryGroup makes one of a limit ("700MiB"), until the test ends.
func newMemoryGroup(t *testing.T, limit string) memoryGroup {
	t.Helper()
	bytes, err := strconv.ParseInt(strings.TrimSuffix(limit, "MiB"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	g := memoryGroup{version: 2}
	root := "/sys/fs/cgroup"
	if _, err := os.Stat(filepath.Join(root, "memory")); err == nil {
		g.version, root = 1, filepath.Join(root, "memory")
	}
	bound := []string{"memory.max", "memory.swap.max"} // of version 2; the second is what comes on top
	values := []string{strconv.FormatInt(bytes<<20, 10), "0"}
	if g.version == 1 {
		bound = []string{"memory.limit_in_bytes", "memory.memsw.limit_in_bytes"} // the second is both together
		values[1] = values[0]
	}
	if g.dir, err = os.MkdirTemp(root, "penstock-test-*"); err == nil {
		t.Cleanup(func() {
			if err := os.Remove(g.dir); err != nil {
				t.Error(err)
			}
		})
		err = os.WriteFile(filepath.Join(g.dir, bound[0]), []byte(values[0]), 0)
	}
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("control groups cannot be made: %v", err)
		}
		t.Skipf("control groups cannot be made, as root can: %v", err)
	}
	if swap := filepath.Join(g.dir, bound[1]); os.WriteFile(swap, []byte(values[1]), 0) != nil {
		t.Logf("%s: swap is not limited", swap) // a kernel that does not count it has none either
	}
	return g
}

// binary is a penstock that is in the group from its first byte on.
func (g memoryGroup) binary(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "penstock")
	script := "#!/bin/sh\necho $$ >" + filepath.Join(g.dir, "cgroup.procs") + " && exec " + binary + ` "$@"`
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
	return path
}

// killed is how many processes the kernel has killed for the limit.
func (g memoryGroup) killed(t *testing.T) int {
	t.Helper()
	name := map[int]string{1: "memory.oom_control", 2: "memory.events"}[g.version]
	for line := range strings.Lines(text(t, filepath.Join(g.dir, name))) {
		if count, ok := strings.CutPrefix(line, "oom_kill "); ok {
			n, err := strconv.Atoi(strings.TrimSpace(count))
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("%s of %s does not say how many were killed", name, g.dir)
	return 0
}

// long is a row of large values, of which each case has one kind.
type long struct {
	Text []byte  `parquet:"text,snappy"`
	IDs  []int64 `parquet:"ids,list,snappy"`
	A    float32 `parquet:"a,snappy"`
	B    float32 `parquet:"b,snappy"`
}

func longString(row int) long {
	return long{Text: bytes.Repeat([]byte{byte(row), 1, byte(row), 2, 3}, 10_000_000+row)}
}

func longList(row, length int) long {
	ids := make([]int64, length)
	for i := range ids {
		ids[i] = int64(row*length + i)
	}
	return long{IDs: ids}
}

// writeLong writes a file row by row.
func writeLong(t *testing.T, rows, group int, row func(int) long) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "long.parquet")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := parquet.NewGenericWriter[long](f, parquet.MaxRowsPerRowGroup(int64(group)), parquet.SkipPageBounds("text"),
		parquet.DataPageStatistics(false))
	piece := make([]long, 0, 1024)
	for i := range rows {
		piece = append(piece, row(i))
		large := len(piece[len(piece)-1].Text)+len(piece[len(piece)-1].IDs) >= 1_000_000 // it gets a page of its own
		if large || len(piece) == cap(piece) || i == rows-1 {
			if _, err := w.Write(piece); err != nil {
				t.Fatal(err)
			}
			piece = piece[:0]
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestAWorkerLivesInItsControlGroup: a worker reads and sends many times what the kernel lets it take, of which a row
// is a good part, and a trainer's batch may be more. It is told the limit, and lives; all rows come as they were
// written.
func TestAWorkerLivesInItsControlGroup(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limit              string
		rows, group, batch int
		features           string
		row                func(i int) long
	}{
		"byte strings of 50 MB": {
			limit: "700MiB", rows: 20, group: 4, batch: 10, features: "bytes: text",
			row: longString,
		},
		"lists of a million": {
			limit: "240MiB", rows: 48, group: 8, batch: 40, features: "sparse: ids",
			row: func(i int) long { return longList(i, 1_000_000+i) },
		},
		"a few long lists among short ones": {
			limit: "315MiB", rows: 60_000, group: 20_000, batch: 30_000, features: "sparse: ids",
			row: func(i int) long {
				if i%1250 == 625 {
					return longList(i, 1_000_000+i)
				}
				return longList(i, i%3)
			},
		},
		"batches of millions of rows": {
			limit: "160MiB", rows: 8_000_000, group: 2_000_000, batch: 6_000_000, features: "dense: [a, b]",
			row: func(i int) long { return long{A: float32(i % 1000), B: float32(i)} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := writeLong(t, c.rows, c.group, c.row)
			s, err := spec.Parse(
				fmt.Appendf(nil, "{dataset: {uri: %s}, features: [{%s}], provenance: true, batch_size: %d, epochs: 1}",
					path, c.features, c.batch))
			if err != nil {
				t.Fatal(err)
			}
			for _, how := range []string{"--network=false", "--network=true"} {
				t.Run(how, func(t *testing.T) {
					group := newMemoryGroup(t, c.limit)
					fleet := startCluster(t, cluster.Config{
						Binary: binary, WorkerBinary: group.binary(t), WorkerFlags: []string{"--memory-limit=" +
							c.limit, how}, Dir: t.TempDir(),
					}, 1)
					worker := fleet.Workers()[0]
					ctx, cancel := context.WithCancel(t.Context())
					go func() { // without it the trainer would wait for another one
						<-worker.Done()
						cancel()
					}()
					job := open(t, fleet, s, nil)
					rows, seen := 0, make([]bool, c.rows)
					for {
						b, err := job.Next(ctx)
						if errors.Is(err, io.EOF) {
							break
						}
						if err != nil {
							t.Fatalf("after %d rows: %v; the worker: %q, the kernel killed %d processes",
								rows, err, worker.Status(), group.killed(t))
						}
						for i, id := range b.RowIDs {
							if want := c.row(int(id)); seen[id] || !want.is(b, i) {
								t.Fatalf("row %d came as another one, or again (%v)", id, seen[id])
							}
							seen[id] = true
						}
						rows += b.Rows
						b.Release()
					}
					closeJob(t, job)
					if rows != c.rows {
						t.Errorf("%d rows, want %d", rows, c.rows)
					}
					if err := worker.Stop(); err != nil {
						t.Errorf("the worker: %v", err)
					}
					if n := group.killed(t); n > 0 {
						t.Errorf("the kernel killed %d processes", n)
					}
				})
			}
		})
	}
}

// is reports whether a batch's row i is this one.
func (l long) is(b *client.Batch, i int) bool {
	switch {
	case len(b.Bytes) > 0:
		f := b.Bytes[0]
		return bytes.Equal(f.Data[f.Offsets[i]:f.Offsets[i+1]], l.Text)
	case len(b.Sparse) > 0:
		f := b.Sparse[0]
		return slices.Equal(f.Values[f.Offsets[i]:f.Offsets[i+1]], l.IDs)
	default:
		return b.Dense[2*i] == l.A && b.Dense[2*i+1] == l.B
	}
}
