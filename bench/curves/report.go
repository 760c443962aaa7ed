package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// write saves the curves as a page and as JSON.
func write(dir string, curves []curve) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the folder of results: %w", err)
	}
	data, err := json.MarshalIndent(curves, "", "  ")
	if err != nil {
		return fmt.Errorf("write the curves as JSON: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "curves.json"), append(data, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the curves: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "curves.md"), []byte(markdown(curves)), 0o644); err != nil {
		return fmt.Errorf("write the curves: %w", err)
	}
	return nil
}

func markdown(curves []curve) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# What a row costs as things grow\n\n`go run ./bench/curves` on %d CPUs (%s/%s, %s). Nanoseconds of CPU time, medians; "+
		"`ratio` compares all processes' sum with the first line's.\n", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
	for _, c := range curves {
		fmt.Fprintf(&b, "\n## %s\n\n| %s | workers, ns a %[3]s | master, ns a %[3]s | trainer, ns a %[3]s | sum | ratio |\n|---|---|---|---|---|---|\n", c.Title, c.X, c.Unit)
		first := c.Points[0].Cost.sum()
		for _, p := range c.Points {
			fmt.Fprintf(&b, "| %d | %.4g | %.4g | %.4g | %.4g | %.2f |\n",
				p.X, p.Cost.Workers, p.Cost.Master, p.Cost.Trainer, p.Cost.sum(), p.Cost.sum()/first)
		}
	}
	return b.String()
}

func (c cost) sum() float64 { return c.Workers + c.Master + c.Trainer }
