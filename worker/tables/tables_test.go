package tables

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	arrowmemory "github.com/apache/arrow/go/v15/arrow/memory"
	"go.uber.org/goleak"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/storage"
	"github.com/penstock-ml/penstock/worker/lookup"
	"github.com/penstock-ml/penstock/worker/memory"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
	"github.com/penstock-ml/penstock/worker/vector"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a store over files in memory.
type rig struct {
	*Store
	files  *pipelinetest.Store
	budget *memory.Budget
	reads  atomic.Int64
}

func newRig(t *testing.T, limit int64) *rig {
	t.Helper()
	r := &rig{files: &pipelinetest.Store{}}
	r.files.Hook = func(context.Context, *pb.File, int64, int64) error {
		r.reads.Add(1)
		return nil
	}
	r.Store = New(Config{Storage: r.files, Files: formats.NewCache(1 << 20), Patience: time.Minute})
	r.budget = memory.New(memory.Config{Limit: limit, Cache: r.Store})
	r.Use(r.budget)
	t.Cleanup(r.Close)
	return r
}

// items has ids from 1 on, in row groups of these numbers of rows, with a text of each: nil where that is "".
func items(t *testing.T, text func(id int) string, groups ...int) []byte {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "id", Type: arrow.PrimitiveTypes.Int64}, {Name: "text", Type: arrow.BinaryTypes.String, Nullable: true},
	}, nil)
	b := array.NewRecordBuilder(arrowmemory.DefaultAllocator, schema)
	defer b.Release()
	id := 0
	return pipelinetest.Write(t, schema, func(yield func(arrow.Record) bool) {
		for _, rows := range groups {
			for range rows {
				id++
				b.Field(0).(*array.Int64Builder).Append(int64(id))
				if s := text(id); s == "" {
					b.Field(1).AppendNull()
				} else {
					b.Field(1).(*array.StringBuilder).Append(s)
				}
			}
			if !yield(b.NewRecord()) {
				return
			}
		}
	})
}

func about(f *pb.File) *pb.Table {
	return &pb.Table{File: f, Keys: 1, Columns: []*pb.Source{
		{Name: "id", Path: []string{"id"}, Type: &pb.Type{Kind: pb.Kind_INT64}},
		{Name: "text", Path: []string{"text"}, Type: &pb.Type{Kind: pb.Kind_BINARY}},
	}}
}

func (r *rig) hold(t *testing.T, of *pb.Table) *Held {
	t.Helper()
	h, err := r.Hold(t.Context(), "s", of)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// textOf is the text of an id, as the table has it.
func textOf(h *Held, id int64) string {
	row := make([]int32, 1)
	h.Find(row, []*vector.Vector{{Type: spec.Type{Kind: pb.Kind_INT64}, Rows: 1, I64: []int64{id}}})
	if row[0] == lookup.Absent {
		return "absent"
	}
	piece, at := lookup.Place(row[0])
	v := h.Columns()[0].Pieces[piece]
	if v.IsNull(int(at)) {
		return "null"
	}
	return string(v.Data[v.Ends[at]:v.Ends[at+1]])
}

// TestHoldLoadsOnce: streams share a table, and what nobody uses stays until the memory is wanted.
func TestHoldLoadsOnce(t *testing.T) {
	r := newRig(t, 16<<20)
	name := func(id int) string {
		if id%7 == 0 {
			return ""
		}
		return fmt.Sprint("item ", id)
	}
	table := about(r.files.Put("mem://items", items(t, name, 1000, 1, 99_000)))
	var all sync.WaitGroup
	holds := make([]*Held, 8)
	for i := range holds {
		all.Go(func() { holds[i] = r.hold(t, table) })
	}
	all.Wait()
	for i, h := range holds {
		if h == nil || h.Table != holds[0].Table {
			t.Fatalf("stream %d has another table", i)
		}
	}
	for id, want := range map[int64]string{
		1: "item 1", 7: "null", 1000: "item 1000", 1001: "null", 1002: "item 1002", 100_001: "item 100001",
		0: "absent", 100_002: "absent", -1 << 63: "absent",
	} {
		if got := textOf(holds[0], id); got != want {
			t.Errorf("%d is %s, want %s", id, got, want)
		}
	}
	reads, bytes := r.reads.Load(), holds[0].Bytes
	if got := r.budget.InUse(); got != bytes || bytes < 100_001*(4+8) || bytes > 5<<20 || r.Size() != 0 {
		t.Errorf("%d bytes in use of a table of %d; %d of none", got, bytes, r.Size())
	}
	for _, h := range holds {
		h.Release()
	}
	if r.budget.InUse() != 0 || r.Size() != bytes {
		t.Errorf("%d bytes in use, and %d of tables that nobody uses, want 0 and %d", r.budget.InUse(), r.Size(), bytes)
	}
	again := r.hold(t, table)
	if r.reads.Load() != reads || r.budget.InUse() != bytes || r.Size() != 0 {
		t.Errorf("%d reads, want %d; %d bytes in use", r.reads.Load(), reads, r.budget.InUse())
	}
	again.Release()
	stream := r.budget.Open()
	if err := stream.Grow(t.Context(), 15<<20); err != nil || r.Size() != 0 {
		t.Errorf("%v; %d bytes are left of tables that nobody uses", err, r.Size())
	}
	stream.Close(nil)
	r.hold(t, table).Release()
	if r.reads.Load() == reads {
		t.Error("a table that was given up is there without being read")
	}
}

// TestHoldFails: each reason is told apart, nothing is left counted, and another try reads again.
func TestHoldFails(t *testing.T) {
	one := func(int) string { return strings.Repeat("x", 10_000) }
	r := newRig(t, 1<<20)
	changed := about(r.files.Put("mem://changed", items(t, one, 3)))
	r.files.Put("mem://changed", items(t, one, 4))
	damaged := items(t, one, 10)
	for i := range 60 {
		damaged[i+4] ^= 0x5a
	}
	for name, c := range map[string]struct {
		table *pb.Table
		is    error
		words string
	}{
		"large":   {about(r.files.Put("mem://large", items(t, one, 100, 100))), memory.ErrLimit, "the table holds"},
		"wide":    {about(r.files.Put("mem://wide", items(t, func(int) string { return "" }, 1<<19))), memory.ErrLimit, "--memory"},
		"changed": {changed, storage.ErrChanged, "mem://changed"},
		"damaged": {about(r.files.Put("mem://damaged", damaged)), ErrUnusable, "mem://damaged"},
	} {
		_, err := r.Hold(t.Context(), "s", c.table)
		unusable := errors.Is(err, ErrUnusable)
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.words) || unusable != (name == "damaged") {
			t.Errorf("%s: %v", name, err)
		}
		if r.budget.InUse() != 0 || r.Size() != 0 {
			t.Errorf("%s: %d bytes are left, and %d of no use", name, r.budget.InUse(), r.Size())
		}
	}
	table := about(r.files.Put("mem://slow", items(t, one, 3)))
	hook := r.files.Hook
	r.files.Hook = func(context.Context, *pb.File, int64, int64) error { return storage.ErrChanged }
	if _, err := r.Hold(t.Context(), "s", table); err == nil {
		t.Error("a table without storage is there")
	}
	r.files.Hook = hook
	r.hold(t, table).Release()
}

// TestHoldGoesOn: a table is loaded to its end, though who wanted it has gone; the next one finds it.
func TestHoldGoesOn(t *testing.T) {
	r := newRig(t, 1<<20)
	table := about(r.files.Put("mem://items", items(t, func(int) string { return "x" }, 3)))
	reading, read := make(chan struct{}), make(chan struct{})
	var once sync.Once
	r.files.Hook = func(context.Context, *pb.File, int64, int64) error {
		once.Do(func() { close(reading) })
		<-read
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() {
		_, err := r.Hold(ctx, "s", table)
		gone <- err
	}()
	<-reading
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	close(read)
	h := r.hold(t, table)
	if got := textOf(h, 2); got != "x" {
		t.Errorf("2 is %s", got)
	}
	h.Release()
}

// TestExtents: a table may be some of a file's extents, as fitted statistics are.
func TestExtents(t *testing.T) {
	r := newRig(t, 1<<20)
	table := about(r.files.Put("mem://items", items(t, func(id int) string { return fmt.Sprint(id) }, 10, 10, 10)))
	table.Extents = []uint32{1}
	h := r.hold(t, table)
	defer h.Release()
	var got []string
	for _, id := range []int64{10, 11, 20, 21} {
		got = append(got, textOf(h, id))
	}
	if want := []string{"absent", "11", "20", "absent"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
