package serve

import (
	"errors"
	"io"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/wire"
	"github.com/penstock-ml/penstock/worker/pipeline"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
)

// TestNarrow: values are narrow on links, uncompressed, for those who ask for it, and for nobody else.
func TestNarrow(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := newRigOn(t, l, &pipelinetest.Store{}, 1, nil).shard(t, 3000)
	conn, err := grpc.NewClient("passthrough:///"+l.Addr().String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	links := wire.NewLinks("", r.link)
	defer links.Close()
	sizes := func(links *wire.Links, narrow bool, how pb.Compression) (rows, bytes int64) {
		req := r.request(t, pipeline.Cursor{})
		req.Narrow, req.Compression = narrow, how
		ticket, err := proto.Marshal(req)
		if err != nil {
			t.Fatal(err)
		}
		stream, err := wire.Get(t.Context(), conn, links, ticket, new(wire.Pool))
		if err != nil {
			t.Fatal(err)
		}
		for {
			b, err := stream.Next()
			if errors.Is(err, io.EOF) {
				return rows, bytes
			}
			if err != nil {
				t.Fatal(err)
			}
			if want := map[bool]wire.Way{true: wire.ByLink, false: wire.ByGRPC}[links != nil]; b.Way != want {
				t.Errorf("a batch came by %s, want %s", b.Way, want)
			}
			rows += b.Rows
			for _, buffer := range b.Buffers {
				bytes += int64(len(buffer))
			}
			b.Release()
		}
	}
	rows, wide := sizes(links, false, 0)
	if n, narrow := sizes(links, true, 0); n != rows || narrow >= wide {
		t.Errorf("on a link %d rows have %d bytes if narrow; %d have %d", n, narrow, rows, wide)
	}
	if n, compressed := sizes(links, true, pb.Compression_LZ4); n != rows || compressed < wide {
		t.Errorf("%d rows have %d bytes when they were compressed; %d have %d", n, compressed, rows, wide)
	}
	if c := r.pipeline.Counters(); c.GetBytesLinked() == 0 || c.GetBytesLinked() != c.GetBytesSent() ||
		c.GetBytesLent() != 0 {
		t.Errorf("%d of %d bytes are counted as linked", c.GetBytesLinked(), c.GetBytesSent())
	}
	if n, other := sizes(nil, true, 0); n != rows || other < wide {
		t.Errorf("by gRPC %d rows have %d bytes; on a link %d have %d", n, other, rows, wide)
	}
	if c := r.pipeline.Counters(); c.GetBytesLinked() >= c.GetBytesSent() {
		t.Errorf("%d of %d bytes are counted as linked, of which some went by gRPC",
			c.GetBytesLinked(), c.GetBytesSent())
	}
}
