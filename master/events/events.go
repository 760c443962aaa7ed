// Package events keeps what happened to the fleet and to its sessions, for people: the newest events, in memory for
// those who ask and, by a Keeper (master/store), in etcd for whoever leads next. Beside package master, whose term has
// one Log.
//
// A Log may be used by many goroutines at once. Run alone writes.
package events

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/master/store"
)

const (
	// maxWords bounds each text of an event, in bytes.
	maxWords = 2 << 10
	// maxWaiting bounds the events that wait until etcd has them.
	maxWaiting = 1000
	// batch is how many events are written at once. With all of their texts they fit into a transaction.
	batch = 100
	// retryEvery is how long to wait before a write is tried again.
	retryEvery = time.Second
	// flushTimeout bounds the last write.
	flushTimeout = time.Second
)

// Keeper is where events lie.
type Keeper interface {
	// Events are those that are kept, by number.
	Events(ctx context.Context) ([]*pb.Event, error)
	// AppendEvents adds events. It returns store.ErrConflict if an event of the first one's number lies there.
	AppendEvents(ctx context.Context, events []*pb.Event) error
}

// Log is the events as one leader knows them.
type Log struct {
	keeper Keeper
	logger *slog.Logger

	mu      sync.Mutex
	loaded  bool          // kept is what the Keeper had, and what was added to it
	kept    []*pb.Event   // by number; they never change
	waiting []*pb.Event   // in the order in which they were added
	begun   int           // of waiting, that are being written
	lost    int           // that found no room in waiting
	added   uint64        // events that ever were put into waiting
	changed chan struct{} // closed, and another one made, when kept changes
	wake    chan struct{}
}

// New makes a log; Run fills it and keeps it.
func New(keeper Keeper, logger *slog.Logger) *Log {
	return &Log{keeper: keeper, logger: logger, changed: make(chan struct{}), wake: make(chan struct{}, 1)}
}

// Add takes an event that happened just now. It never waits: Run writes it.
func (l *Log) Add(e *pb.Event) {
	e = proto.CloneOf(e)
	e.UnixMs = time.Now().UnixMilli()
	// Names of workers, and what files say of themselves, may be any bytes.
	e.Words, e.Worker = bounded(e.GetWords()), bounded(e.GetWorker())
	if d := e.GetDecision(); d != nil {
		d.Reason = bounded(d.GetReason())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == maxWaiting {
		l.lost++
		l.logger.Warn("an event is not kept: etcd takes none, and too many wait", "kind", e.GetKind(), "words",
			e.GetWords(), "session", e.GetSession())
		return
	}
	if l.lost > 0 {
		e.Words += fmt.Sprintf(
			" (before this, %d events are missing here: etcd took none for too long; the leader's log has them)",
			l.lost)
		l.lost = 0
	}
	l.waiting = append(l.waiting, e)
	l.added++
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// bounded is a text that is valid, and no longer than etcd takes a batch of.
func bounded(text string) string {
	if text = strings.ToValidUTF8(text, "\uFFFD"); len(text) > maxWords {
		text = strings.ToValidUTF8(text[:maxWords-3], "") + "..."
	}
	return text
}

// Settle waits until all that was added before is kept.
func (l *Log) Settle(ctx context.Context) error {
	l.mu.Lock()
	target := l.added
	l.mu.Unlock()
	return l.await(ctx, func() bool { return l.added-uint64(len(l.waiting)) >= target })
}

// List returns the newest events with greater numbers than after, at most limit of them (0: all that are kept), that a
// caller may see. They are not to be changed.
func (l *Log) List(ctx context.Context, after uint64, limit int, visible func(*pb.Event) bool) ([]*pb.Event, error) {
	if err := l.await(ctx, func() bool { return l.loaded }); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []*pb.Event
	for _, e := range l.kept {
		if e.GetNumber() > after && visible(e) {
			out = append(out, e)
		}
	}
	if limit > 0 && len(out) > limit {
		out = out[len(out)-limit:]
	}
	return out, nil
}

// Changed is closed when there are more events than now.
func (l *Log) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// await waits until a condition holds that only Run brings about. It is asked with mu held.
func (l *Log) await(ctx context.Context, holds func() bool) error {
	for {
		l.mu.Lock()
		done, changed := holds(), l.changed
		l.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Run reads what is kept, and writes what is added, until ctx ends or this master leads no more.
func (l *Log) Run(ctx context.Context) error {
	if !l.load(ctx) {
		return nil
	}
	for ctx.Err() == nil {
		for next := l.next(); len(next) > 0 && ctx.Err() == nil; next = l.next() {
			if err := l.write(ctx, next); err != nil {
				return err
			}
		}
		select {
		case <-l.wake:
		case <-ctx.Done():
		}
	}
	return l.flush(ctx)
}

// flush tries once to write what waits at the end: a leader that is stopped in order leads still. A conflict says that
// the write that its end cut off had been made.
func (l *Log) flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
	defer cancel()
	for next := l.next(); len(next) > 0; next = l.next() {
		if err := l.keeper.AppendEvents(ctx, next); err != nil && !errors.Is(err, store.ErrConflict) {
			return nil //nolint:nilerr // its successor leads, or etcd is away: nobody could do more
		}
		l.took(next)
	}
	return nil
}

// load reads what is kept, unless ctx ends before.
func (l *Log) load(ctx context.Context) bool {
	for ctx.Err() == nil {
		kept, err := l.keeper.Events(ctx)
		if err == nil {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.kept, l.loaded = kept, true
			l.broadcast()
			return true
		}
		l.pause(ctx, "cannot read the events; trying on", err)
	}
	return false
}

// broadcast wakes those who wait for a change. The caller holds mu.
func (l *Log) broadcast() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// next numbers the events to be written next. Until they are, they stay the same, whatever is added.
func (l *Log) next() []*pb.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	number := uint64(1)
	if n := len(l.kept); n > 0 {
		number = l.kept[n-1].GetNumber() + 1
	}
	if l.begun == 0 {
		l.begun = min(batch, len(l.waiting))
	}
	next := l.waiting[:l.begun]
	for i, e := range next {
		e.Number = number + uint64(i)
	}
	return next
}

// write writes events, again and again until it is known that they lie there. They do so once: each try compares that
// the first does not.
func (l *Log) write(ctx context.Context, next []*pb.Event) error {
	for try := 0; ; try++ {
		err := l.keeper.AppendEvents(ctx, next)
		if err == nil || try > 0 && errors.Is(err, store.ErrConflict) {
			break
		}
		if ctx.Err() != nil {
			return nil //nolint:nilerr // Run's flush tries once more
		}
		if errors.Is(err, store.ErrNotLeader) || errors.Is(err, store.ErrConflict) {
			return fmt.Errorf("events: %w", err)
		}
		l.pause(ctx, "cannot keep events; trying on", err)
	}
	l.took(next)
	return nil
}

// took says that what waited longest is kept.
func (l *Log) took(next []*pb.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = append(l.kept, next...)
	l.kept = l.kept[max(0, len(l.kept)-store.KeptEvents):]
	l.waiting, l.begun = append([]*pb.Event(nil), l.waiting[len(next):]...), 0
	l.broadcast()
}

func (l *Log) pause(ctx context.Context, what string, err error) {
	if ctx.Err() != nil {
		return
	}
	l.logger.Warn(what, "error", err)
	select {
	case <-time.After(retryEvery):
	case <-ctx.Done():
	}
}
