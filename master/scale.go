package master

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/fleet"
	"github.com/penstock-ml/penstock/master/autoscale"
	"github.com/penstock-ml/penstock/master/observe"
)

const (
	// sampleEvery is how often the scaler decides, at most.
	sampleEvery = 2 * time.Second
	// actTimeout bounds a call of the actuator.
	actTimeout = 30 * time.Second
	// drainPatience bounds how long to wait until the workers that are to end drain. Those that have not are drained by
	// being ended.
	drainPatience = 10 * time.Second
)

// Actuator keeps a number of workers, wherever they run. The leader alone calls it, from one goroutine.
type Actuator interface {
	// Wanted is how many workers it keeps: those that run, start or are replaced.
	Wanted(ctx context.Context) (int, error)
	// Scale has it keep so many. Those named have drained, and are the first to end if there are to be fewer.
	Scale(ctx context.Context, workers int, drain []string) error
}

// Scaling is how a fleet is scaled, and by whom.
type Scaling struct {
	autoscale.Config
	Actuator Actuator // nil: nobody scales
}

// scaler measures, decides and has the actuator obey, for one term.
type scaler struct {
	term     *term
	cfg      autoscale.Config
	actuator Actuator
	sampled  time.Time
	window   autoscale.Window
	past     autoscale.Past
	recorded *autoscale.Decision // the newest that was made an event and is not obeyed yet
	trouble  string              // the actuator's newest error; "" if it works

	mu sync.Mutex
	// workers that are told to drain, and when they came into sight: one that is started again is another
	drain map[string]time.Time
}

func newScaler(t *term, s Scaling) *scaler {
	return &scaler{term: t, cfg: s.Config, actuator: s.Actuator, drain: map[string]time.Time{}}
}

// run decides again and again.
func (s *scaler) run() error {
	ctx := s.term.ctx
	ticker := time.NewTicker(min(sampleEvery, s.cfg.UpAfter/4))
	defer ticker.Stop()
	for {
		if seen, ok := s.measured(); ok {
			if err := s.step(ctx, &seen); ctx.Err() == nil {
				s.logTrouble(err)
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// measured is what was measured last, if that is after the newest sample.
func (s *scaler) measured() (observe.Fleet, bool) {
	seen, ok := s.term.master.observed.Fleet()
	return seen, ok && seen.At.After(s.sampled)
}

// step decides once, on one more sample.
func (s *scaler) step(ctx context.Context, seen *observe.Fleet) error {
	s.sampled = seen.At
	call, cancel := context.WithTimeout(ctx, actTimeout)
	defer cancel()
	wanted, err := s.actuator.Wanted(call)
	if err != nil {
		return err
	}
	s.window = s.window.Add(s.cfg, sampleOf(seen, wanted))
	decision, past := autoscale.Decide(s.cfg, s.past, s.window)
	s.term.master.observed.Decided(decision.Proto())
	if err := s.record(ctx, &decision); err != nil {
		return err
	}
	if decision.To != wanted {
		if err := s.obey(ctx, decision.To, wanted); err != nil {
			return err // and decide the same again
		}
	}
	s.past, s.recorded = past, nil
	return nil
}

// record makes an event of a decision, unless it is the one that could not be obeyed before, and waits until it is
// kept.
func (s *scaler) record(ctx context.Context, d *autoscale.Decision) error {
	if !d.News {
		return nil
	}
	if again := s.recorded != nil && s.recorded.To == d.To && s.recorded.From == d.From; !again {
		s.term.events.Add(&pb.Event{Kind: pb.EventKind_SCALE, Words: d.Reason, Decision: d.Proto()})
		s.term.master.cfg.Logger.Info("scaling", "from", d.From, "to", d.To, "reason", d.Reason)
		s.recorded = d
	}
	call, cancel := context.WithTimeout(ctx, actTimeout)
	defer cancel()
	if err := s.term.events.Settle(call); err != nil {
		return fmt.Errorf("master: a decision of the scaler is not obeyed, for it is not recorded: %w", err)
	}
	return nil
}

// obey has the actuator keep another number of workers. Those that are to end drain before.
func (s *scaler) obey(ctx context.Context, to, wanted int) error {
	var victims []string
	if to < wanted {
		victims = s.chooseVictims(to)
		s.awaitDrain(ctx, victims)
	} else {
		s.mu.Lock()
		clear(s.drain)
		s.mu.Unlock()
	}
	call, cancel := context.WithTimeout(ctx, actTimeout)
	defer cancel()
	return s.actuator.Scale(call, to, victims)
}

// chooseVictims tells all workers but so many to drain. Those that were told before, and are there still, are among
// them. Wanted ones that are not there yet end before any of these: to drain another for each would leave fewer than
// there should be.
func (s *scaler) chooseVictims(stay int) []string {
	workers := s.term.master.observed.Workers()
	s.mu.Lock()
	defer s.mu.Unlock()
	told := map[string]time.Time{}
	var victims []string
	var others []autoscale.Worker
	since := map[string]time.Time{}
	for _, w := range workers {
		since[w.Name] = w.Since
		before, drains := s.drain[w.Name]
		switch {
		case drains && before.Equal(w.Since):
			told[w.Name] = w.Since
			victims = append(victims, w.Name)
		case !w.Draining: // else it ends by itself
			others = append(others, autoscale.Worker{Name: w.Name, Streams: w.Streams, Started: w.Since})
		}
	}
	more := autoscale.Victims(others, len(others)-stay)
	for _, name := range more {
		told[name] = since[name]
	}
	s.drain = told
	return append(victims, more...)
}

// drains reports whether a worker is to drain.
func (s *scaler) drains(worker string) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	since, told := s.drain[worker]
	return told && since.Equal(s.term.master.observed.Since(worker))
}

// awaitDrain waits until the fleet knows that workers drain, so that no new stream is sent to them.
func (s *scaler) awaitDrain(ctx context.Context, victims []string) {
	patience := time.NewTimer(drainPatience)
	defer patience.Stop()
	for {
		outdated := s.term.master.places.get().outdated
		waiting := slices.ContainsFunc(s.term.master.fleet.Members(fleet.Worker), func(m fleet.Member) bool {
			return !m.Draining && slices.Contains(victims, m.Name)
		})
		if !waiting {
			return
		}
		select {
		case <-outdated:
		case <-patience.C:
			s.term.master.cfg.Logger.Warn("workers that are to end were told to drain, and do not yet",
				"workers", strings.Join(victims, ", "))
			return
		case <-ctx.Done():
			return
		}
	}
}

// logTrouble makes an event of an actuator that begins to fail, fails otherwise, or works again.
func (s *scaler) logTrouble(err error) {
	now := ""
	if err != nil {
		now = err.Error()
		s.term.master.cfg.Logger.Warn("the fleet is not scaled; trying on", "error", err)
	}
	if now == s.trouble {
		return
	}
	words := "the fleet is scaled again"
	if now != "" {
		words = "the fleet is not scaled, and goes on as it is; trying on: " + now
	}
	s.trouble = now
	s.term.events.Add(&pb.Event{Kind: pb.EventKind_SCALE, Words: words})
}
