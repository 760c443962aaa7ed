package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/bench/figures"
	workers "github.com/penstock-ml/penstock/worker"
	"github.com/penstock-ml/penstock/worker/pipeline"
	"github.com/penstock-ml/penstock/worker/transform"
)

// rebatching is how fast a worker is that sends small batches, which the trainer joins, and one that sends the trainer's
// batches, all with the same memory.
type rebatching struct {
	Memory int64 `json:"memory"`
	// Batch is how many rows the trainer's batches have, and BatchBytes what they take.
	Batch      int   `json:"batch_rows"`
	BatchBytes int64 `json:"batch_bytes"`
	// Rows that are read: the dataset's, some times over.
	Rows  int64    `json:"rows"`
	Forms []result `json:"forms"`
}

// form is one of them.
type form struct {
	name   string
	batch  int64 // bytes of the worker's batches
	window int   // rows
	joins  bool  // the trainer joins them; else it has whole ones
}

// slots is how many streams a worker expects by default.
func slots() int { return 2 * runtime.NumCPU() }

// defaultBatch is the size of batches of a worker with the memory and the slots that it has by default (worker.batchBytes).
func defaultBatch() int64 {
	return min(max(workers.DefaultMemory/int64(slots())/pipeline.BatchShares, 1<<20), 4<<20)
}

func (in *input) forms() []form {
	window := in.windowRows(in.program)
	return []form{
		{"the trainer, of batches of 1 MiB", 1 << 20, window, true},
		{fmt.Sprintf("the trainer, of batches of the worker's default size, %.1f MiB", float64(defaultBatch())/(1<<20)), defaultBatch(), window, true},
		// A batch lies in one window, and some of the lists to come may be longer.
		{"the worker", in.batchBytes + in.batchBytes/4, in.batch, false},
	}
}

// streams is how many shards are asked for at once: as many as the worker's memory takes run.
const streams = 64

// times is how many times the dataset is read, so that there are as many shards as streams.
func (in *input) times() int {
	groups := 0
	for _, f := range in.footers {
		groups += len(f.RowGroups)
	}
	return (streams + groups - 1) / groups
}

func (in *input) rebatching(ctx context.Context, o *options, progress io.Writer) (rebatching, error) {
	r := rebatching{Memory: int64(o.budget), Batch: in.batch, BatchBytes: in.batchBytes, Rows: in.rows() * int64(in.times())}
	forms := in.forms()
	passes := make([][]usage, len(forms))
	for round := range o.rounds + 1 {
		for i := range forms {
			at := (i + round) % len(forms)
			u, err := in.stream(ctx, o, forms[at])
			if err != nil {
				return r, fmt.Errorf("joined by %s: %w", forms[at].name, err)
			}
			if round == 0 { // it warms up
				continue
			}
			passes[at] = append(passes[at], u)
			fmt.Fprintf(progress, "joined by %s: %.2f s of CPU time, in %.2f s\n", forms[at].name, u.CPU, u.Wall)
		}
	}
	for i, f := range forms {
		r.Forms = append(r.Forms, result{Name: f.name, Passes: len(passes[i]), usage: median(passes[i])})
	}
	return r, nil
}

// stream has a worker's pipeline make all batches, of one row group a shard, and a trainer take them.
func (in *input) stream(ctx context.Context, o *options, f form) (usage, error) {
	store := &counting{Storage: in.storage, service: in.service, sleeps: true}
	p := pipeline.New(pipeline.Config{
		Storage: store, Ops: transform.Builtin(), Memory: int64(o.budget), Streams: slots(),
		BatchBytes: f.batch, MaxBatch: 1 << 30, OverRead: 256 << 10, Patience: time.Minute,
	})
	defer p.Close()
	trainer, err := newJoiner(in.program, in.batch, nil)
	if err != nil {
		return usage{}, err
	}
	runtime.GC()
	before, began := figures.CPUSeconds(), time.Now()
	rows, err := in.train(ctx, p, f, trainer)
	u := store.usage()
	u.Wall, u.CPU, u.Wait = time.Since(began).Seconds(), figures.CPUSeconds()-before, 0 // the waits are in Wall
	if err != nil {
		return usage{}, err
	}
	return u, complete(rows, in.rows()*int64(in.times()))
}

// train takes the batches of all shards as they come, and joins them or has them whole, without a copy. It returns their rows.
func (in *input) train(ctx context.Context, p *pipeline.Pipeline, f form, trainer *joiner) (rows int64, _ error) {
	batches := make(chan pipeline.Batch)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(batches)
		return in.shards(ctx, p, f, batches)
	})
	group.Go(func() error {
		for b := range batches {
			rows += b.Rows
			var err error
			if f.joins {
				err = trainer.add(int(b.Rows), b.Buffers)
			} else if b.Meta.GetK() != 0 || !b.Meta.GetLast() {
				err = errors.New("a batch of the trainer's size came in parts")
			}
			b.Release()
			if err != nil {
				return err
			}
		}
		return trainer.end()
	})
	err := group.Wait()
	return rows, err
}

func (in *input) shards(ctx context.Context, p *pipeline.Pipeline, f form, to chan<- pipeline.Batch) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(streams)
	for range in.times() {
		for i := range in.files {
			for g := range in.footers[i].RowGroups {
				group.Go(func() error { return in.shard(ctx, p, f, i, g, to) })
			}
		}
	}
	return group.Wait()
}

func (in *input) shard(ctx context.Context, p *pipeline.Pipeline, f form, i, g int, to chan<- pipeline.Batch) error {
	have := in.footers[i].RowGroups[g]
	ticket := &pb.Ticket{File: in.files[i], RowGroups: []*pb.RowGroup{{
		Index: uint32(g), FirstRow: have.FirstRow, Rows: have.Rows, WindowRows: int64(f.window),
	}}}
	at := pipeline.Cursor{}
	for {
		s, err := p.Open(ctx, ticket, in.program, at)
		if err == nil {
			err = s.Run(ctx, func(ctx context.Context, b pipeline.Batch) error {
				at = pipeline.Cursor{Window: b.Meta.GetWindow(), K: b.Meta.GetK() + uint64(b.Meta.GetRows())}
				select {
				case to <- b:
					return nil
				case <-ctx.Done():
					b.Release()
					return context.Cause(ctx)
				}
			})
			s.Close()
		}
		if !errors.Is(err, pipeline.ErrBusy) { // else as a trainer that comes again
			return err
		}
	}
}
