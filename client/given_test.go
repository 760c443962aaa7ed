package client_test

import (
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"

	"github.com/penstock-ml/penstock/api/tensors"
	"github.com/penstock-ml/penstock/client"
)

// A batch of a record is that record again, and a part of one, or what is no tensor, is refused.
func TestBatchOf(t *testing.T) {
	field := func(name, layout string, t arrow.DataType, more ...string) arrow.Field {
		pairs := append([]string{tensors.Layout, layout}, more...)
		m := map[string]string{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
		return arrow.Field{Name: name, Type: t, Metadata: arrow.MetadataFrom(m)}
	}
	schema := arrow.NewSchema([]arrow.Field{
		field("dense", "dense", arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Float32), tensors.Names,
			`["a","b"]`),
		field("label", "label", arrow.FixedWidthTypes.Boolean),
		field("ids", "sparse", arrow.ListOf(arrow.PrimitiveTypes.Int64)),
		field("name", "bytes", arrow.BinaryTypes.Binary),
	}, nil)
	record, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(
		`[{"dense": [1, 2], "label": true, "ids": [7, 8], "name": "eA=="}, {"dense": [3, 4], "label": false, "ids": [],
			"name": ""}]`))
	if err != nil {
		t.Fatal(err)
	}
	b, err := client.BatchOf(record)
	if err != nil {
		t.Fatal(err)
	}
	if !array.RecordEqual(b.Record(), record) || b.Rows != 2 || b.Valid != 2 || !b.Labels[0].Bool[0] ||
		b.Dense[3] != 4 || b.Sparse[0].Values[1] != 8 || b.Bytes[0].Offsets[1] != 1 {
		t.Errorf("found %v", b.Record())
	}
	b.Release()
	if _, err := client.BatchOf(record.NewSlice(1, 2)); err == nil ||
		!strings.Contains(err.Error(), `column "dense": it is a part of another array, from 1 on; want a whole one`) {
		t.Errorf("a part: %v", err)
	}
	plain := arrow.NewSchema([]arrow.Field{{Name: "x", Type: arrow.PrimitiveTypes.Int64}}, nil)
	if _, err := client.BatchOf(array.NewRecord(plain, []arrow.Array{record.Column(2).(*array.List).ListValues()},
		2)); err == nil {
		t.Error("no tensors")
	}
}
