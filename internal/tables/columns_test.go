package tables

import (
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/google/go-cmp/cmp"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/tables/table"
)

// renamed is a field that files have by another name, or by an id.
func renamed(name string, of arrow.DataType, stored, id string) arrow.Field {
	return arrow.Field{
		Name: name, Type: of, Nullable: true,
		Metadata: arrow.NewMetadata([]string{table.StoredName, table.FieldID}, []string{stored, id}),
	}
}

func TestPlaces(t *testing.T) {
	price := renamed("price", arrow.PrimitiveTypes.Float64, "col-3", "3")
	s := &table.Snapshot{
		Schema: arrow.NewSchema([]arrow.Field{
			renamed("id", arrow.PrimitiveTypes.Int64, "id", "1"),
			renamed("item", arrow.StructOf(price), "col-2", "2"),
			renamed("items", arrow.ListOf(arrow.StructOf(price)), "col-4", "4"),
			renamed("day", arrow.FixedWidthTypes.Date32, "col-5", "5"),
			{Name: "plain", Type: arrow.BinaryTypes.String},
		}, nil),
		Partitions: []string{"day"},
	}
	schema, err := columns(s)
	if err != nil {
		t.Fatal(err)
	}
	var sources []*pb.Source
	var names []string
	for _, c := range schema.Columns {
		sources = append(sources, &pb.Source{Name: c.Name, Path: c.Path})
		name := c.Name + " " + c.Type.String()
		if c.Partition {
			name += " of partitions"
		}
		names = append(names, name)
	}
	want := []string{
		"id int64", "item.price float64", "items.price list<float64>", "day int32 of partitions", "plain binary",
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	(&Table{Snapshot: s}).Place(sources)
	type at struct {
		ID     int32
		Stored []string
	}
	var found []at
	for _, s := range sources {
		found = append(found, at{s.GetId(), s.GetStored()})
	}
	if diff := cmp.Diff([]at{
		{1, nil}, {3, []string{"col-2", "col-3"}}, {3, []string{"col-4", "col-3"}}, {5, []string{"col-5"}}, {},
	}, found); diff != "" {
		t.Error(diff)
	}
}
