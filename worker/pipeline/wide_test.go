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

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
	"github.com/penstock-ml/penstock/worker/tensor"
	"github.com/penstock-ml/penstock/worker/transform"
)

// wide is an eighth of a table of 504 floats and 42 lists of 20 ids on average, in a row group of 16,384 rows: nothing
// repeats, so each column has a long page, and each list a dictionary too. It comes with a ticket for all of it, and a
// pipeline's Config but for the memory.
func wide(t *testing.T) (recsys, *pb.Ticket, Config) {
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
	var store pipelinetest.Store
	data := pipelinetest.Write(t, m.schema(), slices.Values([]arrow.Record{b.NewRecord()}), props...)
	return m, pipelinetest.Ticket(t, &store, store.Put("mem://wide.parquet", data), int64(m.window)), Config{
		Storage: &store, Ops: transform.Builtin(), Streams: 4, BatchBytes: 128 << 10, MaxBatch: 30 << 20,
		OverRead: 256 << 10, Patience: time.Minute,
	}
}

// An eighth of what a worker has unless it is told otherwise is enough for an eighth of a wide table.
func TestWideRowGroup(t *testing.T) {
	m, ticket, cfg := wide(t)
	cfg.Memory = 24 << 20
	p := New(cfg)
	s, err := p.Open(t.Context(), ticket, m.program(), Cursor{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	m.check(t, s, func(Batch) {})
	whole := s.reader.unit(0, 1, math.MaxInt64)
	cfg.Memory = 4 * whole.size
	if limit := New(cfg).limits().extent(); s.reader.unit(0, 1, limit).pieces.size != 0 || limit >= whole.size {
		t.Errorf("a row group of %d bytes of long pages is read in pieces, though there are %d bytes of memory",
			whole.size, cfg.Memory)
	}
	checkPieces(t, whole)
}

// What a wide table takes beyond the memory is there where more was granted for that.
func TestWideRowGroupGrowsMemory(t *testing.T) {
	m, ticket, cfg := wide(t)
	cfg.Memory = 4 << 20
	if _, err := New(cfg).Open(t.Context(), ticket, m.program(), Cursor{}); !errors.Is(err, ErrLimit) {
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
	m.check(t, s, func(Batch) {})
	if p.MemoryLimit() != 64<<20 || grown != 60<<20 {
		t.Errorf("%d bytes, which grew by %d", p.MemoryLimit(), grown)
	}
	if want := int64((64 << 20) / 8 * 7 / cfg.Streams); p.limits().share() != want {
		t.Errorf("later streams may hold %d bytes each, of %d", p.limits().share(), want)
	}
}

// Batches of many arrays are larger than usual, if the stream may hold them.
func TestWideBatches(t *testing.T) {
	m, ticket, cfg := wide(t)
	cfg.Memory = 1 << 30
	batches := func() (n int) {
		s, err := New(cfg).Open(t.Context(), ticket, m.program(), Cursor{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		m.check(t, s, func(b Batch) {
			n++
			if s.computer.batch < b.Bytes/2 {
				t.Errorf("a batch of %d bytes where %d are wanted", b.Bytes, s.computer.batch)
			}
		})
		return n
	}
	usual := batches()
	cfg.ArrayBytes = 8 * cfg.BatchBytes / tensor.Arrays(m.program())
	if n := batches(); n != int(windows(ticket.GetExtents()[0])) {
		t.Errorf("%d batches where one may have a whole window, and as usual %d", n, usual)
	}
	cfg.MaxBatch = cfg.BatchBytes * BatchShares
	if n := batches(); n != usual {
		t.Errorf("%d batches where none may be larger, and as usual %d", n, usual)
	}
}

// check runs a stream, hands its batches to see, and counts their rows.
func (m recsys) check(t *testing.T, s *Stream, see func(Batch)) {
	t.Helper()
	rows := 0
	err := s.Run(t.Context(), func(_ context.Context, b Batch) error {
		defer b.Release()
		see(b)
		rows += int(b.Meta.GetRows())
		return nil
	})
	if err != nil || rows != m.rows {
		t.Errorf("%d of %d rows: %v", rows, m.rows, err)
	}
}

// checkPieces checks that pieces are of the size that takes least memory where none keeps within the limit: the gaps
// between smaller pieces of many short chunks are read along.
func checkPieces(t *testing.T, u *unit) {
	t.Helper()
	whole := *u
	u.divide(1)
	if u.pieces.size == 0 || u.size >= whole.size {
		t.Fatalf("pieces of %d bytes take %d bytes, the row group %d", u.pieces.size, u.size, whole.size)
	}
	for size := int64(minPiece); size <= maxPiece; size *= 2 {
		if d := whole.divided(size); d.size < u.size {
			t.Errorf("pieces of %d bytes take %d bytes, those of %d bytes only %d", u.pieces.size, u.size, size, d.size)
		}
	}
}
