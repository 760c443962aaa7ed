package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/flight"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/internal/wire"
)

const (
	tcp      = "tcp"       // writev
	tunedTCP = "tcp-tuned" // the same, and its reader sleeps until as much has come as a link's does
	stock    = "flight"    // arrow's Flight as it comes
	tuned    = "tuned"     // arrow's Flight with Penstock's windows and buffers
	overGRPC = "grpc"      // Penstock's wire where no link can be had
	penstock = "penstock"  // the worker's and the client's wire
)

var kinds = []string{tcp, tunedTCP, stock, tuned, overGRPC, penstock} //nolint:gochecknoglobals // never changed

// record has 26 lists of 10 ids a row and 13 dense values. The last list of all has as many more as there is room for in size bytes.
func record(size int) arrow.Record {
	const lists, ids, dense = 26, 10, 13
	rows := (size - 4*lists) / (lists*(8*ids+4) + 4*dense)
	more := (size - 4*lists - rows*(lists*(8*ids+4)+4*dense)) / 8
	typ := arrow.ListOfNonNullable(arrow.PrimitiveTypes.Int64)
	fields := []arrow.Field{{Name: "dense", Type: arrow.FixedSizeListOfNonNullable(dense, arrow.PrimitiveTypes.Float32)}}
	matrix := array.NewData(arrow.PrimitiveTypes.Float32, rows*dense, []*memory.Buffer{nil, filled(4 * rows * dense)}, nil, 0, 0)
	columns := []arrow.Array{array.MakeFromData(array.NewData(fields[0].Type, rows, []*memory.Buffer{nil}, []arrow.ArrayData{matrix}, 0, 0))}
	for i := range lists {
		offsets := make([]int32, rows+1)
		for j := range offsets {
			offsets[j] = int32(ids * j)
		}
		if i == lists-1 {
			offsets[rows] += int32(more)
		}
		n := int(offsets[rows])
		values := array.NewData(arrow.PrimitiveTypes.Int64, n, []*memory.Buffer{nil, filled(8 * n)}, nil, 0, 0)
		fields = append(fields, arrow.Field{Name: fmt.Sprint("ids", i), Type: typ})
		columns = append(columns, array.MakeFromData(array.NewData(typ, rows,
			[]*memory.Buffer{nil, memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(offsets))}, []arrow.ArrayData{values}, 0, 0)))
	}
	return array.NewRecord(arrow.NewSchema(fields, nil), columns, int64(rows))
}

func filled(n int) *memory.Buffer {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * i)
	}
	return memory.NewBufferBytes(b)
}

// server sends the record again and again.
type server struct {
	flight.BaseFlightServer
	kind  string
	rec   arrow.Record
	n     int
	pool  wire.Pool
	lobby wire.Lobby
}

func (s *server) DoGet(_ *flight.Ticket, out flight.FlightService_DoGetServer) error {
	if s.kind == penstock || s.kind == overGRPC {
		return s.send(out)
	}
	w := flight.NewRecordWriter(out, ipc.WithSchema(s.rec.Schema()))
	for range s.n {
		if err := w.WriteWithAppMetadata(s.rec, []byte("meta")); err != nil {
			return err
		}
	}
	return w.Close()
}

// send sends as worker/serve does.
func (s *server) send(out flight.FlightService_DoGetServer) (err error) {
	sender, err := s.lobby.Sender(out.Context(), out, "", wire.None, &s.pool)
	if err != nil {
		return err
	}
	defer func() { err = sender.Close(err) }()
	if err := flight.NewRecordWriter(out, ipc.WithSchema(s.rec.Schema())).Close(); err != nil {
		return err
	}
	var flat wire.Batch
	if err := flat.Flatten(s.rec); err != nil {
		return err
	}
	room := make(chan struct{}, 2)
	for i := range s.n {
		b := &wire.Batch{Rows: flat.Rows, Nodes: flat.Nodes, Buffers: flat.Buffers, Meta: []byte("meta"), More: i < s.n-1}
		b.OnRelease(func() {})
		room <- struct{}{}
		if err := sender.Send(b, func() { <-room }); err != nil {
			return err
		}
	}
	return nil
}

// serve serves until standard input ends.
func serve(ctx context.Context, what string) error {
	kind, size, total, err := parseServing(what)
	if err != nil {
		return err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := &server{kind: kind, rec: record(size), n: int(total / int64(size))}
	fmt.Println(l.Addr())
	if kind == tcp || kind == tunedTCP {
		return errors.Join(s.writev(l), l.Close())
	}
	srv := grpc.NewServer(grpc.MaxSendMsgSize(1 << 30))
	if kind != stock {
		links, err := rpc.Links(rpc.Config{}, wire.Preface, s.lobby.Enter)
		if err != nil {
			return err
		}
		if srv, err = rpc.NewServer(rpc.Config{}, grpc.ForceServerCodecV2(wire.NewCodec()), links); err != nil {
			return err
		}
	}
	flight.RegisterFlightServiceServer(srv, s)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // whatever ends it
		srv.Stop()
	}()
	return srv.Serve(l)
}

func (s *server) writev(l net.Listener) error {
	conn, err := l.Accept()
	if err != nil {
		return err
	}
	var b wire.Batch
	if err := b.Flatten(s.rec); err != nil {
		return err
	}
	for range s.n {
		buffers := append(net.Buffers(nil), b.Buffers...)
		if _, err := buffers.WriteTo(conn); err != nil {
			return err
		}
	}
	return conn.Close()
}

// receive reads all that a server sends of batches of a size, and returns how many bytes that was.
func receive(ctx context.Context, kind, address string, size int) (int64, error) {
	switch kind {
	case tcp:
		return drain(ctx, address, 0)
	case tunedTCP:
		return drain(ctx, address, min(size, mostMark))
	}
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<30)))
	if kind != stock {
		conn, err = rpc.Dial(address, rpc.Config{})
	}
	if err != nil {
		return 0, err
	}
	var links *wire.Links
	if kind == penstock {
		links = wire.NewLinks("", func(ctx context.Context) (net.Conn, error) { return rpc.LinkDialer(rpc.Config{})(ctx, address) })
		defer links.Close()
	}
	n, err := get(ctx, kind, conn, links)
	return n, errors.Join(err, conn.Close())
}

// mostMark is the most that a link's reader sleeps for (SO_RCVLOWAT).
const mostMark = 1 << 20

// drain reads by a mebibyte. mark, unless it is 0, is how many bytes have to be there until the kernel wakes the reader.
func drain(ctx context.Context, address string, mark int) (total int64, err error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return 0, err
	}
	if mark > 0 {
		if err := setMark(conn, mark); err != nil {
			return 0, errors.Join(err, conn.Close())
		}
	}
	buf := make([]byte, 1<<20)
	for {
		n, err := io.ReadFull(conn, buf)
		total += int64(n)
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return total, conn.Close()
			}
			return total, err
		}
	}
}

func setMark(conn net.Conn, mark int) error {
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = os.NewSyscallError("setsockopt", unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVLOWAT, mark))
	})
	return errors.Join(err, failed)
}

func get(ctx context.Context, kind string, conn *grpc.ClientConn, links *wire.Links) (total int64, err error) {
	if kind != penstock && kind != overGRPC {
		in, err := flight.NewClientFromConn(conn, nil).DoGet(ctx, &flight.Ticket{})
		if err != nil {
			return 0, err
		}
		rd, err := flight.NewRecordReader(in)
		if err != nil {
			return 0, err
		}
		defer rd.Release()
		var b wire.Batch
		for rd.Next() {
			if err := b.Flatten(rd.Record()); err != nil {
				return total, err
			}
			total += b.Bytes
		}
		if err := rd.Err(); !errors.Is(err, io.EOF) {
			return total, err
		}
		return total, nil
	}
	var pool wire.Pool
	in, err := wire.Get(ctx, conn, links, nil, &pool)
	if err != nil {
		return 0, err
	}
	for {
		b, err := in.Next()
		if errors.Is(err, io.EOF) {
			return total, nil
		}
		if err != nil {
			return total, err
		}
		for _, buf := range b.Buffers {
			total += int64(len(buf))
		}
		b.Release()
	}
}
