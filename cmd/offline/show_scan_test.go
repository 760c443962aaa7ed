package offline

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/filetest"
	"github.com/penstock-ml/penstock/internal/storage"
)

// reading counts the bytes that are read of a file.
type reading struct {
	*filetest.One
	bytes atomic.Int64
}

func (r *reading) ReadAt(ctx context.Context, profile string, f *pb.File, buf []byte, offset int64) error {
	r.bytes.Add(int64(len(buf)))
	return r.One.ReadAt(ctx, profile, f, buf, offset)
}

// readingStore counts the bytes that are read of data.
type readingStore struct {
	*storage.Store
	bytes atomic.Int64
}

func (r *readingStore) ReadAt(ctx context.Context, profile string, f *pb.File, buf []byte, offset int64) error {
	if strings.HasSuffix(f.GetUri(), ".jsonl") {
		r.bytes.Add(int64(len(buf)))
	}
	return r.Store.ReadAt(ctx, profile, f, buf, offset)
}

// TestShowReadsIndexes: a file that has an index is shown as by a scan, without one.
func TestShowReadsIndexes(t *testing.T) {
	dir := t.TempDir()
	var lines bytes.Buffer
	for i := range 400_000 {
		fmt.Fprintf(&lines, `{"id": %d}`+"\n", i)
	}
	if err := os.WriteFile(filepath.Join(dir, "a.jsonl"), lines.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	store, err := storage.New(storage.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	shows := func() (*shown, int64) {
		st := &readingStore{Store: store}
		s, err := (&shower{st: st, head: 3}).show(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		return s, st.bytes.Load()
	}
	scanned, all := shows()
	cmd := Index()
	cmd.SetOut(io.Discard)
	cmd.SetArgs([]string{dir})
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	indexed, read := shows()
	if !reflect.DeepEqual(scanned, indexed) || indexed.Rows != 400_000 {
		t.Errorf("shown\n%+v by a scan, and by an index\n%+v", scanned, indexed)
	}
	if n := int64(lines.Len()); all < n || read > n/2 {
		t.Errorf("of %d bytes %d were read by a scan, %d by an index", n, all, read)
	}
}

// TestShowScansOnce: the rows of a file that is scanned are shown without another scan.
func TestShowScansOnce(t *testing.T) {
	var lines bytes.Buffer
	for i := range 400_000 {
		fmt.Fprintf(&lines, `{"id": %d}`+"\n", i)
	}
	st := &reading{One: &filetest.One{URI: "mem://a.jsonl", Data: lines.Bytes()}}
	d := &shower{st: st, head: 3}
	s, err := d.show(t.Context(), "mem://a.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if s.Rows != 400_000 || len(s.Head) != 3 || s.Head[2][0].value != int64(2) {
		t.Errorf("%d rows, and first %v", s.Rows, s.Head)
	}
	if n := int64(lines.Len()); st.bytes.Load() > n+n/2 {
		t.Errorf("%d bytes were read of a file of %d", st.bytes.Load(), n)
	}
}
