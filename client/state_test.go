package client

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/position"
	"github.com/penstock-ml/penstock/client/conformance/fake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestRestore stops after each number of batches in turn, having read one batch ahead, and goes on from there.
func TestRestore(t *testing.T) {
	d := fake.NewDataset(7, 2, 8)
	for stop := 1; ; stop++ {
		ended := false
		inBubble(t, func(t *testing.T, fl *fake.Net) { ended = testRestore(t, fl, d, stop) })
		if ended || t.Failed() {
			return
		}
	}
}

func testRestore(t *testing.T, fl *fake.Net, d *fake.Dataset, stop int) (ended bool) {
	fl.Worker("w1", &fake.Worker{Data: d, Cut: 7})
	start := func(address string) *fake.Master {
		m := &fake.Master{
			Data: d, Spec: &pb.Spec{BatchSize: 24, Epochs: 2}, Workers: fl.Workers("w1"), Streams: 3, Run: 2,
		}
		fl.Master(address, m)
		return m
	}
	start("m1")
	s := open(t, config(fl, "m1"))
	var ids []int64
	var last *Batch
	n := 0
	for b, err := range s.Batches(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n > stop {
			break // read ahead, not used
		}
		ids = append(ids, slices.Clone(b.Labels[0].I64)...)
		last = b
		if want := s.State(); !proto.Equal(s.StateAfter(b), want) {
			t.Errorf("StateAfter the newest batch is %v; State is %v", s.StateAfter(b), want)
		}
		b.Release()
	}
	st := s.StateAfter(last)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	m := start("m2")
	cfg := config(fl, "m2")
	cfg.Restore = []*pb.State{st}
	rest, _, err := drain(open(t, cfg))
	if err != nil {
		t.Fatal(err)
	}
	exactlyOnce(t, d, append(ids, rest...))
	checkMaster(t, m)
	return n <= stop
}

func TestBudget(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fake.Net) {
		d := &fake.Dataset{Epochs: 1, BlockShards: 2, Shards: [][]int{{4000, 4000}, {4000}, {4000, 4000, 4000}, {4000}}}
		var mu sync.Mutex
		var largest, sent int64
		fl.Worker("w1", &fake.Worker{Data: d, Cut: 50, After: func(rec arrow.Record) {
			n := flattened(t, rec).Bytes
			mu.Lock()
			defer mu.Unlock()
			largest, sent = max(largest, n), sent+n
		}})
		m := &fake.Master{Data: d, Spec: &pb.Spec{BatchSize: 500}, Workers: fl.Workers("w1"), Streams: 3, Run: 4}
		fl.Master("m", m)
		cfg := config(fl, "m")
		cfg.Budget = 150_000
		s := open(t, cfg)
		synctest.Wait() // all stands still: the queues are full
		st := s.Stats()
		if st.Buffered > cfg.Budget || st.Buffered < cfg.Budget/2 {
			t.Errorf("%d bytes are buffered; the budget is %d", st.Buffered, cfg.Budget)
		}
		if transport := int64(3 * 3 * fake.StreamWindow); sent > cfg.Budget+transport {
			t.Errorf("the worker could send %d bytes with a budget of %d", sent, cfg.Budget)
		}
		ids, _, err := drain(s)
		if err != nil {
			t.Fatal(err)
		}
		exactlyOnce(t, d, ids)
		// The size of the next record is a guess; it may be larger by what two records differ.
		if st = s.Stats(); st.PeakBuffered > cfg.Budget+largest || st.Buffered != 0 {
			t.Errorf("at most %d bytes were buffered, and %d at the end; the budget is %d",
				st.PeakBuffered, st.Buffered, cfg.Budget)
		}
	})
}

// TestGrantsInsideShards gives a rank pieces that begin and end inside windows, between them, and in empty ones.
func TestGrantsInsideShards(t *testing.T) {
	d := &fake.Dataset{Epochs: 1, BlockShards: 2, Shards: [][]int{{30, 0, 20}, {0, 0}, {10}}}
	at := func(shard, window uint32, k uint64) position.Position {
		return position.Position{Block: shard / 2, Shard: shard % 2, Window: window, K: k}
	}
	for _, cuts := range [][]position.Position{
		{at(0, 0, 7), at(0, 0, 9), at(0, 2, 3)},
		{at(0, 0, 30), at(0, 2, 20)},
		{at(0, 1, 0), at(0, 2, 0), at(1, 1, 0)},
		{at(0, 3, 0), at(1, 0, 0), at(2, 0, 9)},
	} {
		inBubble(t, func(t *testing.T, fl *fake.Net) {
			fl.Worker("w1", &fake.Worker{Data: d, Cut: 4})
			m := &fake.Master{
				Data: d, Spec: &pb.Spec{BatchSize: 8}, Workers: fl.Workers("w1"), Streams: 2, Run: 1, Next: 3,
			}
			fl.Master("m", m)
			// Two ranks take turns in holding what lies between two cuts.
			from, halves := position.Position{}, make([]position.Set, 2)
			for i, to := range append(slices.Clone(cuts), position.Position{Epoch: 1}) {
				halves[i%2] = append(halves[i%2], position.Interval{From: from, To: to})
				from = to
			}
			// A rank that joins is given what its start before held.
			m.Change(func() { m.Ranks[0], m.Ranks[1] = &fake.Member{Held: halves[0]}, &fake.Member{Held: halves[1]} })
			var ids []int64
			for rank := range uint32(2) {
				cfg := config(fl, "m")
				cfg.Rank, cfg.WorldSize = rank, 2
				s := open(t, cfg)
				ids = append(ids, readHeld(t, s, m, rank)...)
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
			exactlyOnce(t, d, ids)
			checkMaster(t, m)
		})
	}
}

// A State knows what ranks consumed that left of an epoch that the loop has not left yet, though they closed it.
func TestStateOfAClosedEpochThatARankLeft(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fake.Net) {
		d := &fake.Dataset{Epochs: 2, BlockShards: 2, Shards: [][]int{{16}, {16}}}
		fl.Worker("w1", &fake.Worker{Data: d, Cut: 8})
		m := &fake.Master{
			Data: d, Spec: &pb.Spec{BatchSize: 8, Epochs: 2}, Workers: fl.Workers("w1"), Streams: 1, Run: 1, Next: 2,
		}
		fl.Master("m", m)
		mine := position.Set{{From: d.Start(0, 0), To: d.Start(0, 1)}}
		other := position.Set{{From: d.Start(0, 1), To: d.Start(1, 0)}}
		m.Change(func() { m.Ranks[0], m.Ranks[1] = &fake.Member{Held: mine}, &fake.Member{Held: other} })
		cfg := config(fl, "m")
		cfg.WorldSize = 2
		s := open(t, cfg)
		time.Sleep(s.terms.cfg.SyncEvery) // all of the shard has come, and its end
		for range 2 {
			b, err := s.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			b.Release()
		}
		m.Change(func() { m.Ranks[1] = &fake.Member{Consumed: other, Left: true} })
		time.Sleep(3 * s.terms.cfg.SyncEvery)
		st := s.State()
		if base := position.SetFromProto(st.GetBase()); st.GetClosedEpochs() != 0 || st.GetMasterClosedEpochs() != 1 ||
			!base.Equal(other) || !position.SetFromProto(st.GetConsumed()).Equal(mine) {
			t.Errorf("the state is of epoch %d, has the base %v, not %v, and consumed %v",
				st.GetClosedEpochs(), base, other, st.GetConsumed())
		}
		b, err := s.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		b.Release()
		if st := s.State(); st.GetClosedEpochs() != 1 || len(st.GetBase()) > 0 {
			t.Errorf("in epoch %d the base is %v", st.GetClosedEpochs(), st.GetBase())
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		checkMaster(t, m)
	})
}

// States of one batch have its rows and no later ones, also those that are taken when later steps have closed the
// epoch, where last batches are padded, and ranks have left.
func TestStateOfAPaddedEpochThatLaterStepsClosed(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fake.Net) {
		d := &fake.Dataset{Epochs: 2, BlockShards: 2, Shards: [][]int{{16}, {24}}}
		fl.Worker("w1", &fake.Worker{Data: d, Cut: 8})
		start := func(name string, next int) (*fake.Master, Config) {
			m := &fake.Master{
				Data: d, Spec: &pb.Spec{BatchSize: 8, Epochs: 2, LastBatch: pb.LastBatch_PAD},
				Workers: fl.Workers("w1"), Streams: 1, Run: 1, Next: next,
			}
			fl.Master(name, m)
			return m, config(fl, name)
		}
		m, cfg := start("m", 2)
		cfg.WorldSize = 2
		wait := func() { time.Sleep(3 * cfg.withDefaults().SyncEvery) }
		var ranks [2]*Session
		for i := range ranks {
			m.Change(func() {
				m.Ranks[uint32(i)] = &fake.Member{Held: position.Set{{From: d.Start(0, i), To: d.Start(0, i+1)}}}
			})
			cfg.Rank = uint32(i)
			ranks[i] = open(t, cfg)
			wait() // until it is given its shard
		}
		var ids []int64
		next := func(s *Session) {
			t.Helper()
			b, err := s.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, b.Labels[0].I64[:b.Valid]...)
			b.Release()
		}
		for _, s := range slices.Repeat(ranks[:], 2) {
			next(s)
		}
		before, early := slices.Clone(ids), ranks[1].State()
		next(ranks[1])
		wait()
		late := ranks[0].State()
		if early.GetMasterClosedEpochs() != 0 || late.GetMasterClosedEpochs() != 1 || !late.GetRemembers() {
			t.Errorf("the states are %v and %v", early, late)
		}
		if err := ranks[1].Close(); err != nil {
			t.Fatal(err)
		}
		wait()
		for step := uint64(2); step <= 3; step++ { // the third is padding
			st := ranks[0].State()
			if base := position.SetFromProto(st.GetBase()); !base.Equal(position.Set{
				{From: d.Start(0, 1), To: d.Start(1, 0)},
			}) || st.GetHanded() != step {
				t.Errorf("with rank 1 gone, the state of step %d has the base %v", st.GetHanded(), base)
			}
			if step == 2 {
				next(ranks[0])
			}
		}
		checkMaster(t, m)

		m, cfg = start("again", 0)
		cfg.Restore = []*pb.State{early, late}
		rest, _, err := drain(open(t, cfg))
		if err != nil {
			t.Fatal(err)
		}
		exactlyOnce(t, d, append(before, rest...))
		checkMaster(t, m)
	})
}

// readHeld reads until the rank holds nothing.
func readHeld(t *testing.T, s *Session, m *fake.Master, rank uint32) (ids []int64) {
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 3*s.terms.cfg.SyncEvery)
		b, err := s.Next(ctx)
		cancel()
		if err != nil {
			m.Look(func() {
				if held := m.Ranks[rank].Held; len(held) > 0 {
					t.Errorf("rank %d holds %v still: %v", rank, held, err)
				}
			})
			return ids
		}
		got, err := checkBatch(b)
		if err != nil {
			t.Error(err)
		}
		ids = append(ids, slices.Clone(got)...)
		b.Release()
	}
}

// A restore is refused unless a state bears the session's digests.
func TestStateBearsTheSessionsDigests(t *testing.T) {
	terms := &terms{
		cfg: Config{Session: "run", Rank: 1, WorldSize: 2}, joined: &pb.JoinReply{Generation: 3},
		session: &pb.Session{
			Spec:          &pb.Spec{LastBatch: pb.LastBatch_PAD},
			ProgramDigest: []byte("program"), DatasetDigest: []byte("dataset"), PlannerDigest: []byte("planner"),
		},
	}
	sh := newShared()
	s := &Session{terms: terms, shared: sh, handover: newHandover(terms, sh)}
	want := &pb.State{
		Version: stateVersion, Session: "run", Generation: 3, Rank: 1, WorldSize: 2, ProgramDigest: []byte("program"),
		DatasetDigest: []byte("dataset"), PlannerDigest: []byte("planner"), LastBatch: pb.LastBatch_PAD,
	}
	if got := s.State(); !proto.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestStateKeepsAnEpochUntilTheLoopHasLeftIt(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fake.Net) {
		d := fake.NewDataset(9, 2, 4)
		fl.Worker("w1", &fake.Worker{Data: d, Cut: 7})
		m := &fake.Master{
			Data: d, Spec: &pb.Spec{BatchSize: int64(d.Rows()), Epochs: 2}, Workers: fl.Workers("w1"), Streams: 2,
			Run: 2,
		}
		fl.Master("m", m)
		s := open(t, config(fl, "m"))
		for epoch := range uint32(2) {
			// The streams end first, so that Next takes what lies after the last row too.
			synctest.Wait()
			_ = sleep(t.Context(), 10*s.terms.cfg.SyncEvery)
			b, err := s.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			b.Release()
			for closed := false; !closed; { // by the master
				m.Look(func() { closed = m.Closed > epoch })
				if !closed {
					synctest.Wait()
					_ = sleep(t.Context(), s.terms.cfg.SyncEvery)
				}
			}
			want := position.Set{{From: position.Position{Epoch: epoch}, To: position.Position{Epoch: epoch + 1}}}
			st := s.State()
			got := position.SetFromProto(st.GetConsumed())
			ahead := got.Subtract(want) // windows without rows of the next epoch may be passed already
			if st.GetClosedEpochs() != epoch || !got.Subtract(ahead).Equal(want) || len(d.IDs(ahead)) > 0 {
				t.Errorf("State in epoch %d: %d epochs ended, consumed %v; expected %v",
					epoch, st.GetClosedEpochs(), got, want)
			}
		}
		if _, _, err := drain(s); err != nil {
			t.Fatal(err)
		}
		if st := s.State(); st.GetClosedEpochs() != 2 || len(st.GetConsumed()) != 0 {
			t.Errorf("State at the end: %v", fmt.Sprint(st))
		}
	})
}
