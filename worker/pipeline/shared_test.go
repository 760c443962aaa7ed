package pipeline

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/compress"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
)

// TestSharedChunks: bytes of a chunk that are read once for several sources or row groups stay as they are, however
// long its pages.
func TestSharedChunks(t *testing.T) {
	const rows, times = 60_000, 3
	schema := arrow.NewSchema([]arrow.Field{{Name: "id", Type: arrow.PrimitiveTypes.Int32}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	r := rand.New(rand.NewPCG(1, 2))
	var want []uint32
	for range rows {
		want = append(want, r.Uint32())
		b.Field(0).(*array.Int32Builder).Append(int32(want[len(want)-1]))
	}
	want = slices.Repeat(want, times)
	record := b.NewRecord()
	defer record.Release()
	var store pipelinetest.Store
	for name, c := range map[string]struct {
		kinds  []pb.Kind
		page   int64
		p      *Pipeline
		pieces bool
	}{
		"a leaf": {[]pb.Kind{pb.Kind_INT32}, 1 << 20, newPipeline(&store, 1<<20), false},
		"a leaf as two kinds": {
			[]pb.Kind{pb.Kind_INT32, pb.Kind_INT64},
			1 << 20, newPipeline(&store, 1<<20),
			false,
		},
		"a leaf as two kinds, in pieces": {
			[]pb.Kind{pb.Kind_INT32, pb.Kind_INT64},
			4 << 10, pieced(&store, 8<<20, 64),
			true,
		},
	} {
		record.Retain()
		data := pipelinetest.Write(t, schema, slices.Values([]arrow.Record{record}),
			parquet.WithCompression(compress.Codecs.Zstd), parquet.WithDictionaryDefault(false),
			parquet.WithDataPageSize(c.page), parquet.WithBatchSize(500))
		ticket := pipelinetest.Ticket(t, &store, store.Put("mem://f.parquet", data), 5000)
		ticket.Extents = slices.Repeat(ticket.GetExtents(), times)
		program := &pb.Program{}
		for i, kind := range c.kinds {
			program.Sources = append(program.Sources, &pb.Source{
				Name: kind.String(), Path: []string{"id"},
				Type: &pb.Type{Kind: kind},
			})
			program.Outputs = append(program.Outputs, &pb.Output{
				Name: kind.String(), Layout: pb.Layout_SPARSE,
				Slots: []uint32{uint32(i)}, Type: &pb.Type{Kind: pb.Kind_INT64},
			})
		}
		got := make([][]uint32, len(c.kinds))
		s, err := c.p.Open(t.Context(), ticket, program, Cursor{})
		if err != nil {
			t.Fatal(err)
		}
		if pieces := s.reader.unit(0, 1, s.reader.limit).pieces.size > 0; pieces != c.pieces {
			t.Errorf("%s: in pieces %v, want %v", name, pieces, c.pieces)
		}
		err = s.Run(t.Context(), func(_ context.Context, b Batch) error {
			defer b.Release()
			for i := range c.kinds {
				for value := range slices.Chunk(b.Buffers[4*i+3], 8) { // a list's have two buffers, as do its values
					got[i] = append(got[i], binary.LittleEndian.Uint32(value))
				}
			}
			return nil
		})
		if s.Close(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i, kind := range c.kinds {
			if !slices.Equal(got[i], want) {
				t.Errorf("%s: %d values of %v are not those of %d times %d rows", name, len(got[i]), kind, times, rows)
			}
		}
	}
}
