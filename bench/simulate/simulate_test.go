package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock-ml/penstock/bench/cluster"
	"github.com/penstock-ml/penstock/bench/workload"
)

// TestScenarios runs a small version of each scenario to its end. Whether the targets hold is for the full size to
// show.
func TestScenarios(t *testing.T) {
	rec, err := recorded()
	if err != nil {
		t.Fatal(err)
	}
	for _, sc := range scenarios(rec, 0.1) {
		t.Run(sc.Name, func(t *testing.T) {
			w, err := newWorld(sc, rec, sc.Workers, true)
			if err != nil {
				t.Fatal(err)
			}
			w.Duration = min(w.Duration, 12*time.Minute)
			if err := w.run(t.Context()); err != nil {
				t.Fatal(err)
			}
			rows := 0.0
			for _, j := range w.jobs {
				if err := j.state.Check(); err != nil {
					t.Errorf("session %s: %v", j.Name, err)
				}
				rows += j.handed
			}
			if rows == 0 || len(w.history) == 0 {
				t.Errorf("%g rows were handed over", rows)
			}
		})
	}
}

func TestAStepIsJudged(t *testing.T) {
	rec, err := recorded()
	if err != nil {
		t.Fatal(err)
	}
	sc := stepUp()
	sc.shrink(0.3)
	sc.Duration, sc.Phases = 16*time.Minute, []Phase{{10 * time.Minute, 16 * time.Minute, sized, 2}}
	first, err := simulate(t.Context(), sc, rec)
	if err != nil {
		t.Fatal(err)
	}
	if len(first.Failures) > 0 || first.Phases[0].Fewest < 10 {
		t.Errorf("%s", first.text())
	}
	again, err := simulate(t.Context(), sc, rec)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(first.Events, again.Events) {
		t.Error("the same scenario came to other decisions")
	}
	sc.Utilisation = 0.3 // a scaler that wants far too many
	bad, err := simulate(t.Context(), sc, rec)
	if err != nil {
		t.Fatal(err)
	}
	if len(bad.Failures) == 0 {
		t.Error("three times as many workers as needed passed")
	}
}

// What no number of workers can do is told with its cause, and misses the target.
func TestWhatCannotBe(t *testing.T) {
	rec, err := recorded()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		trainers, maxWorkers int
		load                 float64
		want                 string
	}{
		{1, 12, 9, "the 16 streams that each of its 1 trainers may have can use that of 4; add trainers"},
		{
			8, 6, 10,
			"with 6 workers, the most that the scaler may have, trainers wait for more than 1% of their time: " +
				"session train asks for the work of 10; raise --workers",
		},
	} {
		sc := one("custom", "")
		sc.Duration, sc.Max, sc.Workers = 2*time.Minute, c.maxWorkers, 2
		sc.Jobs[0].Trainers, sc.Jobs[0].Load = c.trainers, c.load
		sc.Phases = []Phase{{0, sc.Duration, sized, 2}}
		r, err := simulate(t.Context(), sc, rec)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Failures) != 1 || !strings.Contains(r.Failures[0], c.want) {
			t.Errorf("%q, want %q", r.Failures, c.want)
		}
	}
}

func TestFlagsMakeAScenario(t *testing.T) {
	dir := t.TempDir()
	cmd := command()
	cmd.SetOut(io.Discard)
	cmd.SetArgs([]string{
		"--load", "4", "--trainers", "16", "--begin", "5", "--duration", "9m", "--step", "2x@3m",
		"--storage-cap", "0.5x", "--storage-cap-at", "6m", "--out", dir,
	})
	err := cmd.Execute()
	if err != nil && !strings.Contains(err.Error(), "targets were missed") {
		t.Fatal(err)
	}
	for _, name := range []string{"simulate.md", "simulate.json", "simulate-custom.png"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	for _, args := range [][]string{
		{"--step", "fast"},
		{"--storage-cap", "half"},
		{"--scenario", "none"},
		{"--kill", "x"},
		{"--workload", "y"},
		{"--shards", "100"},
	} {
		cmd := command()
		cmd.SetArgs(args)
		if cmd.Execute() == nil {
			t.Errorf("%v passed", args)
		}
	}
}

// Trainers that are many more than there are slots share them, if each takes little, and none holds rows up that others
// wait for.
func TestManyLightTrainersShareTheSlots(t *testing.T) {
	rec, err := recorded()
	if err != nil {
		t.Fatal(err)
	}
	sc := one("custom", "")
	sc.Duration = 15 * time.Minute
	sc.Jobs[0].Trainers, sc.Jobs[0].Load = 100, 0.4
	w, err := newWorld(sc, rec, 1, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if lost := stall(w.history, 3*time.Minute, sc.Duration); lost >= fewStalls {
		t.Errorf("%d slots, and trainers wait %.1f%% of their time", slotsOf(sc.CPUs), 100*lost)
	}
}

// TestRecorder measures few rows on a real fleet, from a folder that is named as the default one is.
func TestRecorder(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	data, err := filepath.Rel(here, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w, err := workload.Named("rm1")
	if err != nil {
		t.Fatal(err)
	}
	w.Rows = 20_000
	r := &recorder{dir: t.TempDir(), data: data, rounds: 1, progress: t.Output()}
	if r.binary, err = cluster.Build(t.Context(), r.dir); err != nil {
		t.Fatal(err)
	}
	took, starts, err := r.workload(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	if took.CPU <= 0 || took.Stored <= 0 || took.Tensors <= 0 || took.StreamCPUs < 1 || took.Batch != w.BatchSize ||
		len(starts) != 2 {
		t.Errorf("%+v, started in %v s", took, starts)
	}
}
