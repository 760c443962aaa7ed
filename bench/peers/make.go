package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock-ml/penstock/bench/workload"
	"github.com/penstock-ml/penstock/internal/cli"
)

// made is what `peers make` prints.
type made struct {
	Workload workload.Workload `json:"workload"`
	Recipe   workload.Recipe   `json:"recipe"`
	URI      string            `json:"uri"`
	Files    []string          `json:"files"`
	Bytes    int64             `json:"bytes"`
	Spec     string            `json:"spec"`
}

func makeCommand() *cobra.Command {
	var dir, change string
	cmd := &cobra.Command{
		Use:   "make WORKLOAD",
		Short: "Make a workload's dataset, unless it is there, and print it with its spec and its recipe as JSON",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			w, err := workload.Named(args[0])
			if err != nil {
				return err
			}
			fields := json.NewDecoder(strings.NewReader(change))
			fields.DisallowUnknownFields()
			if err := fields.Decode(&w); err != nil {
				return fmt.Errorf("--change %s: %w; want fields of bench/workload.Workload", change, err)
			}
			m, err := makeWorkload(cmd, w, dir)
			if err != nil {
				return err
			}
			return cli.PrintJSON(cmd.OutOrStdout(), m)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", filepath.Join(os.TempDir(), "penstock-bench"), "where datasets lie")
	cmd.Flags().StringVar(&change, "change", "{}", "fields of the workload to change, as JSON")
	return cmd
}

func makeWorkload(cmd *cobra.Command, w workload.Workload, dir string) (*made, error) {
	files, err := w.Make(cmd.Context(), dir, func(done, total int) {
		cli.Status(os.Stderr, "%s: made %d of %d rows", w.Name, done, total)
	})
	cli.Status(os.Stderr, "")
	if err != nil {
		return nil, err
	}
	m := &made{Workload: w, Recipe: w.Recipe(), URI: "file://" + filepath.Dir(files[0]) + "/", Files: files}
	m.Spec = w.Spec(m.URI)
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			return nil, err
		}
		m.Bytes += info.Size()
	}
	return m, nil
}
