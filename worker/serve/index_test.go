package serve

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow/flight"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/index"
	"github.com/penstock-ml/penstock/internal/formats/records/recordstest"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/worker/pipeline"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
)

func (r *rig) index(ctx context.Context, t *testing.T) (*index.Index, error) {
	t.Helper()
	body, err := proto.Marshal(r.request(t, pipeline.Cursor{}))
	if err != nil {
		t.Fatal(err)
	}
	stream, err := r.client.DoAction(ctx, &flight.Action{Type: "index", Body: body})
	if err != nil {
		return nil, err
	}
	var data []byte
	for {
		result, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			r.list = strings.Join(stream.Trailer().Get(rpc.ListTrailer), "")
			return index.Parse(data)
		}
		if err != nil {
			return nil, err
		}
		data = append(data, result.GetBody()...)
	}
}

// lines are so many lines of JSON.
func lines(n int) (out []byte) {
	for i := range n {
		out = fmt.Appendf(out, "{\"label\": %d, \"text\": %q}\n", i, bytes.Repeat([]byte{'x'}, 90))
	}
	return out
}

// TestIndex has a file of lines indexed. It is admitted as a stream is, and only with a ticket for it.
func TestIndex(t *testing.T) {
	store := &pipelinetest.Store{}
	r := newRig(t, store, 1, func(cfg *pipeline.Config) { cfg.Memory = 64 << 20 })
	const rows = 100_000
	data := lines(rows)
	r.ticket = &pb.Ticket{File: store.Put("mem://f.jsonl", data), ExpiresUnix: time.Now().Add(time.Hour).Unix()}
	r.program = &pb.Program{}
	x, err := r.index(t.Context(), t)
	if err != nil {
		t.Fatal(err)
	}
	got := int64(0)
	for _, p := range x.Places() {
		got += p.Rows
	}
	if x.Extents() != len(data)/(4<<20)+1 || got != rows || x.Size != int64(len(data)) ||
		x.ETag != r.ticket.GetFile().GetEtag() {
		t.Errorf("the index has %d extents of %d rows, of %v", x.Extents(), got, x.Of)
	}
	if r.server.Streams() != 0 || r.pipeline.MemoryInUse() != 0 {
		t.Errorf("%d streams, %d bytes are left", r.server.Streams(), r.pipeline.MemoryInUse())
	}
	refused := func(want codes.Code) {
		t.Helper()
		if _, err := r.index(t.Context(), t); status.Code(err) != want {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	r.ticket.Extents = []*pb.Extent{{Rows: 1, WindowRows: 1}}
	refused(codes.PermissionDenied)
	r.ticket.Extents, r.ticket.File = nil, store.Put("mem://f.parquet", pipelinetest.Parquet(t, 1, 20))
	refused(codes.Unimplemented)
	r.ticket.File = store.Put("mem://f.jsonl", data)
	r.ticket.File.Etag = "of earlier"
	refused(codes.FailedPrecondition)
	r.ticket.File = store.Put("mem://f.jsonl", data)
	reading := make(chan struct{})
	begin := sync.OnceFunc(func() { close(reading) })
	store.Hook = func(ctx context.Context, _ *pb.File, _, _ int64) error {
		begin()
		<-ctx.Done()
		return context.Cause(ctx)
	}
	first := make(chan error, 1)
	go func() {
		_, err := r.index(t.Context(), t)
		first <- err
	}()
	<-reading
	refused(codes.ResourceExhausted)
	r.server.Drain()
	if err := <-first; status.Code(err) != codes.Unavailable {
		t.Errorf("got %v, want Unavailable", err)
	}
	r.awaitFree(t)
}

// TestIndexByAList: a worker says by which list of records it made an index, if it did not read the file.
func TestIndexByAList(t *testing.T) {
	store := &pipelinetest.Store{}
	r := newRig(t, store, 1, func(cfg *pipeline.Config) { cfg.Memory = 64 << 20 })
	var data bytes.Buffer
	out := tar.NewWriter(&data)
	for i := range 100 {
		err := out.WriteHeader(&tar.Header{Name: fmt.Sprintf("%03d.txt", i), Size: 100 << 10, Format: tar.FormatUSTAR})
		if _, write := out.Write(make([]byte, 100<<10)); errors.Join(err, write) != nil {
			t.Fatal(err, write)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	r.ticket = &pb.Ticket{File: store.Put("mem://f.tar", data.Bytes()), ExpiresUnix: time.Now().Add(time.Hour).Unix()}
	r.program = &pb.Program{}
	scanned, err := r.index(t.Context(), t)
	if err != nil || r.list != "" {
		t.Fatalf("by %q: %v", r.list, err)
	}
	list := store.Put("mem://f.idx", recordstest.TarList(data.Bytes()))
	listed, err := r.index(t.Context(), t)
	if err != nil || r.list != list.GetUri() || !bytes.Equal(listed.Bytes(), scanned.Bytes()) {
		t.Errorf("by %q, want %q: %v", r.list, list.GetUri(), err)
	}
}
