package observe

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// session is one that trainers Sync for.
type session struct {
	Running
	trainers map[uint32]*trainer
	// Busy time of workers and rows that they sent; both fade, so that their quotient is that of lately, and stays
	// while nothing is sent.
	busy, rows float64
	faded      time.Time
	now        Session // as of the newest Tick
	minute     minute
	series     series
}

// trainer is a rank of a session.
type trainer struct {
	generation, incarnation uint64
	reports                 recent[told]
	pace                    *pb.Pace
}

// told is what a Sync says of what was handed over.
type told struct {
	counters *pb.Counters
	client   int64
}

// take takes a Sync. A trainer that leaves is forgotten.
func (s *session) take(now time.Time, r *pb.SyncRequest) {
	if r.GetLeave() {
		delete(s.trainers, r.GetRank())
		return
	}
	t := s.trainers[r.GetRank()]
	if t == nil || t.generation != r.GetGeneration() || t.incarnation != r.GetIncarnation() {
		t = &trainer{generation: r.GetGeneration(), incarnation: r.GetIncarnation()}
		s.trainers[r.GetRank()] = t
	}
	for _, kept := range []protoreflect.Message{r.GetPace().ProtoReflect(), r.GetCounters().ProtoReflect()} {
		if kept.IsValid() {
			kept.SetUnknown(nil) // of any size
		}
	}
	t.pace = r.GetPace()
	t.reports.add(now, told{r.GetCounters(), r.GetPace().GetClientNs()}, func(before, after told) bool {
		a, b := before.counters, after.counters
		return b.GetRows() >= a.GetRows() && b.GetBatches() >= a.GetBatches() && b.GetStallNs() >= a.GetStallNs() &&
			after.client >= before.client
	})
}

// rates are a trainer's: rows/s, and the shares of its time that it waited and that the client worked.
func (t *trainer) rates() (rows, stall, client float64) {
	dt, a, b := t.reports.seconds(), t.reports.base, t.reports.newest
	if dt <= 0 {
		return 0, 0, 0
	}
	share := func(ns int64) float64 { return min(1, float64(ns)/1e9/dt) }
	return float64(b.counters.GetRows()-a.counters.GetRows()) / dt,
		share(b.counters.GetStallNs() - a.counters.GetStallNs()), share(b.client - a.client)
}

// demand is the rows/s that trainers could take: all ranks' batches in the time of the quickest step. In a job whose
// ranks wait for each other, a rank that waits for a stalled one seems to compute.
func (s *session) demand() float64 {
	fastest, rows, known := int64(math.MaxInt64), 0.0, 0
	for _, t := range s.trainers {
		// what trainers say may be anything
		if t.pace.GetSteps() > 0 && t.pace.GetRows() > 0 && t.pace.GetRows() <= spec.MaxBatchSize {
			fastest = min(fastest, max(1, t.pace.GetStepNs()))
			rows += t.pace.GetRows()
			known++
		}
	}
	if known == 0 {
		return 0
	}
	return rows / float64(known) * float64(len(s.trainers)) / (float64(fastest) / 1e9)
}

// spent adds to the cost of a row what was measured for some time: busy seconds of workers and rows sent, a second.
func (s *session) spent(now time.Time, busy, rows float64) {
	dt := min(now.Sub(s.faded), window).Seconds()
	if s.faded.IsZero() {
		dt = tick.Seconds()
	}
	s.faded = now
	if rows <= 0 || dt <= 0 {
		return
	}
	fade := math.Exp(-dt / costLasts.Seconds())
	s.busy, s.rows = s.busy*fade+busy*dt, s.rows*fade+rows*dt
}

// cost is the busy seconds of a worker per row; 0: unknown.
func (s *session) cost() float64 {
	if s.rows <= 0 {
		return 0
	}
	return s.busy / s.rows
}

// trained is what trainers say of themselves.
type trained struct {
	present, silent, measured     int
	rate, stall, client, buffered float64 // stall and client: summed over those that are measured
}

// told sums what trainers say, and forgets those that are gone.
func (s *session) told(now time.Time) (sum trained) {
	maps.DeleteFunc(s.trainers, func(_ uint32, t *trainer) bool { return now.Sub(t.reports.at) > gone })
	for _, t := range s.trainers {
		sum.present++
		if !t.reports.fresh(now) {
			sum.silent++
			continue
		}
		if t.reports.seconds() <= 0 {
			continue
		}
		sum.measured++
		rows, stall, client := t.rates()
		sum.rate, sum.stall, sum.client = sum.rate+rows, sum.stall+stall, sum.client+client
		sum.buffered += t.pace.GetBuffered()
	}
	return sum
}

// trainersProto is each trainer as it is shown, by rank.
func (s *session) trainersProto(now time.Time) []*pb.TrainerLoad {
	out := make([]*pb.TrainerLoad, 0, len(s.trainers))
	for rank, t := range s.trainers {
		l := &pb.TrainerLoad{
			Rank: rank, Present: t.reports.fresh(now), StepNs: t.pace.GetStepNs(),
			Counters: t.reports.newest.counters,
		}
		if l.GetPresent() {
			l.Rate, l.Stall, _ = t.rates()
		}
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b *pb.TrainerLoad) int { return cmp.Compare(a.GetRank(), b.GetRank()) })
	return out
}

// shareOf is a share with its defaults.
func shareOf(p *pb.Share) Share {
	s := Share{Weight: cmp.Or(p.GetWeight(), 1), Min: float64(p.GetMinWorkers()), Max: float64(p.GetMaxWorkers())}
	if s.Max == 0 {
		s.Max = math.Inf(1)
	}
	return s
}
