package recordstest

import (
	"slices"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/internal/formats/format"
)

// Forge draws changes of extents that keep them next to each other, most often: some are joined, left out, doubled,
// made shorter, or end elsewhere, and restarts are not what they were.
func Forge(t *rapid.T, places []format.Place) []format.Place {
	places = slices.Clone(places)
	for range rapid.IntRange(1, 3).Draw(t, "changes") {
		if len(places) == 0 {
			return places
		}
		i := rapid.IntRange(0, len(places)-1).Draw(t, "at")
		p, last := &places[i], i == len(places)-1
		changes := []string{"drop", "double", "join", "rows", "cut", "move", "move", "move", "restart", "restart"}
		switch rapid.SampledFrom(changes).Draw(t, "change") {
		case "drop":
			places = slices.Delete(places, i, i+1)
		case "double":
			places = slices.Insert(places, i, *p)
		case "join":
			if !last {
				next := places[i+1]
				p.Stored.Length = next.Stored.Offset + next.Stored.Length - p.Stored.Offset
				p.Rows, p.Bytes = p.Rows+next.Rows, p.Bytes+next.Bytes
				places = slices.Delete(places, i+1, i+2)
			}
		case "move":
			if !last {
				next, by := &places[i+1], rapid.Int64Range(-9, 9).Draw(t, "by")
				by *= rapid.SampledFrom([]int64{1, 512}).Draw(t, "blocks")
				rows := rapid.SampledFrom([]int64{0, 0, 1, -1}).Draw(t, "rows")
				p.Bytes, next.Bytes = p.Bytes+by, next.Bytes-by
				p.Rows, next.Rows = p.Rows+rows, next.Rows-rows+rapid.Int64Range(0, 1).Draw(t, "more")
				if next.Skip == 0 {
					p.Stored.Length, next.Stored.Offset = p.Stored.Length+by, next.Stored.Offset+by
					next.Stored.Length -= by
				} else {
					next.Skip += by
				}
			}
		case "restart":
			p.Restart = restart(t, p)
		case "rows":
			p.Rows += rapid.Int64Range(-3, 3).Draw(t, "rows")
		case "cut":
			by := rapid.Int64Range(1, 9).Draw(t, "by")
			p.Bytes -= by
			if rapid.Bool().Draw(t, "stored") {
				p.Stored.Length -= by
			}
		}
	}
	return places
}

// restart draws another one for an extent.
func restart(t *rapid.T, p *format.Place) *format.Restart {
	if p.Restart == nil {
		return format.NewRestart(0, 0, 0, nil)
	}
	r := *p.Restart
	r.Window = slices.Clone(r.Window)
	switch rapid.SampledFrom([]string{"none", "bit", "byte", "sum", "size", "window", "shorter"}).Draw(t, "restart") {
	case "none":
		return nil
	case "bit":
		r.Bit ^= uint8(rapid.IntRange(1, 7).Draw(t, "bit"))
	case "byte":
		by := rapid.Int64Range(-3, 3).Draw(t, "by")
		p.Stored.Offset, p.Stored.Length = p.Stored.Offset+by, p.Stored.Length-by
	case "sum":
		r.CRC ^= 1 << rapid.IntRange(0, 31).Draw(t, "bit of the sum")
	case "size":
		r.Size += rapid.Int64Range(-2, 2).Draw(t, "more")
	case "window":
		if len(r.Window) > 0 {
			r.Window[rapid.IntRange(0, len(r.Window)-1).Draw(t, "in the window")]++
		}
	case "shorter":
		r.Size, r.Window = r.Size/2, r.Window[:min(r.Size/2, int64(len(r.Window)))]
	}
	return format.NewRestart(r.Bit, r.CRC, r.Size, r.Window)
}
