package read

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/parquet/file"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/client"
)

func TestPrintRow(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	b := &client.Batch{
		Rows: 2,
		Labels: []client.Label{
			{Name: "f64", F64: []float64{0.1, math.NaN()}},
			{Name: "bool", Bool: []bool{true, false}},
			{Name: "i64", I64: []int64{math.MaxInt64, -1}},
		},
		DenseNames: []string{"a", "b"}, Dense: []float32{0.1, nan, inf, 2},
		Sparse: []client.Sparse{
			{Name: "ids", Values: []int64{7, 8}, Offsets: []int32{0, 2, 2}, Weights: []float32{0.5, nan}},
			{Name: "xs", Floats: []float32{1.5}, Offsets: []int32{0, 0, 1}},
		},
		Bytes: []client.Bytes{
			{Name: "text", Data: []byte("h\u00e9<\xff\x00"), Offsets: []int32{0, 4, 6}},
			{Name: "tags", Data: []byte("ab\xff"), Offsets: []int32{0, 1, 1, 2, 3}, RowOffsets: []int32{0, 3, 4}},
		},
		Images: []client.Image{{Name: "im", Shape: [3]int{1, 1, 1}, Data: []byte{1, 2}}},
		Files:  []int32{0, 1}, RowIDs: []int64{5, 6}, Parts: []int32{0, 3},
	}
	for i, want := range []string{
		`{"f64":0.1,"bool":true,"i64":9223372036854775807,"a":0.1,"b":null,"ids":[7,8],"ids.weight":[0.5,null],"xs":[],"text":"hé\u003c","tags":["a","","b"],"im":"uint8 [1 1 1]","_file":0,"_row":5,"_part":0}`,
		`{"f64":null,"bool":false,"i64":-1,"a":"-Inf","b":2,"ids":[],"ids.weight":[],"xs":[1.5],"text":"0xff00","tags":["0xff"],"im":"uint8 [1 1 1]","_file":1,"_row":6,"_part":3}`,
	} {
		var out strings.Builder
		if err := PrintRow(&out, b, i, "json"); err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSpace(out.String()); got != want {
			t.Errorf("row %d:\n%s, want\n%s", i, got, want)
		}
	}
	var out strings.Builder
	if err := PrintRow(&out, b, 0, "text"); err != nil || !strings.HasPrefix(out.String(), "f64=0.1 bool=true ") {
		t.Errorf("%s, %v", out.String(), err)
	}
}

func TestTableWithoutRows(t *testing.T) {
	weights := uint32(1)
	makes := &pb.Function{Kind: pb.FunctionKind_FLAT_MAP}
	program := &pb.Program{Provenance: true, Steps: []*pb.Step{{Python: makes}}, Outputs: []*pb.Output{
		{Name: "y", Layout: pb.Layout_LABEL, Type: &pb.Type{Kind: pb.Kind_BOOL}},
		{Name: "dense", Layout: pb.Layout_DENSE, Columns: []string{"a", "b"}, Type: &pb.Type{Kind: pb.Kind_FLOAT32}},
		{Name: "ids", Layout: pb.Layout_SPARSE, Type: &pb.Type{Kind: pb.Kind_INT64}, Weights: &weights},
		{Name: "im", Layout: pb.Layout_IMAGE, Type: &pb.Type{Kind: pb.Kind_BINARY}},
		{Name: "tags", Layout: pb.Layout_BYTES, Type: &pb.Type{Kind: pb.Kind_BINARY, List: true}},
	}}
	path := filepath.Join(t.TempDir(), "x.parquet")
	table, err := CreateTable(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := table.Close(program); err != nil {
		t.Fatal(err)
	}
	if err := table.Abandon(); err != nil { // does nothing now
		t.Fatal(err)
	}
	r, err := file.OpenParquetFile(path, false)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if r.NumRows() != 0 || r.MetaData().Schema.NumColumns() != 10 {
		t.Errorf("%d rows, %s", r.NumRows(), r.MetaData().Schema)
	}
	for _, i := range []int{3, 5} {
		if got := emptySchema(program).Field(i).Type; got.ID() != arrow.LIST {
			t.Errorf("%v", got)
		}
	}
}

func TestAbandonedTableLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	table, err := CreateTable(filepath.Join(dir, "x.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	if err := table.Abandon(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
}

func TestTableNamesAColumnOnce(t *testing.T) {
	dir := t.TempDir()
	table, err := CreateTable(filepath.Join(dir, "x.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	err = table.Close(&pb.Program{Outputs: []*pb.Output{
		{Name: "a", Layout: pb.Layout_LABEL, Type: &pb.Type{Kind: pb.Kind_BOOL}},
		{Name: "dense", Layout: pb.Layout_DENSE, Columns: []string{"a", "b"}, Type: &pb.Type{Kind: pb.Kind_FLOAT32}},
	}})
	if err == nil || !strings.Contains(err.Error(), "two columns would be called a") {
		t.Errorf("got %v", err)
	}
	if err := table.Abandon(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
}
