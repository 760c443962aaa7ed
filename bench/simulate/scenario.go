package main

import (
	"errors"
	"fmt"
	"time"
)

// Scenario is what happens to a fleet, and what is expected of its scaler.
type Scenario struct {
	Name, About string
	Duration    time.Duration
	Seed        uint64
	Jobs        []Job
	Workers     int // at the beginning
	Min, Max    int // that the scaler may have; 0: autoscale's defaults
	Utilisation float64
	CPUs        float64       // of a worker
	StartUp     time.Duration // of a worker
	Latency     time.Duration // until storage gives a stream's first byte
	Delay       time.Duration // of the leader's measurements
	Storage     []Cap
	Room        []Room
	Kills       []Kill
	Failovers   []time.Duration // of the leader
	Silences    []Span          // of the workers' reports
	Noise       Noise
	Phases      []Phase
	// NoFlapping wants no decision that takes back the one before within ten minutes, and few an hour.
	NoFlapping bool
	// Searched is the part of a phase that the search for the fewest workers looks at; 0: five minutes.
	Searched time.Duration
}

// Job is a session.
type Job struct {
	Name, Workload         string
	Trainers, Shards       int     // shards of an epoch
	Load                   float64 // its demand at factor 1, in workers that are always busy
	Dearer                 float64 // than the recorded workload a row is; 0: it is not
	Steps                  []Step  // of its demand
	Swing                  float64 // by which the demand rises and falls over a day
	From, To               time.Duration
	MinWorkers, MaxWorkers int
	Dies                   []Span // its first trainer, until it is started again
}

// Step is a demand, as a factor, from a time on.
type Step struct {
	At     time.Duration
	Factor float64
}

// Cap is what storage gives to all, in bytes/s, from a time on; negative: all that they want.
type Cap struct {
	At    time.Duration
	Bytes float64
}

// Room is how many workers there is a place for, from a time on; others that are wanted wait.
type Room struct {
	At      time.Duration
	Workers int
}

// Kill ends a share of the workers without notice.
type Kill struct {
	At    time.Duration
	Share float64
}

// Span is a time.
type Span struct{ At, For time.Duration }

// Noise says how uneven things are, as standard deviations of logarithms.
type Noise struct {
	Shards   float64 // rows of a shard
	Costs    float64 // of a row, by shard
	Workers  float64 // speed of a worker
	Measured float64 // costs and demands, as the leader sees them
	Demand   float64 // what the demand drifts by
	Lasts    time.Duration
}

// Phase is a part of a scenario, and what is expected of it.
type Phase struct {
	From, To time.Duration
	Expect   expectation
	// Decisions are enough to come to the right size.
	Decisions int
}

type expectation string

const (
	// sized: within 10% of the fewest workers with a stall under 1%, after few decisions.
	sized expectation = "sized"
	// braked: more workers are found to be of no help, and are not kept.
	braked expectation = "braked"
	// steady: the same on average, and all of the time.
	steady expectation = "steady"
	// crowded: as many workers as sized would have are wanted, and it is said that there is no room for all.
	crowded expectation = "crowded"
	// greedy: nearly as much is taken as with all the workers that there may be, and no worker idles for the most part.
	greedy expectation = "greedy"
	// free: nothing is expected.
	free expectation = "-"
)

var usualNoise = Noise{Shards: 0.3, Costs: 0.15, Workers: 0.05, Measured: 0.03, Lasts: time.Minute} //nolint:gochecknoglobals // never changed

// defaults are what scenarios have in common.
func defaults() Scenario {
	return Scenario{
		Seed: 1, CPUs: 4, StartUp: 20 * time.Second, Latency: 50 * time.Millisecond, Max: 1000,
		Noise: usualNoise,
	}
}

// shardsEach is how many shards an epoch must have for each trainer. Only one epoch is granted ahead.
const shardsEach = 10

// check finds what cannot be simulated.
func (sc *Scenario) check() error {
	var errs []error
	if sc.Duration%tick != 0 || sc.Duration <= 0 {
		errs = append(errs, fmt.Errorf("a duration of %s is not a number of %s", sc.Duration, tick))
	}
	for _, j := range sc.Jobs {
		if j.Trainers < 1 || j.Shards < 1 || j.Load <= 0 {
			errs = append(errs, fmt.Errorf(
				"session %s has %d trainers, %d shards and a load of %g workers: each must be more than 0",
				j.Name, j.Trainers, j.Shards, j.Load))
		}
		if minShards := shardsEach * j.Trainers; j.Shards < minShards {
			errs = append(errs, fmt.Errorf(
				"session %s: an epoch of %d shards is too short for %d trainers that take their steps together: "+
					"some would have none while others do; %d are the fewest that can be simulated",
				j.Name, j.Shards, j.Trainers, minShards))
		}
	}
	return errors.Join(errs...)
}

// scenarios lists all there are, at a size: 1 is full, and tests take less.
func scenarios(rec *Recorded, size float64) []Scenario {
	out := []Scenario{
		stepUp(), stepDown(), coldStart(), ramp(), mixed(), noise(), storageSlow(rec), storageStuck(), failures(),
		blind(), noRoom(), takesAll(), huge(),
	}
	for i := range out {
		out[i].shrink(size)
	}
	return out
}

// shrink makes a scenario smaller.
func (sc *Scenario) shrink(size float64) {
	if size == 1 {
		return
	}
	sc.Workers = int(float64(sc.Workers) * size)
	for i := range sc.Jobs {
		j := &sc.Jobs[i]
		j.Load *= size
		j.Trainers = max(1, int(float64(j.Trainers)*size))
		j.Shards = max(1000, int(float64(j.Shards)*size))
	}
	for i := range sc.Storage {
		sc.Storage[i].Bytes *= size
	}
	for i := range sc.Room {
		sc.Room[i].Workers = int(float64(sc.Room[i].Workers) * size)
	}
	if sc.Duration > 2*time.Hour {
		sc.Duration = 2 * time.Hour
		for i := range sc.Phases {
			sc.Phases[i].To = min(sc.Phases[i].To, sc.Duration)
		}
	}
}

func one(name, about string) Scenario {
	sc := defaults()
	sc.Name, sc.About = name, about
	sc.Jobs = []Job{{Name: "train", Workload: "jpeg", Trainers: 80, Shards: 100_000, Load: 16}}
	sc.Duration = 30 * time.Minute
	return sc
}

func stepUp() Scenario {
	sc := one("step-up", "trainers become four times as fast")
	sc.Workers = 18
	sc.Jobs[0].Steps = []Step{{10 * time.Minute, 4}}
	sc.Phases = []Phase{
		{0, 10 * time.Minute, sized, 2},
		{10 * time.Minute, 30 * time.Minute, sized, 2},
	}
	return sc
}

func stepDown() Scenario {
	sc := one("step-down", "trainers become four times as slow")
	sc.Workers = 70
	sc.Jobs[0].Load = 64
	sc.Jobs[0].Steps = []Step{{10 * time.Minute, 0.25}}
	sc.Phases = []Phase{
		{0, 10 * time.Minute, sized, 2},
		{10 * time.Minute, 30 * time.Minute, sized, 2},
	}
	return sc
}

func coldStart() Scenario {
	sc := one("cold-start", "a session comes to a fleet of no workers, and goes")
	sc.Duration = 25 * time.Minute
	sc.Jobs[0].From, sc.Jobs[0].To = time.Minute, 16*time.Minute
	sc.Phases = []Phase{
		// one worker to learn what a row costs; what is needed, as it shows on that one; and on all
		{time.Minute, 16 * time.Minute, sized, 3},
	}
	return sc
}

func ramp() Scenario {
	sc := one("day", "the demand doubles and halves over a day")
	sc.Workers = 10
	sc.Duration = 24 * time.Hour
	sc.Jobs[0].Load, sc.Jobs[0].Trainers, sc.Jobs[0].Swing = 8, 24, 0.33
	sc.NoFlapping = true
	sc.Phases = []Phase{{0, 24 * time.Hour, free, 0}}
	return sc
}

func mixed() Scenario {
	sc := defaults()
	sc.Name, sc.About = "mixed", "heavy and light sessions come, go and change their speed"
	sc.Workers, sc.Duration = 12, 60*time.Minute
	sc.Jobs = []Job{
		{
			Name: "heavy", Workload: "rm5", Trainers: 100, Shards: 100_000, Load: 30, From: 10 * time.Minute,
			To: 45 * time.Minute,
		},
		{Name: "light-a", Workload: "rm2", Trainers: 8, Shards: 20_000, Load: 2},
		{Name: "light-b", Workload: "rm2", Trainers: 16, Shards: 20_000, Load: 4, Steps: []Step{{25 * time.Minute, 3}}},
		{Name: "images", Workload: "jpeg", Trainers: 24, Shards: 20_000, Load: 5},
	}
	sc.Phases = []Phase{
		{0, 10 * time.Minute, sized, 2},
		{10 * time.Minute, 25 * time.Minute, sized, 2},
		{25 * time.Minute, 45 * time.Minute, sized, 2},
		{45 * time.Minute, 60 * time.Minute, sized, 2},
	}
	return sc
}

func noise() Scenario {
	sc := one("noise", "the demand drifts by 10% all day, and what is measured of it is off by 5%")
	sc.Workers, sc.Duration = 12, 24*time.Hour
	sc.Jobs[0].Load, sc.Jobs[0].Trainers = 10, 32
	sc.Noise.Demand, sc.Noise.Measured, sc.Noise.Lasts = 0.1, 0.05, 5*time.Minute
	sc.NoFlapping = true
	sc.Phases = []Phase{{0, 24 * time.Hour, steady, 0}}
	sc.Searched = 2 * time.Hour
	return sc
}

func storageSlow(rec *Recorded) Scenario {
	sc := one("storage-slow", "storage gives half of what is needed for an hour")
	sc.Workers, sc.Duration = 18, 100*time.Minute
	sc.Storage = []Cap{{10 * time.Minute, sc.need(rec) / 2}, {70 * time.Minute, -1}}
	sc.Phases = []Phase{
		{0, 10 * time.Minute, sized, 2},
		{10 * time.Minute, 70 * time.Minute, braked, 0},
		{70 * time.Minute, 100 * time.Minute, sized, 2},
	}
	return sc
}

func storageStuck() Scenario {
	sc := one("storage-stuck", "storage gives nothing for ten minutes")
	sc.Workers, sc.Duration = 18, 40*time.Minute
	sc.Storage = []Cap{{10 * time.Minute, 0}, {20 * time.Minute, -1}}
	sc.Phases = []Phase{
		{0, 10 * time.Minute, sized, 2},
		{10 * time.Minute, 20 * time.Minute, braked, 0},
		{20 * time.Minute, 40 * time.Minute, sized, 2},
	}
	return sc
}

func failures() Scenario {
	sc := one("failures", "workers die, one in three at once, then a trainer, then the leader")
	sc.Workers, sc.Duration = 18, 50*time.Minute
	for at := 10 * time.Minute; at < 20*time.Minute; at += 30 * time.Second {
		sc.Kills = append(sc.Kills, Kill{at, 0.04})
	}
	sc.Kills = append(sc.Kills, Kill{20 * time.Minute, 0.33})
	sc.Jobs[0].Dies = []Span{{28 * time.Minute, 2 * time.Minute}}
	sc.Failovers = []time.Duration{35 * time.Minute}
	sc.Phases = []Phase{
		{0, 10 * time.Minute, sized, 2},
		{10 * time.Minute, 22 * time.Minute, free, 0},
		{22 * time.Minute, 50 * time.Minute, sized, 2},
	}
	return sc
}

func blind() Scenario {
	sc := one("stale-reports",
		"measurements come ten seconds late, and workers' reports not at all for five minutes, in which demand doubles")
	sc.Workers, sc.Delay = 18, 10*time.Second
	sc.Jobs[0].Steps = []Step{{12 * time.Minute, 2}}
	sc.Silences = []Span{{10 * time.Minute, 5 * time.Minute}}
	sc.Phases = []Phase{
		{0, 10 * time.Minute, sized, 2},
		{15 * time.Minute, 30 * time.Minute, sized, 2},
	}
	return sc
}

func noRoom() Scenario {
	sc := one("no-room",
		"trainers become four times as fast, and for twenty minutes there is room for half of the workers only")
	sc.Workers, sc.Duration = 18, 60*time.Minute
	sc.Jobs[0].Steps = []Step{{10 * time.Minute, 4}}
	sc.Room = []Room{{0, 40}, {30 * time.Minute, 1000}}
	sc.Phases = []Phase{
		{0, 10 * time.Minute, sized, 2},
		{10 * time.Minute, 30 * time.Minute, crowded, 2},
		{30 * time.Minute, 60 * time.Minute, sized, 0},
	}
	return sc
}

func takesAll() Scenario {
	sc := one("takes-all", "two trainers that compute nothing take all that comes, as far as their streams go")
	sc.Workers, sc.Duration = 1, 60*time.Minute
	sc.Jobs[0].Trainers, sc.Jobs[0].Load = 2, 1e6
	sc.Phases = []Phase{{0, 60 * time.Minute, greedy, 0}}
	return sc
}

func huge() Scenario {
	sc := defaults()
	sc.Name, sc.About = "huge",
		"a thousand trainers, a million shards, and up to ten thousand workers of one CPU that start within a minute"
	sc.Max, sc.Workers, sc.StartUp, sc.Duration = 10_000, 4_600, time.Minute, 20*time.Minute
	sc.CPUs = 1 // and two slots: a trainer opens no more than 16 streams
	sc.Jobs = []Job{{
		Name: "train", Workload: "jpeg", Trainers: 1000, Shards: 1_000_000, Load: 3_600, Dearer: 16,
		Steps: []Step{{8 * time.Minute, 2}},
	}}
	sc.Phases = []Phase{
		{0, 8 * time.Minute, sized, 2},
		{8 * time.Minute, 20 * time.Minute, sized, 2},
	}
	sc.Searched = 2 * time.Minute
	return sc
}
