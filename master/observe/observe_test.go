package observe

import (
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/fleet"
)

// world is a fleet and its sessions, whose time passes as it is told.
type world struct {
	*Observer
	now     time.Time
	workers []*simulated
	jobs    []*job
}

// simulated is a worker of 4 slots and 2 processors.
type simulated struct {
	name     string
	draining bool
	silent   bool
	total    counts
	sessions map[name]counts
}

// job is a session, and what happens in a second to its streams on each worker.
type job struct {
	Running
	trainers []*reader
	second   counts
}

// reader is a trainer, and what happens to it in a second.
type reader struct {
	rows, stall, client                 int64
	step                                time.Duration
	buffered                            float64
	start                               uint64
	silent                              bool
	sumRows, sumStall, sumClient, batch int64
}

func newWorld(workers int, jobs ...*job) *world {
	w := &world{Observer: New(0.8), now: time.Unix(1000, 0), jobs: jobs}
	for i := range workers {
		w.workers = append(w.workers, &simulated{name: fmt.Sprintf("w%d", i), sessions: map[name]counts{}})
	}
	return w
}

func (w *world) pass(seconds int) *world {
	for range seconds {
		w.now = w.now.Add(time.Second)
		var members []fleet.Member
		for _, s := range w.workers {
			members = append(members, fleet.Member{Name: s.name, Slots: 4, Draining: s.draining})
		}
		w.Follow(w.now, members)
		var running []Running
		for _, j := range w.jobs {
			running = append(running, j.Running)
			w.read(j)
		}
		for i, s := range w.workers {
			if !s.silent && (w.now.Unix()+int64(i))%2 == 0 {
				w.Worker(w.now, s.report())
			}
		}
		w.Tick(w.now, running)
	}
	return w
}

// read is a second of a job.
func (w *world) read(j *job) {
	for _, s := range w.workers {
		id := nameOf(j.Namespace, j.ID)
		s.sessions[id] = plus(s.sessions[id], j.second)
		s.total = plus(s.total, j.second)
	}
	for rank, t := range j.trainers {
		if t.silent {
			continue
		}
		t.sumRows, t.sumStall, t.sumClient, t.batch = t.sumRows+t.rows, t.sumStall+t.stall, t.sumClient+t.client,
			t.batch+2
		r := &pb.SyncRequest{
			Session: j.ID, Generation: 1, Rank: uint32(rank), Incarnation: t.start,
			Counters: &pb.Counters{Rows: t.sumRows, Batches: t.batch, StallNs: t.sumStall},
			Pace:     &pb.Pace{ClientNs: t.sumClient, Buffered: t.buffered},
		}
		if t.step > 0 {
			r.Pace.StepNs, r.Pace.Rows, r.Pace.Steps = int64(t.step), 1000, 9
		}
		w.Trainer(w.now, j.Namespace, r)
	}
}

func (s *simulated) report() *pb.WorkerReport {
	r := &pb.WorkerReport{
		Name: s.name, Streams: 3, Slots: 4, Cpus: 2, Counters: countersOf(s.total), MemoryBytes: 5,
		MemoryLimit: 9,
	}
	for id, c := range s.sessions {
		r.Sessions = append(r.Sessions, &pb.SessionCounters{
			Session: id.id, Namespace: id.namespace,
			Counters: countersOf(c),
		})
	}
	return r
}

const second = int64(time.Second)

// hungry is a session whose two trainers could take 20,000 rows/s and get 5,000 of each worker, which takes three
// slots' and all processors' time.
func hungry() *job {
	return &job{
		Running: Running{ID: "run", World: 2},
		trainers: []*reader{
			{rows: 5000, stall: second / 2, step: 100 * time.Millisecond},
			{rows: 5000, stall: second / 4, step: 400 * time.Millisecond}, // waits for the other one, as if it computed
		},
		second: counts{
			rows: 5000, bytesRead: 1e6, bytesSent: 2e6, crossZone: 5e5, lent: 5e5, linked: 1e6, open: 3 * second,
			cpu: 2 * second, decode: second / 2,
			storage: second / 10, transform: second, tensor: second / 10,
			ops: map[string]int64{"hash": second * 9 / 10},
		},
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*math.Max(math.Abs(a), math.Abs(b)) }

func (w *world) session(t *testing.T, id string) Session {
	t.Helper()
	f, _ := w.Fleet()
	for _, s := range f.Sessions {
		if s.ID == id {
			return s
		}
	}
	t.Fatalf("session %s is not there: %+v", id, f)
	return Session{}
}

func TestDemandAndCost(t *testing.T) {
	w := newWorld(2, hungry()).pass(30)
	s := w.session(t, "run")
	// Two workers, busy all the time, send 10,000 rows/s.
	if !near(s.Demand, 20_000) || !near(s.Rate, 10_000) || !near(s.Cost, 2.0/10_000) || !near(s.Needed, 5) ||
		!near(s.Stall, 0.375) {
		t.Errorf("%+v", s)
	}
	if !near(s.Granted, 1.5) || !near(s.Open, 6) || s.Blocked != 0 || s.Trainers != 2 || s.World != 2 || s.Stale {
		t.Errorf("%+v", s)
	}
	seen := w.Observation(w.now, &pb.ObserveRequest{}, View{All: true}).GetSessions()[0]
	if !near(seen.GetBytesSent(), 4e6) || !near(seen.GetBytesLent(), 1e6) || !near(seen.GetBytesLinked(), 2e6) {
		t.Errorf("by ways: %v", seen)
	}
	if s.Bottleneck != pb.Bottleneck_WORKERS || s.Stage != "hash" ||
		!strings.Contains(s.Verdict, "trainers waited 38% of the time; workers are the bottleneck") ||
		!strings.Contains(s.Verdict, "20 k rows/s need 5.0 workers") {
		t.Errorf("%+v", s.Cause)
	}
	f, _ := w.Fleet()
	if f.Workers != 2 || f.Measured != 2 || f.Slots != 8 || !near(f.Busy, 1) || !near(f.BytesRead, 2e6) ||
		!near(f.BytesSent, 4e6) || !near(f.CrossZone, 1e6) {
		t.Errorf("%+v", f)
	}
	want := []Stage{{"hash", 1.8}, {"decode", 1}, {"storage", 0.2}, {"tensor", 0.2}, {"transform", 0.2}}
	for i, s := range f.Stages {
		if s.Name != want[i].Name || !near(s.Seconds, want[i].Seconds) {
			t.Errorf("stages %v, want %v", f.Stages, want)
		}
	}
}

// A worker's busy time is its sessions' by the time in which their streams were open and not held up.
func TestSessionsShareTheCost(t *testing.T) {
	heavy, light := hungry(), hungry()
	light.ID = "light"
	light.second = counts{rows: 100, open: 4 * second, blocked: 3 * second}
	w := newWorld(3, heavy, light).pass(30)
	a, b := w.session(t, "run"), w.session(t, "light")
	if !near(a.Cost, 0.75/5000) || !near(b.Cost, 0.25/100) || !near(b.Blocked, 0.75) {
		t.Errorf("heavy %+v\nlight %+v", a, b)
	}
}

// The cost of a row is still known when nothing is read any more, and follows when rows come to cost something else.
func TestCostIsKept(t *testing.T) {
	j := hungry()
	w := newWorld(1, j).pass(30)
	before := w.session(t, "run").Cost
	was := j.second
	j.second = counts{}
	if got := w.pass(600).session(t, "run").Cost; !near(got, before) {
		t.Errorf("cost %g after a pause, %g before", got, before)
	}
	j.second = was
	j.second.rows /= 10
	if got := w.pass(120).session(t, "run").Cost; got < 9.5*before || got > 10.001*before {
		t.Errorf("cost %g, want about ten times %g", got, before)
	}
}

// What cannot be told is not told.
func TestTooLittle(t *testing.T) {
	j := hungry()
	j.trainers[0].step, j.trainers[1].step = 0, 0
	w := newWorld(1, j)
	if o := w.Observation(w.now, &pb.ObserveRequest{},
		all); o.GetBottleneck() != pb.Bottleneck_BOTTLENECK_UNSPECIFIED ||
		!strings.Contains(o.GetVerdict(), "too little") {
		t.Errorf("before the first tick: %v", o)
	}
	if s := w.pass(1).session(t, "run"); s.Demand != 0 || s.Needed != 0 || !strings.Contains(s.Verdict, "too little") ||
		w.Cause("", "run") != nil {
		t.Errorf("%+v", s)
	}
	if s := w.pass(29).session(t, "run"); s.Demand != 0 || s.Needed != 0 || s.Cost == 0 ||
		s.Bottleneck != pb.Bottleneck_WORKERS {
		t.Errorf("without a pace: %+v", s)
	}
	w.Begin()
	if _, ok := w.Fleet(); ok {
		t.Error("a new leader has the old one's numbers")
	}
	if f, _ := w.pass(1).Fleet(); f.Bottleneck != pb.Bottleneck_BOTTLENECK_UNSPECIFIED || f.Workers != 1 {
		t.Errorf("a new leader: %+v", f.Cause)
	}
}

var all = View{All: true} //nolint:gochecknoglobals // never changes

func TestTrainersThatGo(t *testing.T) {
	j := hungry()
	w := newWorld(1, j).pass(20)
	j.trainers[1].silent = true
	if s := w.pass(12).session(t, "run"); s.Trainers != 2 || s.Stale || !near(s.Stall, 0.5) {
		t.Errorf("one of two is silent: %+v", s)
	}
	j.trainers[0].silent = true
	if s := w.pass(12).session(t, "run"); !s.Stale ||
		!strings.Contains(s.Verdict, "nothing was heard of its 2 trainers") {
		t.Errorf("both are silent: %+v", s)
	}
	if s := w.pass(120).session(t, "run"); s.Trainers != 0 || s.Demand != 0 {
		t.Errorf("both are gone: %+v", s)
	}
	j.trainers[0].silent, j.trainers[0].start = false, 7 // anew, from 0
	j.trainers[0].sumRows, j.trainers[0].sumStall = 0, 0
	if s := w.pass(20).session(t, "run"); s.Trainers != 1 || !near(s.Rate, 5000) {
		t.Errorf("one came back: %+v", s)
	}
	w.Trainer(w.now, "", &pb.SyncRequest{Session: "run", Leave: true})
	w.jobs = nil
	f, _ := w.pass(1).Fleet()
	if len(f.Sessions) != 0 || f.Bottleneck != pb.Bottleneck_NONE {
		t.Errorf("%+v", f)
	}
}

// What this version knows nothing of is not kept, whatever its size.
func TestUnknownFieldsOfSyncs(t *testing.T) {
	unknown := protowire.AppendBytes(protowire.AppendTag(nil, 1000, protowire.BytesType), make([]byte, 1<<20))
	r := &pb.SyncRequest{Session: "run", Counters: &pb.Counters{Rows: 7}, Pace: &pb.Pace{StepNs: 8}}
	r.Counters.ProtoReflect().SetUnknown(unknown)
	r.Pace.ProtoReflect().SetUnknown(unknown)
	w := newWorld(1, hungry()).pass(1)
	w.jobs[0].trainers = nil
	w.Trainer(w.now, "", r)
	load := w.pass(1).Observation(w.now, &pb.ObserveRequest{}, all).GetSessions()[0].GetTrainers()[0]
	if load.GetCounters().GetRows() != 7 || load.GetStepNs() != 8 || proto.Size(load) > 100 || proto.Size(r) > 100 {
		t.Errorf("%d bytes of %v are kept, %d of the report", proto.Size(load), load.GetCounters(), proto.Size(r))
	}
}

func TestWorkersThatGo(t *testing.T) {
	w := newWorld(3, hungry()).pass(20)
	w.workers[1].silent, w.workers[2].draining = true, true
	f, _ := w.pass(14).Fleet()
	if f.Workers != 1 || f.Silent != 1 || f.Draining != 1 || f.Measured != 1 || !near(f.Rate, 10_000) {
		t.Errorf("%+v", f)
	}
	o := w.Observation(w.now, &pb.ObserveRequest{Workers: true}, all)
	if n := o.GetWorkers(); len(n) != 3 || n[0].GetBusy() != 1 || !near(n[0].GetRate(), 5000) ||
		n[0].GetMemoryLimit() != 9 || n[1].GetRate() != 0 ||
		!n[2].GetDraining() || n[2].GetSessions()[0] != "run" || len(n[2].GetStages()) != 5 {
		t.Errorf("%v", n)
	}
}

// What one may not see shows in no verdict.
func TestOthersSessionsAreNotNamed(t *testing.T) {
	mine, theirs := hungry(), hungry()
	theirs.ID, theirs.Namespace = "secret", "b"
	theirs.trainers[0].stall = second
	w := newWorld(1, mine, theirs).pass(30)
	o := w.Observation(w.now, &pb.ObserveRequest{}, View{Namespace: "default"})
	if strings.Contains(o.String(), "secret") || len(o.GetSessions()) != 1 {
		t.Errorf("%v", o)
	}
	newest := func(o *pb.Observation) *pb.FleetPoint { return o.GetPoints()[len(o.GetPoints())-1] }
	if p, s := newest(o), o.GetSessions()[0]; !near(p.GetRate(), s.GetRate()) || !near(p.GetDemand(), s.GetDemand()) ||
		p.GetWorkers() != 1 {
		t.Errorf("the points are of others, too: %v of %v", p, s)
	}
	loads := func(to View) *pb.WorkerLoad {
		return w.Observation(w.now, &pb.ObserveRequest{Workers: true}, to).GetWorkers()[0]
	}
	if mine, both := loads(View{Namespace: "default"}), loads(all); !near(2*mine.GetRate(), both.GetRate()) ||
		!near(2*mine.GetBytesRead(), both.GetBytesRead()) || len(mine.GetStages()) == 0 ||
		len(mine.GetSessions()) != 1 {
		t.Errorf("a worker is shown with what it does for others: %v of %v", mine, both)
	}
	if p := newest(w.Observation(w.now, &pb.ObserveRequest{}, View{Namespace: "c"})); p.GetWorkers() != 1 ||
		p.GetBusy() == 0 || p.GetRate()+p.GetDemand()+p.GetNeeded()+p.GetBytesRead()+p.GetStall() != 0 {
		t.Errorf("who has no session is shown: %v", p)
	}
	if o := w.Observation(w.now, &pb.ObserveRequest{}, all); !strings.Contains(o.GetVerdict(),
		"2 of 2 sessions wait, secret most") {
		t.Errorf("%v", o.GetVerdict())
	}
	if o := w.Observation(w.now, &pb.ObserveRequest{Session: "run"}, all); len(o.GetSessions()) != 1 ||
		strings.Contains(o.GetVerdict(), "secret") {
		t.Errorf("%v", o)
	}
}

func TestSeries(t *testing.T) {
	w := newWorld(2, hungry()).pass(2 * 3600)
	points := w.Observation(w.now, &pb.ObserveRequest{}, all).GetPoints()
	first, last := points[0], points[len(points)-1]
	if d := time.Duration(last.GetUnixMs()-first.GetUnixMs()) * time.Millisecond; d < coarseFor-coarseEvery-fineEvery ||
		d > coarseFor+coarseEvery {
		t.Errorf("points of %v", d)
	}
	for i, p := range points {
		if i > 0 && p.GetUnixMs() <= points[i-1].GetUnixMs() {
			t.Fatal("points are not by time")
		}
		if p.GetWorkers() != 2 || !near(p.GetRate(), 10_000) || !near(p.GetNeeded(), 5) &&
			math.Abs(p.GetNeeded()-5) > 1e-3 || math.Abs(p.GetCapacity()-10_000) > 1 {
			t.Fatalf("%v", p)
		}
	}
	newer := w.Observation(w.now, &pb.ObserveRequest{SinceUnixMs: points[len(points)-4].GetUnixMs()}, all)
	if len(newer.GetPoints()) != 3 || len(newer.GetSessions()[0].GetPoints()) != 3 {
		t.Errorf("%d points are new", len(newer.GetPoints()))
	}
	w.Decided(&pb.Decision{To: 7})
	w.pass(2)
	if o := w.Observation(w.now, &pb.ObserveRequest{}, all); o.GetDecision().GetTo() != 7 ||
		o.GetPoints()[len(o.GetPoints())-1].GetWanted() != 7 {
		t.Errorf("%v", o.GetDecision())
	}
}

// A large fleet, observed for two hours, takes some megabytes.
func TestMemoryIsBounded(t *testing.T) {
	var jobs []*job
	for i := range 10 {
		j := hungry()
		j.ID = fmt.Sprint("run", i)
		for range 98 {
			j.trainers = append(j.trainers, &reader{rows: 10, step: time.Second})
		}
		jobs = append(jobs, j)
	}
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	w := newWorld(1000, jobs...).pass(40)
	if grew := int64(heap()) - int64(before); grew > 64<<20 {
		t.Errorf("%d bytes", grew)
	}
	w.workers, w.jobs = nil, nil
	w.pass(1)
	if len(w.Observer.workers) != 0 || len(w.sessions) != 0 {
		t.Error("what is gone is kept")
	}
}

func BenchmarkTick(b *testing.B) {
	j := hungry()
	for range 998 {
		j.trainers = append(j.trainers, &reader{rows: 10, step: time.Second})
	}
	w := newWorld(1000, j).pass(12)
	b.ReportAllocs()
	for b.Loop() {
		w.Tick(w.now, []Running{j.Running})
	}
}

func plus(a, b counts) counts { return a.minus(counts{}.minus(b)) }

// countersOf is what countsOf takes apart.
func countersOf(c counts) *pb.WorkerCounters {
	out := &pb.WorkerCounters{
		Rows: c.rows, Requests: c.requests, BytesRead: c.bytesRead, BytesNeeded: c.bytesNeeded,
		BytesSent: c.bytesSent, BytesCrossZone: c.crossZone, BytesLent: c.lent, BytesLinked: c.linked,
		StorageNs: c.storage, DecodeNs: c.decode, TransformNs: c.transform, TensorNs: c.tensor,
		SendNs: c.send, OpenNs: c.open, BlockedNs: c.blocked, CpuNs: c.cpu,
	}
	for _, op := range slices.Sorted(maps.Keys(c.ops)) {
		out.Ops = append(out.Ops, &pb.OpTime{Op: op, Ns: c.ops[op]})
	}
	return out
}
