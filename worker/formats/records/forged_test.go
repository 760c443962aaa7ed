package records_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/formats/index"
	"github.com/penstock-ml/penstock/internal/formats/records"
	"github.com/penstock-ml/penstock/internal/formats/records/recordstest"
	"github.com/penstock-ml/penstock/worker/formats/formattest/rowtest"
)

// forge draws changes of extents that keep them next to each other, most often: some are joined, left out, doubled, made
// shorter, or end elsewhere.
func forge(t *rapid.T, places []format.Place) []format.Place {
	places = slices.Clone(places)
	for range rapid.IntRange(1, 3).Draw(t, "changes") {
		if len(places) == 0 {
			return places
		}
		i := rapid.IntRange(0, len(places)-1).Draw(t, "at")
		p, last := &places[i], i == len(places)-1
		switch rapid.SampledFrom([]string{"drop", "double", "join", "rows", "cut", "move", "move", "move"}).Draw(t, "change") {
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

// TestForged: by an index that somebody made up, whose digest is right, a file has its rows, or cannot be read.
func TestForged(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		text := recordstest.Text(r)
		f, err := open(t, recordstest.Packed(r, text), rapid.SampledFrom([]int64{1, 50, 200}).Draw(r, "extent"))
		if err != nil {
			r.Fatal(err)
		}
		var places []format.Place
		for i := range f.bound.Extents() {
			places = append(places, f.bound.Place(i))
		}
		of := index.Of{Format: "lines", Version: 1, Size: int64(len(f.data))}
		b := index.NewBuilder(of)
		for _, p := range forge(r, places) {
			if err := b.Add(p); err != nil {
				r.Fatal(err)
			}
		}
		x, err := b.Index()
		if err != nil || x.Extents() == 0 { // which is believed of nobody
			return
		}
		at, err := x.Open(f.bound.File, of)
		if err != nil {
			return
		}
		got, err := f.readAs(at)
		if err != nil {
			return
		}
		var lines []any
		for _, line := range recordstest.Records(text) {
			lines = append(lines, want(line)[0])
		}
		if norm(got) != norm(lines) {
			r.Fatalf("by %+v\nrows are %q\nwant %q", x.Places(), got, lines)
		}
	})
}

// readAs returns all lines of the file by some extents, nil for those that are faults.
func (f *file) readAs(at format.File) (lines []any, err error) {
	bound, err := at.Bind(sources)
	if err != nil {
		return nil, err
	}
	of, d := &file{f.data, bound.(*records.Bound)}, newDecoder()
	for extent, e := range of.bound.Extents() {
		if err := d.Reset("file", bound, extent, of.chunk(extent)); err != nil {
			return nil, err
		}
		vectors, err := d.Next(int(e.Rows))
		if err != nil {
			return nil, err
		}
		lines = append(lines, rowtest.Of(vectors[0])...)
	}
	return lines, nil
}
