package master_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/api/ticket"
	"github.com/penstock-ml/penstock/internal/fleet"
	"github.com/penstock-ml/penstock/internal/rpc"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/master"
	"github.com/penstock-ml/penstock/master/plan"
	"github.com/penstock-ml/penstock/master/store"
	"github.com/penstock-ml/penstock/master/store/storetest"
)

// TestMain excuses memberlist, which does not wait for the answer to its last probe.
func TestMain(m *testing.M) {
	storetest.Main()
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).probe"))
}

// patience is how long a test waits for what should happen at once.
const patience = time.Minute

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); {
		if time.Now().After(end) {
			t.Fatal("waited in vain until " + what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// noOps is a catalog without ops: the tests here are not about transforms.
type noOps struct{}

func (noOps) Names() []string             { return nil }
func (noOps) Fitting(string) spec.Fitting { return spec.Fitting{} }

func (noOps) Maps(string) (bool, bool) { return false, false }
func (noOps) Check(op string, _ map[string]*pb.Value, _ []spec.Type) (spec.Signature, error) {
	return spec.Signature{}, errors.New("no op " + op)
}

func etcd(t *testing.T, listen string) *store.Embed {
	t.Helper()
	e, err := store.Embedded(t.Context(), t.TempDir(), listen, slog.New(slog.DiscardHandler))
	check(t, err)
	t.Cleanup(func() { check(t, e.Close()) })
	return e
}

// node is a running master.
type node struct {
	pb.MasterClient
	master          *master.Master
	address, gossip string
	conn            *grpc.ClientConn
	stop            func() // waits for its end; may be called again
}

// settings are what tests change of a master's configuration.
type settings struct {
	master.Config
	endpoints []string
	call, ttl time.Duration // of the store
}

// start runs a master and waits until it is up. It plans each file as a block and each row group as a shard.
func start(t *testing.T, s settings) *node {
	t.Helper()
	st, err := store.Open(t.Context(), store.Config{Endpoints: s.endpoints, CallTimeout: s.call, LeaseTTL: s.ttl})
	check(t, err)
	cfg := s.Config
	cfg.Store, cfg.Ops, cfg.Signer = st, noOps{},
		ticket.NewSigner(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
	cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	cfg.Fleet.Bind = "127.0.0.1:0"
	cfg.Plan = plan.Config{BlockBytes: 1, FirstBlockBytes: 1, ShardBytes: 1}
	if cfg.Storage == nil {
		cfg.Storage, err = storage.New(storage.Config{})
		check(t, err)
	}
	cfg.Listener, err = net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	n := &node{}
	up := make(chan struct{})
	cfg.Up = func(address, gossip string) {
		n.address, n.gossip = address, gossip
		close(up)
	}
	m, err := master.New(cfg)
	check(t, err)
	n.master = m
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := m.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	select {
	case <-up:
	case <-time.After(patience):
		t.Fatal("the master does not come up")
	}
	n.conn, err = rpc.Dial(n.address, cfg.RPC)
	check(t, err)
	n.MasterClient = pb.NewMasterClient(n.conn)
	n.stop = sync.OnceFunc(func() {
		_ = n.conn.Close()
		cancel()
		<-done
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(n.stop)
	return n
}

// single runs one master on an etcd of its own.
func single(t *testing.T) *node {
	t.Helper()
	return start(t, settings{endpoints: etcd(t, "").Endpoints()})
}

// addWorker puts a worker's gossip beside a master and waits until that knows it, lest it asks others alone. The worker
// serves nothing.
func addWorker(t *testing.T, n *node, m fleet.Member) *fleet.Fleet {
	t.Helper()
	m.Role = fleet.Worker
	f, err := fleet.New(fleet.Config{
		Self: m, Bind: "127.0.0.1:0", Join: []string{n.gossip}, Logger: slog.New(slog.DiscardHandler),
	})
	check(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = f.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		_ = f.Close()
	})
	eventually(t, "the master knows "+m.Name, func() bool {
		got, err := n.GetFleet(t.Context(), &pb.GetFleetRequest{})
		check(t, err)
		return slices.ContainsFunc(got.GetMembers(), func(k *pb.FleetMember) bool { return k.GetName() == m.Name })
	})
	return f
}

// Each file of a dataset has these row groups of these rows.
const (
	groups = 3
	rows   = 10
)

// dataset writes files in directories day=0, day=1, ... and returns the directory.
func dataset(t *testing.T, files int) string {
	t.Helper()
	dir := t.TempDir()
	for i := range files {
		writeFile(t, filepath.Join(dir, fmt.Sprintf("day=%d", i), "part.parquet"))
	}
	return dir
}

func writeFile(t *testing.T, path string) {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "label", Type: arrow.PrimitiveTypes.Int32},
		{Name: "x", Type: arrow.PrimitiveTypes.Float32, Nullable: true},
	}, nil)
	check(t, os.MkdirAll(filepath.Dir(path), 0o755))
	f, err := os.Create(path)
	check(t, err)
	w, err := pqarrow.NewFileWriter(schema, f, nil, pqarrow.DefaultWriterProps())
	check(t, err)
	for range groups {
		b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		for row := range rows {
			b.Field(0).(*array.Int32Builder).Append(int32(row))
			b.Field(1).(*array.Float32Builder).Append(1)
		}
		rec := b.NewRecord()
		check(t, w.Write(rec))
		rec.Release()
		b.Release()
	}
	check(t, w.Close())
}

func newSpec(dir string) *pb.Spec {
	return &pb.Spec{
		Dataset: &pb.Dataset{Uri: []string{"file://" + dir + "/"}},
		Features: []*pb.Feature{
			{Name: []string{"x"}, Layout: pb.Layout_DENSE},
			{Name: []string{"label"}, Layout: pb.Layout_LABEL},
		},
		BatchSize: 4, Shuffle: true, Seed: 3,
	}
}
