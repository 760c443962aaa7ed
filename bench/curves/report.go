package main

import (
	"fmt"
	"image/color"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/penstock-ml/penstock/bench/figures"
)

// write saves the curves as a page, as JSON and as charts.
func write(dir string, curves []curve) error {
	if err := figures.Write(dir, "curves", markdown(curves), curves); err != nil {
		return err
	}
	panels := make([]figures.Panel, len(curves))
	for i, c := range curves {
		panels[i] = c.panel()
	}
	return figures.Plot(filepath.Join(dir, "curves.png"), panels...)
}

func (c curve) panel() figures.Panel {
	line := func(name string, color color.Color, y func(cost) float64) figures.Line {
		l := figures.Line{Name: name, Color: color}
		for _, p := range c.Points {
			l.Points = append(l.Points, figures.XY{X: float64(p.X), Y: y(p.Cost)})
		}
		return l
	}
	return figures.Panel{
		Title: c.Title, X: c.X, Y: "ns a " + c.Unit, LogX: c.Points[len(c.Points)-1].X > 10*c.Points[0].X,
		Lines: []figures.Line{
			line("all", figures.Grey, cost.sum),
			line("workers", figures.Blue, func(c cost) float64 { return c.Workers }),
			line("trainer", figures.Orange, func(c cost) float64 { return c.Trainer }),
			line("master", figures.Green, func(c cost) float64 { return c.Master }),
		},
	}
}

func markdown(curves []curve) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# What a row costs as things grow\n\n`go run ./bench/curves` on %d CPUs (%s/%s, %s). Nanoseconds of CPU time, medians; "+
		"`ratio` compares all processes' sum with the first line's. What is counted is a fleet's second session over the same files: its processes have their memory, "+
		"the files are in the page cache, and the master and the workers still have the footers, as far as their caches hold them, which `master in the first session` had to read. That column is no part "+
		"of the sum, and nothing is subtracted anywhere.\n\n![The same as charts](curves.png)\n", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
	for _, c := range curves {
		fmt.Fprintf(&b, "\n## %s\n\n| %s | workers, ns a %[3]s | master, ns a %[3]s | trainer, ns a %[3]s | sum | ratio | master in the first session, ns a %[3]s |\n|---|---|---|---|---|---|---|\n", c.Title, c.X, c.Unit)
		first := c.Points[0].Cost.sum()
		for _, p := range c.Points {
			fmt.Fprintf(&b, "| %d | %.4g | %.4g | %.4g | %.4g | %.2f | %.4g |\n",
				p.X, p.Cost.Workers, p.Cost.Master, p.Cost.Trainer, p.Cost.sum(), p.Cost.sum()/first, p.Cost.First)
		}
	}
	return b.String()
}

func (c cost) sum() float64 { return c.Workers + c.Master + c.Trainer }
