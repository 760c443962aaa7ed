package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/client/conformance/fake"
)

// inBubble runs a test on fake time. At its end synctest fails if any goroutine of session or fakes is left.
func inBubble(t *testing.T, f func(t *testing.T, fl *fake.Net)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, fake.InMemory(t)) })
}

func open(t *testing.T, cfg Config) *Session {
	t.Helper()
	s, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// drain reads a session to its end and returns the ids in order and the size of each batch.
func drain(s *Session) (ids []int64, sizes []int, err error) {
	for b, err := range s.Batches(context.Background()) {
		if err != nil {
			return ids, sizes, err
		}
		got, err := checkBatch(b)
		if err != nil {
			return ids, sizes, err
		}
		ids, sizes = append(ids, got...), append(sizes, b.Rows)
		b.Release()
	}
	return ids, sizes, nil
}

// exactlyOnce checks that ids are all rows of the dataset in epochs from to the end, once each.
func exactlyOnce(t *testing.T, d *fake.Dataset, ids []int64) {
	t.Helper()
	count := make(map[int64]int)
	for _, id := range ids {
		count[id]++
	}
	rows := 0
	for epoch := range d.Epochs {
		for shard, windows := range d.Shards {
			for window, n := range windows {
				for k := range n {
					r := fake.Row{Epoch: epoch, Shard: shard, Window: window, K: k}
					if rows++; count[r.ID()] != 1 {
						t.Errorf("row %+v came %d times", r, count[r.ID()])
					}
				}
			}
		}
	}
	if len(ids) != rows {
		t.Errorf("%d rows came; expected %d", len(ids), rows)
	}
}

func checkMaster(t *testing.T, m *fake.Master) {
	t.Helper()
	for _, p := range m.Problems() {
		t.Error("master: ", p)
	}
}

func TestReadsEpochs(t *testing.T) {
	for _, last := range []pb.LastBatch{pb.LastBatch_UNEVEN, pb.LastBatch_DROP} {
		for _, streams := range []uint32{1, 4} {
			t.Run(fmt.Sprint(last, streams), func(t *testing.T) {
				inBubble(t, func(t *testing.T, fl *fake.Net) { testReadsEpochs(t, fl, last, streams) })
			})
		}
	}
}

func testReadsEpochs(t *testing.T, fl *fake.Net, last pb.LastBatch, streams uint32) {
	d := fake.NewDataset(3, 3, 20)
	fl.Worker("w1", &fake.Worker{Data: d, Cut: 7})
	fl.Worker("w2", &fake.Worker{Data: d, Cut: 16})
	m := &fake.Master{
		Data: d, Spec: &pb.Spec{BatchSize: 32, Epochs: 3, LastBatch: last}, Workers: fl.Workers("w1", "w2"),
		Streams: streams, Run: 3,
	}
	m.Intercept = func(req proto.Message) error {
		if req, ok := req.(*pb.SyncRequest); ok && req.GetZone() != "north" {
			return status.Errorf(codes.InvalidArgument, "the trainer's zone is %q", req.GetZone())
		}
		return nil
	}
	fl.Master("m", m)
	cfg := config(fl, "m")
	cfg.Zone = "north"
	s := open(t, cfg)
	ids, sizes, err := drain(s)
	if err != nil {
		t.Fatal(err)
	}
	full, rest := d.Rows()/32, d.Rows()%32
	var want []int
	for range 3 {
		want = append(want, slices.Repeat([]int{32}, full)...)
		if last == pb.LastBatch_UNEVEN && rest > 0 {
			want = append(want, rest)
		}
	}
	if !slices.Equal(sizes, want) {
		t.Errorf("batch sizes %v; expected %v", sizes, want)
	}
	stats := s.Stats()
	if last == pb.LastBatch_UNEVEN {
		exactlyOnce(t, d, ids)
	} else if stats.Dropped > int64(3*rest) {
		t.Errorf("%d rows dropped; expected at most %d", stats.Dropped, 3*rest)
	}
	if stats.Rows != int64(len(ids)) || stats.Batches != int64(len(sizes)) || stats.Buffered != 0 ||
		stats.RowsByWorker["w1"] != stats.Rows {
		t.Errorf("stats %+v for %d rows in %d batches, all from w1", stats, len(ids), len(sizes))
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if r := m.Ranks[0]; !r.Left || r.Counters.GetRows() != stats.Rows {
		t.Errorf("the master knows left %v, counters %v; expected %d rows", r.Left, r.Counters, stats.Rows)
	}
	if _, err := s.Next(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("Next after Close: %v", err)
	}
	checkMaster(t, m)
}

func TestExactlyOnceThroughFailures(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T, fl *fake.Net) { testFailures(t, fl, seed) })
		})
	}
}

// testFailures has two ranks read through workers of which each cuts, refuses or breaks streams at random, while a
// worker dies and comes back, and the master loses answers and asks for shards back.
func testFailures(t *testing.T, fl *fake.Net, seed uint64) {
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(seed, 2))
	chance := func(n int) bool {
		mu.Lock()
		defer mu.Unlock()
		return r.IntN(n) == 0
	}
	d := fake.NewDataset(seed, 2, 25)
	fault := func(context.Context, *fake.Record) error {
		switch {
		case chance(8):
			return status.Error(codes.Unavailable, "cut")
		case chance(10):
			return status.Error(codes.ResourceExhausted, "busy")
		}
		return nil
	}
	fl.Worker("w1", &fake.Worker{Data: d, Cut: 5, Fault: fault})
	stop := fl.Worker("w2", &fake.Worker{Data: d, Cut: 9, Fault: fault})
	m := &fake.Master{
		Data: d, Spec: &pb.Spec{BatchSize: 16, Epochs: 2}, Workers: fl.Workers("w1", "gone", "w2"), Streams: 3, Run: 4,
		Intercept: func(req proto.Message) error {
			if _, sync := req.(*pb.SyncRequest); sync && chance(5) {
				return status.Error(codes.Unavailable, "no leader")
			}
			return nil
		},
	}
	fl.Master("m", m)
	var resumes int
	all := make([][]int64, 2)
	var readers sync.WaitGroup
	for rank := range uint32(2) {
		cfg := config(fl, "m")
		cfg.Rank, cfg.WorldSize = rank, 2
		cfg.OnResume = func(Resume) { mu.Lock(); resumes++; mu.Unlock() }
		s := open(t, cfg)
		readers.Go(func() {
			for n := 0; ; n++ {
				b, err := s.Next(context.Background())
				if errors.Is(err, io.EOF) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				ids, err := checkBatch(b)
				if err != nil {
					t.Error(err)
				}
				all[rank] = append(all[rank], slices.Clone(ids)...)
				b.Release()
				if rank == 0 {
					disturb(fl, m, d, n, stop, fault)
				}
			}
		})
	}
	readers.Wait()
	exactlyOnce(t, d, slices.Concat(all...))
	checkMaster(t, m)
	if resumes == 0 {
		t.Error("no stream was resumed: the test tests nothing")
	}
}

func disturb(
	fl *fake.Net, m *fake.Master, d *fake.Dataset, batch int, stop func(),
	fault func(context.Context, *fake.Record) error,
) {
	switch batch {
	case 4:
		stop()
	case 6:
		m.Change(func() { m.Release = m.Ranks[0].Held })
	case 8:
		fl.Worker("w2", &fake.Worker{Data: d, Cut: 11, Fault: fault})
	case 10:
		m.Change(func() { m.Workers = fl.Workers("w2", "w1") })
	}
}
