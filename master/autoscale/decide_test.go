package autoscale

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
)

// fleet is a fleet in virtual time, as simple as can be: rows cost what they cost, and workers come when they were
// asked for.
type fleet struct {
	cfg       Config
	past      Past
	window    Window
	now       time.Time
	startUp   time.Duration
	workers   int
	coming    []time.Time
	sessions  []*session
	noise     *rand.Rand
	decisions []Decision
	newest    Decision
	broken    bool // the actuator starts no worker
}

// session takes rows at its demand if there are workers, and if storage gives them.
type session struct {
	Session
	demand, cost float64
	limit        float64 // rows/s that storage gives; 0: any number
	takes        float64 // rows/s that the trainers' clients take; 0: any number
	efficiency   float64 // of workers, for uneven streams; 0: 1
	hidden       bool    // demand and cost are not known yet
}

func newFleet(t interface{ Fatal(...any) }, cfg Config, workers int, sessions ...*session) *fleet {
	cfg, err := cfg.WithDefaults()
	if err != nil {
		t.Fatal(err)
	}
	return &fleet{
		cfg: cfg, now: time.Unix(1_800_000_000, 0), startUp: 20 * time.Second, workers: workers,
		sessions: sessions,
	}
}

func train(demand, cost float64) *session {
	return &session{Session: Session{ID: "train", Trainers: 8, Stage: "decode"}, demand: demand, cost: cost}
}

// run lets the fleet go on for a time, with a decision every two seconds.
func (f *fleet) run(d time.Duration) {
	for end := f.now.Add(d); f.now.Before(end); f.now = f.now.Add(2 * time.Second) {
		f.step(f.sample())
	}
}

func (f *fleet) step(s Sample) {
	f.window = f.window.Add(f.cfg, s)
	f.newest, f.past = Decide(f.cfg, f.past, f.window)
	if f.newest.To == f.newest.From {
		return
	}
	f.decisions = append(f.decisions, f.newest)
	if n := f.newest.To - f.newest.From; n > 0 {
		for range n {
			f.coming = append(f.coming, f.now.Add(f.startUp))
		}
	} else {
		cancelled := min(-n, len(f.coming))
		f.coming = f.coming[:len(f.coming)-cancelled]
		f.workers -= -n - cancelled
	}
}

func (f *fleet) wanted() int { return f.workers + len(f.coming) }

func (f *fleet) sample() Sample {
	for len(f.coming) > 0 && !f.coming[0].After(f.now) && !f.broken {
		f.coming, f.workers = f.coming[1:], f.workers+1
	}
	busy := 0.0
	for _, s := range f.sessions {
		busy += s.demand * s.cost
	}
	s := Sample{At: f.now, Workers: f.workers, Wanted: f.wanted()}
	given := min(1, float64(f.workers)/max(1e-9, busy))
	for _, one := range f.sessions {
		s.Sessions = append(s.Sessions, f.observe(one, given, busy))
	}
	s.Busy = min(1, busy/max(1, float64(f.workers)))
	return s
}

func (f *fleet) observe(s *session, given, busy float64) Session {
	o := s.Session
	if s.efficiency > 0 {
		given = min(1, s.efficiency*float64(f.workers)/max(1e-9, busy))
	}
	o.Rate = s.demand * given
	o.Cost = s.cost
	if s.limit > 0 && o.Rate > s.limit { // streams wait for storage all of the time, and look busy
		o.Rate = s.limit
		o.Cost = max(s.cost, float64(f.workers)*s.demand*s.cost/busy/s.limit)
		o.Storage = 0.9
	}
	if s.takes > 0 {
		o.Rate = min(o.Rate, s.takes)
	}
	o.Stall = 1 - o.Rate/s.demand
	o.Demand = s.demand
	if f.noise != nil {
		o.Demand *= math.Exp(0.05 * f.noise.NormFloat64())
		o.Cost *= math.Exp(0.05 * f.noise.NormFloat64())
	}
	if s.hidden || f.workers == 0 {
		o.Demand, o.Cost = 0, 0
	}
	return o
}

// right is the number of workers at the utilisation aimed at, and one at least if there is anything to do.
func (f *fleet) right() int {
	sum := 0.0
	for _, s := range f.sessions {
		sum += s.within(s.demand * s.cost / f.cfg.Utilisation)
	}
	n := int(math.Ceil(sum - whole))
	if sum > 0 {
		n = max(n, 1)
	}
	return min(max(n, f.cfg.MinWorkers), f.cfg.MaxWorkers)
}

func TestAStepUpIsFollowedByOneJump(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := train(1000, rapid.Float64Range(0.001, 0.1).Draw(t, "cost"))
		f := newFleet(t, Config{}, 0, s)
		f.workers = f.right()
		f.run(time.Minute)
		if len(f.decisions) > 0 {
			t.Fatalf("the right size is not kept: %s", f.decisions[0].Reason)
		}
		s.demand *= rapid.Float64Range(1.3, 9).Draw(t, "step")
		from := f.now
		f.run(5 * time.Minute)
		enough := s.demand*s.cost/f.cfg.Utilisation < slack*float64(f.wanted()) // and nobody waits
		if f.wanted() != f.right() && !enough || len(f.decisions) > 1 {
			t.Fatalf("%d workers after %d decisions, want %d after one", f.wanted(), len(f.decisions), f.right())
		}
		if len(f.decisions) == 1 && f.decisions[0].At.Sub(from) > 2*f.cfg.UpAfter {
			t.Fatalf("it took %s", f.decisions[0].At.Sub(from))
		}
	})
}

func TestAStepDownIsFollowedLater(t *testing.T) {
	s := train(8000, 0.01)
	f := newFleet(t, Config{}, 100, s)
	f.run(5 * time.Minute)
	s.demand = 2000
	from := f.now
	f.run(10 * time.Minute)
	if len(f.decisions) != 1 || f.wanted() != 25 {
		t.Fatalf("%d workers after %d decisions", f.wanted(), len(f.decisions))
	}
	if took := f.decisions[0].At.Sub(from); took < f.cfg.DownAfter-f.cfg.UpAfter ||
		took > f.cfg.DownAfter+2*f.cfg.UpAfter {
		t.Errorf("it took %s", took)
	}
}

func TestAShortDipIsNotFollowed(t *testing.T) {
	s := train(8000, 0.01)
	f := newFleet(t, Config{}, 100, s)
	f.run(5 * time.Minute)
	s.demand = 2000
	f.run(90 * time.Second)
	s.demand = 8000
	f.run(20 * time.Minute)
	if len(f.decisions) > 0 {
		t.Error(f.decisions[0].Reason)
	}
}

func TestNoiseDoesNotMakeItFlap(t *testing.T) {
	f := newFleet(t, Config{}, 105, train(8000, 0.01))
	f.noise = rand.New(rand.NewPCG(1, 2))
	f.run(24 * time.Hour)
	for i, d := range f.decisions {
		if i > 0 && (d.To > d.From) != (f.decisions[i-1].To > f.decisions[i-1].From) {
			t.Errorf("%s, and then %s", f.decisions[i-1].Reason, d.Reason)
		}
	}
	if len(f.decisions) > 5 || math.Abs(float64(f.wanted()-100)) > 10 {
		t.Errorf("%d workers after %d decisions", f.wanted(), len(f.decisions))
	}
}

func TestUnevenStreamsLift(t *testing.T) {
	s := train(8000, 0.01)
	s.efficiency = 0.7
	f := newFleet(t, Config{}, 100, s)
	f.run(20 * time.Minute)
	if got := f.wanted(); got < 114 || got > 125 || len(f.decisions) > 2 ||
		!strings.Contains(f.decisions[0].Reason, "uneven") {
		t.Errorf("%d workers after %d decisions: %s", got, len(f.decisions), f.newest.Reason)
	}
}

func TestPausesDoNotLift(t *testing.T) {
	f := newFleet(t, Config{}, 100, train(8000, 0.01))
	f.run(10 * time.Minute)
	for range 60 { // a checkpoint: nobody takes rows, and nobody waits for them
		s := f.sample()
		s.Sessions[0].Rate, s.Sessions[0].Stall, s.Busy = 0, 0, 0
		f.step(s)
		f.now = f.now.Add(2 * time.Second)
	}
	f.run(10 * time.Minute)
	if len(f.decisions) > 0 {
		t.Error(f.decisions[0].Reason)
	}
}

// Whatever the fleet begins with, it is never outside its bounds, and comes to rest where there are not too many
// workers, and enough. Too many are more than 1.1 times the right number: as long as fewer than clearly of the present
// ones were enough, they are trimmed, so that at most 1/clearly = 1.087 times as many stay, also of a few. Enough are
// so many that they are busy for slack times the utilisation aimed at, which is 0.896, at most: then nobody waits.
func TestBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		minWorkers := rapid.IntRange(0, 20).Draw(t, "min")
		cfg := Config{
			MinWorkers: minWorkers, MaxWorkers: minWorkers + rapid.IntRange(1, 50).Draw(t, "more"),
			UpAfter: 10 * time.Second, DownAfter: 30 * time.Second, TrimAfter: 90 * time.Second,
			StartUp: 30 * time.Second,
		}
		s := train(rapid.Float64Range(1, 1e5).Draw(t, "demand"), rapid.Float64Range(1e-4, 1e-2).Draw(t, "cost"))
		s.MinWorkers = rapid.IntRange(0, 5).Draw(t, "session's min")
		s.MaxWorkers = s.MinWorkers + rapid.IntRange(1, 50).Draw(t, "session's more")
		f := newFleet(t, cfg, rapid.IntRange(0, 100).Draw(t, "workers"), s)
		for range 200 {
			f.run(2 * time.Second)
			if d := f.newest; d.To < cfg.MinWorkers || d.To > cfg.MaxWorkers {
				t.Fatalf("%d workers: %s", d.To, d.Reason)
			}
		}
		if float64(f.wanted()) > 1.1*float64(f.right()) {
			t.Fatalf("%d workers are too many, want %d: %s", f.wanted(), f.right(), f.newest.Reason)
		}
		if f.wanted() < f.right() && f.newest.Needed > slack*float64(f.wanted()) {
			t.Fatalf("%d workers are too few, want %d: %s", f.wanted(), f.right(), f.newest.Reason)
		}
	})
}

func TestFromNothing(t *testing.T) {
	for _, minWorkers := range []int{0, 1} {
		f := newFleet(t, Config{MinWorkers: minWorkers}, minWorkers)
		f.run(5 * time.Minute)
		if f.wanted() != minWorkers {
			t.Fatalf("%d workers with nothing to do", f.wanted())
		}
		f.sessions = []*session{train(8000, 0.01)}
		f.run(2 * time.Second)
		if f.wanted() != 1 {
			t.Errorf("%d workers for a session that just came", f.wanted())
		}
		f.run(3 * time.Minute)
		if f.wanted() != 100 || len(f.decisions) > 2 {
			t.Errorf("%d workers after %d decisions", f.wanted(), len(f.decisions))
		}
		f.sessions = nil
		f.run(5 * time.Minute)
		if f.wanted() != minWorkers {
			t.Errorf("%d workers when the session is gone", f.wanted())
		}
	}
}

func TestAnUnknownSessionIsProbed(t *testing.T) {
	s := train(8000, 0.01)
	s.hidden = true
	f := newFleet(t, Config{}, 0, s)
	f.run(10 * time.Minute)
	if f.wanted() != s.Trainers { // and no more: a worker for each trainer would have shown it
		t.Errorf("%d workers: %s", f.wanted(), f.newest.Reason)
	}
	if !strings.Contains(f.newest.Reason, "until its speed is known") {
		t.Error(f.newest.Reason)
	}
}

func TestSlowStorageBrakes(t *testing.T) {
	s := train(8000, 0.01)
	f := newFleet(t, Config{}, 100, s)
	f.run(10 * time.Minute)
	s.limit = 3000
	f.run(2 * time.Hour)
	braked := false
	for _, d := range f.decisions {
		if d.To > 150 {
			t.Errorf("too far: %s", d.Reason)
		}
		braked = braked || strings.Contains(d.Reason, "No more for ")
	}
	if !braked || f.wanted() > 125 || f.newest.Bottleneck != pb.Bottleneck_STORAGE {
		t.Errorf("%d workers, bottleneck %s: %s", f.wanted(), f.newest.Bottleneck, f.newest.Reason)
	}
	if len(f.decisions) > 16 {
		t.Errorf("%d decisions in two hours, though none can help", len(f.decisions))
	}
	s.limit = 0
	f.run(40 * time.Minute)
	if f.wanted() != 100 {
		t.Errorf("%d workers when storage is as fast as before", f.wanted())
	}
}

func TestABrakeHoldsOneSessionOnly(t *testing.T) {
	stuck, other := train(8000, 0.01), train(1000, 0.01)
	other.ID = "other"
	f := newFleet(t, Config{}, 113, stuck, other)
	f.run(10 * time.Minute)
	stuck.limit = 3000
	f.run(5 * time.Minute)
	other.demand = 6000
	f.run(5 * time.Minute)
	for _, p := range f.newest.Parts {
		if p.Session == "other" && (p.Braked || math.Abs(p.Needed-75) > 1) {
			t.Errorf("%+v", p)
		}
	}
}

// A growth in vain is taken back, and no more than that while another session is starting again.
func TestABrakeTakesNothingFromSessionsThatAreUnknown(t *testing.T) {
	stuck, other := train(2500, 0.004), train(1000, 0.01)
	other.ID, other.Trainers = "other", 1
	stuck.limit = 3000
	f := newFleet(t, Config{}, 0, stuck, other)
	f.workers = f.right()
	before := f.workers
	f.run(time.Minute)
	stuck.demand = 9000
	for range 150 {
		if f.run(2 * time.Second); f.wanted() > before {
			break
		}
	}
	other.hidden = true
	lowest, braked := f.wanted(), false
	for range 60 {
		f.run(2 * time.Second)
		lowest, braked = min(lowest, f.wanted()), braked || len(f.past.Brakes) > 0
	}
	if !braked || lowest < before {
		t.Errorf("braked: %v; there were %d workers, and later %d", braked, before, lowest)
	}
}

func TestSilenceDecidesNothing(t *testing.T) {
	f := newFleet(t, Config{}, 100, train(8000, 0.01))
	f.run(10 * time.Minute)
	for range 100 {
		s := f.sample()
		s.Workers, s.Silent = 40, 60
		s.Sessions[0].Demand *= 3
		f.step(s)
		f.now = f.now.Add(2 * time.Second)
	}
	if len(f.decisions) > 0 || !strings.Contains(f.newest.Reason, "60 of 100 sent no report") {
		t.Error(f.newest.Reason)
	}
}

// Workers for which there is no room are asked for once, told of once, and taken up when there is.
func TestWorkersThatDoNotCome(t *testing.T) {
	s := train(800, 0.01)
	f := newFleet(t, Config{MaxWorkers: 50}, 10, s)
	f.run(time.Minute)
	f.broken, s.demand = true, 4000
	news := 0
	for range 600 {
		f.run(2 * time.Second)
		if f.newest.News {
			news++
		}
	}
	const want = "50 workers are wanted, and 40 did not come within 1m30s: see whether there is room for them, and " +
		"why they do not start; trainers could take 4,000 rows/s"
	if len(f.decisions) != 1 || f.wanted() != 50 || news != 2 || !strings.HasPrefix(f.newest.Reason, want) {
		t.Errorf("%d workers are wanted after %d decisions, %d of them told: %s", f.wanted(), len(f.decisions), news,
			f.newest.Reason)
	}
	f.broken = false
	f.run(20 * time.Minute)
	if len(f.decisions) != 1 || f.workers != 50 || !strings.HasPrefix(f.newest.Reason, "50 workers are kept: ") {
		t.Errorf("%d workers after %d decisions: %s", f.workers, len(f.decisions), f.newest.Reason)
	}
}

// While some do not come, fewer are wanted once fewer are needed.
func TestWorkersThatDoNotComeAreNotWantedForever(t *testing.T) {
	s := train(4000, 0.01)
	f := newFleet(t, Config{}, 20, s)
	f.broken = true
	f.run(10 * time.Minute)
	s.demand = 1600
	f.run(10 * time.Minute)
	if len(f.decisions) != 2 || f.wanted() != 20 || f.workers != 20 {
		t.Errorf("%d workers are wanted, and %d there, after %d decisions: %s", f.wanted(), f.workers, len(f.decisions),
			f.newest.Reason)
	}
}

func TestASessionShowsWhatItNeedsOnTheWorkersThatThereAre(t *testing.T) {
	known, unknown := train(800, 0.01), train(2400, 0.01)
	unknown.ID, unknown.hidden = "unknown", true
	f := newFleet(t, Config{}, 10, known)
	f.run(time.Minute)
	f.sessions = append(f.sessions, unknown)
	f.run(30 * time.Second)
	if len(f.decisions) > 0 {
		t.Fatal(f.decisions[0].Reason)
	}
	unknown.hidden = false
	f.run(3 * time.Minute)
	if len(f.decisions) != 1 || f.wanted() != 40 {
		t.Errorf("%d workers after %d decisions: %s", f.wanted(), len(f.decisions), f.newest.Reason)
	}
}

// What takes all that comes is given twice as many workers as long as they help, and no more than its clients can take.
func TestADemandWithoutBound(t *testing.T) {
	s := train(1e12, 0.01)
	s.takes = 600
	f := newFleet(t, Config{}, 1, s)
	f.run(9 * time.Minute)
	if f.wanted() < 6 || f.wanted() > 8 || len(f.decisions) > 5 {
		t.Errorf("%d workers after %d decisions: %s", f.wanted(), len(f.decisions), f.newest.Reason)
	}
	if want := "trainers take all that comes, and a busy worker makes 100 rows/s"; !strings.Contains(f.newest.Reason,
		want) {
		t.Error(f.newest.Reason)
	}
	s.takes = 0
	f = newFleet(t, Config{MaxWorkers: 20}, 1, s)
	f.run(9 * time.Minute)
	if f.wanted() != 20 || !strings.HasPrefix(f.newest.Reason, "20 workers are the most that the pool may have") {
		t.Errorf("%d workers: %s", f.wanted(), f.newest.Reason)
	}
}

// Trainers that become slow while workers are on their way do not say that these were in vain.
func TestSlowerTrainersAreNoBrake(t *testing.T) {
	s := train(800, 0.01)
	f := newFleet(t, Config{}, 10, s)
	f.run(time.Minute)
	s.demand = 8000
	for f.wanted() == 10 {
		f.run(time.Second)
	}
	s.demand, s.takes = 400, 300
	f.run(5 * time.Minute)
	if last := f.decisions[len(f.decisions)-1]; f.wanted() > 10 || strings.Contains(last.Reason, "No more for") {
		t.Errorf("%d workers: %s", f.wanted(), last.Reason)
	}
}

// More workers than clients can keep busy go again, though trainers wait.
func TestIdleWorkersGo(t *testing.T) {
	s := train(800, 0.01)
	f := newFleet(t, Config{}, 10, s)
	f.run(time.Minute)
	s.demand, s.takes = 8000, 1200
	f.run(5 * time.Minute)
	if f.wanted() != 15 || len(f.decisions) != 2 || !strings.Contains(f.newest.Reason, "for more did not help it") {
		t.Errorf("%d workers after %d decisions: %s", f.wanted(), len(f.decisions), f.newest.Reason)
	}
	for _, want := range []string{
		"session train has little use for all of its workers: it takes 1,200 rows/s",
		"its trainers' clients take no more, or have no more streams",
	} {
		if last := f.decisions[len(f.decisions)-1].Reason; !strings.Contains(last, want) {
			t.Error(last)
		}
	}
}

func TestReasons(t *testing.T) {
	s := train(1000, 0.01)
	f := newFleet(t, Config{MaxWorkers: 60}, 13, s)
	f.run(time.Minute)
	s.demand = 4000
	f.run(time.Minute)
	s.demand = 8000
	f.run(time.Minute)
	var got []string
	for _, d := range f.decisions {
		got = append(got, d.Reason)
	}
	got = append(got, f.newest.Reason)
	want := []string{
		"13 workers to 50: trainers could take 4,000 rows/s and a busy worker makes 100, so 50.0 at 80% busy. " +
			"Trainers wait 41% of their time; workers are 91% busy",
		"50 workers to 60: trainers could take 8,000 rows/s and a busy worker makes 100, so 100.0 at 80% busy. " +
			"Trainers wait 22% of their time; workers are 92% busy",
		"60 workers are the most that the pool may have (--max-workers): trainers could take 8,000 rows/s and a " +
			"busy worker makes 100, so 100.0 at 80% busy. Trainers wait 25% of their time; workers are 100% busy",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
}

// A reason names the sessions with the largest parts, and counts the rest: it is to be read, and kept as an event.
func TestReasonsOfManySessions(t *testing.T) {
	var sessions []*session
	for i := range 1000 {
		s := train(1, 0.01)
		s.ID, s.MinWorkers = fmt.Sprintf("s%03d", i), 1
		sessions = append(sessions, s)
	}
	sessions[700].MinWorkers = 2
	f := newFleet(t, Config{MaxWorkers: 2000}, 1001, sessions...)
	f.run(time.Minute)
	got := f.newest.Reason
	if n := strings.Count(got, " has its minimum of "); n != 8 ||
		!strings.Contains(got, "session s700 has its minimum of 2; ") ||
		!strings.Contains(got, "; the like holds for 992 more sessions with no larger parts") {
		t.Errorf("%d sessions are named: %s", n, got)
	}
}

func TestReasonsOfOneWorker(t *testing.T) {
	for demand, want := range map[float64]string{
		70:   "1 worker is kept: trainers could take",
		1000: "1 worker is the most that the pool may have (--max-workers): trainers could take",
	} {
		f := newFleet(t, Config{MaxWorkers: 1}, 1, train(demand, 0.01))
		f.run(time.Minute)
		if got := f.newest.Reason; !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestVictims(t *testing.T) {
	old, young := time.Unix(1, 0), time.Unix(2, 0)
	workers := []Worker{{"a", 2, young}, {"b", 1, old}, {"c", 1, young}, {"d", 0, old}, {"e", 1, young}}
	for n, want := range map[int]string{-1: "[]", 0: "[]", 1: "[d]", 3: "[d c e]", 4: "[d c e b]", 9: "[d c e b a]"} {
		if got := fmt.Sprint(Victims(workers, n)); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
	if workers[0].Name != "a" {
		t.Error("the caller's list was changed")
	}
}

func TestConfigsThatCannotBe(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		says string
	}{
		{Config{UpAfter: 3}, "the time before it grows is 3ns; it must be 100ms or more"},
		{Config{UpAfter: -time.Second}, "must be more than 0"},
		{Config{MinWorkers: 3, MaxWorkers: 2}, "no range"},
		{Config{Utilisation: 1.1}, "between 0 and 1"},
		{Config{UpAfter: time.Hour}, "must not fall"},
	} {
		if _, err := c.cfg.WithDefaults(); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: got %v, want %q", c.cfg, err, c.says)
		}
	}
}
