package master

import (
	"sync"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/fleet"
)

const (
	// loadWindow is the time over which the workers' counters are compared: between half of it and all of it. A worker
	// that has been silent for longer does not count.
	loadWindow = 10 * time.Second
	// loadRefresh is how long a sum over all workers is good for.
	loadRefresh = time.Second
)

// load sums what the fleet's workers were busy with lately. It knows the clock only by the times that it is told, and
// may be used by many goroutines at once.
type load struct {
	mu      sync.Mutex
	workers map[string]*workerLoad // of the fleet; nil until the first report
	sum     *pb.FleetLoad          // as of summed; it never changes
	summed  time.Time
}

// workerLoad is the newest report of a worker, and two earlier ones to compare it with: each takes the place of the one
// before it when half a window has passed.
type workerLoad struct{ base, middle, newest timedReport }

type timedReport struct {
	at time.Time
	*pb.WorkerReport
}

// follow forgets the workers that are not in the fleet, and takes reports of those that are.
func (l *load) follow(workers []fleet.Member) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := make(map[string]*workerLoad, len(workers))
	for _, w := range workers {
		next[w.Name] = l.workers[w.Name]
	}
	l.workers = next
}

// report takes what a worker of the fleet says.
func (l *load) report(now time.Time, r *pb.WorkerReport) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w, ok := l.workers[r.GetName()]
	if !ok {
		return // the next one comes soon
	}
	report := timedReport{now, r}
	switch {
	case w == nil || now.Sub(w.newest.at) > loadWindow || fellBack(w.newest.GetCounters(), r.GetCounters()):
		l.workers[r.GetName()] = &workerLoad{report, report, report}
		return
	case now.Sub(w.middle.at) >= loadWindow/2:
		w.base, w.middle = w.middle, report
	}
	w.newest = report
}

// fellBack reports whether counters began anew, as those of a worker do that was started again.
func fellBack(before, after *pb.WorkerCounters) bool {
	d := grown(before, after)
	return min(d.Rows, d.BytesRead, d.BytesSent, d.StorageNs, d.DecodeNs, d.TransformNs, d.TensorNs, d.SendNs, d.Requests, d.BytesNeeded) < 0
}

func grown(from, to *pb.WorkerCounters) *pb.WorkerCounters { return plus(to, -1, from) }

// plus is a + sign*b.
func plus(a *pb.WorkerCounters, sign int64, b *pb.WorkerCounters) *pb.WorkerCounters {
	return &pb.WorkerCounters{
		Rows:        a.GetRows() + sign*b.GetRows(),
		BytesRead:   a.GetBytesRead() + sign*b.GetBytesRead(),
		BytesSent:   a.GetBytesSent() + sign*b.GetBytesSent(),
		StorageNs:   a.GetStorageNs() + sign*b.GetStorageNs(),
		DecodeNs:    a.GetDecodeNs() + sign*b.GetDecodeNs(),
		TransformNs: a.GetTransformNs() + sign*b.GetTransformNs(),
		TensorNs:    a.GetTensorNs() + sign*b.GetTensorNs(),
		SendNs:      a.GetSendNs() + sign*b.GetSendNs(),
		Requests:    a.GetRequests() + sign*b.GetRequests(),
		BytesNeeded: a.GetBytesNeeded() + sign*b.GetBytesNeeded(),
	}
}

// total is the sum over the workers; it is not to be changed.
func (l *load) total(now time.Time) *pb.FleetLoad {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sum != nil && now.Sub(l.summed) < loadRefresh {
		return l.sum
	}
	out := &pb.FleetLoad{Counters: &pb.WorkerCounters{}}
	for _, w := range l.workers {
		if w != nil && now.Sub(w.newest.at) <= loadWindow {
			w.addTo(out)
		}
	}
	l.sum, l.summed = out, now
	return out
}

func (w *workerLoad) addTo(sum *pb.FleetLoad) {
	sum.Workers++
	sum.Streams += w.newest.GetStreams()
	sum.Slots += w.newest.GetSlots()
	sum.Seconds += w.newest.at.Sub(w.base.at).Seconds()
	sum.Counters = plus(sum.Counters, 1, grown(w.base.GetCounters(), w.newest.GetCounters()))
}
