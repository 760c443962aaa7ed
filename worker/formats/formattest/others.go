package formattest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/formats/filetest"
	"github.com/penstock-ml/penstock/internal/formats/format"
	decoders "github.com/penstock-ml/penstock/worker/formats"
)

// EqualTwin checks that a file has the rows of its twin, from every cursor.
func EqualTwin(t *testing.T, o filetest.Other, how *pb.Format) {
	t.Helper()
	data, twin := o.Data(t), o.TwinData(t)
	want := open(t, twin)
	got, err := OpenAs(t.Context(), o.File, data, how)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := types(got), types(want); !slices.Equal(a, b) {
		t.Fatalf("columns\n%v, want\n%v", a, b)
	}
	sources := sourcesOf(want.Columns())
	rows := decodeAll(t, "the twin", want, twin, sources, 1<<20, 0, false)
	for i, window := range []int{1, 7, 64, 1 << 20} {
		for j, skip := range []int{0, 1, 9, len(rows) / 2, len(rows)} {
			skip, pieces := min(skip, len(rows)), (i+j)%2 == 1
			what := fmt.Sprintf("windows of %d from row %d on, piecewise %v", window, skip, pieces)
			have := decodeAll(t, what, got, data, sources, window, skip, pieces)
			compare(t, what, sources, have, rows[skip:])
		}
	}
}

// types are a file's columns, in the order of their names.
func types(f format.File) (out []string) {
	columns := slices.Clone(f.Columns().Schema.Columns)
	slices.SortFunc(columns, func(a, b spec.Column) int { return cmp.Compare(a.Name, b.Name) })
	for _, c := range columns {
		out = append(out, fmt.Sprint(c.Name, c.Type, c.Meaning, c.Text, c.Date, c.Unsupported))
	}
	return out
}

// OpenAs describes a file as a dataset says how, with all of its extents.
func OpenAs(ctx context.Context, uri string, data []byte, how *pb.Format) (format.File, error) {
	st := &filetest.One{URI: "mem://" + uri, Data: data}
	return formats.NewCache(1<<20).Whole(ctx, st, "", st.File(), how, nil)
}

// ReadAs counts the rows of a file that may be damaged, and decodes all that it has.
func ReadAs(ctx context.Context, uri string, data []byte, how *pb.Format) (rows int, err error) {
	f, err := OpenAs(ctx, uri, data, how)
	if err != nil {
		return 0, err
	}
	sources := sourcesOf(f.Columns())
	b, err := f.Bind(sources)
	if err != nil {
		return 0, err
	}
	d, err := decoders.New(f.Format(), sources)
	if err != nil {
		return 0, err
	}
	d.Memory().Allow(64 << 20)
	for extent, e := range f.Extents() {
		if err := d.Reset(uri, b, extent, chunksOf(b, extent, data, true)); err != nil {
			return rows, err
		}
		for left := int(e.Rows); left > 0; left -= 64 {
			if _, err := d.Next(min(64, left)); err != nil {
				return rows, err
			}
			rows += min(64, left)
		}
	}
	return rows, nil
}

// RowsAs are the rows of sources, or of all that a file has, as Go values, read as a dataset says how.
func RowsAs(t testing.TB, uri string, data []byte, how *pb.Format, sources ...*pb.Source) [][]any {
	t.Helper()
	f, err := OpenAs(t.Context(), uri, data, how)
	if err != nil {
		t.Fatal(err)
	}
	if sources == nil {
		sources = sourcesOf(f.Columns())[absentSources:]
	}
	return decodeAll(t, uri, f, data, sources, 7, 0, false)
}
