package formattest

import (
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/filetest"
)

// Of is a file that another writer wrote.
func Of(t testing.TB, o filetest.Other) File {
	t.Helper()
	return File{Name: o.File, Data: o.Data(t), How: o.How(t)}
}

// Rows are those of sources, or of all that a file has and can be read, as Go values.
func (f File) Rows(t testing.TB, sources ...*pb.Source) [][]any {
	t.Helper()
	of, err := f.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if sources == nil {
		sources = sourcesOf(of.Columns())[absentSources:]
	}
	return decodeAll(t, f.Name, of, f.Data, sources, 7, 0, false)
}
