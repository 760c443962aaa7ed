package wire_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/flight"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// records have a column of each layout, and few or many rows, so that some buffers are copied and some are referred to.
var records = sync.OnceValue(func() []arrow.Record {
	list := arrow.ListOf(arrow.StructOf(
		arrow.Field{Name: "value", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		arrow.Field{Name: "weight", Type: arrow.PrimitiveTypes.Float32, Nullable: true}))
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "dense", Type: arrow.FixedSizeListOf(3, arrow.PrimitiveTypes.Float32)},
		{Name: "ids", Type: list},
		{Name: "seen", Type: arrow.FixedWidthTypes.Boolean},
		{Name: "bytes", Type: arrow.BinaryTypes.Binary},
		{Name: "row", Type: arrow.PrimitiveTypes.Int64},
		{Name: "one", Type: arrow.ListOf(arrow.PrimitiveTypes.Int64)},
		{Name: "other", Type: arrow.ListOf(arrow.PrimitiveTypes.Int64)},
	}, nil)
	var out []arrow.Record
	for _, rows := range []int{0, 1, 100, 20_000, 3} {
		b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		dense, ids, seen := b.Field(0).(*array.FixedSizeListBuilder), b.Field(1).(*array.ListBuilder),
			b.Field(2).(*array.BooleanBuilder)
		text, number := b.Field(3).(*array.BinaryBuilder), b.Field(4).(*array.Int64Builder)
		pair := ids.ValueBuilder().(*array.StructBuilder)
		for i := range rows {
			dense.Append(true)
			for j := range 3 {
				dense.ValueBuilder().(*array.Float32Builder).Append(float32(i + j))
			}
			ids.Append(true)
			for j := range i % 4 {
				pair.Append(true)
				pair.FieldBuilder(0).(*array.Int64Builder).Append(int64(i * j))
				pair.FieldBuilder(1).(*array.Float32Builder).Append(float32(j))
			}
			seen.Append(i%3 == 0)
			text.Append(bytes.Repeat([]byte{byte(i)}, i%5))
			number.Append(int64(i))
			for k := 5; k <= 6; k++ {
				b.Field(k).(*array.ListBuilder).Append(true)
				b.Field(k).(*array.ListBuilder).ValueBuilder().(*array.Int64Builder).Append(int64(i * k))
			}
		}
		out = append(out, sharing(b.NewRecord()))
	}
	return out
})

// sharing lets the last column have the offsets of the one before, which are the same.
func sharing(rec arrow.Record) arrow.Record {
	last := int(rec.NumCols()) - 1
	d := rec.Column(last).Data()
	buffers := rec.Column(last - 1).Data().Buffers()
	columns := slices.Clone(rec.Columns())
	columns[last] = array.MakeFromData(array.NewData(d.DataType(), d.Len(), buffers, d.Children(), 0, 0))
	return array.NewRecord(rec.Schema(), columns, rec.NumRows())
}

// server sends records and counts what it has of them.
type server struct {
	flight.BaseFlightServer
	how        wire.Compression
	out, left  atomic.Int64
	cancelled  int64 // streams, of each of which gRPC may forget a message
	pool       wire.Pool
	address    string
	linkServer wire.LinkServer
	caller     string
	byGRPC     atomic.Int64 // batches
	fail       error        // that streams end with
	refuse     error        // that they begin with
	ended      chan error   // what Close says, if it is wanted
	// move, if it is set, moves a batch to memory that release gives back.
	move func(ctx context.Context, b *wire.Batch) (release func(), err error)
}

// counting counts the batches that go by gRPC.
type counting struct {
	flight.FlightService_DoGetServer
	sent *atomic.Int64
}

func (c counting) SendMsg(m any) error {
	c.sent.Add(1)
	return c.FlightService_DoGetServer.SendMsg(m)
}

func (s *server) DoGet(_ *flight.Ticket, out flight.FlightService_DoGetServer) error {
	if s.refuse != nil {
		return s.refuse
	}
	sender, err := s.linkServer.Sender(out.Context(), counting{out, &s.byGRPC}, s.caller, s.how, &s.pool)
	if err != nil {
		return err
	}
	err = s.send(sender, out)
	if err == nil {
		err = s.fail
	}
	err = sender.Close(err)
	if s.ended != nil {
		s.ended <- err
	}
	return err
}

func (s *server) send(sender *wire.Sender, out flight.FlightService_DoGetServer) error {
	all := records()
	if err := flight.NewRecordWriter(out, ipc.WithSchema(all[0].Schema())).Close(); err != nil {
		return err
	}
	for i, rec := range all {
		b := &wire.Batch{Meta: []byte{byte(i)}, More: true} // also the last one, which Close sends
		err := b.Flatten(rec)
		release := func() {}
		if err == nil && s.move != nil {
			release, err = s.move(out.Context(), b)
		}
		if err != nil {
			return err
		}
		s.out.Add(1)
		s.left.Add(1)
		b.OnRelease(func() { s.out.Add(-1); release() })
		if err := sender.Send(b, func() { s.left.Add(-1) }); err != nil {
			return err
		}
	}
	return nil
}

func serve(t testing.TB, s *server, also ...grpc.ServerOption) *grpc.ClientConn {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = l.Addr().String()
	return serveOn(t, s, l, also)
}

// serveOn serves on a listener, which is dialed with options.
func serveOn(
	t testing.TB, s *server, l net.Listener, also []grpc.ServerOption, options ...grpc.DialOption,
) *grpc.ClientConn {
	t.Helper()
	srv := grpc.NewServer(append(also, grpc.ForceServerCodecV2(wire.NewCodec()), grpc.WaitForHandlers(true))...)
	flight.RegisterFlightServiceServer(srv, s)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	conn, err := grpc.NewClient("passthrough:///"+l.Addr().String(),
		append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		srv.GracefulStop() // waits for what is on its way, which gRPC would forget if the connection broke
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
		if out, left := s.out.Load(), s.left.Load(); out != left || left > s.cancelled {
			t.Errorf("%d records were not released, %d messages not written, of %d streams that were cancelled",
				out, left, s.cancelled)
		}
	})
	return conn
}

var compressions = []wire.Compression{wire.None, wire.LZ4, wire.Zstd}

// TestStockClientReadsIt reads with arrow's own Flight client.
func TestStockClientReadsIt(t *testing.T) {
	for _, how := range compressions {
		conn := serve(t, &server{how: how})
		get, err := flight.NewClientFromConn(conn, nil).DoGet(t.Context(), &flight.Ticket{})
		if err != nil {
			t.Fatal(err)
		}
		rd, err := flight.NewRecordReader(get)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range records() {
			if !rd.Next() {
				t.Fatalf("compression %d: record %d: %v", how, i, rd.Err())
			}
			if got := rd.Record(); !array.RecordEqual(got, want) || rd.LatestAppMetadata()[0] != byte(i) {
				t.Errorf("compression %d: record %d is\n%v; want\n%v", how, i, got, want)
			}
		}
		if rd.Next() || rd.Err() != nil && !errors.Is(rd.Err(), io.EOF) {
			t.Errorf("more came, or %v", rd.Err())
		}
		rd.Release()
	}
}

func TestBatchesArriveAligned(t *testing.T) {
	for _, how := range compressions {
		conn := serve(t, &server{how: how})
		var pool wire.Pool
		s, err := wire.Get(t.Context(), conn, nil, nil, &pool)
		if err != nil {
			t.Fatal(err)
		}
		if want := records()[0].Schema(); !s.Schema().Equal(want) {
			t.Errorf("schema %v; want %v", s.Schema(), want)
		}
		for i, rec := range records() {
			got, err := s.Next()
			if err != nil {
				t.Fatal(err)
			}
			check(t, got, rec)
			if n := len(got.Buffers); how == wire.None && len(got.Buffers[n-3]) > 1<<10 &&
				&got.Buffers[n-3][0] != &got.Buffers[n-7][0] {
				t.Error("offsets that two lists share came twice")
			}
			if got.Meta[0] != byte(i) || got.Bytes < got.Sent/2 && how == wire.None || got.Sent == 0 {
				t.Errorf("record %d has app_metadata %v, %d bytes of memory, %d on the network",
					i, got.Meta, got.Bytes, got.Sent)
			}
			got.Release()
			got.Release() // changes nothing
		}
		if _, err := s.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("the stream ends with %v", err)
		}
	}
}

// TestClone copies all, and shared offsets once.
func TestClone(t *testing.T) {
	var pool wire.Pool
	for _, rec := range records() {
		batch := &wire.Batch{Meta: []byte{7}}
		if err := batch.Flatten(rec); err != nil {
			t.Fatal(err)
		}
		released := 0
		batch.OnRelease(func() { released++ })
		got, err := batch.Clone(&pool)
		if err != nil {
			t.Fatal(err)
		}
		check(t, got, rec)
		n := len(got.Buffers)
		if rec.NumRows() > 1 && (&got.Buffers[n-3][0] != &got.Buffers[n-7][0] ||
			&got.Buffers[n-3][0] == &batch.Buffers[n-3][0]) {
			t.Error("offsets that two lists share are there twice, or still the first ones")
		}
		got.Release()
		if got.Meta[0] != 7 || released != 0 {
			t.Errorf("app_metadata %v; the batch was released %d times", got.Meta, released)
		}
	}
	overlapping := &wire.Batch{Buffers: slices.Repeat([][]byte{make([]byte, 1<<20)}, 1<<16)}
	if _, err := overlapping.Clone(&pool); err == nil {
		t.Error("buffers that lie on each other are copied to 64 GiB")
	}
}

func check(t *testing.T, got *wire.Batch, rec arrow.Record) {
	t.Helper()
	var want wire.Batch
	if err := want.Flatten(rec); err != nil {
		t.Fatal(err)
	}
	if got.Rows != want.Rows || len(got.Nodes) != len(want.Nodes) || len(got.Buffers) != len(want.Buffers) {
		t.Fatalf("%d rows, %d arrays, %d buffers; want %d, %d, %d",
			got.Rows, len(got.Nodes), len(got.Buffers), want.Rows, len(want.Nodes), len(want.Buffers))
	}
	for i, n := range want.Nodes {
		if got.Nodes[i] != n {
			t.Errorf("array %d: %v; want %v", i, got.Nodes[i], n)
		}
	}
	for i, b := range want.Buffers {
		if !bytes.Equal(got.Buffers[i], b) {
			t.Errorf("buffer %d differs", i)
		}
		if len(b) > 0 && wire.Misaligned(got.Buffers[i]) {
			t.Errorf("buffer %d is not aligned", i)
		}
	}
}

// TestEarlyEnd ends streams while batches are on their way: all are released, but for one a stream that gRPC may
// forget.
func TestEarlyEnd(t *testing.T) {
	const streams = 20
	conn := serve(t, &server{cancelled: streams})
	for range streams {
		ctx, cancel := context.WithCancel(t.Context())
		s, err := wire.Get(ctx, conn, nil, nil, new(wire.Pool))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Next(); err != nil {
			t.Error(err)
		}
		cancel()
	}
}

// TestRefusedBySize: a message that gRPC refuses is released.
func TestRefusedBySize(t *testing.T) {
	s := &server{}
	out := &refusing{ctx: t.Context()}
	if err := s.DoGet(nil, out); !errors.Is(err, errRefused) {
		t.Errorf("DoGet: %v", err)
	}
	if s.out.Load() != 0 || s.left.Load() != 0 {
		t.Errorf("%d records were not released, %d messages not written", s.out.Load(), s.left.Load())
	}
}

var errRefused = errors.New("refused")

type refusing struct {
	flight.FlightService_DoGetServer
	ctx context.Context
}

func (*refusing) Send(*flight.FlightData) error { return nil }
func (r *refusing) Context() context.Context    { return r.ctx }

func (*refusing) SendMsg(any) error { return errRefused }

// FuzzMessage receives any bytes: they are refused, or are a batch whose buffers can be read.
func FuzzMessage(f *testing.F) {
	for _, how := range [][]ipc.Option{nil, {ipc.WithLZ4()}, {ipc.WithZstd()}} {
		for _, rec := range records()[:3] {
			var out sender
			w := flight.NewRecordWriter(&out, append(how, ipc.WithSchema(rec.Schema()))...)
			if err := w.WriteWithAppMetadata(rec, []byte("meta")); err != nil {
				f.Fatal(err)
			}
			for _, d := range out {
				b, err := proto.Marshal(d)
				if err != nil {
					f.Fatal(err)
				}
				f.Add(b)
				f.Add(b[:len(b)/2])
			}
		}
	}
	f.Add([]byte{0xc2, 0x3e, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	var pool wire.Pool
	f.Fuzz(func(t *testing.T, data []byte) {
		m := wire.NewMessage(&pool)
		if err := wire.NewCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, m); err != nil {
			return
		}
		b, err := m.Batch()
		if err != nil {
			return
		}
		defer b.Release()
		for _, buf := range b.Buffers {
			_ = bytes.Count(buf, []byte{1})
		}
	})
}

// zeros compress to next to nothing.
func zeros(t *testing.T, n int) arrow.Record {
	t.Helper()
	b := array.NewInt64Builder(memory.DefaultAllocator)
	defer b.Release()
	b.AppendValues(make([]int64, n), nil)
	schema := arrow.NewSchema([]arrow.Field{{Name: "zeros", Type: arrow.PrimitiveTypes.Int64}}, nil)
	column := b.NewArray()
	defer column.Release()
	return array.NewRecord(schema, []arrow.Array{column}, int64(n))
}

// TestFewBytesForMany: no memory is set aside for very many bytes that few claim to stand for.
func TestFewBytesForMany(t *testing.T) {
	rec := zeros(t, 4<<20)
	defer rec.Release()
	var out sender
	if err := flight.NewRecordWriter(&out, ipc.WithSchema(rec.Schema()), ipc.WithZstd()).Write(rec); err != nil {
		t.Fatal(err)
	}
	data, err := proto.Marshal(out[len(out)-1])
	if err != nil {
		t.Fatal(err)
	}
	m := wire.NewMessage(new(wire.Pool))
	if err := wire.NewCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, m); err != nil {
		t.Fatal(err)
	}
	if b, err := m.Batch(); err == nil {
		t.Errorf("a message of %d bytes became a batch of %d", len(data), b.Bytes)
	}
}

// TestFrameThatClaimsMore: what a compressed buffer says within itself that it holds is not believed beyond what the
// batch says.
func TestFrameThatClaimsMore(t *testing.T) {
	const claimed, inside = 64, 200 << 20
	buffer := binary.LittleEndian.AppendUint64(nil, claimed)
	// a zstd frame that tells its contents' size, in 8 bytes, and has a window of 1 KiB
	buffer = append(buffer, 0x28, 0xb5, 0x2f, 0xfd, 0xc0, 0)
	buffer = binary.LittleEndian.AppendUint64(buffer, inside)
	buffer = append(buffer, 1, 0, 0) // the last block, which is empty
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := wire.Decompress(buffer, wire.Zstd)
	runtime.ReadMemStats(&after)
	if bytes := after.TotalAlloc - before.TotalAlloc; err == nil || bytes > inside/4 {
		t.Errorf("%d bytes were allocated for %d: %v", bytes, claimed, err)
	}
}

// TestManyZeros: what compresses too well to be believed arrives all the same.
func TestManyZeros(t *testing.T) {
	for _, how := range compressions {
		rec := zeros(t, 4<<20)
		out := &sent{}
		b := &wire.Batch{}
		b.OnRelease(rec.Release)
		sender, err := new(wire.LinkServer).Sender(t.Context(), out, "", how, new(wire.Pool))
		if err := errors.Join(err, b.Flatten(rec), sender.Send(b, func() {})); err != nil {
			t.Fatal(err)
		}
		m := wire.NewMessage(new(wire.Pool))
		if err := wire.NewCodec().Unmarshal(out.data, m); err != nil {
			t.Fatal(err)
		}
		got, err := m.Batch()
		if err != nil {
			t.Fatalf("compression %d: %v", how, err)
		}
		if len(got.Buffers[1]) < 32<<20 || bytes.Count(got.Buffers[1], []byte{0}) != len(got.Buffers[1]) {
			t.Errorf("compression %d: %d bytes of zeros arrived", how, len(got.Buffers[1]))
		}
		got.Release()
	}
}

// sent keeps what is sent.
type sent struct {
	grpc.ServerStream
	data mem.BufferSlice
}

func (s *sent) SendMsg(m any) (err error) {
	data, err := wire.NewCodec().Marshal(m)
	s.data = mem.BufferSlice{mem.SliceBuffer(data.Materialize())}
	data.Free()
	return err
}

type sender []*flight.FlightData

func (s *sender) Send(d *flight.FlightData) error {
	*s = append(*s, proto.Clone(d).(*flight.FlightData))
	return nil
}

// TestPoolSizes: memory has the size that was asked for and little more, and is aligned.
func TestPoolSizes(t *testing.T) {
	var pool wire.Pool
	for n := 0; n < 300_000; n += 1 + n/50 {
		m := pool.Get(n)
		if len(m.Bytes) != n || cap(m.Bytes) > max(4096, n+n/4+64) || n > 0 && wire.Misaligned(m.Bytes) {
			t.Fatalf("%d bytes: have %d of %d", n, len(m.Bytes), cap(m.Bytes))
		}
		m.Free()
	}
}
