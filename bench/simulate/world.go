package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/penstock-ml/penstock/internal/fleet"
	"github.com/penstock-ml/penstock/master/autoscale"
	"github.com/penstock-ml/penstock/master/place"
)

const (
	// tick is how long the model takes everything to be even.
	tick = 125 * time.Millisecond
	// Periods of the system: of workers' and trainers' reports, of the leader's samples, and how long it takes until
	// all know of a worker that came or went.
	workerReports  = 2 * time.Second
	trainerReports = time.Second
	samples        = 2 * time.Second
	gossip         = time.Second
	// heldBack is how long a trainer has no room for a batch, of so many bytes, until its stream makes place for
	// another.
	heldBack   = time.Second
	batchBytes = 2 << 20
	// measured is over how long the leader takes its means.
	measured = 6 * time.Second
)

// world is a fleet and its trainers in virtual time. It is for one goroutine.
type world struct {
	Scenario
	rec    *Recorded
	now    time.Duration
	random *rand.Rand

	workers  []*worker // that are there, by age
	byName   map[string]*worker
	starting []time.Duration // when those on their way are ready, ascending
	wanted   int
	made     int
	jobs     []*job

	places  *place.Places
	changed time.Duration // when the fleet did, if places do not know; -1: they know

	aimed   float64     // utilisation of workers
	before  []heard     // the totals of the last seconds, the oldest first
	scaler  *scalerLoop // nil: the number of workers is constant
	master  account
	history []point
	stuck   float64 // part of the wanted bytes that storage gave in the last tick
}

// begin is when virtual time begins.
var begin = time.Unix(1_800_000_000, 0) //nolint:gochecknoglobals // never changed

func newWorld(sc Scenario, rec *Recorded, workers int, scale bool) (*world, error) {
	w := &world{
		Scenario: sc, rec: rec, random: rand.New(rand.NewPCG(sc.Seed, 7)), byName: map[string]*worker{},
		wanted: workers, changed: -1,
		master: account{off: !scale},
	}
	for range workers {
		w.addWorker(0)
	}
	w.place()
	for i := range sc.Jobs {
		j, err := newJob(w, i)
		if err != nil {
			return nil, err
		}
		w.jobs = append(w.jobs, j)
	}
	cfg, err := sc.config()
	if err != nil {
		return nil, err
	}
	w.aimed = cfg.Utilisation
	if scale {
		w.scaler = &scalerLoop{cfg: cfg}
	}
	return w, nil
}

// slotsOf is how many streams a worker serves at once, unless it is told otherwise.
func slotsOf(cpus float64) int { return max(1, 2*int(cpus)) }

func (w *world) addWorker(at time.Duration) {
	w.made++
	k := &worker{
		name: fmt.Sprintf("worker-%05d", w.made), born: at, cpus: w.CPUs, slots: slotsOf(w.CPUs),
		speed: math.Exp(w.Noise.Workers * w.random.NormFloat64()), jobs: make([]usage, len(w.Jobs)),
		said: at, reports: at + time.Duration(w.random.Int64N(int64(workerReports))),
	}
	w.workers = append(w.workers, k)
	w.byName[k.name] = k
}

// place makes known who is there.
func (w *world) place() {
	members := make([]fleet.Member, 0, len(w.workers))
	for _, k := range w.workers {
		members = append(members, fleet.Member{Name: k.name, Slots: k.slots, Draining: k.draining})
	}
	w.master.time(func() { w.places = place.New(members) })
	w.changed = -1
}

func (w *world) fleetChanged() {
	if w.changed < 0 {
		w.changed = w.now
	}
}

// run lives until the scenario's end.
func (w *world) run(ctx context.Context) error {
	for w.now < w.Duration && ctx.Err() == nil {
		if err := w.step(); err != nil {
			return fmt.Errorf("at %s: %w", w.now, err)
		}
	}
	return ctx.Err()
}

func (w *world) step() error {
	w.strike()
	w.arrive()
	if w.changed >= 0 && w.now-w.changed >= gossip {
		w.place()
	}
	for _, j := range w.jobs {
		if err := j.attend(); err != nil {
			return err
		}
	}
	for _, j := range w.jobs {
		j.consume()
	}
	w.produce()
	for _, j := range w.jobs {
		if err := j.serve(); err != nil {
			return err
		}
	}
	w.now += tick
	w.report()
	if w.now%samples == 0 {
		w.observe()
	}
	if w.now%historyEvery == 0 {
		w.remember()
	}
	return nil
}

// strike lets fail what the scenario says.
func (w *world) strike() {
	for _, k := range w.Kills {
		if k.At != w.now {
			continue
		}
		for range int(math.Round(k.Share * float64(len(w.workers)))) {
			w.lose(w.workers[w.random.IntN(len(w.workers))])
		}
	}
}

// lose ends a worker without notice. The actuator starts another.
func (w *world) lose(k *worker) {
	w.remove(k)
	if !k.draining {
		w.start(1)
	}
}

func (w *world) remove(k *worker) {
	k.gone = true
	for _, s := range slices.Clone(k.streams) {
		s.close()
	}
	delete(w.byName, k.name)
	w.workers = slices.DeleteFunc(w.workers, func(o *worker) bool { return o == k })
	w.fleetChanged()
}

// start asks for n workers.
func (w *world) start(n int) {
	for range n {
		late := 1 + 0.2*w.random.Float64()
		w.starting = append(w.starting, w.now+time.Duration(late*float64(w.StartUp)))
	}
	slices.Sort(w.starting)
}

// arrive takes in the workers that are ready, and lets go those that drained.
func (w *world) arrive() {
	for len(w.starting) > 0 && w.starting[0] <= w.now && len(w.workers) < w.room() {
		w.starting = w.starting[1:]
		w.addWorker(w.now)
		w.fleetChanged()
	}
	for _, k := range slices.Clone(w.workers) {
		if k.draining && len(k.streams) == 0 {
			w.remove(k)
		}
	}
}

// room is how many workers there is a place for now.
func (w *world) room() int {
	room := math.MaxInt
	for _, r := range w.Room {
		if r.At <= w.now {
			room = r.Workers
		}
	}
	return room
}

// actuate obeys a decision.
func (w *world) actuate(to int) {
	if to > w.wanted {
		w.start(to - w.wanted)
	}
	less := max(0, w.wanted-to)
	w.wanted = to
	cancelled := min(less, len(w.starting))
	w.starting = w.starting[:len(w.starting)-cancelled]
	if less -= cancelled; less == 0 {
		return
	}
	var able []autoscale.Worker
	for _, k := range w.workers {
		if !k.draining {
			able = append(able, autoscale.Worker{Name: k.name, Streams: len(k.streams), Started: begin.Add(k.born)})
		}
	}
	var names []string
	w.master.time(func() { names = autoscale.Victims(able, less) })
	for _, name := range names {
		k := w.byName[name]
		k.draining = true
		for _, s := range slices.Clone(k.streams) {
			s.close()
		}
	}
	w.fleetChanged()
}
