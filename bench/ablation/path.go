package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/bench/figures"
	"github.com/penstock-ml/penstock/bench/workload"
	"github.com/penstock-ml/penstock/internal/footer"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/worker/transform"
)

// width is how many times as many features the files have as are read: a job reads a fraction of its table.
const width = 4

// adjacent is how many of the columns that are read lie beside each other.
const adjacent = 4

// windowBytes is about what a cache-sized window has in decoded columns.
const windowBytes = 4 << 20

// input is what all variants read.
type input struct {
	storage *storage.Store
	files   []*pb.File
	footers []*footer.Footer
	columns int         // of the files
	program *pb.Program // over the columns that are needed
	all     *pb.Program // with all columns as sources
	batch   int         // rows of the trainer's batches
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
	wide.GroupRows = min(wide.GroupRows, 1<<14)
	paths, err := wide.Make(ctx, o.data, func(done, total int) {
		if done == total {
			fmt.Fprintf(progress, "made %d rows of %d columns\n", total, wide.Dense+wide.Sparse)
		}
	})
	if err != nil {
		return nil, err
	}
	in := &input{batch: narrow.BatchSize}
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
		in.footers = append(in.footers, foot)
	}
	return in, in.programs(narrow)
}

// programs resolves the narrow workload's spec as if the files had its columns only.
func (in *input) programs(w workload.Workload) error {
	s, err := spec.Parse([]byte(w.Spec("unused")))
	if err != nil {
		return err
	}
	schema := in.footers[0].Schema
	in.columns = len(schema.Columns)
	columns := map[string]spec.Column{}
	for _, c := range schema.Columns {
		columns[c.Name] = c
	}
	recipe := w.Recipe()
	needed := spec.Schema{Columns: []spec.Column{columns[recipe.Row], columns[recipe.Label]}}
	for _, names := range [][]string{recipe.Dense, recipe.Sparse} {
		prefix := strings.TrimSuffix(strings.Join(names[:min(1, len(names))], ""), "0")
		for i, name := range names {
			// Spread over the file, as the columns of one job are, a few beside each other.
			c := columns[fmt.Sprint(prefix, i/adjacent*adjacent*width+i%adjacent)]
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
	// Service is the time of the storage's requests, one after the other, in seconds.
	Service float64 `json:"service_seconds"`
}

// measure runs one variant.
func (in *input) measure(ctx context.Context, on optimisations) (usage, error) {
	counted := &counting{Storage: in.storage}
	w := &worker{in: in, on: on, storage: counted}
	client, stop, err := listen(ctx, w)
	if err != nil {
		return usage{}, err
	}
	runtime.GC()
	before, began := figures.CPUSeconds(), time.Now()
	rows, err := receive(ctx, client, w.links)
	u := usage{
		Wall: time.Since(began).Seconds(), CPU: figures.CPUSeconds() - before,
		Requests: counted.requests.Load(), Bytes: counted.bytes.Load(), Service: time.Duration(counted.service.Load()).Seconds(),
	}
	if err := errors.Join(err, stop()); err != nil {
		return usage{}, err
	}
	if want := in.rows(); rows != want {
		return usage{}, fmt.Errorf("%d rows arrived of %d", rows, want)
	}
	return u, nil
}

func (in *input) rows() (n int64) {
	for _, f := range in.footers {
		for _, g := range f.RowGroups {
			n += g.Rows
		}
	}
	return n
}
