package figures

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

// Colours of lines, told apart by those who see fewer of them, too.
//
//nolint:gochecknoglobals // never changed
var (
	Blue   = color.RGBA{R: 0x1f, G: 0x77, B: 0xb4, A: 0xff}
	Orange = color.RGBA{R: 0xff, G: 0x7f, B: 0x0e, A: 0xff}
	Grey   = color.RGBA{R: 0x77, G: 0x77, B: 0x77, A: 0xff}
)

// Panel is a chart whose vertical axis begins at 0.
type Panel struct {
	Title, X, Y string
	Lines       []Line
}

// Line is one of a panel's. Without a name it is not in the legend.
type Line struct {
	Name   string
	Color  color.Color
	Points []XY
}

// XY is a point.
type XY = plotter.XY

// Plot draws panels into a PNG file, one above the other.
func Plot(file string, panels ...Panel) error {
	rows := make([][]*plot.Plot, len(panels))
	for i, p := range panels {
		drawn, err := p.plot()
		if err != nil {
			return fmt.Errorf("plot %s: %w", file, err)
		}
		rows[i] = []*plot.Plot{drawn}
	}
	img := vgimg.New(24*vg.Centimeter, vg.Length(len(panels))*20./3*vg.Centimeter)
	tiles := draw.Tiles{
		Rows: len(panels), Cols: 1, PadY: vg.Millimeter * 4, PadTop: vg.Millimeter * 2,
		PadRight: vg.Millimeter * 5,
	}
	for i, c := range plot.Align(rows, tiles, draw.New(img)) {
		rows[i][0].Draw(c[0])
	}
	out, err := os.Create(file)
	if err != nil {
		return fmt.Errorf("plot %s: %w", file, err)
	}
	if _, err := (vgimg.PngCanvas{Canvas: img}).WriteTo(out); err != nil {
		_ = out.Close() // the first error tells more
		return fmt.Errorf("plot %s: %w", file, err)
	}
	return out.Close()
}

func (p Panel) plot() (*plot.Plot, error) {
	drawn := plot.New()
	drawn.Title.Text, drawn.X.Label.Text, drawn.Y.Label.Text = p.Title, p.X, p.Y
	for _, l := range p.Lines {
		line, err := plotter.NewLine(plotter.XYs(l.Points))
		if err != nil {
			return nil, fmt.Errorf("line %q: %w", l.Name, err)
		}
		line.Color = l.Color
		drawn.Add(line)
		if l.Name != "" {
			drawn.Legend.Add(l.Name, line)
		}
	}
	drawn.Y.Min, drawn.Legend.Top, drawn.Legend.Left = 0, true, true
	return drawn, nil
}
