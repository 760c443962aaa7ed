package fake

import (
	"bytes"
	"context"
	"errors"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/flight"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/internal/wire"
)

// ErrEnough from Worker.Fault ends a stream as if all were sent.
var ErrEnough = errors.New("enough")

// Worker serves the streams of a dataset. Its functions are called by many streams at once.
type Worker struct {
	flight.BaseFlightServer
	Data *Dataset
	// Cut is how many rows a record has.
	Cut int
	// Fault, if set, is asked before each record, which it may change; an error ends the stream.
	Fault func(context.Context, *Record) error
	// After, if set, is told of each record that was sent.
	After func(arrow.Record)
	// Without leaves the last columns of the schema out.
	Without int
	// Codes are what it was sent of sessions' functions, without which it streams none of them. TakeCode, if set, is
	// asked before each part is taken.
	Codes    Codes
	TakeCode func(context.Context, *pb.CodePart) error
	// Links has it send batches on links to those who have some, as workers do.
	Links bool

	linkServer wire.LinkServer
	pool       wire.Pool
}

// Record is a run of rows that is about to be sent.
type Record struct {
	position.Position // of its first row
	Rows              int
	Last              bool // it ends its window
	// Before is how many records the stream sent before it.
	Before int
	// Disagree says that one bad row more was left out before it.
	Disagree bool
	// Twice sends it twice.
	Twice bool
	// Meta, if set, is sent as app_metadata in place of the right one.
	Meta []byte
	// Width, if set, is how many bytes each int64 value has on a link, whatever was asked for; Short has their buffers
	// lack a byte.
	Width int
	Short bool
}

// Worker serves a worker and returns what stops it.
func (n *Net) Worker(name string, w *Worker) (stop func()) {
	register := func(s *grpc.Server) { flight.RegisterFlightServiceServer(s, w) }
	if !w.Links {
		return n.Serve(name, register)
	}
	links, err := rpc.Links(rpc.Config{}, wire.Preface, w.linkServer.Enter)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(w.linkServer.Close)
	return n.Serve(name, register, links, grpc.ForceServerCodecV2(wire.NewCodec()))
}

// DoGet sends a shard from a cursor on.
func (w *Worker) DoGet(t *flight.Ticket, stream flight.FlightService_DoGetServer) (err error) {
	var req pb.StreamRequest
	var ticket pb.Ticket
	if err := proto.Unmarshal(t.GetTicket(), &req); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	if err := proto.Unmarshal(req.GetTicket().GetTicket(), &ticket); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	if !bytes.Equal(req.GetProgram(), program()) {
		return status.Error(codes.InvalidArgument, "another program")
	}
	if err := w.Codes.need(ticket.GetCode()); err != nil {
		return err
	}
	out := &sender{Worker: w, stream: stream, narrow: req.GetNarrow()}
	if w.Links {
		if out.batches, err = w.linkServer.Sender(stream.Context(), stream, "", wire.None, &w.pool); err != nil {
			return err
		}
		defer func() { err = out.batches.Close(err) }()
	}
	defer out.close()
	at := position.Position{Epoch: ticket.Epoch, Block: ticket.Block, Shard: ticket.Shard, Window: req.Window, K: req.K}
	windows := w.Data.Shards[w.Data.Index(at)]
	if int(at.Window) < len(windows) && at.K > 0 && at.K == uint64(windows[at.Window]) {
		if err := out.send(&Record{Position: at, Last: true}); err != nil {
			return err
		}
	}
	for ; int(at.Window) < len(windows); at.Window, at.K = at.Window+1, 0 {
		for rows := uint64(windows[at.Window]); at.K < rows; {
			n := min(uint64(w.Cut), rows-at.K)
			switch err := out.send(&Record{Position: at, Rows: int(n), Last: at.K+n == rows}); {
			case errors.Is(err, ErrEnough):
				out.begin()
				return nil
			case err != nil:
				return err
			}
			at.K += n
		}
	}
	out.begin()
	return nil
}

// sender is one stream. Like a worker's, it sends its schema with the first record, or at the end.
type sender struct {
	*Worker
	stream flight.FlightService_DoGetServer
	out    *flight.Writer
	// batches are sent by it, and out sends the schema alone, where the worker has links.
	batches *wire.Sender
	narrow  bool // batches on a link are
	sent    int
}

func (s *sender) schema() *arrow.Schema {
	fields := Schema().Fields()
	return arrow.NewSchema(fields[:len(fields)-s.Without], nil)
}

// begin sees to it that the schema is sent before all else.
func (s *sender) begin() {
	if s.out == nil {
		s.out = flight.NewRecordWriter(s.stream, ipc.WithSchema(s.schema()))
		if s.batches != nil {
			s.close() // which sends it
		}
	}
}

func (s *sender) close() {
	if s.out != nil {
		_ = s.out.Close() // fails only where the client has left
	}
}

func (s *sender) send(r *Record) error {
	r.Before = s.sent
	if s.Fault != nil {
		if err := s.Fault(s.stream.Context(), r); err != nil {
			return err
		}
	}
	rows := make([]Row, r.Rows)
	for i := range rows {
		rows[i] = Row{Epoch: r.Epoch, Shard: s.Data.Index(r.Position), Window: int(r.Window), K: int(r.K) + i}
	}
	full := Rows(rows)
	defer full.Release()
	schema := s.schema()
	rec := array.NewRecord(schema, full.Columns()[:schema.NumFields()], full.NumRows())
	defer rec.Release()
	if r.Meta == nil {
		var err error
		meta := &pb.BatchMeta{Window: r.Window, K: r.K, Rows: uint32(r.Rows), Last: r.Last}
		s.Data.leftOut(r, meta)
		if r.Disagree {
			meta.SkippedBefore++
		}
		if r.Meta, err = proto.Marshal(meta); err != nil {
			return err
		}
	}
	s.begin()
	times := 1
	if r.Twice {
		times = 2
	}
	for range times {
		if err := s.write(rec, r); err != nil {
			return err
		}
		s.sent++
		if s.After != nil {
			s.After(rec)
		}
	}
	return nil
}

func (s *sender) write(rec arrow.Record, r *Record) error {
	if s.batches == nil {
		return s.out.WriteWithAppMetadata(rec, r.Meta)
	}
	b := &wire.Batch{Meta: r.Meta}
	if err := b.Flatten(rec); err != nil {
		return err
	}
	if s.batches.Narrow() {
		s.resize(b, rec.Schema(), r)
	}
	rec.Retain()
	b.OnRelease(rec.Release)
	return s.batches.Send(b, func() {})
}

// resize has int64 values take as many bytes as they should, or as a fault says.
func (s *sender) resize(b *wire.Batch, schema *arrow.Schema, r *Record) {
	switch {
	case r.Width > 0:
		eachLong(b, schema, func(values []byte) []byte { return ofWidth(values, r.Width) })
	case s.narrow:
		Narrow(b, schema)
	}
	if r.Short {
		eachLong(b, schema, func(values []byte) []byte { return values[:len(values)-1] })
	}
}
