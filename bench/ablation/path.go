package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"github.com/apache/arrow/go/v15/parquet/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/bench/figures"
	"github.com/penstock-ml/penstock/bench/workload"
	"github.com/penstock-ml/penstock/internal/footer"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/worker/columns"
	"github.com/penstock-ml/penstock/worker/transform"
)

// width is how many times as many features the files have as are read: a job reads a fraction of its table.
const width = 4

// places is where, of each so many columns of a file, those lie that are read: some beside each other, some with one between them, which a
// read goes over, and the others further away.
func places() []int { return []int{0, 1, 3, 4} }

// input is what all variants read.
type input struct {
	storage *storage.Store
	files   []*pb.File
	footers []*footer.Footer
	metas   []*metadata.FileMetaData // the same, of arrow's reader
	columns int                      // of the files
	program *pb.Program              // over the columns that are needed
	all     *pb.Program              // with all columns as sources
	needed  int64                    // bytes of the columns that are needed
	window  int64                    // about what a cache-sized window has in decoded columns
	service service
	batch   int // rows of the trainer's batches

	sum        string // of all tensors; "" until a variant has made them
	batchBytes int64  // of the largest of the trainer's batches
}

// prepare makes the files, and the programs that read them.
func prepare(ctx context.Context, o *options, progress io.Writer) (*input, error) {
	narrow, err := workload.Named(o.workload)
	if err != nil {
		return nil, err
	}
	narrow.Rows = o.rows
	wide := narrow
	wide.Name, wide.Dense, wide.Sparse = narrow.Name+"-wide", width*narrow.Dense, width*narrow.Sparse
	paths, err := wide.Make(ctx, o.data, func(done, total int) {
		if done == total {
			fmt.Fprintf(progress, "made %d rows of %d columns\n", total, wide.Dense+wide.Sparse)
		}
	})
	if err != nil {
		return nil, err
	}
	in := &input{batch: cmp.Or(o.batch, narrow.BatchSize), window: int64(o.window), service: service{o.latency, int64(o.bandwidth)}}
	if in.storage, err = storage.New(storage.Config{}); err != nil {
		return nil, err
	}
	if in.files, err = in.storage.List(ctx, "", paths); err != nil {
		return nil, err
	}
	for _, f := range in.files {
		foot, err := footer.Load(ctx, in.storage, "", f)
		if err != nil {
			return nil, err
		}
		meta, err := readMeta(ctx, in.storage, f)
		if err != nil {
			return nil, err
		}
		in.footers, in.metas = append(in.footers, foot), append(in.metas, meta)
	}
	if err := in.programs(narrow); err != nil {
		return nil, err
	}
	return in, in.count()
}

// count counts the bytes of the columns that are needed.
func (in *input) count() error {
	for _, f := range in.footers {
		leaves, err := columns.Leaves(f, in.program.GetSources())
		if err != nil {
			return err
		}
		for g := range f.RowGroups {
			for _, leaf := range leaves {
				in.needed += f.RowGroups[g].Chunks[leaf].Length
			}
		}
	}
	return nil
}

// windowRows is how many rows a cache-sized window has.
func (in *input) windowRows(p *pb.Program) int {
	return max(64, int(in.window)/(8*len(p.GetSources())))
}

// groupRows is how many rows the largest row group has.
func (in *input) groupRows() (most int64) {
	for _, f := range in.footers {
		for _, g := range f.RowGroups {
			most = max(most, g.Rows)
		}
	}
	return most
}

// programs resolves the narrow workload's spec as if the files had its columns only.
func (in *input) programs(w workload.Workload) error {
	s, err := spec.Parse([]byte(w.Spec("unused")))
	if err != nil {
		return err
	}
	schema := in.footers[0].Schema
	in.columns = len(schema.Columns)
	named := map[string]spec.Column{}
	for _, c := range schema.Columns {
		named[c.Name] = c
	}
	recipe := w.Recipe()
	needed := spec.Schema{Columns: []spec.Column{named[recipe.Row], named[recipe.Label]}}
	for _, names := range [][]string{recipe.Dense, recipe.Sparse} {
		prefix := strings.TrimSuffix(strings.Join(names[:min(1, len(names))], ""), "0")
		for i, name := range names {
			// Spread over the file, as the columns of one job are.
			at := places()
			c := named[fmt.Sprint(prefix, i/len(at)*len(at)*width+at[i%len(at)])]
			c.Name = name
			needed.Columns = append(needed.Columns, c)
		}
	}
	if in.program, err = spec.Resolve(s, needed, transform.Builtin()); err != nil {
		return err
	}
	in.all = withSources(in.program, schema)
	return nil
}

// withSources returns a program that reads the schema's other columns, too, and does nothing with them. Slots of steps move up.
func withSources(p *pb.Program, schema spec.Schema) *pb.Program {
	out := proto.CloneOf(p)
	have := map[string]bool{}
	for _, s := range p.GetSources() {
		have[s.GetPath()[0]] = true
	}
	before := uint32(len(p.GetSources()))
	for _, c := range schema.Columns {
		if !have[c.Name] {
			out.Sources = append(out.Sources, &pb.Source{Name: "unused " + c.Name, Path: []string{c.Name}, Type: c.Type.Proto()})
		}
	}
	more := uint32(len(out.GetSources())) - before
	move := func(slots []uint32) {
		for i := range slots {
			if slots[i] >= before {
				slots[i] += more
			}
		}
	}
	for _, s := range out.GetSteps() {
		move(s.GetIn())
	}
	for _, o := range out.GetOutputs() {
		move(o.GetSlots())
	}
	return out
}

// usage is what a variant took.
type usage struct {
	Wall     float64 `json:"seconds"`
	CPU      float64 `json:"cpu_seconds"`
	Requests int64   `json:"requests"`
	Bytes    int64   `json:"bytes"`
	// Service is what an object store would take for the requests, one after the other, in seconds, and Wait with several at a
	// time, one row group after the other.
	Service float64 `json:"service_seconds"`
	Wait    float64 `json:"wait_seconds,omitempty"`
}

// measure runs one variant. see, unless it is nil, is shown the trainer's batches.
func (in *input) measure(ctx context.Context, on optimisations, see func(*joiner) error) (usage, error) {
	w := &worker{in: in, on: on, storage: &counting{Storage: in.storage, service: in.service}}
	trainer, err := newJoiner(in.program, in.batch, see)
	if err != nil {
		return usage{}, err
	}
	client, stop, err := listen(ctx, w)
	if err != nil {
		return usage{}, err
	}
	runtime.GC()
	before, began := figures.CPUSeconds(), time.Now()
	err = receive(ctx, client, w.links, trainer)
	wall, cpu := time.Since(began).Seconds(), figures.CPUSeconds()-before
	if err := errors.Join(err, stop()); err != nil {
		return usage{}, err
	}
	u := w.storage.usage()
	u.Wall, u.CPU = wall, cpu
	return u, complete(trainer.total, in.rows())
}

// complete is an error if rows are missing.
func complete(rows, want int64) error {
	if rows != want {
		return fmt.Errorf("%d rows arrived of %d", rows, want)
	}
	return nil
}

// warm runs a variant once, and compares the tensors that it makes with those of the others.
func (in *input) warm(ctx context.Context, on optimisations) error {
	h := sha256.New()
	if _, err := in.measure(ctx, on, func(j *joiner) error {
		j.sum(h)
		in.batchBytes = max(in.batchBytes, j.bytes())
		return nil
	}); err != nil {
		return err
	}
	sum := hex.EncodeToString(h.Sum(nil))
	if in.sum == "" {
		in.sum = sum
	}
	if sum != in.sum {
		return errors.New("its tensors are not those of the variants before")
	}
	return nil
}

func (in *input) rows() (n int64) {
	for _, f := range in.footers {
		for _, g := range f.RowGroups {
			n += g.Rows
		}
	}
	return n
}
