package formattest

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/filetest"
	"github.com/penstock-ml/penstock/internal/formats/format"
	"github.com/penstock-ml/penstock/internal/formats/index"
	"github.com/penstock-ml/penstock/internal/formats/records"
	"github.com/penstock-ml/penstock/internal/formats/records/recordstest"
	decoders "github.com/penstock-ml/penstock/worker/formats"
	"github.com/penstock-ml/penstock/worker/formats/formattest/rowtest"
)

// forgedExtents is about how many extents a file has whose index is forged.
const forgedExtents = 5

// forged reads a file by indexes that somebody made up: by each it has its rows, or cannot be read.
func (f File) forged(t *testing.T, of format.File, sources []*pb.Source, want [][]any) {
	t.Helper()
	file, ok := of.(*records.File)
	if !ok {
		return
	}
	small := *file
	small.Limits.Extent = 1 + int64(len(f.Data))/forgedExtents
	if small.Codec == records.Gzip {
		small.Limits.Spacing = small.Limits.Extent
	}
	st := &filetest.One{URI: "mem://" + f.Name, Data: f.Data}
	in := &format.Input{Storage: st, File: st.File(), How: f.How, Take: func(int64) error { return nil }}
	var places []format.Place
	err := small.Scan(t.Context(), in, func(p format.Place) error {
		places = append(places, p)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(r *rapid.T) {
		kind := index.For(in.File, &small, in.How)
		b := index.NewBuilder(kind)
		for _, p := range recordstest.Forge(r, places) {
			if err := b.Add(p); err != nil {
				r.Fatal(err)
			}
		}
		x, err := b.Index()
		if err != nil || x.Extents() == 0 { // which is believed of nobody
			return
		}
		at, err := x.Open(&small, kind)
		if err != nil {
			return
		}
		if got, err := whole(at, f.Data, sources); err == nil && !reflect.DeepEqual(got, want) {
			r.Fatalf("by %+v\nrows are %v\nwant %v", x.Places(), got, want)
		}
	})
}

// whole decodes all of a file. A row with a fault is an error.
func whole(f format.File, data []byte, sources []*pb.Source) (rows [][]any, err error) {
	b, err := f.Bind(sources)
	if err != nil {
		return nil, err
	}
	d, err := decoders.New(f.Format(), sources)
	if err != nil {
		return nil, err
	}
	d.Memory().Allow(256 << 20)
	for extent, e := range f.Extents() {
		if err := d.Reset("mem://file", b, extent, chunksOf(b, extent, data, false)); err != nil {
			return nil, err
		}
		vectors, err := decoders.Rows(d, e.FirstRow, int(e.Rows))
		if err != nil {
			return nil, err
		}
		first := len(rows)
		for range e.Rows {
			rows = append(rows, make([]any, len(vectors)))
		}
		for j, v := range vectors {
			for i, value := range rowtest.Of(v) {
				rows[first+i][j] = value
			}
		}
	}
	return rows, nil
}
