package serve

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow/go/v15/arrow/flight"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/pipeline"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
)

func (r *rig) count(ctx context.Context, t *testing.T, action string, req *pb.StreamRequest) (*pb.CountReply, error) {
	t.Helper()
	body, err := proto.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := r.client.DoAction(ctx, &flight.Action{Type: action, Body: body})
	if err != nil {
		return nil, err
	}
	result, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) { // with it, the count has left its place
		t.Errorf("behind the result came %v", err)
	}
	reply := &pb.CountReply{}
	return reply, proto.Unmarshal(result.GetBody(), reply)
}

func TestCount(t *testing.T) {
	r := newRig(t, &pipelinetest.Store{}, 1, nil).shard(t, 2500, 700)
	r.program.Filter = "label == 1"
	req := r.request(t, pipeline.Cursor{Window: 2, K: 5}) // which does not matter
	got, err := r.count(t.Context(), t, "count", req)
	if err != nil {
		t.Fatal(err)
	}
	rd, err := r.get(t.Context(), t, r.request(t, pipeline.Cursor{}))
	if err != nil {
		t.Fatal(err)
	}
	defer rd.Release()
	var d delivered
	if err := d.read(rd, never); err != nil {
		t.Fatal(err)
	}
	want := [][]uint32{make([]uint32, 3), make([]uint32, 1)}
	for _, row := range d.rows {
		if row < 2500 {
			want[0][row/1000]++
		} else {
			want[1][0]++
		}
	}
	if g := got.GetExtents(); len(g) != 2 || !slices.Equal(g[0].GetOutputs(), want[0]) ||
		!slices.Equal(g[1].GetOutputs(), want[1]) {
		t.Errorf("counted %v, streamed %v", got, want)
	}
	if r.server.Streams() != 0 || r.pipeline.MemoryInUse() != 0 {
		t.Errorf("%d streams, %d bytes are left", r.server.Streams(), r.pipeline.MemoryInUse())
	}
}

func TestCountIsAdmittedAsAStreamIs(t *testing.T) {
	entered := make(chan struct{})
	store := &pipelinetest.Store{}
	r := newRig(t, store, 1, nil).shard(t, 20)
	r.program.Filter = "label == 1"
	req := r.request(t, pipeline.Cursor{})
	refused := func(action string, q *pb.StreamRequest, code codes.Code, says string) {
		t.Helper()
		if _, err := r.count(t.Context(), t, action, q); status.Code(err) != code ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %v with %q", err, code, says)
		}
	}
	refused("sum", req, codes.Unimplemented, `no action "sum"`)
	forged := proto.CloneOf(req)
	forged.Ticket.Signature[3] ^= 1
	refused("count", forged, codes.PermissionDenied, "signature")
	r.ticket.ExpiresUnix = time.Now().Unix() - 1
	refused("count", r.request(t, pipeline.Cursor{}), codes.PermissionDenied, "expired")
	store.Hook = func(ctx context.Context, _ *pb.File, _, _ int64) error {
		close(entered)
		<-ctx.Done()
		return context.Cause(ctx)
	}
	first := make(chan error, 1)
	go func() {
		_, err := r.count(t.Context(), t, "count", req)
		first <- err
	}()
	<-entered
	refused("count", req, codes.ResourceExhausted, "busy")
	r.server.Drain()
	if err := <-first; status.Code(err) != codes.Unavailable {
		t.Errorf("got %v, want Unavailable", err)
	}
	refused("count", req, codes.Unavailable, "drains")
	r.awaitFree(t)
}

// TestSaidNowAndThen is said until the end, and never behind it.
func TestSaidNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said := 0
		end := nowAndThen(func() { said++ })
		time.Sleep(3*sayAtWork + time.Second)
		end()
		if said != 3 {
			t.Errorf("said %d times, want 3", said)
		}
		time.Sleep(3 * sayAtWork)
		if said != 3 {
			t.Errorf("said %d times behind the end", said-3)
		}
	})
}

func TestCountOfCorruptData(t *testing.T) {
	r := newRig(t, &pipelinetest.Store{}, 1, nil).shard(t, 20)
	data := pipelinetest.Parquet(t, 1, 20)
	clear(data[4 : len(data)/2])
	r.ticket.File = r.store.Put("mem://f.parquet", data)
	r.program.Filter = "label == 1"
	_, err := r.count(t.Context(), t, "count", r.request(t, pipeline.Cursor{}))
	if status.Code(err) != codes.DataLoss ||
		!strings.Contains(err.Error(), "mem://f.parquet row group 0 column label") {
		t.Errorf("got %v, want DataLoss naming file, row group and column", err)
	}
}
