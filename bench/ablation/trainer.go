package main

import (
	"context"
	"errors"
	"io"

	"github.com/apache/arrow/go/v15/arrow/flight"
	"github.com/penstock-ml/penstock/internal/wire"
	"google.golang.org/grpc"
)

// receive is the trainer: it copies each buffer once, to where batches would be joined.
func receive(ctx context.Context, conn *grpc.ClientConn, links *wire.Links) (rows int64, err error) {
	var into []byte
	take := func(buffers [][]byte) {
		into = into[:0]
		for _, b := range buffers {
			into = append(into, b...)
		}
	}
	if links != nil {
		var pool wire.Pool
		stream, err := wire.Get(ctx, conn, links, nil, &pool)
		for err == nil {
			var b *wire.Batch
			if b, err = stream.Next(); err == nil {
				take(b.Buffers)
				rows += b.Rows
				b.Release()
			}
		}
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return rows, err
	}
	stream, err := flight.NewFlightServiceClient(conn).DoGet(ctx, &flight.Ticket{})
	if err != nil {
		return 0, err
	}
	reader, err := flight.NewRecordReader(stream)
	if err != nil {
		return 0, err
	}
	defer reader.Release()
	for reader.Next() {
		b := &wire.Batch{}
		if err := b.Flatten(reader.Record()); err != nil {
			return rows, err
		}
		take(b.Buffers)
		rows += reader.Record().NumRows()
	}
	return rows, reader.Err()
}
