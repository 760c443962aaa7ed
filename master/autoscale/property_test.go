package autoscale

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// oddly draws numbers that no measurement should give, and some that one may.
func oddly() *rapid.Generator[float64] {
	return rapid.OneOf(
		rapid.SampledFrom([]float64{0, -1, 1, 1e-300, 1e300, math.MaxFloat64, math.Inf(1), math.Inf(-1), math.NaN()}),
		rapid.Float64Range(0, 1), rapid.Float64Range(0, 1e6), rapid.Float64(),
	)
}

func oddSession(id string) *rapid.Generator[Session] {
	return rapid.Custom(func(t *rapid.T) Session {
		odd := oddly()
		return Session{
			ID: id, Trainers: rapid.IntRange(-1, 2000).Draw(t, "trainers"), Demand: odd.Draw(t, "demand"),
			Rate:  odd.Draw(t, "rate"),
			Stall: odd.Draw(t, "stall"), Cost: odd.Draw(t, "cost"), Storage: odd.Draw(t, "storage"),
			Stage:  rapid.SampledFrom([]string{"", "storage", "decode", "send"}).Draw(t, "stage"),
			Stale:  rapid.Bool().Draw(t, "stale"),
			Weight: odd.Draw(t, "weight"), MinWorkers: rapid.IntRange(-1, 50).Draw(t, "least"),
			MaxWorkers: rapid.IntRange(-1, 200).Draw(t, "most"),
		}
	})
}

func oddSample(at time.Time, wanted int) *rapid.Generator[Sample] {
	return rapid.Custom(func(t *rapid.T) Sample {
		s := Sample{
			At: at, Wanted: wanted, Workers: rapid.IntRange(0, 300).Draw(t, "workers"), Silent: rapid.IntRange(0,
				100).Draw(t, "silent"),
			Busy: oddly().Draw(t, "busy"),
		}
		for _, id := range []string{"a", "b", "c"} {
			if rapid.Bool().Draw(t, "session "+id) {
				s.Sessions = append(s.Sessions, oddSession(id).Draw(t, id))
			}
		}
		return s
	})
}

// Whatever is measured, a decision is within the bounds, its numbers are numbers, and the same window and past, which
// stay as they are, give it again.
func TestOddMeasurements(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		minWorkers := rapid.IntRange(0, 20).Draw(t, "least")
		maxWorkers := minWorkers + rapid.IntRange(1, 300).Draw(t, "more")
		cfg, err := Config{MinWorkers: minWorkers, MaxWorkers: maxWorkers}.WithDefaults()
		if err != nil {
			t.Fatal(err)
		}
		var window Window
		var past Past
		now, wanted := time.Unix(1_800_000_000, 0), rapid.IntRange(0, 500).Draw(t, "wanted")
		for range rapid.IntRange(1, 60).Draw(t, "samples") {
			now = now.Add(time.Duration(rapid.IntRange(1, 120).Draw(t, "seconds")) * time.Second)
			window = window.Add(cfg, oddSample(now, wanted).Draw(t, "sample"))
			d, next := Decide(cfg, past, window)
			if again, same := Decide(cfg, past, window); !reflect.DeepEqual(d, again) ||
				!reflect.DeepEqual(next, same) {
				t.Fatalf("%+v, and then of the same %+v", d, again)
			}
			checkDecision(t, cfg, window.newest(), d)
			past, wanted = next, d.To
		}
	})
}

func checkDecision(t *rapid.T, cfg Config, now *Sample, d Decision) {
	t.Helper()
	if d.To < cfg.MinWorkers || d.To > cfg.MaxWorkers || d.From != now.Wanted || !d.At.Equal(now.At) {
		t.Fatalf("%d workers to %d, of %d to %d", d.From, d.To, cfg.MinWorkers, cfg.MaxWorkers)
	}
	numbers := []float64{d.Demand, d.Capacity, d.Needed, d.Stall, d.Busy}
	for _, p := range d.Parts {
		numbers = append(numbers, p.Needed)
		if s := now.session(p.Session); s.MaxWorkers > 0 && p.Needed > float64(s.MaxWorkers) ||
			s.MaxWorkers == 0 && p.Needed < float64(s.MinWorkers) {
			t.Fatalf("session %s has %g workers, of %d to %d", p.Session, p.Needed, s.MinWorkers, s.MaxWorkers)
		}
	}
	for _, x := range numbers {
		if math.IsNaN(x) || math.IsInf(x, 0) || x < 0 {
			t.Fatalf("%+v", d)
		}
	}
	if len(d.Parts) != len(now.Sessions) || d.Reason == "" || strings.Contains(d.Reason, "NaN") ||
		strings.Contains(d.Reason, "Inf") {
		t.Fatalf("%d parts of %d sessions: %q", len(d.Parts), len(now.Sessions), d.Reason)
	}
}

// As long as a brake holds, and nothing changes, there are not more workers again.
func TestABrakeHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := train(rapid.Float64Range(500, 20_000).Draw(t, "demand"), 0.01)
		s.Trainers = rapid.IntRange(1, 100).Draw(t, "trainers")
		f := newFleet(t, Config{}, 0, s)
		f.workers = f.right()
		f.run(2 * time.Minute)
		if limit := s.demand * rapid.Float64Range(0.05, 0.8).Draw(t, "limit"); rapid.Bool().Draw(t, "storage") {
			s.limit = limit
		} else {
			s.takes, s.demand = limit, rapid.SampledFrom([]float64{3 * s.demand, 1e12}).Draw(t, "asked")
		}
		f.run(time.Hour)
		var braked time.Time
		for _, d := range f.decisions {
			if d.To > d.From && d.At.Sub(braked) < f.cfg.BrakeFor {
				t.Fatalf("%s after the brake: %s", d.At.Sub(braked), d.Reason)
			}
			if strings.Contains(d.Reason, "No more for ") {
				braked = d.At
			}
		}
	})
}

// How the workers are divided is for weights to say, and not how many there are.
func TestWeightsDoNotMatterToTheSum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		run := func(weight float64) []Decision {
			a, b := train(4000, 0.01), train(1000, 0.01)
			b.ID, a.Weight, b.Weight = "other", 1, weight
			f := newFleet(t, Config{}, 63, a, b)
			f.run(time.Minute)
			b.demand = 3000
			f.run(2 * time.Minute)
			return f.decisions
		}
		if a, b := run(1), run(rapid.Float64Range(0.01, 100).Draw(t, "weight")); len(a) == 0 ||
			!reflect.DeepEqual(a, b) {
			t.Fatalf("%v, and with other weights %v", a, b)
		}
	})
}
