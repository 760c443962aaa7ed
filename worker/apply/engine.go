package apply

import (
	"context"
	"fmt"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/formats"
	"github.com/penstock-ml/penstock/worker/formats/decode"
	"github.com/penstock-ml/penstock/worker/images"
	"github.com/penstock-ml/penstock/worker/tables"
	"github.com/penstock-ml/penstock/worker/tensor"
	"github.com/penstock-ml/penstock/worker/transform"
)

const (
	// batchesOut is how many batches may be out before one has to be released.
	batchesOut = 8
	// windowRows is how many rows of a file are transformed at once.
	windowRows = 1024
	// batchBytes is about what the batches of a file take.
	batchBytes = 16 << 20
)

// engine is a program, ready to run.
type engine struct {
	program  *pb.Program
	chain    *transform.Chain
	builder  *tensor.Builder
	decoders map[string]formats.Decoder // by format
	limit    int64                      // bytes of the rows, and of what is made of them
	tables   tables.Set

	absent  string   // columns of the rows that it is for
	without []string // labels that it does not make
}

// newEngine makes the engine of a program. It releases the program's tables when it is closed.
func newEngine(cfg Config, p *pb.Program, joined tables.Set) (*engine, error) {
	chain, err := transform.Compile(cfg.Ops, p, cfg.Functions, joined.Lookups()...)
	if err != nil {
		return nil, err
	}
	builder, err := tensor.NewBuilder(p, batchesOut)
	if err != nil {
		chain.Close()
		return nil, err
	}
	return &engine{
		program: p, chain: chain, builder: builder, decoders: map[string]formats.Decoder{}, limit: cfg.Memory,
		tables: joined,
	}, nil
}

// close gives up memory; that of batches that are out when they are released.
func (e *engine) close() {
	if e != nil {
		e.chain.Close()
		e.builder.Close()
		e.tables.Release()
	}
}

// decoder is that of a format's files.
func (e *engine) decoder(format string) (formats.Decoder, error) {
	if d := e.decoders[format]; d != nil {
		return d, nil
	}
	d, err := formats.New(format, e.program.GetSources())
	if err != nil {
		return nil, err
	}
	d.Memory().Allow(e.limit)
	d.Memory().AskFor(func(least, _ int64) (int64, error) { // beyond that
		if least == 0 {
			return 0, nil
		}
		return 0, within(e.limit+least, e.limit)
	})
	e.decoders[format] = d
	return d, nil
}

// whole makes one batch of all rows of a file, which are in one extent at most; first is the number of the first one.
func (e *engine) whole(ctx context.Context, in *input, first int64) (batch *tensor.Batch, err error) {
	rows := 0
	if extents := in.file.Extents(); len(extents) > 0 {
		rows = int(extents[0].Rows)
	}
	if rows == 0 {
		if batch, err = e.builder.Take(ctx); err == nil {
			e.builder.Empty(batch)
		}
		return batch, err
	}
	d, err := e.begin(ctx, in, 0)
	if err != nil {
		return nil, err
	}
	w, err := e.window(ctx, d, in, first, rows)
	if err != nil {
		return nil, err
	}
	return e.build(ctx, w, e.builder.Cut(w, 0, rows, e.limit))
}

// each hands over batches of all rows of a file.
func (e *engine) each(ctx context.Context, in *input, use func(*tensor.Batch) error) error {
	for i, extent := range in.file.Extents() {
		d, err := e.begin(ctx, in, i)
		if err != nil {
			return err
		}
		for at := int64(0); at < extent.Rows; at += windowRows {
			n := int(min(extent.Rows-at, windowRows))
			w, err := e.window(ctx, d, in, extent.FirstRow+at, n)
			if err != nil {
				return err
			}
			if err := e.cut(ctx, w, use); err != nil {
				return err
			}
		}
	}
	return nil
}

// cut hands over a window's rows, in batches of about batchBytes.
func (e *engine) cut(ctx context.Context, w *tensor.Window, use func(*tensor.Batch) error) error {
	for at := 0; at < w.Len(); {
		p := e.builder.Cut(w, at, w.Len()-at, batchBytes)
		batch, err := e.build(ctx, w, p)
		if err != nil {
			return err
		}
		err = use(batch)
		batch.Release()
		if err != nil {
			return err
		}
		at = p.To
	}
	return nil
}

// begin reads an extent of a file.
func (e *engine) begin(ctx context.Context, in *input, extent int) (formats.Decoder, error) {
	d, err := e.decoder(in.file.Format())
	if err != nil {
		return nil, err
	}
	data, err := in.read(ctx, extent, e.limit)
	if err != nil {
		return nil, err
	}
	chunks := make([]decode.Source, len(data))
	for i := range data {
		chunks[i] = (*decode.Whole)(&data[i])
	}
	return d, d.Reset(in.uri.GetUri(), in.bound, extent, chunks)
}

// window takes the next rows through the steps; first is the number of the first one in its file.
func (e *engine) window(
	ctx context.Context, d formats.Decoder, in *input, first int64, rows int,
) (*tensor.Window, error) {
	sources, err := formats.Rows(d, first, rows)
	if err != nil {
		return nil, err
	}
	taken := int64(0)
	take := func(bytes int64) error {
		taken += bytes
		return within(taken, e.limit)
	}
	e.chain.Ask(transform.Ask{Session: "apply", Scratch: take, Result: take, Wait: ctx.Err})
	e.chain.Place(transform.Rows{First: first, N: rows}, images.Room{Most: e.limit, Take: take})
	slots, err := e.chain.Run(ctx, sources)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", in.uri.GetUri(), err)
	}
	return &tensor.Window{Slots: slots, Rows: rows, File: in.uri, FirstRow: first}, nil
}

// build lays out a piece of a window.
func (e *engine) build(ctx context.Context, w *tensor.Window, p tensor.Piece) (*tensor.Batch, error) {
	batch, err := e.builder.Take(ctx)
	if err != nil {
		return nil, fmt.Errorf("apply: %d batches were not released: %w", batchesOut, err)
	}
	if err := within(e.builder.Needs(batch, p), e.limit); err != nil {
		batch.Release()
		return nil, err
	}
	if err := e.builder.Build(batch, w, p); err != nil { // it releases the batch
		return nil, fmt.Errorf("%s: %w", w.File.GetUri(), err)
	}
	return batch, nil
}
