package client

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/client/conformance/fake"
)

// eachOrder runs a test with each way in which a dataset's epochs end.
func eachOrder(t *testing.T, d *fake.Dataset, f func(t *testing.T, fl *fake.Net, spec *pb.Spec)) {
	t.Helper()
	for _, order := range []pb.Order{pb.Order_FAST, pb.Order_DETERMINISTIC} {
		for _, last := range []pb.LastBatch{pb.LastBatch_UNEVEN, pb.LastBatch_DROP, pb.LastBatch_PAD} {
			spec := &pb.Spec{BatchSize: 24, Epochs: d.Epochs, LastBatch: last, Order: order}
			if order == pb.Order_DETERMINISTIC {
				spec.Lanes = 4
			}
			t.Run(fmt.Sprint(order, last), func(t *testing.T) {
				inBubble(t, func(t *testing.T, fl *fake.Net) { f(t, fl, spec) })
			})
		}
	}
}

// readEpochs reads a session to its end, and checks that the end of each epoch is told once, after all of its batches.
// It returns the rows, and how many batches came in each epoch.
func readEpochs(t *testing.T, s *Session) (ids []int64, batches map[uint32]int) {
	batches = make(map[uint32]int)
	for epoch := s.Epoch(); ; {
		b, err := s.NextOfEpoch(t.Context())
		switch {
		case errors.Is(err, io.EOF):
			if _, again := s.NextOfEpoch(t.Context()); !errors.Is(again, io.EOF) || epoch != s.terms.epochs ||
				s.Epoch() != epoch {
				t.Errorf("after %d epochs the session ends, in epoch %d, and then says %v", epoch, s.Epoch(), again)
			}
			return ids, batches
		case errors.Is(err, ErrEpochEnd):
			if epoch++; s.Epoch() != epoch || s.State().GetClosedEpochs() != epoch {
				t.Errorf("when %d epochs have ended, the loop is in epoch %d, and State says %d",
					epoch, s.Epoch(), s.State().GetClosedEpochs())
			}
			continue
		case err != nil:
			t.Error(err)
			return ids, batches
		}
		if n, known := s.EpochBatches(); known && n <= uint64(batches[epoch]) {
			t.Errorf("batch %d of epoch %d, which has %d", batches[epoch], epoch, n)
		}
		if b.Epoch != epoch || s.Epoch() != epoch {
			t.Errorf("a batch of epoch %d, with the loop in %d, in epoch %d", b.Epoch, s.Epoch(), epoch)
		}
		batches[epoch]++
		ids = append(ids, b.Labels[0].I64[:b.Valid]...)
		b.Release()
	}
}

func TestEpochsEndOnce(t *testing.T) {
	const ranks = 2
	d := fake.NewDataset(4, 2, 8)
	eachOrder(t, d, func(t *testing.T, fl *fake.Net, spec *pb.Spec) {
		fl.Worker("w1", &fake.Worker{Data: d, Cut: 7})
		m := &fake.Master{Data: d, Spec: spec, Workers: fl.Workers("w1"), Streams: 3, Run: 2}
		fl.Master("m", m)
		type read struct {
			ids     []int64
			batches map[uint32]int
		}
		reads := make(chan read, ranks)
		for rank := range uint32(ranks) {
			cfg := config(fl, "m")
			cfg.Rank, cfg.WorldSize = rank, ranks
			s := open(t, cfg)
			go func() {
				ids, batches := readEpochs(t, s)
				reads <- read{ids, batches}
			}()
		}
		a, b := <-reads, <-reads
		all := slices.Concat(a.ids, b.ids)
		if spec.LastBatch != pb.LastBatch_DROP {
			exactlyOnce(t, d, all)
		} else {
			steps := uint64(d.Rows() / (24 * ranks))
			if spec.Lanes > 0 {
				l := m.Layout(0)
				steps, _ = l.Steps(len(l.Blocks), 24*ranks/uint64(spec.Lanes), true)
			}
			if want := int(d.Epochs) * int(steps) * 24 * ranks; len(all) != want {
				t.Errorf("%d rows came; expected %d", len(all), want)
			}
		}
		for epoch := range d.Epochs {
			if spec.LastBatch != pb.LastBatch_UNEVEN && a.batches[epoch] != b.batches[epoch] {
				t.Errorf("the ranks got %d and %d batches of epoch %d", a.batches[epoch], b.batches[epoch], epoch)
			}
		}
		checkMaster(t, m)
	})
}

// TestLeavesEpochs: a loop that leaves an epoch goes on with the next, of which all rows come, and so do its State and
// those who restore it.
func TestLeavesEpochs(t *testing.T) {
	const ranks = 2
	d := fake.NewDataset(4, 4, 16)
	eachOrder(t, d, func(t *testing.T, fl *fake.Net, spec *pb.Spec) {
		fl.Worker("w1", &fake.Worker{Data: d, Cut: 7})
		m := &fake.Master{Data: d, Spec: spec, Workers: fl.Workers("w1"), Streams: 3, Run: 2}
		fl.Master("m", m)
		reads := make(chan map[uint32][]int64, ranks)
		for rank := range uint32(ranks) {
			cfg := config(fl, "m")
			cfg.Rank, cfg.WorldSize = rank, ranks
			s := open(t, cfg)
			go func() { reads <- leaveEvenEpochs(t, s) }()
		}
		a, b := <-reads, <-reads
		for epoch := range d.Epochs {
			ids := slices.Concat(a[epoch], b[epoch])
			slices.Sort(ids)
			whole := d.Rows()
			if spec.LastBatch == pb.LastBatch_DROP {
				whole -= whole % (24 * ranks)
			}
			once := len(ids) == len(slices.Compact(slices.Clone(ids)))
			if !once || epoch%2 == 0 && len(ids) != 24*ranks || epoch%2 == 1 && spec.Lanes == 0 && len(ids) != whole {
				t.Errorf("%d rows of epoch %d came, once each %v, of %d", len(ids), epoch, once, whole)
			}
		}
		checkMaster(t, m)
	})
}

// leaveEvenEpochs reads one batch of each second epoch, and all of the others.
func leaveEvenEpochs(t *testing.T, s *Session) map[uint32][]int64 {
	ids := make(map[uint32][]int64)
	for {
		b, err := s.NextOfEpoch(t.Context())
		switch {
		case errors.Is(err, io.EOF):
			return ids
		case errors.Is(err, ErrEpochEnd):
			continue
		case err != nil:
			t.Error(err)
			return ids
		}
		ids[b.Epoch] = append(ids[b.Epoch], b.Labels[0].I64[:b.Valid]...)
		epoch := b.Epoch
		b.Release()
		if epoch%2 == 1 {
			continue
		}
		for range 2 { // the second call changes nothing
			if err := s.LeaveEpoch(epoch); err != nil {
				t.Error(err)
			}
		}
		if st := s.State(); s.Epoch() != epoch+1 || st.GetClosedEpochs() != epoch+1 || st.GetHanded() != 0 {
			t.Errorf("having left epoch %d, the loop is in epoch %d, and State says %v", epoch, s.Epoch(), st)
		}
	}
}

// TestLeavesManyEpochsAtOnce: one goes after the other at the pace of answers, not of Syncs that nothing calls for.
func TestLeavesManyEpochsAtOnce(t *testing.T) {
	d := fake.NewDataset(4, 4, 16)
	d.Epochs = 60
	eachOrder(t, d, func(t *testing.T, fl *fake.Net, spec *pb.Spec) {
		fl.Worker("w1", &fake.Worker{Data: d, Cut: 7})
		fl.Master("m", &fake.Master{Data: d, Spec: spec, Workers: fl.Workers("w1"), Streams: 3, Run: 2})
		s := open(t, config(fl, "m"))
		begin := time.Now() // of the bubble
		if err := s.LeaveEpoch(49); err != nil {
			t.Fatal(err)
		}
		b, err := s.Next(t.Context())
		if err != nil || b.Epoch != 50 {
			t.Fatalf("got %v, %v", b, err)
		}
		b.Release()
		if d := time.Since(begin); d > 50*syncGap*4 {
			t.Errorf("50 epochs were left in %v", d)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestEpochsOfARestoredLoop end once, too: those that had not ended, wherever it stopped.
func TestEpochsOfARestoredLoop(t *testing.T) {
	// two full batches an epoch
	d := &fake.Dataset{Epochs: 2, BlockShards: 2, Shards: [][]int{{10, 2}, {0, 12}, {12}, {5, 0, 7}}}
	eachOrder(t, d, func(t *testing.T, fl *fake.Net, spec *pb.Spec) {
		fl.Worker("w1", &fake.Worker{Data: d, Cut: 7})
		start := func(name string) Config {
			fl.Master(name, &fake.Master{Data: d, Spec: spec, Workers: fl.Workers("w1"), Streams: 2, Run: 2})
			return config(fl, name)
		}
		for calls := range 2*(2+1) + 1 {
			s := open(t, start(fmt.Sprint("first ", calls)))
			var ids []int64
			for range calls {
				b, err := s.NextOfEpoch(t.Context())
				if err == nil {
					ids = append(ids, b.Labels[0].I64...)
				} else if !errors.Is(err, ErrEpochEnd) {
					t.Fatal(err)
				}
			}
			cfg := start(fmt.Sprint("second ", calls))
			cfg.Restore = []*pb.State{s.State()}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			again := open(t, cfg)
			if again.Epoch() != s.Epoch() {
				t.Errorf("stopped in epoch %d, the loop goes on in %d", s.Epoch(), again.Epoch())
			}
			rest, _ := readEpochs(t, again)
			exactlyOnce(t, d, append(ids, rest...))
		}
	})
}

// TestLateRank joins when others have read its first epochs: these end before it gets a batch.
func TestLateRank(t *testing.T) {
	d := fake.NewDataset(4, 3, 6)
	for closed := range d.Epochs + 1 {
		inBubble(t, func(t *testing.T, fl *fake.Net) {
			fl.Worker("w1", &fake.Worker{Data: d, Cut: 7})
			m := &fake.Master{
				Data: d, Spec: &pb.Spec{BatchSize: 24, Epochs: 3}, Workers: fl.Workers("w1"), Streams: 2, Run: 2,
			}
			fl.Master("m", m)
			m.Change(func() { m.Closed, m.Next = closed, int(closed)*len(d.Shards) })
			s := open(t, config(fl, "m"))
			if s.Epoch() != 0 || s.State().GetClosedEpochs() != 0 {
				t.Errorf("the loop begins in epoch %d; State says %d", s.Epoch(), s.State().GetClosedEpochs())
			}
			ids, batches := readEpochs(t, s)
			for epoch := range closed {
				if batches[epoch] > 0 {
					t.Errorf("%d batches of epoch %d, which was closed", batches[epoch], epoch)
				}
			}
			if want := int(d.Epochs-closed) * d.Rows(); len(ids) != want {
				t.Errorf("%d rows came; expected %d", len(ids), want)
			}
			checkMaster(t, m)
		})
	}
}
