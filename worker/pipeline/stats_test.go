package pipeline

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
)

// readThrough runs a stream of three row groups whose reads and trainer take time. The clock stands still while the
// stream computes, so that nothing but these waits can show in the counters. It looks at them, too, while the
// trainer has the first batch.
func readThrough(t *testing.T, read, train time.Duration) (first, last *pb.WorkerCounters, batches int) {
	t.Helper()
	store := pipelinetest.Store{Hook: func(context.Context, *pb.File, int64,
		int64,
	) error {
		time.Sleep(read)
		return nil
	}}
	ticket := shard(t, &store, 50, 100, 100, 100)
	p := newPipeline(&store, 500)
	s, err := p.Open(t.Context(), ticket, pipelinetest.Program(), Cursor{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	err = s.Run(t.Context(), func(_ context.Context, b Batch) error {
		defer b.Release()
		time.Sleep(train / 2)
		if batches++; batches == 1 {
			first = p.Counters()
		}
		time.Sleep(train / 2)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return first, p.Counters(), batches
}

// A trainer that is slow shows in the time to send, as it waits, and nowhere else: not in the stages that wait for it.
func TestCountersOfASlowTrainer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, last, batches := readThrough(t, 0, time.Hour)
		if got := time.Duration(first.GetSendNs()); got != time.Hour/2 || first.GetRows() != 0 {
			t.Errorf("in the middle of the first batch: %v, %d rows sent", got, first.GetRows())
		}
		want := &pb.WorkerCounters{
			Rows: 300, BytesRead: last.GetBytesRead(), BytesSent: last.GetBytesSent(),
			SendNs: int64(batches) * int64(time.Hour),
		}
		countedReads(want, last)
		countedTime(want, last)
		if !proto.Equal(last, want) || batches < 10 || last.GetBytesRead() == 0 || last.GetBytesSent() == 0 {
			t.Errorf("after %d batches: %v, want %v", batches, last, want)
		}
	})
}

// countedTime expects that the stream was open all the time, and that its ops took none.
func countedTime(want, got *pb.WorkerCounters) {
	want.OpenNs = want.GetStorageNs() + want.GetSendNs()
	for _, op := range got.GetOps() {
		want.Ops = append(want.Ops, &pb.OpTime{Op: op.GetOp()})
	}
}

// countedReads expects as many requests as the file takes, and that less of it was needed than read.
func countedReads(want, got *pb.WorkerCounters) {
	want.Requests = 3
	if n := got.GetBytesNeeded(); n > 0 && n < got.GetBytesRead() {
		want.BytesNeeded = n
	}
}

func TestCountersOfSlowStorage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, last, _ := readThrough(t, time.Minute, 0)
		want := &pb.WorkerCounters{
			Rows: 300, BytesRead: last.GetBytesRead(), BytesSent: last.GetBytesSent(),
			StorageNs: int64(2 * time.Minute), // the footer; then a row group, and behind it two more at the same time
		}
		countedReads(want, last)
		countedTime(want, last)
		if !proto.Equal(last, want) {
			t.Errorf("%v, want %v", last, want)
		}
	})
}

func TestStopwatchAddsUpWhatRunsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stats{began: time.Now()}
		for i := range 3 {
			go func() {
				_ = s.timed(&s.decode, func() error { time.Sleep(time.Duration(i+1) * time.Second); return nil })
			}()
		}
		for i, want := range []time.Duration{0, 3, 5, 6, 6} {
			synctest.Wait()
			if got := time.Duration(s.decode.read(s)); got != want*time.Second {
				t.Errorf("after %d s: %v, want %v s", i, got, int(want))
			}
			time.Sleep(time.Second)
		}
	})
}

func BenchmarkTimed(b *testing.B) {
	s := &stats{began: time.Now()}
	b.ReportAllocs()
	for b.Loop() {
		_ = s.timed(&s.decode, func() error { return nil })
	}
}

// Who compares two readings must not find that time went back.
func TestStopwatchNeverFallsBack(t *testing.T) {
	s := &stats{began: time.Now()}
	var group sync.WaitGroup
	var ended atomic.Bool
	for range 4 {
		group.Go(func() {
			for !ended.Load() {
				_ = s.timed(&s.decode, func() error { return nil })
			}
		})
	}
	last := int64(0)
	for range 200_000 {
		now := s.decode.read(s)
		if now < last {
			t.Errorf("%d ns after %d", now, last)
			break
		}
		last = now
	}
	ended.Store(true)
	group.Wait()
}
