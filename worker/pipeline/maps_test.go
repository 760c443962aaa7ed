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
	for name, of := range map[string]arrow.DataType{
		"scalars": arrow.PrimitiveTypes.Float64, "lists": arrow.ListOf(arrow.PrimitiveTypes.Float64),
	} {
		schema := arrow.NewSchema([]arrow.Field{{Name: "m", Type: arrow.MapOf(arrow.BinaryTypes.String, of)}}, nil)
		b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		m := b.Field(0).(*array.MapBuilder)
		for range rows {
			m.Append(true)
			for i := range keys {
				m.KeyBuilder().(*array.StringBuilder).Append(fmt.Sprint(i))
				switch item := m.ItemBuilder().(type) {
				case *array.Float64Builder:
					item.Append(float64(i))
				case *array.ListBuilder:
					item.Append(true)
					item.ValueBuilder().(*array.Float64Builder).Append(float64(i))
				}
			}
		}
		var store pipelinetest.Store
		written := pipelinetest.Write(t, schema, slices.Values([]arrow.Record{b.NewRecord()}))
		file := store.Put("mem://map.parquet", written)
		p := withMemory(newPipeline(&store, 100_000), 16<<20, 16<<20)
		program := keysOfMap(keys, name == "lists")
		got, _, err := collect(t.Context(), p, pipelinetest.Ticket(t, &store, file, rows), program, Cursor{})
		if err != nil || len(got) != rows {
			t.Errorf("%s: %d rows of %d: %v", name, len(got), rows, err)
		}
	}
}

// keysOfMap reads so many keys of the map, each as a tensor of its own if they are lists.
func keysOfMap(keys int, lists bool) *pb.Program {
	program := &pb.Program{Provenance: true}
	dense := &pb.Output{Name: "dense", Layout: pb.Layout_DENSE, Type: &pb.Type{Kind: pb.Kind_FLOAT32}}
	for i := range keys {
		name, key, slot := fmt.Sprintf("m.%d", i), fmt.Sprint(i), uint32(i)
		typ := &pb.Type{Kind: pb.Kind_FLOAT64, List: lists}
		program.Sources = append(program.Sources, &pb.Source{Name: name, Path: []string{"m"}, Key: &key, Type: typ})
		if lists {
			program.Outputs = append(program.Outputs, &pb.Output{
				Name: name, Layout: pb.Layout_SPARSE, Slots: []uint32{slot}, Type: &pb.Type{Kind: pb.Kind_FLOAT32},
			})
			continue
		}
		dense.Slots, dense.Columns = append(dense.Slots, slot), append(dense.Columns, name)
	}
	if !lists {
		program.Outputs = []*pb.Output{dense}
	}
	return program
}
