package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/columns"
	"github.com/penstock-ml/penstock/worker/pipeline"
	"github.com/penstock-ml/penstock/worker/transform"
)

// rebatching is how fast a worker is that sends small batches, which the trainer joins, and one that sends the trainer's
// batches, both with the same memory.
type rebatching struct {
	Memory  int64   `json:"memory"`
	Latency float64 `json:"latency_seconds"`
	// Rows a second: of small batches, and of the trainer's.
	Client float64 `json:"joined_by_the_trainer"`
	Worker float64 `json:"joined_by_the_worker"`
}

// streams is how many shards are asked for at once: as many as the worker's memory takes run.
const streams = 64

func (in *input) rebatching(ctx context.Context, o *options, progress io.Writer) (rebatching, error) {
	r := rebatching{Memory: o.budget, Latency: o.latency.Seconds()}
	batch, err := in.batchBytes()
	if err != nil {
		return r, err
	}
	var small, large []usage
	for range o.rounds {
		a, err := in.stream(ctx, o, 1<<20)
		if err != nil {
			return r, err
		}
		b, err := in.stream(ctx, o, batch)
		if err != nil {
			return r, err
		}
		small, large = append(small, a), append(large, b)
		fmt.Fprintf(progress, "joined by the trainer %.2f s, by the worker %.2f s\n", a.Wall, b.Wall)
	}
	rows := float64(in.rows())
	r.Client, r.Worker = rows/median(small).Wall, rows/median(large).Wall
	return r, nil
}

// batchBytes is about what the trainer's batch takes: eight bytes for each value.
func (in *input) batchBytes() (int64, error) {
	var values, rows int64
	for _, f := range in.footers {
		leaves, err := columns.Leaves(f, in.program.GetSources())
		if err != nil {
			return 0, err
		}
		for g := range f.RowGroups {
			rows += f.RowGroups[g].Rows
			for _, leaf := range leaves {
				values += f.RowGroups[g].Chunks[leaf].Values
			}
		}
	}
	return 8 * int64(in.batch) * values / max(1, rows), nil
}

// stream has a worker's pipeline make all batches of a size, of one row group a shard.
func (in *input) stream(ctx context.Context, o *options, size int64) (usage, error) {
	p := pipeline.New(pipeline.Config{
		Storage: &counting{Storage: in.storage, latency: o.latency}, Ops: transform.Builtin(),
		Memory: o.budget, Streams: streams, BatchBytes: size, MaxBatch: 1 << 30, Patience: time.Minute,
	})
	began := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(streams)
	for i, f := range in.files {
		for g := range in.footers[i].RowGroups {
			group.Go(func() error { return in.shard(ctx, p, f, i, g) })
		}
	}
	err := group.Wait()
	return usage{Wall: time.Since(began).Seconds()}, err
}

func (in *input) shard(ctx context.Context, p *pipeline.Pipeline, f *pb.File, i, g int) error {
	have := in.footers[i].RowGroups[g]
	ticket := &pb.Ticket{File: f, RowGroups: []*pb.RowGroup{{
		Index: uint32(g), FirstRow: have.FirstRow, Rows: have.Rows, WindowRows: int64(in.batch),
	}}}
	at := pipeline.Cursor{}
	for {
		s, err := p.Open(ctx, ticket, in.program, at)
		if err == nil {
			err = s.Run(ctx, func(_ context.Context, b pipeline.Batch) error {
				at = pipeline.Cursor{Window: b.Meta.GetWindow(), K: b.Meta.GetK() + uint64(b.Meta.GetRows())}
				b.Release()
				return nil
			})
			s.Close()
		}
		if !errors.Is(err, pipeline.ErrBusy) { // else as a trainer that comes again
			return err
		}
	}
}
