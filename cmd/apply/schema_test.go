package apply

import (
	"testing"

	"github.com/apache/arrow/go/v15/arrow"

	"github.com/penstock-ml/penstock/internal/formats"
	"github.com/penstock-ml/penstock/internal/formats/filetest"
)

// TestSchemaOfMaps: rows of JSON have the maps that the training's files have.
func TestSchemaOfMaps(t *testing.T) {
	opt := func(name string, t arrow.DataType) arrow.Field {
		return arrow.Field{Name: name, Type: t, Nullable: true}
	}
	shorts := arrow.ListOf(arrow.ListOf(arrow.PrimitiveTypes.Int16))
	want := arrow.NewSchema([]arrow.Field{
		opt("x", arrow.PrimitiveTypes.Int32),
		opt("stats", arrow.MapOf(arrow.BinaryTypes.String, arrow.PrimitiveTypes.Float64)),
		opt("far", arrow.MapOf(arrow.PrimitiveTypes.Uint64, arrow.PrimitiveTypes.Uint64)),
		opt("ids", arrow.MapOf(arrow.PrimitiveTypes.Int64, arrow.ListOf(arrow.BinaryTypes.String))),
		opt("scores", arrow.MapOf(arrow.BinaryTypes.String,
			arrow.MapOf(arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Float32))),
		opt("days", arrow.MapOf(arrow.BinaryTypes.String, arrow.ListOf(arrow.FixedWidthTypes.Date32))),
		opt("in", arrow.StructOf(opt("m", arrow.MapOf(arrow.PrimitiveTypes.Int32, shorts)))),
	}, nil)
	st := &filetest.One{URI: "mem://x.arrow", Data: filetest.Arrow(t, want, nil)}
	f, err := formats.Load(t.Context(), st, "", st.File(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := arrowSchema(&f.Columns().Schema); got.String() != want.String() {
		t.Errorf("%v\nwant %v", got, want)
	}
}
