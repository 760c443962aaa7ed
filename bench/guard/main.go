// Guard compares what the inner loops cost with the committed baseline: instructions and allocations, which do not
// depend on the machine or on what else runs there, as times do.
//
// It runs benchmarks of the packages under QEMU's user emulation, twice, with few and with more iterations; the
// difference is what the iterations took. qemu/instructions.c is the plugin that counts. The emulated CPU has AVX2 and
// no AVX-512, so that all machines count the same code.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/penstock-ml/penstock/internal/cli"
)

// targets are the benchmarks that are guarded: those that run on one goroutine.
func targets() []target {
	return []target{
		{pkg: "./worker/formats/parquet", bench: "Kinds"},
		{pkg: "./worker/formats/csv", bench: "Decode$"},
		{pkg: "./worker/formats/jsonl", bench: "Decode/^(all|one)$"},
		{pkg: "./worker/formats/mds", bench: "Decode"},
		{pkg: "./worker/formats/tar", bench: "Tar/^(pictures|captions)$/^decode$"},
		{pkg: "./worker/formats/tfrecord", bench: "Decode"},
		{pkg: "./worker/formats/tokens", bench: "Decode"},
		{pkg: "./worker/filter", bench: "Select"},
		{pkg: "./worker/transform", bench: "Ops"},
		{pkg: "./worker/tensor", bench: "Build|Narrow"},
		{pkg: "./worker/images", bench: "Make/224"},
		{pkg: "./client", bench: "Rebatch"},
		{pkg: "./master/session", bench: "Sync"},
		{pkg: "./api/spec", bench: "Resolve"},
	}
}

const (
	// slack is the part by which a count may be above its baseline: goroutines of the runtime take their share.
	slack = 0.05
	// repeats is how often a benchmark above its baseline is measured again; the smallest of all counts is its cost,
	// for what comes by chance only adds.
	repeats = 2
)

func main() {
	os.Exit(cli.Main(command()))
}

func command() *cobra.Command {
	baseline, update := "", false
	cmd := &cobra.Command{
		Use:          "guard [PACKAGE...]",
		Short:        "Compare instructions and allocations of the inner loops with the baseline",
		Example:      "  go run ./bench/guard\n  go run ./bench/guard --update ./worker/transform",
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, packages []string) error {
			chosen, err := choose(packages)
			if err != nil {
				return err
			}
			before, err := readCosts(baseline)
			if err != nil {
				return err
			}
			now, err := measure(cmd.Context(), chosen, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if update {
				return writeCosts(baseline, before.with(chosen, now))
			}
			before = before.of(chosen)
			for range repeats {
				worse := before.worse(now)
				if len(worse) == 0 {
					break
				}
				again, err := measure(cmd.Context(), worse.targets(), cmd.ErrOrStderr())
				if err != nil {
					return err
				}
				now = now.cheapest(again)
			}
			return compare(cmd.OutOrStdout(), before, now)
		},
	}
	cmd.Flags().StringVar(&baseline, "baseline", filepath.Join("bench", "guard", "baseline.txt"),
		"file of the baseline")
	cmd.Flags().BoolVar(&update, "update", false, "write what was measured to the baseline")
	return cmd
}

// choose returns the targets of the packages, or all.
func choose(packages []string) ([]target, error) {
	if len(packages) == 0 {
		return targets(), nil
	}
	var chosen []target
	for _, p := range packages {
		before := len(chosen)
		for _, t := range targets() {
			if t.pkg == p {
				chosen = append(chosen, t)
			}
		}
		if len(chosen) == before {
			return nil, fmt.Errorf("no benchmark of %s is guarded; name packages as ./worker/transform", p)
		}
	}
	return chosen, nil
}

var errWorse = errors.New(
	"some benchmarks cost more than the baseline; make them cheaper, or, if they are worth it, run " +
		"`go run ./bench/guard --update` and commit the baseline with the reason")
