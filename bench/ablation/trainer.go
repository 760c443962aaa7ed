package main

import (
	"context"
	"errors"
	"io"

	"github.com/apache/arrow/go/v15/arrow/flight"
	"github.com/penstock-ml/penstock/internal/wire"
	"google.golang.org/grpc"
)

// receive is the trainer: it copies each buffer once, to where batches are joined.
func receive(ctx context.Context, conn *grpc.ClientConn, links *wire.Links, to *joiner) error {
	if err := receiveAll(ctx, conn, links, to); err != nil {
		return err
	}
	return to.end()
}

func receiveAll(ctx context.Context, conn *grpc.ClientConn, links *wire.Links, to *joiner) error {
	if links != nil {
		var pool wire.Pool
		stream, err := wire.Get(ctx, conn, links, nil, &pool)
		for err == nil {
			var b *wire.Batch
			if b, err = stream.Next(); err == nil {
				err = to.add(int(b.Rows), b.Buffers)
				b.Release()
			}
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return err
	}
	stream, err := flight.NewFlightServiceClient(conn).DoGet(ctx, &flight.Ticket{})
	if err != nil {
		return err
	}
	reader, err := flight.NewRecordReader(stream)
	if err != nil {
		return err
	}
	defer reader.Release()
	for reader.Next() {
		b := &wire.Batch{}
		if err := b.Flatten(reader.Record()); err != nil {
			return err
		}
		if err := to.add(int(b.Rows), b.Buffers); err != nil {
			return err
		}
	}
	return reader.Err()
}
