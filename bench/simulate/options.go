package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-ml/penstock/internal/cli"
)

// options are the program's flags. Those that are not given leave a scenario as it is.
type options struct {
	scenario, out string
	size          float64

	duration, startUp, delay, latency time.Duration
	workers, minWorkers, begin        int
	trainers, shards                  int
	workload                          string
	load, cpus, utilisation           float64
	steps                             []string
	storageCap                        string
	storageCapAt, storageCapFor       time.Duration
	kill                              string
	killAt                            time.Duration
	noise                             float64
	seed                              uint64
}

func (o *options) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.scenario, "scenario", "",
		"what happens: all, or some of those in bench/results/simulate.md (default: what the flags below say)")
	f.StringVar(&o.out, "out", filepath.Join("bench", "results"),
		"folder that takes simulate.md, simulate.json and plots; empty: none")
	f.Float64Var(&o.size, "size", 1,
		"part of the scenarios' workers, trainers and shards to simulate, and of no more than two hours if below 1")
	f.DurationVar(&o.duration, "duration", 30*time.Minute, "virtual time to simulate")
	f.IntVar(&o.workers, "workers", 1000, "the most workers that the scaler may have")
	f.IntVar(&o.minWorkers, "min-workers", 0, "the fewest that it may have")
	f.IntVar(&o.begin, "begin", 18, "workers at the beginning")
	f.IntVar(&o.trainers, "trainers", 80, "trainers")
	f.IntVar(&o.shards, "shards", 100_000, "shards of an epoch")
	f.StringVar(&o.workload, "workload", "jpeg", "what they read: rm1, rm2, rm5 or jpeg")
	f.Float64Var(&o.load, "load", 16, "their demand, in workers that are always busy")
	f.StringSliceVar(&o.steps, "step", nil,
		"demand as a multiple of the first, and from when: 4x, 4x@10m,0.5x@20m (default time: 10m)")
	f.StringVar(&o.storageCap, "storage-cap", "",
		"what storage gives: as a part of what the first demand needs (0.5x), or a second's bytes (2GB)")
	f.DurationVar(&o.storageCapAt, "storage-cap-at", 10*time.Minute, "from when")
	f.DurationVar(&o.storageCapFor, "storage-cap-for", 0, "for how long (default: to the end)")
	f.StringVar(&o.kill, "kill", "", "share of the workers that die at once: 30%")
	f.DurationVar(&o.killAt, "kill-at", 10*time.Minute, "when they die")
	f.Float64Var(&o.noise, "noise", 0, "how much the demand drifts by, as a standard deviation: 0.1")
	f.DurationVar(&o.startUp, "start-up", 20*time.Second, "how long a worker takes to start")
	f.DurationVar(&o.delay, "delay", 0, "how late measurements come")
	f.DurationVar(&o.latency, "latency", 50*time.Millisecond, "until storage gives a stream's first byte")
	f.Float64Var(&o.cpus, "cpus", 4, "CPUs of a worker")
	f.Float64Var(&o.utilisation, "utilisation", 0, "that the scaler aims at (default: its own)")
	f.Uint64Var(&o.seed, "seed", 1, "of all that is random")
}

// scenarios are those to run, as the flags that were given change them.
func (o *options) scenarios(rec *Recorded, given func(string) bool) ([]Scenario, error) {
	var list []Scenario
	if o.scenario != "" {
		var err error
		if list, err = pick(scenarios(rec, o.size), o.scenario); err != nil {
			return nil, err
		}
	} else {
		list = []Scenario{one("custom", "as the flags say")}
		list[0].Workers = o.begin
	}
	for i := range list {
		if err := o.change(&list[i], rec, given); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// change makes of a scenario what the flags say.
func (o *options) change(sc *Scenario, rec *Recorded, given func(string) bool) error {
	j := &sc.Jobs[0]
	for name, set := range map[string]func(){
		"duration":    func() { sc.Duration = o.duration.Round(tick) },
		"workers":     func() { sc.Max = o.workers },
		"min-workers": func() { sc.Min = o.minWorkers },
		"begin":       func() { sc.Workers = o.begin },
		"trainers":    func() { j.Trainers = o.trainers },
		"shards":      func() { j.Shards = o.shards },
		"workload":    func() { j.Workload = o.workload },
		"load":        func() { j.Load = o.load },
		"noise":       func() { sc.Noise.Demand = o.noise },
		"start-up":    func() { sc.StartUp = o.startUp },
		"delay":       func() { sc.Delay = o.delay },
		"latency":     func() { sc.Latency = o.latency },
		"cpus":        func() { sc.CPUs = o.cpus },
		"utilisation": func() { sc.Utilisation = o.utilisation },
		"seed":        func() { sc.Seed = o.seed },
	} {
		if given(name) {
			set()
		}
	}
	if _, ok := rec.Workloads[j.Workload]; !ok {
		return fmt.Errorf("--workload %s: nothing was recorded of it", j.Workload)
	}
	if err := o.strike(sc, given); err != nil {
		return err
	}
	if given("step") {
		steps, err := parseSteps(o.steps)
		if err != nil {
			return err
		}
		j.Steps = steps
	}
	if given("storage-cap") {
		if err := o.capStorage(sc, rec); err != nil {
			return err
		}
	}
	if o.scenario == "" || given("step") || given("storage-cap") || given("duration") {
		sc.Phases = phases(sc, rec)
	}
	return sc.check()
}

func (o *options) strike(sc *Scenario, given func(string) bool) error {
	if !given("kill") {
		return nil
	}
	share, err := strconv.ParseFloat(strings.TrimSuffix(o.kill, "%"), 64)
	if err != nil || share <= 0 || share > 100 {
		return fmt.Errorf("--kill %s: want a share of the workers such as 30%%", o.kill)
	}
	sc.Kills = []Kill{{o.killAt.Round(tick), share / 100}}
	return nil
}

// parseSteps reads steps such as 4x@10m.
func parseSteps(texts []string) ([]Step, error) {
	var out []Step
	for _, text := range texts {
		factor, at, timed := strings.Cut(text, "@")
		step := Step{At: 10 * time.Minute}
		var err error
		if step.Factor, err = strconv.ParseFloat(strings.TrimSuffix(factor, "x"), 64); err != nil || step.Factor <= 0 {
			return nil, fmt.Errorf("--step %s: want a multiple such as 4x, or 4x@10m", text)
		}
		if timed {
			if step.At, err = time.ParseDuration(at); err != nil {
				return nil, fmt.Errorf("--step %s: want a time such as 10m after the @: %w", text, err)
			}
		}
		step.At = step.At.Round(tick)
		out = append(out, step)
	}
	slices.SortFunc(out, func(a, b Step) int { return int(a.At - b.At) })
	return out, nil
}

// need is the bytes/s that a scenario's sessions read at the demand they begin with.
func (sc *Scenario) need(rec *Recorded) (bytes float64) {
	for _, j := range sc.Jobs {
		w := rec.Workloads[j.Workload]
		bytes += j.Load * sc.CPUs / w.CPU / max(1, j.Dearer) * w.Stored
	}
	return bytes
}

func (o *options) capStorage(sc *Scenario, rec *Recorded) error {
	bytes := 0.0
	if text, ok := strings.CutSuffix(o.storageCap, "x"); ok {
		part, err := strconv.ParseFloat(text, 64)
		if err != nil || part < 0 {
			return fmt.Errorf("--storage-cap %s: want a part such as 0.5x", o.storageCap)
		}
		bytes = part * sc.need(rec)
	} else {
		var size cli.Bytes
		if err := size.Set(o.storageCap); err != nil {
			return fmt.Errorf("--storage-cap %s: %w", o.storageCap, err)
		}
		bytes = float64(size)
	}
	sc.Storage = []Cap{{o.storageCapAt.Round(tick), bytes}}
	if o.storageCapFor > 0 {
		sc.Storage = append(sc.Storage, Cap{(o.storageCapAt + o.storageCapFor).Round(tick), -1})
	}
	return nil
}

// phases cuts a scenario where demand or storage change, and expects of each part what is right for it.
func phases(sc *Scenario, rec *Recorded) []Phase {
	cuts := []time.Duration{0, sc.Duration}
	for _, s := range sc.Jobs[0].Steps {
		cuts = append(cuts, s.At)
	}
	for _, c := range sc.Storage {
		cuts = append(cuts, c.At)
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	var out []Phase
	for i := 1; i < len(cuts) && cuts[i] <= sc.Duration; i++ {
		p := Phase{From: cuts[i-1], To: cuts[i], Expect: sized, Decisions: 2}
		factor, limit := 1.0, -1.0
		for _, s := range sc.Jobs[0].Steps {
			if s.At <= p.From {
				factor = s.Factor
			}
		}
		for _, c := range sc.Storage {
			if c.At <= p.From {
				limit = c.Bytes
			}
		}
		if limit >= 0 && limit < factor*sc.need(rec) {
			p.Expect = braked
		}
		if p.Expect == sized && sc.Noise.Demand > 0 {
			p.Expect = steady
		}
		out = append(out, p)
	}
	return out
}
