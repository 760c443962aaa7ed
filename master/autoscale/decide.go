package autoscale

import (
	"math"
	"slices"
	"time"

	"github.com/penstock-ml/penstock/master/words"
)

// Past is what Decide has to remember beyond its window: give each call what the one before returned. The zero value is
// a scaler that has just started; one that has lost its past only tries again what did not help.
type Past struct {
	Growth *Growth
	Brakes []Brake
	Probes []Probe
	Lifts  []Lift
	Leapt  bool      // the newest growth was by so much that it is looked at once more whether it was too much
	Moving time.Time // since when what is needed has been moving without coming to rest
	Said   kind      // the newest decision that was news
	SaidAt time.Time
}

// Probe is how many workers a session is given while nothing is known of it.
type Probe struct {
	Session string
	Workers float64
	Since   time.Time
}

const (
	// slack is how much more than the present workers may be needed, as long as nobody waits: they are busier then than
	// aimed at.
	slack = 1.12
	// little is a change that is not worth a decision.
	little = 0.03
	// byFar is how many of the present workers may be enough to shrink after DownAfter, and clearly after TrimAfter.
	byFar, clearly = 0.6, 0.92
	// trimmed is how many times as many as are enough are left after TrimAfter: to come back for streams that are
	// uneven, or for a demand that drifts, would be flapping.
	trimmed = 1.08
	// leap is by how many times a fleet grows at once for it to be a guess: what rows cost on few workers says little
	// of what they cost on many.
	leap = 2
	// manySilent is the share of workers without a report that leaves too little to decide on.
	manySilent = 0.2
	// rest is how much what is needed now may differ from that of the window to have come to rest.
	rest = 1.1
	// patience is for how many times UpAfter a session is left to show what it needs before it is given more to do so:
	// each of its trainers must have had a stream for some steps.
	patience = 6
	// unboundedTrial is how many times as many workers are tried at once for a session that takes all that comes: its
	// demand is no number to go by.
	unboundedTrial = 2
	// long is over how many times UpAfter it is looked back, where UpAfter is too short to tell what lasts from what
	// passes.
	long = 3
	// whole keeps a hair's breadth from costing a worker.
	whole = 0.01
)

// kind is the sort of a decision.
type kind string

const (
	keep    kind = "keep"
	bounds  kind = "bounds"
	stale   kind = "stale"
	grow    kind = "grow"
	full    kind = "full"
	shrink  kind = "shrink"
	braking kind = "brake"
	missing kind = "missing"
)

// scaler is one call of Decide.
type scaler struct {
	cfg    Config
	past   Past
	window Window
	now    *Sample
	recent Window
	needs  []need
	sum    float64       // of the needs' parts
	vain   []Before      // the sessions that the newest growth did not help, as found now
	from   int           // workers that there were before it
	lasted time.Duration // for how long fewer workers had been enough when it was decided to shrink
}

// Decide says how many workers there should be after a window of samples, of which there is at least one. cfg comes
// from WithDefaults.
func Decide(cfg Config, past Past, window Window) (Decision, Past) {
	s := &scaler{cfg: cfg, past: past, window: window, now: window.newest(), recent: window.last(cfg.UpAfter)}
	s.needs = cfg.needs(s.recent)
	s.learn()
	s.lift()
	s.probe()
	for _, n := range s.needs {
		s.sum += n.part
	}
	to, kind := s.choose()
	d := s.decision(to, kind)
	s.remember(&d, kind)
	return d, s.past
}

// learn finds out whether the newest growth helped.
func (s *scaler) learn() {
	s.loosen()
	if g := s.past.Growth; g != nil && !s.deaf() {
		if g.Arrived.IsZero() && 10*(s.now.Workers-g.From) >= 9*(g.To-g.From) {
			here := *g
			here.Arrived = s.now.At
			g, s.past.Growth = &here, &here
		}
		vain, done := s.judge(g)
		if done {
			s.past.Growth, s.vain, s.from = nil, vain, g.From
			s.past.Brakes = s.cfg.brake(s.past.Brakes, vain, s.needs, s.now.At)
			s.past.Brakes = slices.DeleteFunc(s.past.Brakes, func(b Brake) bool { return s.freed(g, b) })
		}
	}
	apply(s.past.Brakes, s.needs, s.now)
	for i := range s.needs {
		n := &s.needs[i]
		had := s.had(n)
		if limit := max(1, unboundedTrial*had); words.Unbounded(n.Demand) && n.part > limit {
			n.part = n.within(limit)
		}
		if had > 0 && n.part > storageTrial*had && s.storageSlowed(n) {
			n.part = n.within(storageTrial * had)
		}
	}
}

// storageSlowed tells whether rows seem to cost more than they did because storage got slower. More workers may help,
// if it answers late, or not, if it can give no more.
func (s *scaler) storageSlowed(n *need) bool {
	if n.Storage < muchStorage || n.wait < muchStall {
		return false
	}
	usual := s.window.lowest(s.cfg.UpAfter, func(one *Sample) float64 {
		if was := one.session(n.ID); was != nil {
			return was.Cost
		}
		return 0
	})
	return usual > 0 && n.Cost > faster*usual
}

// freed tells of a brake whether a growth helped its session after all.
func (s *scaler) freed(g *Growth, b Brake) bool {
	in := func(of []Before) bool {
		return slices.ContainsFunc(of, func(o Before) bool { return o.Session == b.Session })
	}
	return in(g.Before) && !in(s.vain) && s.now.Workers > g.From
}

// had is what a session has of the present workers: in proportion to what it takes of their time.
func (s *scaler) had(n *need) float64 {
	all := 0.0
	for i := range s.needs {
		all += s.needs[i].Rate * s.needs[i].Cost
	}
	if all == 0 {
		return float64(s.now.Workers) / float64(len(s.needs))
	}
	return float64(s.now.Workers) * n.Rate * n.Cost / all
}

// probe gives sessions of which nothing is known what they take of the workers that there are, or one if there is none,
// and twice as many each time that this was too few to learn more.
func (s *scaler) probe() {
	var probes []Probe
	for i := range s.needs {
		n := &s.needs[i]
		if !n.unknown() {
			continue
		}
		p := Probe{Session: n.ID, Since: s.now.At}
		if k := slices.IndexFunc(s.past.Probes, func(p Probe) bool { return p.Session == n.ID }); k >= 0 {
			p = s.past.Probes[k]
		}
		if s.now.Workers < s.now.Wanted { // those on their way may be enough
			p.Since = s.now.At
		}
		// and its cost will be known soon
		patient := s.now.At.Sub(p.Since) < patience*s.cfg.UpAfter || n.wait < 0.5 || n.Demand > 0
		if limit := float64(n.Trainers); s.now.Wanted == 0 && p.Workers == 0 || !patient && p.Workers < limit {
			p.Workers, p.Since = min(max(1, 2*p.Workers), limit), s.now.At
		}
		n.part = n.within(p.Workers)
		probes = append(probes, p)
	}
	s.past.Probes = probes
}

// deaf tells that too many workers are silent to decide anything.
func (s *scaler) deaf() bool {
	return float64(s.now.Silent) > manySilent*float64(s.now.Workers+s.now.Silent)
}

// bound is a whole number of workers within the pool's bounds: one at least where any part of one is needed.
func (s *scaler) bound(workers float64) int {
	whole := math.Ceil(workers - whole)
	if workers > 0 {
		whole = max(whole, 1)
	}
	return int(min(max(whole, float64(s.cfg.MinWorkers)), float64(s.cfg.MaxWorkers)))
}

func (s *scaler) choose() (to int, k kind) {
	wanted := s.now.Wanted
	switch to := s.bound(s.sum); {
	case wanted != min(max(wanted, s.cfg.MinWorkers), s.cfg.MaxWorkers):
		return s.bound(float64(wanted)), bounds
	case len(s.vain) > 0:
		lowest := 1
		if slices.ContainsFunc(s.needs, func(n need) bool { return n.unknown() || n.Stale }) {
			lowest = max(s.from, 1) // they may need what there was before
		}
		return min(max(to, lowest), wanted), braking
	case s.deaf():
		return wanted, stale
	case to > wanted && s.grows():
		return to, grow
	case to == s.cfg.MaxWorkers && to == wanted && s.missing() <= 0 && s.sum > slack*float64(to) &&
		s.wait() > fewStalls:
		return wanted, full
	}
	if to := s.fewer(); to < wanted {
		return to, shrink
	}
	if s.missing() > 0 {
		return wanted, missing
	}
	return wanted, keep
}

// missing is how many workers are wanted for longer than one takes to start, and did not come.
func (s *scaler) missing() int {
	if !s.window.covers(s.late()) {
		return 0
	}
	minWanted, maxWorkers := s.now.Wanted, 0
	for _, one := range s.window.last(s.late()) {
		minWanted, maxWorkers = min(minWanted, one.Wanted), max(maxWorkers, one.Workers+one.Silent)
	}
	return minWanted - maxWorkers
}

// wait is the share of its trainers' time that the session loses that waits most.
func (s *scaler) wait() (longest float64) {
	for i := range s.needs {
		longest = max(longest, s.needs[i].wait)
	}
	return longest
}

func (s *scaler) stall() float64 { return s.recent.mean((*Sample).stall) }

// grows tells whether it is time to grow to what the sum of needs says.
func (s *scaler) grows() bool {
	wanted := float64(s.now.Wanted)
	if s.now.Wanted == 0 || len(s.past.Probes) > 0 && s.sum < 2*float64(len(s.past.Probes)) { // nothing to measure by
		return true
	}
	lately := s.window.last(long * s.cfg.UpAfter).median(s.needed)
	waits := s.wait() >= muchStall || s.loses()
	idle := s.recent.mean((*Sample).busy) < lazy*s.cfg.Utilisation // what rows cost then is less sure
	if idle && !waits && wanted >= s.minNeed() {
		return false
	}
	if s.sum < (1+little)*wanted || s.sum < slack*wanted &&
		(!waits || idle || !s.steady() || lately < (1+little)*wanted) {
		return false
	}
	if !waits && lately < slack*wanted {
		return false // there is time to see whether it lasts
	}
	if g := s.past.Growth; g != nil && s.demand() < rest*g.Demand {
		// a row that costs more with more workers is the sign of a bottleneck elsewhere: see first whether they help
		return false
	}
	return s.settled()
}

// minNeed is the sum of the sessions' minimums.
func (s *scaler) minNeed() (sum float64) {
	for i := range s.needs {
		sum += s.needs[i].within(0)
	}
	return sum
}

// steady tells whether the fleet has been for a while as it is wanted now: what it does tells more than what rows cost.
func (s *scaler) steady() bool {
	return s.steadyFor(long * s.cfg.UpAfter)
}

func (s *scaler) steadyFor(d time.Duration) bool {
	return s.window.covers(d) && !slices.ContainsFunc(s.window.last(d), func(one Sample) bool {
		return one.Workers != s.now.Workers || one.Wanted != s.now.Workers
	})
}

// needed is what all sessions of a sample need.
func (s *scaler) needed(one *Sample) float64 { return s.cfg.total(one, s.past) }

// settled tells whether what is needed has come to rest, or has been moving for so long that it may never. What a row
// costs falls for a while after storage got well, and rises with storage that gets slow.
func (s *scaler) settled() bool {
	now, recent := s.recent.last(s.cfg.UpAfter/2).median(s.needed), s.recent.median(s.needed)
	if now <= rest*recent && recent <= rest*now {
		s.past.Moving = time.Time{}
		return true
	}
	if s.past.Moving.IsZero() {
		s.past.Moving = s.now.At
	}
	return s.now.At.Sub(s.past.Moving) >= 2*s.cfg.UpAfter
}

// demand of all sessions, in rows/s.
func (s *scaler) demand() (sum float64) {
	for i := range s.needs {
		sum += s.needs[i].Demand
	}
	return sum
}

// fewer is how many workers are enough, and were for long enough to believe it.
func (s *scaler) fewer() int {
	wanted := s.now.Wanted
	if s.past.Growth != nil || slices.ContainsFunc(s.now.Sessions, func(one Session) bool { return one.Stale }) {
		return wanted
	}
	known := !slices.ContainsFunc(s.needs, func(n need) bool { return n.unknown() })
	if to := s.landed(); known && to < wanted {
		s.lasted = s.cfg.DownAfter
		return to
	}
	// What was measured while the demand fell is neither what was needed nor what is.
	if known && float64(s.enough(s.cfg.DownAfter+s.cfg.UpAfter)) <= byFar*float64(wanted) {
		s.lasted = s.cfg.DownAfter
		return s.enough(s.cfg.DownAfter)
	}
	if to := s.enough(s.cfg.TrimAfter); float64(to) <= clearly*float64(wanted) {
		s.lasted = s.cfg.TrimAfter
		return int(trimmed * float64(to))
	}
	return wanted
}

// landed looks at a leap once its workers have shown for a while what is needed, and is how many are enough if they are
// clearly too many.
func (s *scaler) landed() int {
	if !s.past.Leapt || !s.steadyFor(s.cfg.DownAfter) {
		return s.now.Wanted
	}
	s.past.Leapt = false
	to := s.bound(s.window.last(s.cfg.DownAfter).median(s.needed))
	if float64(to) > clearly*float64(s.now.Wanted) || s.wait() >= fewStalls {
		return s.now.Wanted
	}
	return to
}

// enough is how many workers there had to be at most in the last time, or as many as there are if that is not known.
func (s *scaler) enough(last time.Duration) int {
	if !s.window.covers(last) {
		return s.now.Wanted
	}
	return s.bound(max(s.window.last(last).peak(s.cfg.UpAfter, s.needed), s.sum))
}

// remember notes what the next call has to know of a decision.
func (s *scaler) remember(d *Decision, k kind) {
	if k != grow {
		s.past.Growth = s.pending(d)
	} else {
		s.past.Growth = s.growth(d)
		s.past.Leapt = d.To >= leap*max(1, s.now.Workers)
	}
	if k != keep && (d.To != d.From || k != s.past.Said && d.At.Sub(s.past.SaidAt) >= s.cfg.UpAfter) {
		d.News = true
		s.past.Said, s.past.SaidAt = k, d.At
	}
}

// pending is the growth that is still to be judged after a decision that is none.
func (s *scaler) pending(d *Decision) *Growth {
	if d.To < d.From {
		return nil
	}
	return s.past.Growth
}

// growth is what to judge a decision by. One that follows another before that was judged goes on from where the first
// began.
func (s *scaler) growth(d *Decision) *Growth {
	g := &Growth{At: d.At, From: s.now.Workers, To: d.To, Demand: s.demand()}
	for i := range s.needs {
		n := &s.needs[i]
		had := s.had(n)
		b := Before{Session: n.ID, Rate: n.Rate, Wait: n.wait, Part: had}
		if rate := s.window.last(long * s.cfg.UpAfter).pace(n.ID).Rate; rate > 0 {
			b.Rate = rate
		}
		if n.Cost > 0 {
			b.Rate = min(b.Rate, had/n.Cost) // what is taken beyond that had been buffered
		}
		g.Before = append(g.Before, b)
	}
	if last := s.past.Growth; last != nil {
		g.From, g.Before = last.From, last.Before
	}
	return g
}
