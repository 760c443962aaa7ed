package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/apache/arrow/go/v15/arrow/flight"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/wire"
	"github.com/penstock-ml/penstock/worker/columns"
	"github.com/penstock-ml/penstock/worker/pipeline"
	"github.com/penstock-ml/penstock/worker/serve"
	"github.com/penstock-ml/penstock/worker/tensor"
	"github.com/penstock-ml/penstock/worker/transform"
	"github.com/penstock-ml/penstock/worker/vector"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// worker streams all files to whoever asks.
type worker struct {
	flight.BaseFlightServer
	in      *input
	on      optimisations
	storage *counting
	pool    wire.Pool
	lobby   wire.Lobby
	links   *wire.Links // to it, with optimisation Wire
}

// listen runs a worker on a port of loopback.
func listen(ctx context.Context, w *worker) (*grpc.ClientConn, func() error, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, fmt.Errorf("listen on loopback: %w", err)
	}
	var options []grpc.ServerOption
	if w.on.Wire {
		links, err := rpc.Links(rpc.Config{}, wire.Preface, w.lobby.Enter)
		if err != nil {
			return nil, nil, errors.Join(err, listener.Close())
		}
		options = append(options, grpc.ForceServerCodecV2(wire.NewCodec()), links)
		w.links = wire.NewLinks("", func(ctx context.Context) (net.Conn, error) {
			return rpc.LinkDialer(rpc.Config{})(ctx, listener.Addr().String())
		})
	}
	server := grpc.NewServer(options...)
	flight.RegisterFlightServiceServer(server, w)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<30)))
	if err != nil {
		server.Stop()
		return nil, nil, errors.Join(err, <-ended)
	}
	return conn, func() error {
		err := conn.Close()
		if w.links != nil {
			w.links.Close()
		}
		server.Stop()
		w.lobby.Close()
		return errors.Join(err, <-ended)
	}, nil
}

// DoGet streams all files.
func (w *worker) DoGet(_ *flight.Ticket, out flight.FlightService_DoGetServer) (err error) {
	program := w.in.program
	if !w.on.Projection {
		program = w.in.all
	}
	builder, err := tensor.NewBuilder(program, 3)
	if err != nil {
		return err
	}
	chain, err := w.transforms(program)
	if err != nil {
		return err
	}
	send, done, err := w.sender(out, builder)
	if err != nil {
		return err
	}
	defer func() { err = done(err) }()
	decoder := w.decoder(program)
	for i, f := range w.in.files {
		for g := range w.in.footers[i].RowGroups {
			rows := int(w.in.footers[i].RowGroups[g].Rows)
			if err := decoder.reset(out.Context(), i, g); err != nil {
				return err
			}
			for left := rows; left > 0; {
				n := min(left, w.windowRows(program, rows))
				slots, err := decoder.next(n)
				if err == nil && !w.on.Columnar {
					slots, err = throughRows(slots)
				}
				if err == nil {
					slots, err = chain.Run(slots)
				}
				if err == nil {
					err = cut(out.Context(), builder, &tensor.Window{Slots: slots, Rows: n, File: f}, send)
				}
				if err != nil {
					return fmt.Errorf("%s row group %d: %w", f.GetUri(), g, err)
				}
				left -= n
			}
		}
	}
	return nil
}

func (w *worker) transforms(p *pb.Program) (transforms, error) {
	if !w.on.Fusion {
		return newStages(p)
	}
	return transform.Compile(transform.Builtin(), p)
}

func (w *worker) windowRows(p *pb.Program, rows int) int {
	if !w.on.Windows {
		return rows
	}
	return min(rows, w.in.windowRows(p))
}

// cut makes batches of about a mebibyte.
func cut(ctx context.Context, b *tensor.Builder, w *tensor.Window, send func(*tensor.Batch) error) error {
	const size = 1 << 20
	step := b.RowsFor(w, size)
	for from := 0; from < w.Len(); {
		p := b.Cut(w, from, step, 2*size)
		batch, err := b.Take(ctx)
		if err != nil {
			return err
		}
		if err := b.Build(batch, w, p); err != nil {
			return err
		}
		if err := send(batch); err != nil {
			return err
		}
		from = p.To
	}
	return nil
}

// sender sends batches and releases them. done takes the error that the batches end with, and returns the stream's.
func (w *worker) sender(out flight.FlightService_DoGetServer, b *tensor.Builder) (send func(*tensor.Batch) error, done func(error) error, err error) {
	if !w.on.Wire {
		stock := flight.NewRecordWriter(out, ipc.WithSchema(b.Schema()))
		return func(batch *tensor.Batch) error {
			defer batch.Release()
			return stock.Write(batch.Record())
		}, func(err error) error { return err }, nil
	}
	own, err := w.lobby.Sender(out.Context(), out, "", wire.None, &w.pool)
	if err != nil {
		return nil, nil, err
	}
	if err := flight.NewRecordWriter(out, ipc.WithSchema(b.Schema())).Close(); err != nil { // sends the schema
		return nil, nil, own.Close(err)
	}
	return func(batch *tensor.Batch) error {
		message, err := serve.Message(pipeline.Batch{Batch: batch, Meta: &pb.BatchMeta{}})
		if err != nil {
			return err
		}
		return own.Send(message, func() {})
	}, own.Close, nil
}

// decoder makes vectors of windows, of a row group of one of the files.
type decoder interface {
	reset(ctx context.Context, i, rg int) error
	next(rows int) ([]*vector.Vector, error)
}

func (w *worker) decoder(p *pb.Program) decoder {
	f := fetcher{in: w.in, storage: w.storage, apart: !w.on.Coalescing, columns: columns.NewDecoder(p.GetSources(), 1<<40)}
	f.columns.OwnChunks(true)
	if w.on.Decoder {
		return &ownDecoder{fetcher: f}
	}
	return &arrowDecoder{fetcher: f, sources: p.GetSources()}
}

// fetcher reads the column chunks of a row group.
type fetcher struct {
	in      *input
	storage *counting
	apart   bool // each chunk by a request of its own
	columns *columns.Decoder
	buffer  []byte
}

func (f *fetcher) fetch(ctx context.Context, i, rg int) ([]storage.Range, [][]byte, error) {
	ranges, err := f.columns.Chunks(f.in.footers[i], rg)
	if err != nil {
		return nil, nil, err
	}
	defer f.storage.fetched()
	if f.apart {
		chunks, err := f.fetchApart(ctx, f.in.files[i], ranges)
		return ranges, chunks, err
	}
	chunks, err := storage.ReadRanges(ctx, f.storage, "", f.in.files[i], ranges, storage.Reading{Parallel: parallel}, func(size int64) ([]byte, error) {
		f.buffer = slices.Grow(f.buffer[:0], int(size))[:size]
		return f.buffer, nil
	})
	return ranges, chunks, err
}

// fetchApart makes as many requests at a time as ReadRanges does.
func (f *fetcher) fetchApart(ctx context.Context, file *pb.File, ranges []storage.Range) ([][]byte, error) {
	var size int64
	for _, r := range ranges {
		size += r.Length
	}
	f.buffer = slices.Grow(f.buffer[:0], int(size))[:size]
	chunks, rest := make([][]byte, len(ranges)), f.buffer
	reads, ctx := errgroup.WithContext(ctx)
	reads.SetLimit(parallel)
	for i, r := range ranges {
		chunks[i], rest = rest[:r.Length:r.Length], rest[r.Length:]
		reads.Go(func() error { return f.storage.ReadAt(ctx, "", file, chunks[i], r.Offset) })
	}
	return chunks, reads.Wait()
}

type ownDecoder struct{ fetcher }

func (d *ownDecoder) reset(ctx context.Context, i, rg int) error {
	_, chunks, err := d.fetch(ctx, i, rg)
	if err != nil {
		return err
	}
	return d.columns.Reset(d.in.files[i].GetUri(), d.in.footers[i], rg, chunks)
}

func (d *ownDecoder) next(rows int) ([]*vector.Vector, error) { return d.columns.Next(rows) }
