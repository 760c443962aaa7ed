package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestScenarios runs a small version of each scenario to its end. Whether the targets hold is for the full size to show.
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

func TestFlagsMakeAScenario(t *testing.T) {
	dir := t.TempDir()
	cmd := command()
	cmd.SetOut(io.Discard)
	cmd.SetArgs([]string{"--load", "4", "--trainers", "16", "--begin", "5", "--duration", "9m", "--step", "2x@3m", "--storage-cap", "0.5x", "--storage-cap-at", "6m", "--out", dir})
	err := cmd.Execute()
	if err != nil && !strings.Contains(err.Error(), "targets were missed") {
		t.Fatal(err)
	}
	for _, name := range []string{"simulate.md", "simulate.json", "simulate-custom.png"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	for _, args := range [][]string{{"--step", "fast"}, {"--storage-cap", "half"}, {"--scenario", "none"}, {"--kill", "x"}, {"--workload", "y"}} {
		cmd := command()
		cmd.SetArgs(args)
		if cmd.Execute() == nil {
			t.Errorf("%v passed", args)
		}
	}
}
