package dashboard

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
)

// round has the messages that the streams send at one time: each is made once, however many viewers it is for.
type round struct {
	mu     sync.Mutex
	number int64
	made   map[whatFor]*making
}

// whatFor is what a message depends on.
type whatFor struct {
	namespace  string
	everywhere bool
	session    string
	limit      uint32
	workers    bool
	known
}

type making struct {
	done chan struct{}
	message
}

// by makes the message. Others wait for it, too, and go on even if that panics.
func (m *making) by(do func() message) {
	defer close(m.done)
	m.err = errors.New("the dashboard has a bug, which the master's log tells of")
	m.message = do()
}

// next is what a feed has to tell in this round.
func (d *Dashboard) next(ctx context.Context, f *feed) ([]byte, error) {
	number := time.Now().Truncate(d.cfg.Every).UnixNano() / d.cfg.Every.Nanoseconds()
	m, mine := d.round.take(number, whatFor{f.who.Namespace, f.who.Everywhere, f.session, f.limit, f.workers, f.known},
		d.cfg.Viewers)
	if mine {
		m.by(func() message { return f.make(context.WithoutCancel(ctx), number) })
	}
	select {
	case <-m.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	f.known = m.known
	return m.text, m.err
}

// take finds a message, or says that the caller has to make it. Of more messages than there may be viewers it keeps no
// more.
func (r *round) take(number int64, w whatFor, limit int) (m *making, mine bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.number != number {
		r.number, r.made = number, map[whatFor]*making{}
	}
	m, ok := r.made[w]
	if ok {
		return m, false
	}
	m = &making{done: make(chan struct{})}
	if len(r.made) < limit {
		r.made[w] = m
	}
	return m, true
}

// atOnce is how many workers are told of in each round; those of a larger fleet come in fewer rounds.
const atOnce = 200

// every is of how many rounds one tells of so many workers.
func every(workers int) int64 { return int64(max(1, (workers+atOnce-1)/atOnce)) }

// brief takes out of an observation what the page does not show of each of a thousand trainers or workers, and the
// workers.
func brief(seen *pb.Observation) (workers []*pb.WorkerLoad) {
	for _, s := range seen.GetSessions() {
		if s.GetProgress() != nil {
			s.Progress.Ranks = nil
		}
		for _, t := range s.GetTrainers() {
			t.Rate, t.Stall = rounded(t.GetRate()), rounded(t.GetStall())
			t.Counters = &pb.Counters{Rows: t.GetCounters().GetRows(), Failovers: t.GetCounters().GetFailovers()}
		}
	}
	workers, seen.Workers = seen.GetWorkers(), nil
	for _, w := range workers {
		w.Stages = nil
		w.Busy, w.Rate, w.BytesRead, w.BytesSent = rounded(w.GetBusy()), rounded(w.GetRate()),
			rounded(w.GetBytesRead()), rounded(w.GetBytesSent())
	}
	return workers
}

// rounded is a number to four digits, which is more than is shown.
func rounded(x float64) float64 {
	if x == 0 || math.IsInf(x, 0) || math.IsNaN(x) {
		return x
	}
	size := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(x))))
	return math.Round(x*size) / size
}
