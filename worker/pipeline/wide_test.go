package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet"

	"github.com/penstock-ml/penstock/worker/columns"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
	"github.com/penstock-ml/penstock/worker/transform"
)

// wide is an eighth of a table of 504 floats and 42 lists of 20 ids on average, in a row group of 16,384 rows: nothing repeats, so each
// column has a long page, and each list a dictionary too.
func wide(t *testing.T) (recsys, []byte) {
	t.Helper()
	m := recsys{dense: 63, sparse: 5, length: 20, rows: 16384, window: 455}
	r := rand.New(rand.NewPCG(1, 2))
	b := array.NewRecordBuilder(memory.DefaultAllocator, m.schema())
	defer b.Release()
	props := []parquet.WriterProperty{parquet.WithDictionaryDefault(false)}
	for i, f := range b.Fields() {
		for range m.rows {
			switch f := f.(type) {
			case *array.Int32Builder:
				f.Append(int32(r.IntN(2)))
			case *array.Float32Builder:
				f.Append(r.Float32())
			case *array.ListBuilder:
				f.Append(true)
				for range r.IntN(2 * m.length) {
					f.ValueBuilder().(*array.Int64Builder).Append(int64(r.Uint32N(1 << 17)))
				}
			}
		}
		if i > m.dense {
			props = append(props, parquet.WithDictionaryFor(fmt.Sprintf("cat_%d.list.element", i-m.dense-1), true))
		}
	}
	return m, pipelinetest.Write(t, m.schema(), slices.Values([]arrow.Record{b.NewRecord()}), props...)
}

// An eighth of what a worker has unless it is told otherwise is enough for an eighth of a wide table.
func TestWideRowGroup(t *testing.T) {
	m, data := wide(t)
	var store pipelinetest.Store
	ticket := pipelinetest.Ticket(t, &store, store.Put("mem://wide.parquet", data), int64(m.window))
	p := New(Config{
		Storage: &store, Ops: transform.Builtin(), Memory: 24 << 20, Streams: 4, BatchBytes: 128 << 10, MaxBatch: 30 << 20,
		OverRead: 256 << 10, Patience: time.Minute,
	})
	s, err := p.Open(t.Context(), ticket, m.program(), Cursor{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	m.check(t, s)
	whole := s.unit(0, 1, math.MaxInt64)
	p.cfg.Memory = 4 * whole.size
	if limit := p.rowGroupLimit(); s.unit(0, 1, limit).pieces.size != 0 || limit >= whole.size {
		t.Errorf("a row group of %d bytes of long pages is read in pieces, though there are %d bytes of memory", whole.size, p.cfg.Memory)
	}
	checkPieces(t, whole)
}

// What a wide table takes beyond the memory is there where more was granted for that.
func TestWideRowGroupGrowsMemory(t *testing.T) {
	m, data := wide(t)
	var store pipelinetest.Store
	ticket := pipelinetest.Ticket(t, &store, store.Put("mem://wide.parquet", data), int64(m.window))
	cfg := Config{
		Storage: &store, Ops: transform.Builtin(), Memory: 4 << 20, Streams: 4, BatchBytes: 128 << 10, MaxBatch: 30 << 20,
		OverRead: 256 << 10, Patience: time.Minute,
	}
	if _, err := New(cfg).Open(t.Context(), ticket, m.program(), Cursor{}); !errors.Is(err, columns.ErrMemory) {
		t.Fatalf("%v; want that the memory is too little", err)
	}
	var grown int64
	cfg.MaxMemory, cfg.Grown = 64<<20, func(bytes int64) { grown += bytes }
	p := New(cfg)
	s, err := p.Open(t.Context(), ticket, m.program(), Cursor{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	m.check(t, s)
	if p.MemoryLimit() != 64<<20 || grown != 60<<20 {
		t.Errorf("%d bytes, which grew by %d", p.MemoryLimit(), grown)
	}
}

// check runs a stream and counts its rows.
func (m recsys) check(t *testing.T, s *Stream) {
	t.Helper()
	rows := 0
	err := s.Run(t.Context(), func(_ context.Context, b Batch) error {
		defer b.Release()
		rows += int(b.Meta.GetRows())
		return nil
	})
	if err != nil || rows != m.rows {
		t.Errorf("%d of %d rows: %v", rows, m.rows, err)
	}
}

// checkPieces checks that pieces are of the size that takes least memory where none keeps within the limit: the gaps between smaller
// pieces of many short chunks are read along.
func checkPieces(t *testing.T, u *unit) {
	t.Helper()
	whole := *u
	u.divide(1)
	if u.pieces.size == 0 || u.size >= whole.size {
		t.Fatalf("pieces of %d bytes take %d bytes, the row group %d", u.pieces.size, u.size, whole.size)
	}
	for size := int64(leastPiece); size <= mostPiece; size *= 2 {
		if d := whole.divided(size); d.size < u.size {
			t.Errorf("pieces of %d bytes take %d bytes, those of %d bytes only %d", u.pieces.size, u.size, size, d.size)
		}
	}
}
