package formats

import (
	"testing"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats/filetest"
	"github.com/penstock-ml/penstock/internal/storage/object"
)

// What is read of a file with a weak ETag is not handed to whoever lists another file under it.
func TestWeakFilesAreNotKept(t *testing.T) {
	for _, etag := range []string{`W/"x"`, object.LastModified + "Mon, 30 Nov 2026 21:00:00 GMT"} {
		c := NewCache(1 << 20).IndexSmall(1 << 20)
		for _, column := range []string{"old", "new"} {
			schema := arrow.NewSchema([]arrow.Field{{Name: column, Type: arrow.PrimitiveTypes.Int64}}, nil)
			m := &filetest.One{URI: "mem://a.parquet", Data: filetest.Parquet(t, schema, nil)}
			f := m.File()
			f.Etag = etag
			described, err := c.Load(t.Context(), m, "", f, nil, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := described.Columns().Schema.Columns; len(got) != 1 || got[0].Name != column {
				t.Errorf("%s: columns %v, want %s", etag, got, column)
			}
		}
		if n := c.Size(); n != 0 {
			t.Errorf("%s: %d bytes are kept", etag, n)
		}
	}
}

// A side table with a weak ETag is the pinned one if its content is.
func TestWeakTablesArePinnedByContent(t *testing.T) {
	m := &filetest.One{URI: "mem://a.parquet", Data: []byte("old")}
	f := m.File()
	f.Etag = `W/"x"`
	digest, err := Digest(t.Context(), m, "", f)
	if err != nil {
		t.Fatal(err)
	}
	want := &pb.PinnedTable{Uri: f.GetUri(), Size: f.GetSize(), Etag: f.GetEtag(), Digest: digest}
	if err := checkPinned(t.Context(), m, spec.NamedTable{}, f, want); err != nil {
		t.Error(err)
	}
	m.Data = []byte("new")
	if err := checkPinned(t.Context(), m, spec.NamedTable{}, f, want); err == nil {
		t.Error("another content is taken for the pinned one")
	}
}
