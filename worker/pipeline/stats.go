package pipeline

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/storage"
)

// stats counts what the streams of a session did since began: rows, bytes, and the time of their goroutines by what
// they were at.
type stats struct {
	began                                                   time.Time
	rows, bytesSent, crossZone                              atomic.Int64
	lent, linked                                            atomic.Int64 // of bytesSent
	requests, bytesRead, bytesNeeded                        atomic.Int64 // of storage
	untrusted                                               atomic.Int64 // page indexes
	badRows                                                 atomic.Int64 // left out of what was sent, each time
	storage, decode, transform, tensor, send, open, blocked stopwatch

	mu  sync.Mutex
	ops map[string]*atomic.Int64 // nanoseconds of transform
}

// op is the time of an op.
func (s *stats) op(name string) *atomic.Int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ops == nil {
		s.ops = map[string]*atomic.Int64{}
	}
	if s.ops[name] == nil {
		s.ops[name] = &atomic.Int64{}
	}
	return s.ops[name]
}

func (s *stats) counters() *pb.WorkerCounters {
	out := &pb.WorkerCounters{
		Rows: s.rows.Load(), BytesSent: s.bytesSent.Load(), BytesCrossZone: s.crossZone.Load(),
		BytesLent: s.lent.Load(), BytesLinked: s.linked.Load(),
		Requests: s.requests.Load(), BytesRead: s.bytesRead.Load(), BytesNeeded: s.bytesNeeded.Load(),
		UntrustedIndexes: s.untrusted.Load(), BadRows: s.badRows.Load(),
		StorageNs: s.storage.read(s), DecodeNs: s.decode.read(s), TransformNs: s.transform.read(s),
		TensorNs: s.tensor.read(s), SendNs: s.send.read(s), OpenNs: s.open.read(s), BlockedNs: s.blocked.read(s),
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.ops)) {
		out.Ops = append(out.Ops, &pb.OpTime{Op: name, Ns: s.ops[name].Load()})
	}
	return out
}

// now is the time since began, in nanoseconds.
func (s *stats) now() int64 { return int64(time.Since(s.began)) }

// stopwatch adds up the time that goroutines spend at something. What is under way counts as it goes: a stream that
// stands for minutes in one send shows it in each of them.
type stopwatch struct {
	mu      sync.Mutex
	total   int64 // the ends of what has ended, less all starts
	running int64 // how many are under way
}

// timed adds the time that f takes to a stopwatch.
func (s *stats) timed(w *stopwatch, f func() error) error {
	w.start(s)
	defer w.stop(s) // f may panic
	return f()
}

// instead is timed within what runs under another stopwatch, which stands meanwhile.
func (s *stats) instead(of, w *stopwatch, f func() error) error {
	of.stop(s)
	defer of.start(s)
	return s.timed(w, f)
}

// start and stop ask for the time under the lock, as read does: else a reading could be less than the one before.
func (w *stopwatch) start(s *stats) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running++
	w.total -= s.now()
}

func (w *stopwatch) stop(s *stats) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running--
	w.total += s.now()
}

// read is the time so far. It never falls.
func (w *stopwatch) read(s *stats) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.total + w.running*s.now()
}

// counting is a Storage whose reads are counted.
type counting struct {
	storage.Storage
	stats *stats
}

// countReads has reads of a Storage counted. To take what it keeps is none.
func countReads(st storage.Storage, stats *stats) storage.Storage {
	c := counting{st, stats}
	if keeper, ok := st.(storage.Keeper); ok {
		return struct {
			counting
			storage.Keeper
		}{c, keeper}
	}
	return c
}

func (c counting) ReadAt(ctx context.Context, profile string, f *pb.File, buf []byte, offset int64) error {
	c.stats.requests.Add(1)
	err := c.Storage.ReadAt(ctx, profile, f, buf, offset)
	if err == nil {
		c.stats.bytesRead.Add(int64(len(buf)))
	}
	return err
}
