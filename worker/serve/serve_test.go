package serve

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/flight"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/ticket"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/storage/object"
	"github.com/penstock-ml/penstock/internal/wire"
	"github.com/penstock-ml/penstock/worker/images"
	"github.com/penstock-ml/penstock/worker/pipeline"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
	"github.com/penstock-ml/penstock/worker/rescue"
	"github.com/penstock-ml/penstock/worker/transform"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a worker's port on loopback, and what is needed to call it.
type rig struct {
	store    *pipelinetest.Store
	pipeline *pipeline.Pipeline
	server   *Server
	client   flight.Client
	signer   *ticket.Signer
	ticket   *pb.Ticket
	program  *pb.Program
	keeper   keeper
	list     string // by which the last index was made, as its trailer says
}

func newRig(t *testing.T, store *pipelinetest.Store, slots int, change func(*pipeline.Config)) *rig {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return newRigOn(t, l, store, slots, change)
}

func newRigOn(
	t *testing.T, l net.Listener, store *pipelinetest.Store, slots int, change func(*pipeline.Config),
	dial ...grpc.DialOption,
) *rig {
	t.Helper()
	cfg := pipeline.Config{
		Storage: store, Ops: transform.Builtin(), Memory: 16 << 20, BatchBytes: 4 << 10, MaxBatch: 1 << 20,
		Patience: time.Minute,
	}
	if change != nil {
		change(&cfg)
	}
	r := &rig{store: store, pipeline: pipeline.New(cfg), program: pipelinetest.Program()}
	r.signer = ticket.NewSigner(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize)))
	r.server = New(r.pipeline, slots, &r.keeper, slog.New(slog.DiscardHandler))
	r.server.SetKeys(r.signer.Keys())
	srv := grpc.NewServer(grpc.WriteBufferSize(0), grpc.ForceServerCodecV2(wire.NewCodec()))
	flight.RegisterFlightServiceServer(srv, r.server)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()
	t.Cleanup(func() {
		srv.Stop()
		if err := errors.Join(r.server.Wait(context.Background()), <-served); err != nil {
			t.Error(err)
		}
	})
	dial = append(dial, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithInitialWindowSize(64<<10))
	var err error
	r.client, err = flight.NewClientWithMiddleware("passthrough:///"+l.Addr().String(), nil, nil, dial...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.client.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// shard puts a file of these row groups and makes the rig's ticket name it.
func (r *rig) shard(t *testing.T, groups ...int) *rig {
	t.Helper()
	data := pipelinetest.Parquet(t, 1, groups...)
	r.ticket = pipelinetest.Ticket(t, r.store, r.store.Put("mem://f.parquet", data), 1000)
	r.ticket.ExpiresUnix = time.Now().Add(time.Hour).Unix()
	return r
}

func (r *rig) request(t *testing.T, at pipeline.Cursor) *pb.StreamRequest {
	t.Helper()
	program, err := proto.Marshal(r.program)
	if err != nil {
		t.Fatal(err)
	}
	return r.requestOf(t, program, at)
}

func (r *rig) requestOf(t *testing.T, program []byte, at pipeline.Cursor) *pb.StreamRequest {
	t.Helper()
	r.ticket.ProgramDigest = []byte(ticket.Digest(program))
	signed, err := r.signer.Sign(r.ticket)
	if err != nil {
		t.Fatal(err)
	}
	req := &pb.StreamRequest{Ticket: &pb.SignedTicket{}, Program: program, Window: at.Window, K: at.K}
	if err := proto.Unmarshal(signed, req.Ticket); err != nil {
		t.Fatal(err)
	}
	return req
}

func (r *rig) get(ctx context.Context, t *testing.T, req *pb.StreamRequest) (*flight.Reader, error) {
	t.Helper()
	b, err := proto.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := r.client.DoGet(ctx, &flight.Ticket{Ticket: b})
	if err != nil {
		return nil, err
	}
	return flight.NewRecordReader(stream)
}

// delivered is what a client has of a stream.
type delivered struct {
	rows  []int64 // of the file
	bytes int64
	at    pipeline.Cursor // behind the last row
}

// read takes records until `enough` says so, or the stream's end.
func (d *delivered) read(rd *flight.Reader, enough func() bool) error {
	for !enough() && rd.Next() {
		var m pb.BatchMeta
		if err := proto.Unmarshal(rd.LatestAppMetadata(), &m); err != nil {
			return err
		}
		rec := rd.Record()
		d.rows = append(d.rows, rec.Column(int(rec.NumCols())-1).(*array.Int64).Int64Values()...)
		for _, c := range rec.Columns() {
			d.bytes += bytesOf(c.Data())
		}
		d.at = pipeline.Cursor{Window: m.Window, K: m.K + uint64(m.Rows)}
	}
	if err := rd.Err(); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

func bytesOf(d arrow.ArrayData) (n int64) {
	for _, b := range d.Buffers() {
		if b != nil {
			n += int64(b.Len())
		}
	}
	for _, c := range d.Children() {
		n += bytesOf(c)
	}
	return n
}

func never() bool { return false }

func (d *delivered) check(t *testing.T, rows int) {
	t.Helper()
	if len(d.rows) != rows {
		t.Fatalf("%d rows, want %d", len(d.rows), rows)
	}
	for i, r := range d.rows {
		if r != int64(i) {
			t.Fatalf("row %d is row %d of the file", i, r)
		}
	}
}

func TestRefusals(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*testing.T, *rig, *pb.StreamRequest)
		code   codes.Code
		says   string
	}{
		{
			"no signature", func(_ *testing.T, _ *rig, q *pb.StreamRequest) { q.Ticket.Signature[3] ^= 1 },
			codes.PermissionDenied, "signature",
		},
		{
			"unknown key", func(_ *testing.T, r *rig, _ *pb.StreamRequest) { r.server.SetKeys(nil) },
			codes.PermissionDenied, "key",
		},
		{
			"wrong program", func(_ *testing.T, _ *rig, q *pb.StreamRequest) { q.Program = []byte{1} },
			codes.PermissionDenied, "program",
		},
		{"garbage for a program", func(t *testing.T, r *rig, q *pb.StreamRequest) {
			proto.Reset(q)
			proto.Merge(q, r.requestOf(t, []byte("garbage"), pipeline.Cursor{}))
		}, codes.PermissionDenied, "program"},
		{"expired", func(t *testing.T, r *rig, q *pb.StreamRequest) {
			r.ticket.ExpiresUnix = time.Now().Unix() - 1
			proto.Reset(q)
			proto.Merge(q, r.request(t, pipeline.Cursor{}))
		}, codes.PermissionDenied, "expired"},
		{"unknown op", func(t *testing.T, r *rig, q *pb.StreamRequest) {
			r.program.Steps = []*pb.Step{{Op: "newer", Version: 1, Outs: 1, At: "transforms[0]"}}
			proto.Reset(q)
			proto.Merge(q, r.request(t, pipeline.Cursor{}))
		}, codes.Unimplemented, "newer"},
		{"changed file", func(t *testing.T, r *rig, _ *pb.StreamRequest) {
			r.store.Put("mem://f.parquet", pipelinetest.Parquet(t, 2, 10))
		}, codes.FailedPrecondition, "mem://f.parquet"},
		{"label of another kind", func(t *testing.T, r *rig, q *pb.StreamRequest) {
			r.program.Outputs[3].Slots[0] = pipelinetest.Text
			proto.Reset(q)
			proto.Merge(q, r.request(t, pipeline.Cursor{}))
		}, codes.DataLoss, "mem://f.parquet row group 0: tensor label: is binary; want int32"},
		{"draining", func(_ *testing.T, r *rig, _ *pb.StreamRequest) { r.server.Drain() }, codes.Unavailable, "drains"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, &pipelinetest.Store{}, 1, nil).shard(t, 20)
			req := r.request(t, pipeline.Cursor{})
			tc.change(t, r, req)
			rd, err := r.get(t.Context(), t, req)
			if err == nil {
				err = new(delivered).read(rd, never)
				rd.Release()
			}
			if status.Code(err) != tc.code || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v, want %v with %q", err, tc.code, tc.says)
			}
			if r.server.Streams() != 0 || r.pipeline.MemoryInUse() != 0 {
				t.Errorf("%d streams, %d bytes are left", r.server.Streams(), r.pipeline.MemoryInUse())
			}
		})
	}
}

// Streams of one program share what was parsed of it, as long as one of them is there.
func TestPrograms(t *testing.T) {
	r := newRig(t, &pipelinetest.Store{}, 1, nil).shard(t, 20)
	parse := func() *pb.Program {
		t.Helper()
		q := r.request(t, pipeline.Cursor{})
		p, err := r.server.programOf(q.GetProgram(), r.ticket)
		if err != nil || !proto.Equal(p, r.program) {
			t.Fatalf("%v; it is not the program of the request: %v", err, p)
		}
		return p
	}
	first := parse()
	if parse() != first {
		t.Error("a program is parsed again")
	}
	r.program.Seed++
	if other := parse(); other == first || parse() != other {
		t.Error("programs are mixed up")
	}
	r.program.Seed--
	if parse() != first {
		t.Error("a program is parsed again that somebody has")
	}
}

func TestGarbageForATicket(t *testing.T) {
	r := newRig(t, &pipelinetest.Store{}, 1, nil)
	stream, err := r.client.DoGet(t.Context(), &flight.Ticket{Ticket: []byte("garbage")})
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("got %v, want InvalidArgument", err)
	}
}

func TestSchemaWithoutRows(t *testing.T) {
	r := newRig(t, &pipelinetest.Store{}, 1, nil).shard(t, 20)
	for _, c := range []struct {
		filter string
		at     pipeline.Cursor
	}{{"label > 5", pipeline.Cursor{}}, {"", pipeline.Cursor{Window: 9}}, {"", pipeline.Cursor{K: 20}}} {
		r.program.Filter = c.filter
		rd, err := r.get(t.Context(), t, r.request(t, c.at))
		if err != nil {
			t.Fatal(err)
		}
		var d delivered
		if err := d.read(rd, never); err != nil {
			t.Fatal(err)
		}
		d.check(t, 0)
		if f := rd.Schema().Field(0); f.Type.ID() != arrow.FIXED_SIZE_LIST ||
			f.Metadata.ToMap()["penstock.names"] != `["price","score"]` {
			t.Errorf("schema %v", rd.Schema())
		}
		rd.Release()
	}
}

// TestSchemaComesBeforeTheData: a trainer has an open stream, which it can cancel, while the worker waits for storage.
func TestSchemaComesBeforeTheData(t *testing.T) {
	store := &pipelinetest.Store{}
	r := newRig(t, store, 1, nil).shard(t, 20)
	store.Hook = func(ctx context.Context, f *pb.File, offset, length int64) error {
		if offset+length == f.GetSize() { // the footer
			return nil
		}
		<-ctx.Done()
		return context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	rd, err := r.get(ctx, t, r.request(t, pipeline.Cursor{}))
	if err != nil {
		t.Fatal(err)
	}
	defer rd.Release()
	cancel()
	if rd.Next() || status.Code(rd.Err()) != codes.Canceled {
		t.Errorf("got %v, want Canceled", rd.Err())
	}
}

// within has a client reach a listener of this process.
func within(l *bufconn.Listener) grpc.DialOption {
	return grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) })
}

func TestCorruptChunk(t *testing.T) {
	r := newRig(t, &pipelinetest.Store{}, 1, nil).shard(t, 20, 30)
	foot := pipelinetest.Footer(t, r.store, r.ticket.File)
	data := pipelinetest.Parquet(t, 1, 20, 30)
	c := foot.RowGroups[1].Chunks[pipelinetest.Score]
	clear(data[c.Offset : c.Offset+c.Length])
	r.ticket.File = r.store.Put("mem://f.parquet", data)
	rd, err := r.get(t.Context(), t, r.request(t, pipeline.Cursor{}))
	if err != nil {
		t.Fatal(err)
	}
	defer rd.Release()
	var d delivered
	err = d.read(rd, never)
	if status.Code(err) != codes.DataLoss ||
		!strings.Contains(err.Error(), "mem://f.parquet row group 1 column score") {
		t.Errorf("got %v, want DataLoss naming file, row group and column", err)
	}
	d.check(t, 20) // what comes before the damage
}

// TestWhoCanHelp: statuses tell what is wrong with the data from what is wrong with this worker.
func TestWhoCanHelp(t *testing.T) {
	disk, err := storage.New(storage.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	data, path := pipelinetest.Parquet(t, 1, 20, 5000), filepath.Join(t.TempDir(), "f.parquet")
	rewrite := func(data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name   string
		memory int64
		spoil  func(*rig)
		code   codes.Code
		says   string
	}{
		{"profile", 16 << 20, func(r *rig) { r.program.Storage = "elsewhere" }, codes.Aborted, "no storage profile"},
		{"memory", 100_000, func(*rig) {}, codes.OutOfRange, path + ": memory to begin with: "},
		{
			"storage", 16 << 20, func(r *rig) { r.ticket.File = &pb.File{Uri: "mem://away", Size: 1 << 20} },
			codes.Unavailable, "no route to it",
		},
		{
			"overwritten", 16 << 20, func(*rig) { rewrite([]byte("other rows")) }, codes.FailedPrecondition,
			"has changed since it was listed",
		},
		{"deleted", 16 << 20, func(*rig) { _ = os.Remove(path) }, codes.FailedPrecondition, "no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rewrite(data)
			listed, err := disk.List(t.Context(), "", []string{path})
			if err != nil {
				t.Fatal(err)
			}
			r := newRig(t, &pipelinetest.Store{}, 1, func(cfg *pipeline.Config) {
				cfg.Storage, cfg.Memory = unroutable{disk}, c.memory
			})
			r.ticket = pipelinetest.Ticket(t, r.store, r.store.Put("mem://f.parquet", data), 5000)
			r.ticket.File, r.ticket.ExpiresUnix = listed[0], time.Now().Add(time.Hour).Unix()
			c.spoil(r)
			rd, err := r.get(t.Context(), t, r.request(t, pipeline.Cursor{}))
			if err == nil {
				err = new(delivered).read(rd, never)
				rd.Release()
			}
			if status.Code(err) != c.code || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %v with %q", err, c.code, c.says)
			}
		})
	}
}

// unroutable is a storage to a part of which there is no way.
type unroutable struct{ storage.Storage }

func (u unroutable) ReadAt(ctx context.Context, profile string, f *pb.File, buf []byte, offset int64) error {
	if strings.HasPrefix(f.GetUri(), "mem://") {
		return object.Transient(errors.New("no route to it"))
	}
	return u.Storage.ReadAt(ctx, profile, f, buf, offset)
}

func TestBusy(t *testing.T) {
	entered := make(chan struct{})
	store := &pipelinetest.Store{}
	r := newRig(t, store, 1, nil).shard(t, 20)
	store.Hook = func(ctx context.Context, _ *pb.File, _, _ int64) error {
		close(entered)
		<-ctx.Done()
		return context.Cause(ctx)
	}
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	req := r.request(t, pipeline.Cursor{})
	go func() {
		_, err := r.get(ctx, t, req)
		first <- err
	}()
	<-entered
	if _, err := r.get(t.Context(), t, req); status.Code(err) != codes.ResourceExhausted ||
		!strings.Contains(err.Error(), "busy") {
		t.Errorf("got %v, want ResourceExhausted", err)
	}
	cancel()
	if err := <-first; status.Code(err) != codes.Canceled {
		t.Errorf("got %v, want Canceled", err)
	}
}

func TestBusyForMemory(t *testing.T) {
	r := newRig(t, &pipelinetest.Store{}, 2, memoryForOne(t, 5000)).shard(t, 5000)
	rd, err := r.get(t.Context(), t, r.request(t, pipeline.Cursor{}))
	if err != nil {
		t.Fatal(err)
	}
	defer rd.Release()
	if _, err := r.get(t.Context(), t, r.request(t, pipeline.Cursor{})); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("got %v, want ResourceExhausted", err)
	}
	var d delivered
	if err := d.read(rd, never); err != nil {
		t.Fatal(err)
	}
	d.check(t, 5000)
}

// memoryForOne gives a pipeline memory for one stream of a file of these row groups, and little patience.
func memoryForOne(t *testing.T, groups ...int) func(*pipeline.Config) {
	t.Helper()
	memory := int64(16 << 20)
	change := func(c *pipeline.Config) { c.Memory, c.Streams, c.Patience = memory, 1, time.Nanosecond }
	for range 5 { // what a stream takes depends on how much there is
		r := newRig(t, &pipelinetest.Store{}, 1, change).shard(t, groups...)
		s, err := r.pipeline.Open(t.Context(), r.ticket, r.program, pipeline.Cursor{})
		if err != nil {
			t.Fatal(err)
		}
		memory = r.pipeline.MemoryInUse() * 3 / 2
		s.Close()
	}
	return change
}

// TestBlocked: while a trainer takes nothing, the whole time that its stream is open is time that the trainer holds it
// up.
func TestBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := bufconn.Listen(1 << 10)
		dial := within(l)
		r := newRigOn(t, l, &pipelinetest.Store{}, 1, nil, dial).shard(t, 4000, 4000, 4000)
		rd, err := r.get(t.Context(), t, r.request(t, pipeline.Cursor{}))
		if err != nil {
			t.Fatal(err)
		}
		defer rd.Release()
		synctest.Wait() // until the worker stands still
		before := r.pipeline.Counters()
		time.Sleep(time.Minute)
		after := r.pipeline.Counters()
		if open, blocked := after.GetOpenNs()-before.GetOpenNs(), after.GetBlockedNs()-before.GetBlockedNs(); open != int64(time.Minute) || blocked != open {
			t.Errorf("open for %v, blocked for %v", time.Duration(open), time.Duration(blocked))
		}
		r.server.Drain()
	})
}

// What the worker has sent and read is never far ahead of a reader that takes one record at a time.
func TestBackpressure(t *testing.T) {
	store := &pipelinetest.Store{}
	groups := make([]int, 12)
	for i := range groups {
		groups[i] = 1500
	}
	r := newRig(t, store, 1, func(c *pipeline.Config) { c.Memory = 1 << 20 }).shard(t, groups...)
	rd, err := r.get(t.Context(), t, r.request(t, pipeline.Cursor{}))
	if err != nil {
		t.Fatal(err)
	}
	defer rd.Release()
	var d delivered
	var ahead, memory int64
	for before := -1; before < len(d.rows); {
		before = len(d.rows)
		if err := d.read(rd, func() bool { return len(d.rows) > before }); err != nil {
			t.Fatal(err)
		}
		ahead = max(ahead, r.pipeline.Counters().GetBytesSent()-d.bytes)
		memory = max(memory, r.pipeline.MemoryInUse())
	}
	d.check(t, 18000)
	// The client's window, gRPC's quota of a stream's writes, and a batch.
	if most := int64(64<<10 + 64<<10 + 16<<10); ahead > most || d.bytes < 4*most {
		t.Errorf("sent up to %d bytes ahead of the reader, at most %d are allowed (%d in all)", ahead, most, d.bytes)
	}
	if memory == 0 || memory > 1<<20 {
		t.Errorf("held up to %d bytes", memory)
	}
}

// TestWhosePanic: rows may be left out for what their file does to the decoder, but not for a bug of an op or of the
// worker.
func TestWhosePanic(t *testing.T) {
	for who, code := range map[rescue.Who]codes.Code{
		rescue.Decoder: codes.DataLoss, rescue.Pictures: codes.DataLoss, rescue.Op: codes.Aborted,
		rescue.Worker: codes.Aborted,
	} {
		err := fmt.Errorf("a.parquet: %w", &rescue.PanicError{Who: who, Value: "oh", Stack: []byte("a secret place")})
		got := status.Convert(grpcError(err))
		if got.Code() != code || !strings.Contains(got.Message(), string(who)+" panicked") ||
			strings.Contains(got.Message(), "secret") {
			t.Errorf("%v: got %v, want %v without the stack", err, got, code)
		}
	}
}

// TestWhoseFile: a file that is gone ends the session where it is one of the dataset, and not where this worker alone
// lacks it.
func TestWhoseFile(t *testing.T) {
	gone := &fs.PathError{Op: "open", Path: "x", Err: fs.ErrNotExist}
	for _, c := range []struct {
		err  error
		code codes.Code
	}{{gone, codes.FailedPrecondition}, {storage.ErrChanged, codes.FailedPrecondition}, {
		storage.Ours(gone),
		codes.Aborted,
	}} {
		if got := status.Code(grpcError(fmt.Errorf("read f: %w", c.err))); got != c.code {
			t.Errorf("%v: got %v, want %v", c.err, got, c.code)
		}
	}
}

// TestTooLittleMemory: another worker may have what a window or a picture takes.
func TestTooLittleMemory(t *testing.T) {
	for _, err := range []error{pipeline.ErrLimit, images.ErrMemory} {
		if got := status.Code(grpcError(fmt.Errorf("read f: %w", err))); got != codes.OutOfRange {
			t.Errorf("%v: got %v, want %v", err, got, codes.OutOfRange)
		}
	}
}

func TestStatusTextIsBounded(t *testing.T) {
	err := grpcError(fmt.Errorf("%s\xff", strings.Repeat("x", 1<<20)))
	if n := len(err.Error()); n > 3<<10 {
		t.Errorf("%d bytes", n)
	}
	if msg := status.Convert(grpcError(errors.New("a\xffb"))).Message(); msg != "a\uFFFDb" {
		t.Errorf("%q", msg)
	}
}

// TestCompression: arrow's client reads the same rows in fewer bytes.
func TestCompression(t *testing.T) {
	r := newRig(t, &pipelinetest.Store{}, 1, func(c *pipeline.Config) { c.BatchBytes = 64 << 10 }).shard(t, 5000, 700)
	size := make(map[pb.Compression]int)
	for _, how := range []pb.Compression{
		pb.Compression_COMPRESSION_UNSPECIFIED, pb.Compression_LZ4,
		pb.Compression_ZSTD, 77,
	} {
		req := r.request(t, pipeline.Cursor{})
		req.Compression = how
		rd, err := r.get(t.Context(), t, req)
		if err != nil {
			t.Fatal(err)
		}
		var d delivered
		if err := d.read(rd, never); err != nil {
			t.Fatal(err)
		}
		rd.Release()
		d.check(t, 5700)
		b, err := proto.Marshal(req)
		if err != nil {
			t.Fatal(err)
		}
		stream, err := r.client.DoGet(t.Context(), &flight.Ticket{Ticket: b})
		if err != nil {
			t.Fatal(err)
		}
		for {
			m, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			size[how] += len(m.GetDataBody())
		}
	}
	none := size[pb.Compression_COMPRESSION_UNSPECIFIED]
	if lz4, zstd := size[pb.Compression_LZ4], size[pb.Compression_ZSTD]; lz4 >= none || zstd >= lz4 ||
		size[77] != none {
		t.Errorf("bytes by compression: %v", size)
	}
}

// awaitFree waits until the worker holds no memory: what a request ran may end shortly after its answer.
func (r *rig) awaitFree(t *testing.T) {
	t.Helper()
	for r.pipeline.MemoryInUse() != 0 {
		select {
		case <-t.Context().Done():
			t.Fatalf("%d bytes are left", r.pipeline.MemoryInUse())
		case <-time.After(time.Millisecond):
		}
	}
}
