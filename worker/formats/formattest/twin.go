package formattest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/formats/filetest"
	"github.com/penstock-ml/penstock/internal/formats/format"
)

// File is one of a format that says little about itself: its name and how it is read are part of it.
type File struct {
	Name string
	Data []byte
	How  *pb.Format
}

// Load describes the file, with all of its extents.
func (f File) Load(ctx context.Context) (format.File, error) {
	st := &filetest.One{URI: "mem://" + f.Name, Data: f.Data}
	return formats.LoadAs(ctx, st, "", st.File(), f.How, nil)
}

// Twin holds a file that another writer wrote against the same table in Parquet: its columns have the twin's names and
// types, and its rows are the same, bit for bit, from every cursor. What of it is damaged, or cut off, is an error or
// other values, never a panic. By a forged index it has the same rows, or is an error.
func Twin(t *testing.T, file File, twin []byte) {
	t.Helper()
	want := open(t, twin)
	got, err := file.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sameTypes(t, got.Columns(), want.Columns())
	sources := sourcesOf(want.Columns())
	rows := decodeAll(t, "the twin", want, twin, sources, 1<<20, 0, false)
	for i, window := range []int{1, 7, 1 << 20} {
		for skip := 0; skip <= len(rows); skip += 1 + len(rows)/12 {
			pieces := (i+skip)%2 == 1
			what := fmt.Sprintf("windows of %d from row %d on, piecewise %v", window, skip, pieces)
			compare(t, what, sources, decodeAll(t, what, got, file.Data, sources, window, skip, pieces), rows[skip:])
		}
	}
	file.damage(t)
	file.forged(t, got, sources, rows)
	file.listed(t, got, sources, rows)
}

// sameTypes holds the columns of a file against those of its twin, which may have columns without a type.
func sameTypes(t *testing.T, got, want *format.Columns) {
	t.Helper()
	for _, w := range want.Schema.Columns {
		g, ok := got.Schema.Find(w.Name)
		switch {
		case w.Unsupported != "":
		case !ok:
			t.Errorf("there is no column %s", w.Name)
		case !g.Untyped && (g.Type != w.Type || g.Text != w.Text || g.Unsupported != ""):
			t.Errorf("column %s is %v %s, text %v; want %v, text %v",
				w.Name, g.Type, g.Unsupported, g.Text, w.Type, w.Text)
		}
	}
	for _, g := range got.Schema.Columns {
		if _, ok := want.Schema.Find(g.Name); !ok && g.Unsupported == "" {
			t.Errorf("column %s is not in the twin", g.Name)
		}
	}
}

// damage cuts the file off, and changes bytes of it.
func (f File) damage(t *testing.T) {
	t.Helper()
	step := 1 + len(f.Data)/100
	for n := 0; n < len(f.Data); n += step {
		_ = f.cut(n).Read(t.Context())
	}
	for n := 0; n < len(f.Data); n += step {
		bad := File{f.Name, bytes.Clone(f.Data), f.How}
		bad.Data[n] ^= 1 << (n % 8)
		err := bad.Read(t.Context())
		if err != nil && strings.Contains(err.Error(), "a bug") {
			t.Fatal(err)
		}
	}
}

func (f File) cut(n int) File { return File{f.Name, f.Data[:n:n], f.How} }

// Read decodes all of the file, which may be damaged.
func (f File) Read(ctx context.Context) error {
	of, err := f.Load(ctx)
	if err != nil {
		return err
	}
	return read(of, f.Data)
}

// Fails holds a file against the words of the error that it must be.
func Fails(t *testing.T, file File, words ...string) {
	t.Helper()
	err := file.Read(t.Context())
	if err == nil {
		err = errors.New("it can be read")
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%q: %v, want %q", shown(file.Data), err, w)
		}
	}
}

func shown(data []byte) []byte { return data[:min(len(data), 200)] }

// Values are a file's rows as Go values, of the columns that can be read, as its front shows them.
func Values(t testing.TB, file File) (columns []spec.Column, rows [][]any) {
	t.Helper()
	f, err := file.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var sources []*pb.Source
	for _, c := range f.Columns().Schema.Columns {
		if c.Unsupported == "" {
			columns = append(columns, c)
			sources = append(sources, &pb.Source{Name: c.Name, Path: c.Path, Type: c.Type.Proto(), Meaning: c.Meaning})
		}
	}
	return columns, decodeAll(t, "values", f, file.Data, sources, 64, 0, false)
}
