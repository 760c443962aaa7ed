package dashboard_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
)

// begin is when the generated fleet starts, and step is between its points.
const (
	begin = 1_790_000_000_000
	step  = 5_000
)

// generate makes an observation of a fleet that was too small until half of its points, and has been right-sized since.
func generate(workers, sessions, points int, seed uint64) *pb.Observation {
	r := rand.New(rand.NewPCG(seed, 1))
	noise := func() float64 { return 1 + 0.04*r.NormFloat64() }
	out := &pb.Observation{
		NowUnixMs: begin + int64(points)*step,
		Verdict: fmt.Sprintf(
			"Trainers wait 0.4%% of the time. %d workers at 76%% give what the trainers take; they run at full speed.",
			workers),
		Bottleneck: pb.Bottleneck_TRAINER,
	}
	const cost = 40e-6 // busy seconds of a row
	full := float64(workers) * 0.8 / cost
	for i := range points {
		at, have := float64(i)/float64(points), workers
		if at < 0.5 {
			have = max(1, workers/3)
		}
		capacity := float64(have) / cost
		demand := full * (1 + 0.1*math.Sin(12*at)) * noise()
		rate := min(demand, 0.92*capacity)
		out.Points = append(out.Points, &pb.FleetPoint{
			UnixMs: begin + int64(i)*step, Workers: uint32(have), Wanted: uint32(workers), Needed: demand * cost / 0.8,
			Demand: demand, Capacity: capacity * noise(), Rate: rate, Stall: 1 - rate/demand, Busy: rate / capacity,
			BytesRead: rate * 180 * noise(), BytesSent: rate * 240, BytesCrossZone: rate * 30 * noise(),
		})
	}
	for i := range sessions {
		out.Sessions = append(out.Sessions, generateSession(r, i, sessions, out.GetPoints()))
	}
	for i := range workers {
		out.Workers = append(out.Workers, generateWorker(r, i, cost, sessions))
	}
	return out
}

func generateSession(r *rand.Rand, i, of int, fleet []*pb.FleetPoint) *pb.SessionLoad {
	last := fleet[len(fleet)-1]
	share := 2 * float64(i+1) / float64(of*(of+1)) // the later, the larger
	s := &pb.SessionLoad{
		Session: fmt.Sprintf("run-%d", i), Namespace: "default", WorldSize: 9, Demand: last.GetDemand() * share,
		Rate:  last.GetRate() * share,
		Stall: last.GetStall(), Cost: 40e-6, BytesSent: 8e6, BytesLinked: 6e6, Needed: last.GetNeeded() * share,
		Granted:    float64(last.GetWorkers()) * share,
		Bottleneck: pb.Bottleneck_TRAINER, Stage: "transform/sigrid_hash", State: pb.SessionState_RUNNING,
		Verdict: "Its trainers wait 0.4% of the time; they run at full speed.",
		Stages: []*pb.StageTime{
			{Stage: "storage", Seconds: 0.6},
			{Stage: "decode", Seconds: 1.4},
			{Stage: "filter", Seconds: 0.1},
			{Stage: "transform/log1p", Seconds: 0.3},
			{
				Stage:   "transform/sigrid_hash",
				Seconds: 2.1,
			},
			{Stage: "tensor", Seconds: 0.5},
			{Stage: "send", Seconds: 0.4},
		},
		Progress: &pb.Progress{
			Epoch: uint32(i % 3), Blocks: 40, BlocksPlanned: 30, RowsPlanned: 75_000_000,
			RowsDelivered: 51_234_567, StripDone: make([]byte, 128), StripHeld: make([]byte, 128),
		},
	}
	for c := range 128 {
		switch {
		case c < 60+i%40:
			s.Progress.StripDone[c] = 255
		case c < 64+i%40:
			s.Progress.StripDone[c], s.Progress.StripHeld[c] = 100, 155
		}
	}
	for k := range 8 {
		wait := max(0, last.GetStall()+0.02*r.NormFloat64())
		s.Trainers = append(s.Trainers, &pb.TrainerLoad{
			Rank: uint32(k), Present: true, Rate: s.GetRate() / 8, Stall: wait, StepNs: 41_000_000,
			Counters: &pb.Counters{
				Rows: 6_000_000 + int64(k), Batches: 5860, Bytes: 1 << 30,
				StallNs: int64(wait * 6e11), ComputeNs: 6e11, Failovers: int64(k % 2),
			},
		})
	}
	for _, p := range fleet {
		s.Points = append(s.Points, &pb.FleetPoint{
			UnixMs: p.GetUnixMs(), Rate: p.GetRate() * share,
			Demand: p.GetDemand() * share, Stall: p.GetStall(), Needed: p.GetNeeded() * share,
		})
	}
	return s
}

func generateWorker(r *rand.Rand, i int, cost float64, sessions int) *pb.WorkerLoad {
	busy := min(1, max(0, 0.76+0.09*r.NormFloat64()))
	w := &pb.WorkerLoad{
		Name: fmt.Sprintf("worker-%d", i), Address: fmt.Sprintf("10.0.%d.%d:7071", i/250, i%250),
		Zone:    string(rune('a' + i%3)),
		Streams: uint32(2 + i%3), Slots: 8, Busy: busy, Rate: busy / cost, BytesRead: busy / cost * 180,
		BytesSent:   busy / cost * 240,
		MemoryBytes: int64(120+r.IntN(60)) << 20, MemoryLimit: 192 << 20, Draining: i%97 == 96,
	}
	if sessions > 0 {
		w.Sessions = []string{fmt.Sprintf("run-%d", i%sessions)}
	}
	return w
}

// generateEvents tells how that fleet grew.
func generateEvents(workers, points int) []*pb.Event {
	half := int64(begin + points/2*step)
	from, to := uint32(max(1, workers/3)), uint32(workers)
	decision := &pb.Decision{
		UnixMs: half - step, From: from, To: to, Bottleneck: pb.Bottleneck_WORKERS, Needed: float64(workers) - 0.3,
		Stall: 0.64, Busy: 0.92,
		Reason: fmt.Sprintf(
			"from %d to %d workers: trainers could take %.0f rows/s, a worker gives %.0f at full use, and the "+
				"target is 80%%", from, to, float64(workers)*20000, 25000.0),
	}
	out := []*pb.Event{
		{Number: 1, UnixMs: begin + 1000, Kind: pb.EventKind_LEADER, Words: "master-0 leads"},
		{
			Number: 2, UnixMs: begin + 2000, Kind: pb.EventKind_SESSION,
			Words: "session run-0 opened: 512 files, 1.2 TB, 8 trainers", Session: "run-0",
		},
		{
			Number: 3, UnixMs: decision.GetUnixMs(), Kind: pb.EventKind_SCALE, Words: decision.GetReason(),
			Decision: decision,
		},
		{Number: 4, UnixMs: half, Kind: pb.EventKind_WORKER, Words: fmt.Sprintf("%d workers came", to-from)},
		{
			Number: 5, UnixMs: half + 60_000, Kind: pb.EventKind_DATA,
			Words: "row group 3 of s3://clicks/day=11/part-17.parquet was left out: column cat_4, page 2: checksum " +
				"differs", Session: "run-0", Rank: proto.Uint32(2),
		},
	}
	return out
}

// shift moves an observation and events in time, so that the newest point is now.
func shift(o *pb.Observation, events []*pb.Event, now time.Time) {
	by := now.UnixMilli() - o.GetNowUnixMs()
	o.NowUnixMs += by
	for _, p := range o.GetPoints() {
		p.UnixMs += by
	}
	for _, s := range o.GetSessions() {
		for _, p := range s.GetPoints() {
			p.UnixMs += by
		}
	}
	for _, e := range events {
		e.UnixMs += by
		if e.GetDecision() != nil {
			e.Decision.UnixMs += by
		}
	}
}
