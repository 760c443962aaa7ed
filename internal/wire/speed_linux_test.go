package wire_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

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
	plainTCP = "tcp"       // writev
	tunedTCP = "tcp-tuned" // the same, and its reader sleeps until as much has come as a link's does
	stock    = "flight"    // arrow's Flight as it comes
	tuned    = "tuned"     // arrow's Flight with Penstock's windows and buffers
	overGRPC = "grpc"      // Penstock's wire where no link can be had
	onLink   = "penstock"  // the worker's and the client's wire
)

// roundBytes is how much is moved in a round.
const roundBytes = 256 << 20

// BenchmarkWire moves batches of a size over loopback, within this process, and reports medians: what part of plain
// TCP's speed that is (of-tcp), in turns with it, the CPU time of both ends, and how many times plain TCP's that is
// (cpu-of-tcp). Plain TCP writes the same buffers by writev, and reads them into one of 1 MiB.
func BenchmarkWire(b *testing.B) {
	for _, size := range []int{256 << 10, 1 << 20, 8 << 20} {
		for _, kind := range []string{plainTCP, tunedTCP, stock, tuned, overGRPC, onLink} {
			b.Run(fmt.Sprintf("%dKiB/%s", size>>10, kind), func(b *testing.B) { benchWire(b, kind, size) })
		}
	}
}

func benchWire(b *testing.B, kind string, size int) {
	rec, n := recordOf(size), roundBytes/size
	measured, plain := newLine(b, kind, size, rec, n), newLine(b, plainTCP, size, rec, n)
	b.SetBytes(roundBytes)
	var speeds, cpus, cost []float64
	for b.Loop() {
		b.StopTimer()
		plainTook, plainCPU := timed(b, plain)
		b.StartTimer()
		took, cpu := timed(b, measured)
		speeds, cpus, cost = append(speeds, plainTook/took), append(cpus, cpu/plainCPU), append(cost,
			cpu*1e9/roundBytes)
	}
	b.ReportMetric(median(speeds), "of-tcp")
	b.ReportMetric(median(cpus), "cpu-of-tcp")
	b.ReportMetric(median(cost), "cpu-s/GB")
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// timed is how long a round takes, and the CPU time of this process.
func timed(b *testing.B, round func(context.Context) (int64, error)) (seconds, cpu float64) {
	before, began := cpuSeconds(b), time.Now()
	moved, err := round(b.Context())
	if err == nil && moved < roundBytes*9/10 { // a record may lack some bytes of its size
		err = fmt.Errorf("%d bytes came", moved)
	}
	if err != nil {
		b.Fatal(err)
	}
	return time.Since(began).Seconds(), cpuSeconds(b) - before
}

func cpuSeconds(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// recordOf has 26 lists of 10 ids a row and 13 dense values. The last list of all has as many more as there is room for
// in size bytes.
func recordOf(size int) arrow.Record {
	const lists, ids, dense = 26, 10, 13
	rows := (size - 4*lists) / (lists*(8*ids+4) + 4*dense)
	more := (size - 4*lists - rows*(lists*(8*ids+4)+4*dense)) / 8
	typ := arrow.ListOfNonNullable(arrow.PrimitiveTypes.Int64)
	fields := []arrow.Field{
		{Name: "dense", Type: arrow.FixedSizeListOfNonNullable(dense, arrow.PrimitiveTypes.Float32)},
	}
	made := func(t arrow.DataType, n int, buffer *memory.Buffer, children ...arrow.ArrayData) *array.Data {
		return array.NewData(t, n, []*memory.Buffer{nil, buffer}, children, 0, 0)
	}
	matrix := made(arrow.PrimitiveTypes.Float32, rows*dense, filled(4*rows*dense))
	all := array.NewData(fields[0].Type, rows, []*memory.Buffer{nil}, []arrow.ArrayData{matrix}, 0, 0)
	columns := []arrow.Array{array.MakeFromData(all)}
	for i := range lists {
		offsets := make([]int32, rows+1)
		for j := range offsets {
			offsets[j] = int32(ids * j)
		}
		if i == lists-1 {
			offsets[rows] += int32(more)
		}
		n := int(offsets[rows])
		values := made(arrow.PrimitiveTypes.Int64, n, filled(8*n))
		fields = append(fields, arrow.Field{Name: fmt.Sprint("ids", i), Type: typ})
		lengths := memory.NewBufferBytes(arrow.Int32Traits.CastToBytes(offsets))
		columns = append(columns, array.MakeFromData(made(typ, rows, lengths, values)))
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

// repeater sends a record n times.
type repeater struct {
	flight.BaseFlightServer
	kind       string
	rec        arrow.Record
	n          int
	pool       wire.Pool
	linkServer wire.LinkServer
}

func (s *repeater) DoGet(_ *flight.Ticket, out flight.FlightService_DoGetServer) error {
	if s.kind == onLink || s.kind == overGRPC {
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
func (s *repeater) send(out flight.FlightService_DoGetServer) (err error) {
	sender, err := s.linkServer.Sender(out.Context(), out, "", wire.None, &s.pool)
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
		b := &wire.Batch{
			Rows: flat.Rows, Nodes: flat.Nodes, Buffers: flat.Buffers, Meta: []byte("meta"),
			More: i < s.n-1,
		}
		b.OnRelease(func() {})
		room <- struct{}{}
		if err := sender.Send(b, func() { <-room }); err != nil {
			return err
		}
	}
	return nil
}

// newLine serves, and returns what receives all batches once.
func newLine(b *testing.B, kind string, size int, rec arrow.Record, n int) func(context.Context) (int64, error) {
	l, err := new(net.ListenConfig).Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	s, address := &repeater{kind: kind, rec: rec, n: n}, l.Addr().String()
	served := make(chan error, 1)
	switch kind {
	case plainTCP, tunedTCP:
		go func() { served <- s.writev(l) }()
		b.Cleanup(func() {
			_ = l.Close()
			<-served // says that it is closed
		})
		mark := 0
		if kind == tunedTCP {
			mark = min(size, 1<<20) // the most that a link's reader sleeps for
		}
		return func(ctx context.Context) (int64, error) { return drain(ctx, address, mark) }
	}
	srv := newServer(b, s)
	go func() { served <- srv.Serve(l) }()
	conn, err := dialTo(kind, address)
	if err != nil {
		b.Fatal(err)
	}
	var links *wire.Links
	if kind == onLink {
		links = wire.NewLinks("", func(ctx context.Context) (net.Conn, error) {
			return rpc.LinkDialer(rpc.Config{})(ctx, address)
		})
	}
	b.Cleanup(func() {
		if links != nil {
			links.Close()
		}
		s.linkServer.Close()
		err := conn.Close()
		srv.Stop()
		if err := errors.Join(err, <-served); err != nil {
			b.Error(err)
		}
	})
	if kind == stock || kind == tuned {
		return func(ctx context.Context) (int64, error) { return getByFlight(ctx, conn) }
	}
	return func(ctx context.Context) (int64, error) { return get(ctx, conn, links) }
}

// newServer has a repeater's kind.
func newServer(b *testing.B, s *repeater) *grpc.Server {
	srv := grpc.NewServer(grpc.MaxSendMsgSize(1 << 30))
	if s.kind != stock {
		links, err := rpc.Links(rpc.Config{}, wire.Preface, s.linkServer.Enter)
		if err == nil {
			srv, err = rpc.NewServer(rpc.Config{}, grpc.ForceServerCodecV2(wire.NewCodec()), links)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	flight.RegisterFlightServiceServer(srv, s)
	return srv
}

func dialTo(kind, address string) (*grpc.ClientConn, error) {
	if kind != stock {
		return rpc.Dial(address, rpc.Config{})
	}
	return grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<30)))
}

// writev serves each connection with all batches, until the listener is closed.
func (s *repeater) writev(l net.Listener) error {
	var flat wire.Batch
	if err := flat.Flatten(s.rec); err != nil {
		return err
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		for range s.n {
			buffers := append(net.Buffers(nil), flat.Buffers...)
			if _, err := buffers.WriteTo(conn); err != nil {
				break // the reader says so, too
			}
		}
		_ = conn.Close()
	}
}

// drain reads by a mebibyte. mark, unless it is 0, is how many bytes have to be there until the kernel wakes the
// reader.
func drain(ctx context.Context, address string, mark int) (total int64, err error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if mark > 0 {
		if err := setMark(conn, mark); err != nil {
			return 0, err
		}
	}
	buf := make([]byte, 1<<20)
	for {
		n, err := io.ReadFull(conn, buf)
		total += int64(n)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return total, nil
		}
		if err != nil {
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

func getByFlight(ctx context.Context, conn *grpc.ClientConn) (total int64, err error) {
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

func get(ctx context.Context, conn *grpc.ClientConn, links *wire.Links) (total int64, err error) {
	in, err := wire.Get(ctx, conn, links, nil, new(wire.Pool))
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
