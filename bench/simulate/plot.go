package main

import (
	"fmt"
	"image/color"
	"os"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

//nolint:gochecknoglobals // never changed
var (
	blue   = color.RGBA{R: 0x1f, G: 0x77, B: 0xb4, A: 0xff}
	orange = color.RGBA{R: 0xff, G: 0x7f, B: 0x0e, A: 0xff}
	grey   = color.RGBA{R: 0x77, G: 0x77, B: 0x77, A: 0xff}
)

// plotResult draws workers, rows and stall over time, one above the other.
func plotResult(file string, r *Result) error {
	workers, rows, stall := plot.New(), plot.New(), plot.New()
	workers.Title.Text = r.Scenario + ": " + r.About
	workers.Y.Label.Text, rows.Y.Label.Text, stall.Y.Label.Text = "workers", "rows/s", "stall, %"
	stall.X.Label.Text = "minutes"
	lines := []struct {
		on    *plot.Plot
		name  string
		color color.Color
		y     func(point) float64
	}{
		{workers, "wanted", blue, func(p point) float64 { return float64(p.Wanted) }},
		{workers, "at work", orange, func(p point) float64 { return float64(p.Workers) }},
		{workers, "fewest", grey, func(p point) float64 { return float64(r.fewestAt(p)) }},
		{rows, "demand", blue, func(p point) float64 { return p.Demand }},
		{rows, "taken", orange, func(p point) float64 { return p.Rate }},
		{stall, "", orange, func(p point) float64 { return 100 * p.Stall }},
	}
	for _, l := range lines {
		points := make(plotter.XYs, len(r.history))
		for i, p := range r.history {
			points[i] = plotter.XY{X: p.At.Minutes(), Y: l.y(p)}
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return fmt.Errorf("plot %s: %w", r.Scenario, err)
		}
		line.Color = l.color
		l.on.Add(line)
		l.on.Y.Min = 0
		if l.name != "" {
			l.on.Legend.Add(l.name, line)
		}
	}
	img := vgimg.New(24*vg.Centimeter, 20*vg.Centimeter)
	tiles := draw.Tiles{Rows: 3, Cols: 1, PadY: vg.Millimeter * 4, PadTop: vg.Millimeter * 2, PadRight: vg.Millimeter * 5}
	plots := [][]*plot.Plot{{workers}, {rows}, {stall}}
	for i, c := range plot.Align(plots, tiles, draw.New(img)) {
		plots[i][0].Draw(c[0])
	}
	out, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("plot %s: %w", r.Scenario, err)
	}
	if _, err := (vgimg.PngCanvas{Canvas: img}).WriteTo(out); err != nil {
		_ = out.Close() // the first error tells more
		return fmt.Errorf("plot %s: %w", r.Scenario, err)
	}
	return out.Close()
}

// fewestAt is the fewest workers that would do at a time, or 0 if that is not known.
func (r *Result) fewestAt(p point) int {
	for i, phase := range r.phases {
		if p.At > phase.From && p.At <= phase.To {
			return r.phaseOptimums[i]
		}
	}
	return 0
}
