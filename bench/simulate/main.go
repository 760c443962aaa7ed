// Simulate puts the scaler to the test in virtual time: trainers that change their speed, storage that gets slow,
// failures, noise.
//
//	go run ./bench/simulate --scenario all
//	go run ./bench/simulate --step 4x --storage-cap 0.5x --storage-cap-at 20m --storage-cap-for 30m
//
// The scaler (master/autoscale), the placement of shards (master/place, internal/fleet) and the grants (master/session)
// are the real ones. Workers, storage and trainers are models, in steps of an eighth of a second (world.go, worker.go,
// job.go), of what `go run ./bench/simulate record` measured on real processes (recorded.json). The fewest workers that
// would do are found by trying constant fleets (search.go). The same flags give the same result, but for the master's
// CPU time and memory.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-ml/penstock/internal/cli"
)

func main() {
	os.Exit(cli.Main(command()))
}

func command() *cobra.Command {
	var o options
	rec, broken := recorded()
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Put the scaler to the test in virtual time",
		Long: "Put the scaler to the test in virtual time. Without --scenario, one session runs whose demand and " +
			"storage are as the flags say. With it,\n" +
			"flags change the scenario. The exit status is 0 only if the targets hold.",
		Example: "  go run ./bench/simulate --scenario all\n" +
			"  go run ./bench/simulate --scenario step-up,no-room --seed 2\n" +
			"  go run ./bench/simulate --trainers 40 --load 4 --begin 5 --step 10x@10m\n" +
			"  go run ./bench/simulate --storage-cap 0.5x --storage-cap-at 10m --storage-cap-for 30m --duration 1h",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if broken != nil {
				return broken
			}
			list, err := o.scenarios(rec, cmd.Flags().Changed)
			if err != nil {
				return err
			}
			return o.run(cmd.Context(), list, rec, cmd.OutOrStdout())
		},
	}
	o.flags(cmd)
	cmd.AddCommand(recordCommand())
	return cmd
}

func recordCommand() *cobra.Command {
	var file, data string
	var rounds int
	cmd := &cobra.Command{
		Use:   "record",
		Short: "Measure on real processes what the model of a worker is made of",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return record(cmd.Context(), file, data, rounds, cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&file, "out", filepath.Join("bench", "simulate", "recorded.json"),
		"file that takes the parameters")
	cmd.Flags().StringVar(&data, "data", "penstock-data", "folder that keeps the datasets")
	cmd.Flags().IntVar(&rounds, "rounds", 3, "times that each is measured")
	return cmd
}

// run simulates scenarios one after the other, and writes the results.
func (o *options) run(ctx context.Context, list []Scenario, rec *Recorded, out io.Writer) error {
	var results []Result
	var failed []string
	for _, sc := range list {
		r, err := simulate(ctx, sc, rec)
		if err != nil {
			return fmt.Errorf("scenario %s: %w", sc.Name, err)
		}
		fmt.Fprint(out, r.text())
		results = append(results, r)
		if len(r.Failures) > 0 {
			failed = append(failed, r.Scenario)
		}
	}
	if o.out != "" {
		if err := write(o.out, results, rec); err != nil {
			return err
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("targets were missed in %s", strings.Join(failed, ", "))
	}
	return nil
}

// simulate runs a scenario, and looks for the fewest workers that would have done in each of its phases.
func simulate(ctx context.Context, sc Scenario, rec *Recorded) (Result, error) {
	if err := sc.check(); err != nil {
		return Result{}, err
	}
	runtime.LockOSThread() // its CPU time is measured
	defer runtime.UnlockOSThread()
	start := time.Now()
	w, err := newWorld(sc, rec, sc.Workers, true)
	if err != nil {
		return Result{}, err
	}
	if err := w.run(ctx); err != nil {
		return Result{}, err
	}
	took := time.Since(start).Seconds()
	optimum, err := optima(ctx, sc, rec)
	if err != nil {
		return Result{}, err
	}
	r := judge(w, optimum)
	r.Seconds = took
	r.MasterMemory = w.memory()
	return r, nil
}

func names(list []Scenario) []string {
	out := make([]string, len(list))
	for i, sc := range list {
		out[i] = sc.Name
	}
	return out
}

var errNoScenario = errors.New("there is no such scenario")

// pick takes the scenarios of names, with commas between.
func pick(list []Scenario, wanted string) (out []Scenario, err error) {
	if wanted == "all" {
		return list, nil
	}
	for name := range strings.SplitSeq(wanted, ",") {
		i := slices.IndexFunc(list, func(sc Scenario) bool { return sc.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("--scenario %s: %w; there are %s and all",
				name, errNoScenario, strings.Join(names(list), ", "))
		}
		out = append(out, list[i])
	}
	return out, nil
}
