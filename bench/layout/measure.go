package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/storage/s3"
	"github.com/penstock-ml/penstock/master/features"
)

// metaGap is the gap up to which Meta's readers read along, however little is wanted.
const metaGap = 1280 << 10

// table is a file and where its chunks lie.
type table struct {
	layout string
	path   string
	at     []int             // by column of the trace: its place
	bound  [][]storage.Range // by row group and place
	cost   features.Cost     // of a row group, for all jobs
}

// place is where files are read from.
type place struct {
	name string
	// open opens a store with a file of this machine.
	open func(ctx context.Context, path string) (storage.Storage, *pb.File, func(), error)
	// before is called before each job.
	before func(path string) error
}

func places() []place {
	nothing := func(string) error { return nil }
	out := []place{{"disk", local, forget}, {"page cache", local, nothing}}
	for _, answer := range []time.Duration{5 * time.Millisecond, 20 * time.Millisecond} {
		out = append(out, place{fmt.Sprint("object store, ", answer), remote(answer), nothing})
	}
	return out
}

func local(ctx context.Context, path string) (storage.Storage, *pb.File, func(), error) {
	st, err := storage.New(storage.Config{})
	if err != nil {
		return nil, nil, nil, err
	}
	files, err := st.List(ctx, "", []string{path})
	if err != nil {
		st.Close()
		return nil, nil, nil, err
	}
	return st, files[0], st.Close, nil
}

// remote is a stand-in for an object store that answers after a while.
func remote(answer time.Duration) func(context.Context, string) (storage.Storage, *pb.File, func(), error) {
	const tag = "0123456789abcdef0123456789abcdef"
	return func(_ context.Context, path string) (storage.Storage, *pb.File, func(), error) {
		info, err := os.Stat(path)
		if err != nil {
			return nil, nil, nil, err
		}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(answer)
			w.Header().Set("ETag", `"`+tag+`"`)
			http.ServeFile(w, r, path)
		}))
		st, err := storage.New(storage.Config{Profiles: map[string]storage.Profile{
			"default": &s3.Profile{Endpoint: server.URL, Region: "r", Credentials: s3.Anonymous},
		}})
		if err != nil {
			server.Close()
			return nil, nil, nil, err
		}
		file := &pb.File{Uri: "s3://bucket/a.parquet", Size: info.Size(), Etag: tag}
		return st, file, func() { st.Close(); server.Close() }, nil
	}
}

// reader reads a table from a place.
type reader struct {
	*table
	from    storage.Storage
	file    *pb.File
	buf     []byte
	seconds float64 // for the rows of all jobs so far
}

// measure is the mean time in which the chunks of a row group are read that jobs want, by table. Jobs are weighted by
// their rows, and each reads all tables in turn: what else the machine does disturbs all alike.
func (b *bench) measure(ctx context.Context, t *trace, tables []*table, from place) ([]float64, error) {
	var readers []*reader
	for _, of := range tables {
		st, file, end, err := from.open(ctx, of.path)
		if err != nil {
			return nil, err
		}
		defer end()
		readers = append(readers, &reader{table: of, from: st, file: file})
	}
	rows := 0.0
	for i := 0; i < len(t.jobs); i += max(1, len(t.jobs)/max(1, b.timed)) {
		for group := range tables[0].bound {
			rows += float64(t.rows[i])
			for _, r := range readers {
				if err := from.before(r.path); err != nil {
					return nil, err
				}
				took, err := r.read(ctx, r.ranges(group, t.jobs[i]), b.how())
				if err != nil {
					return nil, err
				}
				r.seconds += took.Seconds() * float64(t.rows[i])
			}
		}
	}
	out := make([]float64, len(readers))
	for i, r := range readers {
		out[i] = r.seconds / rows
	}
	return out, nil
}

func (r *reader) read(ctx context.Context, ranges []storage.Range, how storage.Reading) (time.Duration, error) {
	began := time.Now()
	_, err := storage.ReadRanges(ctx, r.from, "", r.file, ranges, how, func(n int64) ([]byte, error) {
		if int64(len(r.buf)) < n {
			r.buf = make([]byte, n)
		}
		return r.buf[:n], nil
	})
	return time.Since(began), err
}

// forget drops a file from the page cache.
func forget(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil { // what is not on the disk yet stays
		return err
	}
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}

// open finds out where a file's chunks lie, and what jobs read of it.
func (b *bench) open(ctx context.Context, t *trace, path string) (*table, error) {
	st, f, end, err := local(ctx, path)
	if err != nil {
		return nil, err
	}
	defer end()
	file, err := formats.Load(ctx, st, "", f, nil)
	if err != nil {
		return nil, err
	}
	out := &table{path: path, at: make([]int, len(t.names))}
	lies := map[string]int{}
	var sources []*pb.Source
	for i, c := range file.Columns().Schema.Columns {
		lies[c.Name] = i
		sources = append(sources, &pb.Source{Name: c.Name, Path: c.Path, Type: c.Type.Proto()})
	}
	for i, name := range t.names {
		out.at[i] = lies[name]
	}
	bound, err := file.Bind(sources)
	if err != nil {
		return nil, err
	}
	for group := range file.Extents() {
		var ranges []storage.Range
		for i := range bound.Chunks() {
			ranges = append(ranges, bound.Chunk(group, i).Range)
		}
		out.bound = append(out.bound, ranges)
	}
	reads := t.reads()
	reads.Columns = features.Columns([]format.File{file})
	out.cost = features.LayoutOf(reads).Cost(nil, b.how())
	return out, nil
}

// ranges are where columns of a row group lie.
func (o *table) ranges(group int, columns []int) []storage.Range {
	out := make([]storage.Range, len(columns))
	for i, c := range columns {
		out[i] = o.bound[group][o.at[c]]
	}
	return out
}

// unbounded is what jobs read where all gaps up to metaGap are read along, though workers do not.
func (o *table) unbounded(t *trace) (cost features.Cost) {
	all := 0.0
	for i, job := range t.jobs {
		rows := float64(t.rows[i])
		wanted, end := make([]bool, len(o.at)), int64(-metaGap-1)
		for _, c := range job {
			wanted[o.at[c]] = true
		}
		all += rows
		for place, r := range o.bound[0] {
			if !wanted[place] {
				continue
			}
			cost.Wanted += rows * float64(r.Length)
			if gap := r.Offset - end; end >= 0 && gap <= metaGap {
				cost.Bytes += rows * float64(gap)
			} else {
				cost.Requests += rows
			}
			cost.Bytes += rows * float64(r.Length)
			end = r.Offset + r.Length
		}
	}
	cost.Wanted, cost.Bytes, cost.Requests = cost.Wanted/all, cost.Bytes/all, cost.Requests/all
	return cost
}
