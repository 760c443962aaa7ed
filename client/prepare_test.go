package client

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/client/conformance/fake"
)

// TestPrepare makes the batch that Next returns, of the same rows, without waiting.
func TestPrepare(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fake.Net) {
		slow := func(ctx context.Context, _ *fake.Record) error { return sleep(ctx, time.Second) }
		d := &fake.Dataset{Epochs: 1, BlockShards: 1, Shards: [][]int{{160}}}
		fl.Worker("w1", &fake.Worker{Data: d, Cut: 8, Fault: slow})
		m := &fake.Master{Data: d, Spec: &pb.Spec{BatchSize: 32}, Workers: fl.Workers("w1"), Streams: 1, Run: 1}
		fl.Master("m", m)
		s := open(t, config(fl, "m"))
		var ids []int64
		for len(ids) < d.Rows() {
			s.Prepare(t.Context().Done())
			if at := s.State(); at.GetRows() != int64(len(ids)) {
				t.Errorf("%d rows count as handed over, of %d", at.GetRows(), len(ids))
			}
			begin := time.Now()
			b, err := s.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if waited := time.Since(begin); waited > 0 {
				t.Errorf("Next took %v", waited)
			}
			ids = append(ids, b.Labels[0].I64...)
			b.Release()
		}
		if !slices.Equal(ids, d.IDs(d.All())) {
			t.Errorf("the rows %d", ids)
		}
	})
}

// TestPrepareOfTooManyValues fails the session, as rows were taken that are not in the batch: later rows, of fewer
// values, make none.
func TestPrepareOfTooManyValues(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fake.Net) {
		slow := func(ctx context.Context, _ *fake.Record) error { return sleep(ctx, time.Second) }
		d := &fake.Dataset{Epochs: 1, BlockShards: 1, Shards: [][]int{{160}}}
		fl.Worker("w1", &fake.Worker{Data: d, Cut: 8, Fault: slow})
		fl.Master("m", &fake.Master{
			Data: d, Spec: &pb.Spec{BatchSize: 32}, Workers: fl.Workers("w1"), Streams: 1, Run: 1,
		})
		s := open(t, config(fl, "m"))
		prepare := func() {
			ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
			defer cancel()
			s.Prepare(ctx.Done())
		}
		prepare()
		ids := &s.handover.build.columns[1]
		end := ids.own[s.handover.build.rows]
		ids.own[s.handover.build.rows] = math.MaxInt32
		prepare()
		ids.own[s.handover.build.rows] = end
		if b, err := s.Next(t.Context()); err == nil || !strings.Contains(err.Error(), "lower batch_size") {
			t.Errorf("a batch: %t; %v", b != nil, err)
		}
		if at := s.State(); at.GetRows() != 0 || len(at.GetConsumed()) > 0 {
			t.Errorf("consumed: %v", at)
		}
	})
}

// TestPrepareIsInterrupted anywhere, with batches that are released late.
func TestPrepareIsInterrupted(t *testing.T) {
	d := &fake.Dataset{Epochs: 3, BlockShards: 2, Shards: [][]int{{20, 4}, {0, 24}, {24}, {10, 0, 14}}}
	eachOrder(t, d, func(t *testing.T, fl *fake.Net, spec *pb.Spec) {
		r := rand.New(rand.NewPCG(1, 2))
		slow := func(ctx context.Context, _ *fake.Record) error { return sleep(ctx, 10*time.Millisecond) }
		fl.Worker("w1", &fake.Worker{Data: d, Cut: 7, Fault: slow})
		m := &fake.Master{Data: d, Spec: spec, Workers: fl.Workers("w1"), Streams: 2, Run: 2}
		fl.Master("m", m)
		s := open(t, config(fl, "m"))
		var ids []int64
		var held []*Batch
		for n := range 12 {
			for range r.IntN(3) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(r.IntN(40))*time.Millisecond)
				s.Prepare(ctx.Done())
				cancel()
			}
			b, err := s.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if held = append(held, b); len(held) > 3 || n == 11 {
				r.Shuffle(len(held), func(i, k int) { held[i], held[k] = held[k], held[i] })
				for _, b := range held {
					got, err := checkBatch(b)
					if err != nil {
						t.Fatal(err)
					}
					ids = append(ids, got...)
					b.Release()
				}
				held = nil
			}
		}
		exactlyOnce(t, d, ids)
		checkMaster(t, m)
	})
}

// TestPrepareOfAnEnd returns at once where there is nothing to make any more, but for the session's end, which may
// still change.
func TestPrepareOfAnEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, fl *fake.Net) {
		simple(fl, 16, &fake.Worker{})
		s := open(t, config(fl, "m"))
		if _, _, err := drain(s); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		s.Prepare(ctx.Done())
		if ctx.Err() == nil {
			t.Error("Prepare after the last batch does not wait")
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		s.Prepare(t.Context().Done())
	})
}

// TestPreparedRowsAreGivenToOthers: what was prepared is thrown away, and read by those who have it.
func TestPreparedRowsAreGivenToOthers(t *testing.T) {
	for _, spec := range []*pb.Spec{{BatchSize: 16}, {BatchSize: 16, LastBatch: pb.LastBatch_PAD}} {
		inBubble(t, func(t *testing.T, fl *fake.Net) {
			m := simple(fl, 16, &fake.Worker{})
			m.Spec = spec
			s := open(t, config(fl, "m"))
			s.Prepare(t.Context().Done())
			synctest.Wait()
			m.Change(func() {
				m.Returned, m.Ranks[0].Held = m.Returned.Union(m.Ranks[0].Held), nil
				m.Frozen = true
			})
			time.Sleep(3 * s.terms.cfg.SyncEvery)
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if b, err := s.Next(ctx); err == nil {
				t.Errorf("a batch of %d rows that are not held any more", b.Rows)
			}
			m.Change(func() { m.Frozen = false })
			ids, _ := readEpochs(t, s)
			exactlyOnce(t, m.Data, ids)
			checkMaster(t, m)
		})
	}
}
