package records_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/formats/index"
	"github.com/penstock-ml/penstock/internal/formats/records"
	"github.com/penstock-ml/penstock/internal/formats/records/recordstest"
	"github.com/penstock-ml/penstock/worker/formats/formattest/rowtest"
)

// TestForged: by an index that somebody made up, whose digest is right, a file has its rows, or cannot be read.
func TestForged(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		text := recordstest.Text(r)
		f, err := open(t, recordstest.Packed(r, text), rapid.SampledFrom([]int64{1, 50, 200}).Draw(r, "extent"))
		if err != nil {
			r.Fatal(err)
		}
		forged(r, f, text)
	})
}

// TestForgedRestarts is the same of members that have restarts.
func TestForgedRestarts(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		text := recordstest.LongText(r)
		f, err := long(t, r, text)
		if err != nil {
			r.Fatal(err)
		}
		forged(r, f, text)
	})
}

// forged reads a file of lines by an index that is made up.
func forged(r *rapid.T, f *file, text []byte) {
	var places []format.Place
	for i := range f.bound.Extents() {
		places = append(places, f.bound.Place(i))
	}
	of := index.Of{Format: "lines", Version: 1, Size: int64(len(f.data))}
	b := index.NewBuilder(of)
	for _, p := range recordstest.Forge(r, places) {
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
