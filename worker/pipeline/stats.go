package pipeline

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
)

// stats counts what the streams did since began: rows, bytes, and the time of their goroutines by what they were at.
type stats struct {
	began                                    time.Time
	rows, bytesRead, bytesSent               atomic.Int64
	storage, decode, transform, tensor, send stopwatch
}

// Counters returns what this worker has done since its start.
func (p *Pipeline) Counters() *pb.WorkerCounters {
	s := &p.stats
	return &pb.WorkerCounters{
		Rows: s.rows.Load(), BytesRead: s.bytesRead.Load(), BytesSent: s.bytesSent.Load(),
		StorageNs: s.storage.read(s), DecodeNs: s.decode.read(s), TransformNs: s.transform.read(s),
		TensorNs: s.tensor.read(s), SendNs: s.send.read(s),
	}
}

// now is the time since began, in nanoseconds.
func (s *stats) now() int64 { return int64(time.Since(s.began)) }

// stopwatch adds up the time that goroutines spend at something. What is under way counts as it goes: a stream that
// stands for minutes in one send shows it in each of them.
type stopwatch struct {
	mu      sync.Mutex
	total   int64 // of what has ended
	running int64 // how many are under way
	started int64 // the sum of their starts
}

// timed adds the time that f takes to a stopwatch.
func (s *stats) timed(w *stopwatch, f func() error) error {
	start := w.start(s)
	defer w.stop(s, start) // f may panic
	return f()
}

// start and stop ask for the time under the lock, as read does: else a reading could be less than the one before.
func (w *stopwatch) start(s *stats) (start int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	start = s.now()
	w.running++
	w.started += start
	return start
}

func (w *stopwatch) stop(s *stats, start int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running--
	w.started -= start
	w.total += s.now() - start
}

// read is the time so far. It never falls.
func (w *stopwatch) read(s *stats) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.total + w.running*s.now() - w.started
}
