package storagetest

import (
	"bytes"
	"errors"
	"io/fs"
	"testing"

	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/internal/storage/object"
)

// testUpload: new files are seen by nobody before they are finished, and take no other file's place.
func testUpload(t *testing.T, fx Fixture) {
	s, ok := fx.Storage.(*storage.Store)
	if !ok {
		t.Skip("it takes no uploads")
	}
	write := func(uri string, content []byte) storage.Pending {
		t.Helper()
		u, err := s.Begin(t.Context(), fx.Profile, uri)
		if err != nil {
			t.Fatal(err)
		}
		for rest := content; len(rest) > 0; {
			n := min(len(rest), 3<<20)
			if _, err := u.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		p, err := u.End()
		if err != nil || p.Size != int64(len(content)) {
			t.Fatalf("%+v, %v", p, err)
		}
		return p
	}
	uri := fx.Base + "/new/place/one.parquet"
	content := random(object.PartSize + 5)
	p, late := write(uri, content), write(uri, []byte("late"))
	if files, err := s.List(t.Context(), fx.Profile, []string{fx.Base + "/new/"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before it is finished there are %v, %v", files, err)
	}
	for range 2 { // as when the first answer is lost
		f, err := s.Finish(t.Context(), fx.Profile, p)
		if err != nil || f.GetSize() != p.Size {
			t.Fatalf("%v, %v", f, err)
		}
		buf := make([]byte, len(content))
		if err := s.ReadAt(t.Context(), fx.Profile, f, buf, 0); err != nil || !bytes.Equal(buf, content) {
			t.Errorf("it is not what was written: %v", err)
		}
	}
	if _, err := s.Finish(t.Context(), fx.Profile, late); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second file of that name: %v", err)
	}
	for range 2 {
		if err := s.Drop(t.Context(), fx.Profile, late); err != nil {
			t.Error(err)
		}
	}
	if _, err := s.Finish(t.Context(), fx.Profile, late); err == nil {
		t.Error("what was dropped was finished")
	}
	empty := write(fx.Base+"/new/empty.parquet", nil)
	if f, err := s.Finish(t.Context(), fx.Profile, empty); err != nil || f.GetSize() != 0 {
		t.Errorf("an empty file is %v, %v", f, err)
	}
}
