package client

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/flight"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
)

const streamWindow = 1 << 16

// fleet is a network in memory on which fake masters and workers listen.
type fleet struct {
	t         *testing.T
	mu        sync.Mutex
	listeners map[string]*bufconn.Listener
}

func newFleet(t *testing.T) *fleet {
	return &fleet{t: t, listeners: make(map[string]*bufconn.Listener)}
}

// serve starts a server at address and returns what stops it.
func (f *fleet) serve(address string, register func(*grpc.Server)) (stop func()) {
	l := bufconn.Listen(1 << 16)
	srv := grpc.NewServer()
	register(srv)
	f.mu.Lock()
	f.listeners[address] = l
	f.mu.Unlock()
	var done sync.WaitGroup
	done.Go(func() {
		if err := srv.Serve(l); err != nil {
			f.t.Errorf("serve %s: %v", address, err)
		}
	})
	var once sync.Once
	stop = func() {
		once.Do(func() {
			f.mu.Lock()
			if f.listeners[address] == l {
				delete(f.listeners, address)
			}
			f.mu.Unlock()
			srv.Stop()
			done.Wait()
		})
	}
	f.t.Cleanup(stop)
	return stop
}

func (f *fleet) dial(address string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithInitialWindowSize(streamWindow), // or gRPC widens it by itself
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			f.mu.Lock()
			l := f.listeners[address]
			f.mu.Unlock()
			if l == nil {
				return nil, status.Errorf(codes.Unavailable, "nobody listens at %s", address)
			}
			return l.DialContext(ctx)
		}))
}

func (f *fleet) config(masters ...string) Config {
	return Config{
		Masters: masters, Dial: f.dial, Session: "run-1/train", Spec: &pb.Spec{BatchSize: 1},
		Logger: slog.New(slog.DiscardHandler),
	}
}

var errEnough = errors.New("enough")

// worker is a fake worker.
type worker struct {
	flight.BaseFlightServer
	data *dataset
	cut  int // rows of a record
	// fault, if set, is asked before each record, with the position of its first row; an error ends the stream, and
	// errEnough does so as if all were sent.
	fault func(ctx context.Context, at position.Position) error
	// after, if set, is told of each record that was sent.
	after func(rec arrow.Record)
}

func (f *fleet) worker(address string, w *worker) (stop func()) {
	return f.serve(address, func(s *grpc.Server) { flight.RegisterFlightServiceServer(s, w) })
}

func (w *worker) DoGet(t *flight.Ticket, stream flight.FlightService_DoGetServer) error {
	var req pb.StreamRequest
	var ticket pb.Ticket
	if err := proto.Unmarshal(t.GetTicket(), &req); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	if err := proto.Unmarshal(req.GetTicket().GetTicket(), &ticket); err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	if string(req.GetProgram()) != "program" {
		return status.Error(codes.InvalidArgument, "another program")
	}
	out := flight.NewRecordWriter(stream, ipc.WithSchema(wireSchema()))
	defer out.Close()
	at := position.Position{Epoch: ticket.Epoch, Block: ticket.Block, Shard: ticket.Shard, Window: req.Window, K: req.K}
	windows := w.data.shards[w.data.index(at)]
	for ; int(at.Window) < len(windows); at.Window, at.K = at.Window+1, 0 {
		for rows := uint64(windows[at.Window]); at.K < rows; {
			n := min(uint64(w.cut), rows-at.K)
			switch err := w.send(stream.Context(), out, at, int(n), at.K+n == rows); {
			case errors.Is(err, errEnough):
				return nil
			case err != nil:
				return err
			}
			at.K += n
		}
	}
	return nil
}

func (w *worker) send(ctx context.Context, out *flight.Writer, at position.Position, n int, last bool) error {
	if w.fault != nil {
		if err := w.fault(ctx, at); err != nil {
			return err
		}
	}
	rows := make([]row, n)
	for i := range rows {
		rows[i] = row{epoch: at.Epoch, shard: w.data.index(at), window: int(at.Window), k: int(at.K) + i}
	}
	rec := wireRows(rows)
	defer rec.Release()
	meta, err := proto.Marshal(&pb.BatchMeta{Window: at.Window, K: at.K, Rows: uint32(n), Last: last})
	if err != nil {
		return err
	}
	if err := out.WriteWithAppMetadata(rec, meta); err != nil {
		return err
	}
	if w.after != nil {
		w.after(rec)
	}
	return nil
}
