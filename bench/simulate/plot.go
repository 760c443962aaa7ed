package main

import (
	"image/color"

	"github.com/penstock-ml/penstock/bench/figures"
)

// plotResult draws workers, rows and stall over time, one above the other.
func plotResult(file string, r *Result) error {
	line := func(name string, c color.Color, y func(point) float64) figures.Line {
		l := figures.Line{Name: name, Color: c}
		for _, p := range r.history {
			l.Points = append(l.Points, figures.XY{X: p.At.Minutes(), Y: y(p)})
		}
		return l
	}
	return figures.Plot(file,
		figures.Panel{Title: r.Scenario + ": " + r.About, Y: "workers", Lines: []figures.Line{
			line("wanted", figures.Blue, func(p point) float64 { return float64(p.Wanted) }),
			line("at work", figures.Orange, func(p point) float64 { return float64(p.Workers) }),
			line("fewest", figures.Grey, func(p point) float64 { return float64(r.fewestAt(p)) }),
		}},
		figures.Panel{Y: "rows/s", Lines: []figures.Line{
			line("demand", figures.Blue, func(p point) float64 { return p.Demand }),
			line("taken", figures.Orange, func(p point) float64 { return p.Rate }),
		}},
		figures.Panel{Y: "stall, %", X: "minutes", Lines: []figures.Line{
			line("", figures.Orange, func(p point) float64 { return 100 * p.Stall }),
		}},
	)
}

// fewestAt is the fewest workers that would do at a time, or 0 if that is not known.
func (r *Result) fewestAt(p point) int {
	for i, phase := range r.phases {
		if p.At > phase.From && p.At <= phase.To {
			return max(0, r.phaseOptimums[i])
		}
	}
	return 0
}
