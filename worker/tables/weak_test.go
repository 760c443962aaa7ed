package tables

import (
	"context"
	"testing"
	"time"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/worker/memory"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
)

// weakly is a storage of one file, whose newest content has the same ETag as any before.
type weakly struct {
	*pipelinetest.Store
	newest *pb.File
}

func (w *weakly) ReadAt(ctx context.Context, profile string, _ *pb.File, buf []byte, offset int64) error {
	return w.Store.ReadAt(ctx, profile, w.newest, buf, offset)
}

// A table whose file may be another one under the same weak ETag is shared by the streams of one session, and by no
// other, also not later.
func TestWeakTables(t *testing.T) {
	files := &weakly{Store: &pipelinetest.Store{}}
	s := New(Config{Storage: files, Files: formats.NewCache(1 << 20), Patience: time.Minute})
	s.Use(memory.New(memory.Config{Limit: 16 << 20, Cache: s}))
	t.Cleanup(s.Close)
	hold := func(session, text string) *Held {
		t.Helper()
		files.newest = files.Put("mem://items", items(t, func(int) string { return text }, 3))
		weak := &pb.File{Uri: "mem://items", Size: files.newest.GetSize(), Etag: `W/"x"`}
		h, err := s.Hold(t.Context(), session, about(weak))
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	first, same, other := hold("a", "old"), hold("a", "old"), hold("b", "new")
	if first.Table != same.Table || textOf(first, 1) != "old" || textOf(other, 1) != "new" {
		t.Errorf("the session has %s and %s, another one %s", textOf(first, 1), textOf(same, 1), textOf(other, 1))
	}
	for _, h := range []*Held{first, same, other} {
		h.Release()
	}
	if n := s.Size(); n != 0 {
		t.Errorf("%d bytes are kept", n)
	}
	again := hold("a", "new")
	defer again.Release()
	if got := textOf(again, 1); got != "new" {
		t.Errorf("the session has %s again", got)
	}
}
