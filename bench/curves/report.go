package main

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/penstock-ml/penstock/bench/figures"
)

// write saves the curves as a page and as JSON.
func write(dir string, curves []curve) error {
	return figures.Write(dir, "curves", markdown(curves), curves)
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
