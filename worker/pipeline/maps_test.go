package pipeline

import (
	"fmt"
	"slices"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/worker/pipeline/pipelinetest"
)

// TestMapIsTakenOnce: a map is decoded once for all of its keys, and so a stream takes the memory of one.
func TestMapIsTakenOnce(t *testing.T) {
	const rows, keys = 2000, 50
	schema := arrow.NewSchema(
		[]arrow.Field{{Name: "m", Type: arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Float64)}}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	m := b.Field(0).(*array.MapBuilder)
	for range rows {
		m.Append(true)
		for i := range keys {
			m.KeyBuilder().(*array.StringBuilder).Append(fmt.Sprint(i))
			m.ItemBuilder().(*array.Float64Builder).Append(float64(i))
		}
	}
	var store pipelinetest.Store
	file := store.Put("mem://map.parquet", pipelinetest.Write(t, schema, slices.Values([]arrow.Record{b.NewRecord()})))
	program := &pb.Program{
		Provenance: true,
		Outputs:    []*pb.Output{{Name: "dense", Layout: pb.Layout_DENSE, Type: &pb.Type{Kind: pb.Kind_FLOAT32}}},
	}
	for i := range keys {
		name, key := fmt.Sprintf("m.%d", i), fmt.Sprint(i)
		program.Sources = append(program.Sources, &pb.Source{
			Name: name, Path: []string{"m"}, Key: &key,
			Type: &pb.Type{Kind: pb.Kind_FLOAT64},
		})
		dense := program.GetOutputs()[0]
		dense.Slots, dense.Columns = append(dense.Slots, uint32(i)), append(dense.Columns, name)
	}
	p := withMemory(newPipeline(&store, 100_000), 16<<20, 16<<20)
	got, _, err := collect(t.Context(), p, pipelinetest.Ticket(t, &store, file, rows), program, Cursor{})
	if err != nil || len(got) != rows {
		t.Errorf("%d rows of %d: %v", len(got), rows, err)
	}
}
