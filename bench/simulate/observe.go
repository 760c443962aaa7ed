package main

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/penstock-ml/penstock/master/autoscale"
	"github.com/penstock-ml/penstock/master/place"
)

// scalerLoop is what the leader does with what it hears: samples, decisions.
type scalerLoop struct {
	cfg       autoscale.Config
	past      autoscale.Past
	window    autoscale.Window
	late      []autoscale.Sample // that the leader has not got yet
	decisions []autoscale.Decision
	news      []autoscale.Decision
	newest    autoscale.Decision
}

// heard are all jobs' totals at a time.
type heard struct {
	at   time.Duration
	jobs []totals
}

func (sc *Scenario) config() (autoscale.Config, error) {
	return autoscale.Config{
		MinWorkers: sc.Min, MaxWorkers: sc.Max, StartUp: 2 * sc.StartUp, Utilisation: sc.Utilisation,
	}.WithDefaults()
}

// observe takes a sample, divides the workers among the sessions by it, and has the scaler decide on it.
func (w *world) observe() {
	if w.leaderless() {
		return
	}
	sample := w.sample()
	w.divide(&sample)
	l := w.scaler
	if l == nil {
		return
	}
	l.late = append(l.late, sample)
	if l.late[0].At.After(begin.Add(w.now - w.Delay)) {
		return
	}
	sample = l.late[0]
	l.late = l.late[1:]
	sample.Wanted = w.wanted
	l.window = l.window.Add(l.cfg, sample)
	var d autoscale.Decision
	w.master.time(func() { d, l.past = autoscale.Decide(l.cfg, l.past, l.window) })
	l.newest = d
	if d.News {
		l.news = append(l.news, d)
	}
	if d.To != w.wanted {
		l.decisions = append(l.decisions, d)
		w.actuate(d.To)
	}
}

// divide sets how many streams trainers keep open: those that their session's part of the workers comes to.
func (w *world) divide(sample *autoscale.Sample) {
	claims := make([]place.Claim, len(sample.Sessions))
	for i := range sample.Sessions {
		s := &sample.Sessions[i]
		claims[i] = place.Claim{
			Weight: s.Weight, Need: s.Demand * s.Cost / w.aimed, Min: float64(s.MinWorkers),
			Max: math.Inf(1),
		}
		if claims[i].Need == 0 { // unknown
			claims[i].Need = math.Inf(1)
		}
		if s.MaxWorkers > 0 {
			claims[i].Max = float64(s.MaxWorkers)
		}
	}
	w.master.time(func() {
		for i, part := range place.Divide(float64(w.places.Workers), claims) {
			j := w.jobOf(sample.Sessions[i].ID)
			j.streams = w.places.StreamsOf(part, len(j.trainers), j.streams)
		}
	})
}

func (w *world) jobOf(id string) *job {
	return w.jobs[slices.IndexFunc(w.jobs, func(j *job) bool { return j.Name == id })]
}

// leaderless tells whether no master leads; the next one knows nothing of what its predecessor measured and remembered.
func (w *world) leaderless() bool {
	const takeover = 15 * time.Second
	for _, at := range w.Failovers {
		if w.now >= at && w.now < at+takeover {
			w.scaler.past, w.scaler.window, w.scaler.late, w.before = autoscale.Past{}, nil, nil, nil
			return true
		}
	}
	return false
}

// silent tells whether reports of workers do not come through.
func (w *world) silent() bool {
	for _, s := range w.Silences {
		if w.now >= s.At && w.now < s.At+s.For {
			return true
		}
	}
	return false
}

func (w *world) sample() autoscale.Sample {
	now := heard{at: w.now}
	for _, j := range w.jobs {
		now.jobs = append(now.jobs, j.seen)
	}
	w.before = append(w.before, now)
	for len(w.before) > 1 && w.now-w.before[0].at > measured {
		w.before = w.before[1:]
	}
	s := autoscale.Sample{At: begin.Add(w.now)}
	for _, k := range w.workers {
		switch {
		case k.draining:
		case w.now-k.said > 3*workerReports && w.now-k.born > 3*workerReports:
			s.Silent++
		default:
			s.Workers++
			s.Busy += k.busy
		}
	}
	s.Busy /= float64(max(1, s.Workers))
	for i, j := range w.jobs {
		if j.present {
			s.Sessions = append(s.Sessions, j.sample(w.before[0], now.jobs[i]))
		}
	}
	return s
}

// sample is what the leader can tell of a session. The costs and demands that it computes are a little off.
func (j *job) sample(before heard, now totals) autoscale.Session {
	was := before.jobs[j.number]
	w := j.world
	dt := max(1e-9, (w.now - before.at).Seconds())
	s := autoscale.Session{
		ID: j.Name, Weight: 1, MinWorkers: j.MinWorkers, MaxWorkers: j.MaxWorkers, Stage: "decode",
		Rate: max(0, now.handed-was.handed) / dt,
	}
	for _, t := range j.trainers {
		if !t.dead {
			s.Trainers++
		}
	}
	s.Stall = min(1, max(0, now.waited-was.waited)/(dt*float64(max(1, s.Trainers))))
	if rows := now.rows - was.rows; rows > 0.01*dt*j.work.rate(w.CPUs) {
		j.cost = (now.busy - was.busy) / rows
	}
	s.Cost = j.cost * spread(w, w.Noise.Measured)
	if active := now.active - was.active; active > 0 {
		s.Storage = (now.storage - was.storage) / active
	}
	if s.Storage > 0.5 {
		s.Stage = "storage"
	}
	if now.handed > 5*float64(j.work.Batch)*float64(len(j.trainers)) { // steps enough for a median
		s.Demand = j.demand() * spread(w, w.Noise.Measured)
	}
	return s
}

// rate is the rows/s of one worker.
func (w Workload) rate(cpus float64) float64 { return cpus / w.CPU }

// account is the CPU time of what a master would do.
type account struct {
	off   bool // nobody asks for it
	spent time.Duration
	calls int
}

func (a *account) time(f func()) {
	if a.off {
		f()
		return
	}
	start := threadTime()
	f()
	a.spent += threadTime() - start
}

// often is time for what takes no longer than to look at the clock: one call in sixteen stands for all.
func (a *account) often(f func()) {
	const each = 16
	a.calls++
	if a.off || a.calls%each != 0 {
		f()
		return
	}
	before := a.spent
	a.time(f)
	a.spent += (each - 1) * (a.spent - before)
}

// threadTime is the CPU time of this thread, on which the goroutine is locked.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(fmt.Sprintf("the thread's CPU time is not known: %v", err)) // each kernel knows it
	}
	return time.Duration(t.Nano())
}

// memory is what a master has in its heap: states of sessions, placement, the scaler's window.
func (w *world) memory() uint64 {
	w.workers, w.byName, w.history = nil, nil, nil
	for _, j := range w.jobs {
		j.trainers = nil
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	runtime.KeepAlive(w)
	return m.HeapAlloc
}
