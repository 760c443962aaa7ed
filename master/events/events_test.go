package events

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/master/store"
)

// keeper keeps events in memory. Its fate of a call says what its caller is told, and whether it did what it was to.
type keeper struct {
	kept []*pb.Event
	fate func(call int) (does bool, err error)
	call int
}

func (k *keeper) next() (bool, error) {
	k.call++
	if k.fate == nil {
		return true, nil
	}
	return k.fate(k.call)
}

func (k *keeper) Events(context.Context) ([]*pb.Event, error) {
	if does, err := k.next(); !does {
		return nil, err
	}
	return slices.Clone(k.kept), nil
}

func (k *keeper) AppendEvents(_ context.Context, events []*pb.Event) error {
	does, err := k.next()
	if !does {
		return err
	}
	if n := len(k.kept); n > 0 && k.kept[n-1].GetNumber() >= events[0].GetNumber() {
		return store.ErrConflict
	}
	for _, e := range events {
		k.kept = append(k.kept, proto.CloneOf(e))
	}
	return err
}

func (k *keeper) words() string {
	var out []string
	for _, e := range k.kept {
		out = append(out, fmt.Sprintf("%d %s", e.GetNumber(), e.GetWords()))
	}
	return strings.Join(out, ", ")
}

func all(*pb.Event) bool { return true }

func add(l *Log, words ...string) {
	for _, w := range words {
		l.Add(&pb.Event{Words: w})
	}
}

// run runs a log inside a bubble until f returns, and returns what Run did.
func run(t *testing.T, k *keeper, f func(ctx context.Context, l *Log)) (err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := New(k, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			err = l.Run(ctx)
		}()
		f(ctx, l)
		cancel()
		<-done
	})
	return err
}

func TestNumbersGoOn(t *testing.T) {
	k := &keeper{kept: []*pb.Event{{Number: 7, Words: "of another leader"}}}
	err := run(t, k, func(ctx context.Context, l *Log) {
		changed := l.Changed()
		add(l, "a", "b")
		if err := l.Settle(ctx); err != nil {
			t.Error(err)
		}
		select {
		case <-changed:
		default:
			t.Error("nobody was told of the change")
		}
		for _, c := range []struct {
			after uint64
			limit int
			want  []uint64
		}{{0, 0, []uint64{7, 8, 9}}, {7, 0, []uint64{8, 9}}, {0, 1, []uint64{9}}, {9, 0, nil}} {
			found, err := l.List(ctx, c.after, c.limit, all)
			var got []uint64
			for _, e := range found {
				got = append(got, e.GetNumber())
			}
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("after %d, at most %d: %v, %v", c.after, c.limit, got, err)
			}
		}
		one, err := l.List(ctx, 0, 0, func(e *pb.Event) bool { return e.GetWords() == "a" })
		if err != nil || len(one) != 1 || one[0].GetUnixMs() == 0 {
			t.Errorf("one is visible: %v, %v", one, err)
		}
	})
	if err != nil || k.words() != "7 of another leader, 8 a, 9 b" {
		t.Errorf("in the end there is %q (%v)", k.words(), err)
	}
}

// TestLostAnswers has writes fail in each way: what was written is not written again, what was not is.
func TestLostAnswers(t *testing.T) {
	k := &keeper{fate: func(call int) (bool, error) {
		switch call {
		case 1: // reading
			return false, store.ErrUnavailable
		case 3: // the request is lost, then the answer
			return false, store.ErrUnknown
		case 4:
			return true, store.ErrUnknown
		}
		return true, nil
	}}
	err := run(t, k, func(ctx context.Context, l *Log) {
		add(l, "a")
		if err := l.Settle(ctx); err != nil {
			t.Error(err)
		}
		add(l, "b")
		if err := l.Settle(ctx); err != nil {
			t.Error(err)
		}
	})
	if err != nil || k.words() != "1 a, 2 b" || k.call != 6 {
		t.Errorf("after %d calls there is %q (%v)", k.call, k.words(), err)
	}
}

func TestWhoLeadsNoMoreStops(t *testing.T) {
	for _, fatal := range []error{store.ErrNotLeader, store.ErrConflict} {
		k := &keeper{fate: func(call int) (bool, error) {
			if call == 1 { // reading
				return true, nil
			}
			return false, fatal
		}}
		err := run(t, k, func(_ context.Context, l *Log) {
			add(l, "a")
			synctest.Wait()
		})
		if !errors.Is(err, fatal) {
			t.Errorf("%v ends it with %v", fatal, err)
		}
	}
}

// TestNothingGoesUnmentioned has more events than may wait while etcd is away.
func TestNothingGoesUnmentioned(t *testing.T) {
	var away atomic.Bool
	away.Store(true)
	k := &keeper{}
	k.fate = func(int) (bool, error) {
		if away.Load() {
			return false, store.ErrUnavailable
		}
		return true, nil
	}
	err := run(t, k, func(ctx context.Context, l *Log) {
		for i := range maxWaiting + 5 {
			add(l, fmt.Sprint(i))
		}
		away.Store(false)
		if err := l.Settle(ctx); err != nil {
			t.Error(err)
		}
		add(l, "at last")
		if err := l.Settle(ctx); err != nil {
			t.Error(err)
		}
	})
	if n := len(k.kept); err != nil || n != maxWaiting+1 ||
		!strings.Contains(k.kept[n-1].GetWords(), "at last (before this, 5 events are missing") {
		t.Errorf("%d events are kept, the last is %v (%v)", n, k.kept[n-1], err)
	}
}

func TestTheLastEventsAreWritten(t *testing.T) {
	k := &keeper{}
	err := run(t, k, func(ctx context.Context, l *Log) {
		add(l, "a")
		if err := l.Settle(ctx); err != nil {
			t.Error(err)
		}
		l.mu.Lock() // nothing is written until the log is told to end
		l.waiting = append(l.waiting, &pb.Event{Words: "b"})
		l.mu.Unlock()
	})
	if err != nil || k.words() != "1 a, 2 b" {
		t.Errorf("in the end there is %q (%v)", k.words(), err)
	}
}

// TestACutOffWrite has the log end while it writes: whatever became of that, each event is kept once.
func TestACutOffWrite(t *testing.T) {
	for _, made := range []bool{false, true} {
		var ctx context.Context
		k := &keeper{}
		k.fate = func(call int) (bool, error) {
			if call == 2 { // that of a
				<-ctx.Done()
				return made, store.ErrUnknown
			}
			return true, nil
		}
		err := run(t, k, func(c context.Context, l *Log) {
			synctest.Wait() // it has read what there is
			ctx = c
			add(l, "a")
			synctest.Wait()
			add(l, "b")
		})
		if err != nil || k.words() != "1 a, 2 b" {
			t.Errorf("the write that was cut off was made: %t; in the end there is %q (%v)", made, k.words(), err)
		}
	}
}

// TestAnyBytes: an event that etcd cannot take would keep all others from it.
func TestAnyBytes(t *testing.T) {
	k := &keeper{}
	err := run(t, k, func(ctx context.Context, l *Log) {
		l.Add(&pb.Event{Words: "w\xff joined", Worker: "w\xff"})
		if err := l.Settle(ctx); err != nil {
			t.Error(err)
		}
	})
	if err != nil || k.words() != "1 w\uFFFD joined" {
		t.Errorf("there is %q (%v)", k.words(), err)
	}
	if _, err := proto.Marshal(k.kept[0]); err != nil {
		t.Error(err)
	}
}

func TestTextsAreBounded(t *testing.T) {
	k := &keeper{}
	err := run(t, k, func(ctx context.Context, l *Log) {
		long := strings.Repeat("é", maxWords)
		l.Add(&pb.Event{Words: long, Worker: long, Decision: &pb.Decision{Reason: long}})
		if err := l.Settle(ctx); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{k.kept[0].GetWords(), k.kept[0].GetWorker(), k.kept[0].GetDecision().GetReason()} {
		if len(text) > maxWords || !strings.HasSuffix(text, "é...") || strings.ContainsRune(text, '\uFFFD') {
			t.Errorf("a text has %d bytes and ends with %q", len(text), text[len(text)-10:])
		}
	}
}
