package scale

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/ticket"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/internal/storage/keys"
	"github.com/penstock-ml/penstock/master"
	"github.com/penstock-ml/penstock/master/plan"
	"github.com/penstock-ml/penstock/master/store"
	"github.com/penstock-ml/penstock/master/store/storetest"
	"github.com/penstock-ml/penstock/worker/transform"
)

func TestMain(m *testing.M) {
	storetest.Main()
	os.Exit(m.Run())
}

const (
	// Each file has so many row groups, and each row group is a shard.
	groups = 4
	rows   = 1000 // of a row group
	// A block of 1 GiB has 16 shards of 64 MiB.
	filesPerBlock = 4

	session = "run"
)

func check(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// disk is a storage of very many files that are all alike.
type disk struct {
	files int
	data  []byte
}

func newDisk(b *testing.B, files int) *disk {
	b.Helper()
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Int64}}, nil)
	var out bytes.Buffer
	w, err := pqarrow.NewFileWriter(schema, &out, nil, pqarrow.DefaultWriterProps())
	check(b, err)
	for range groups {
		records := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		for i := range rows {
			records.Field(0).(*array.Int64Builder).Append(int64(i))
		}
		record := records.NewRecord()
		check(b, w.Write(record))
		record.Release()
		records.Release()
	}
	check(b, w.Close())
	return &disk{files: files, data: out.Bytes()}
}

func (d *disk) List(context.Context, string, []string) ([]*pb.File, error) {
	out := make([]*pb.File, d.files)
	for i := range out {
		out[i] = &pb.File{
			Uri:  fmt.Sprintf("s3://bucket/clicks/day=%03d/part-%08d-c000.zstd.parquet", i%365, i),
			Size: int64(len(d.data)), Etag: fmt.Sprintf("%032x", i*2_654_435_761), Index: uint32(i),
		}
	}
	return out, nil
}

func (*disk) Keys(string) *keys.Ring { return nil }

func (d *disk) ReadAt(_ context.Context, _ string, _ *pb.File, buf []byte, offset int64) error {
	if copy(buf, d.data[offset:]) < len(buf) {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// startEtcd runs three members until the benchmark ends.
func startEtcd(b *testing.B) *storetest.Cluster {
	b.Helper()
	c, err := storetest.Start(b.Context(), storetest.Config{Dir: b.TempDir(), Quota: 8 << 30})
	check(b, err)
	b.Cleanup(func() { check(b, c.Close()) })
	return c
}

// node is a running master.
type node struct {
	pb.MasterClient
	stop func()
}

// startMaster runs a master, and returns when it leads.
func startMaster(b *testing.B, etcd *storetest.Cluster, d *disk) *node {
	b.Helper()
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	st, err := store.Open(b.Context(), store.Config{Endpoints: etcd.Endpoints(), Logger: logger})
	check(b, err)
	cfg := master.Config{
		Store: st, Storage: d, Ops: transform.Builtin(),
		Signer: ticket.NewSigner(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))), Logger: logger,
		Plan: plan.Config{
			ShardBytes: 1, BlockBytes: filesPerBlock * int64(len(d.data)),
			FirstBlockBytes: filesPerBlock * int64(len(d.data)),
		},
	}
	cfg.Fleet.Bind = "127.0.0.1:0"
	cfg.Listener, err = new(net.ListenConfig).Listen(b.Context(), "tcp", "127.0.0.1:0")
	check(b, err)
	up := make(chan string, 1)
	cfg.Up = func(address, _ string) { up <- address }
	m, err := master.New(cfg)
	check(b, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	var address string
	select {
	case address = <-up:
	case <-time.After(time.Minute):
		b.Fatal("the master does not come up")
	}
	conn, err := rpc.Dial(address, cfg.RPC)
	check(b, err)
	return &node{MasterClient: pb.NewMasterClient(conn), stop: func() {
		check(b, conn.Close())
		cancel()
		check(b, <-done)
		check(b, st.Close())
	}}
}

func openSession(b *testing.B, m pb.MasterClient, world uint32, last pb.LastBatch) {
	b.Helper()
	_, err := m.Open(b.Context(), &pb.OpenRequest{Session: session, WorldSize: world, Spec: &pb.Spec{
		Dataset:  &pb.Dataset{Uri: []string{"s3://bucket/clicks/"}},
		Features: []*pb.Feature{{Name: []string{"x"}, Layout: pb.Layout_SPARSE}}, BatchSize: 1000, Shuffle: true,
		Seed: 1, Epochs: 1, LastBatch: last,
	}})
	check(b, err)
}
