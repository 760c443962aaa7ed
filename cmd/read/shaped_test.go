package read

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/array"
	"github.com/apache/arrow/go/v15/arrow/memory"
	"github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/pqarrow"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/api/tensors"
	"github.com/penstock-ml/penstock/client"
	"github.com/penstock-ml/penstock/client/conformance/fake"
)

func TestTensorsInLines(t *testing.T) {
	long := client.Tensor{Name: "long", Shape: []int{17}, Dtype: "int8", Data: make([]byte, 2*17)}
	b := &client.Batch{
		Rows: 2,
		Tensors: []client.Tensor{
			{Name: "flag", Dtype: "bool", Data: []byte{0, 1}},
			{Name: "m", Shape: []int{2, 2}, Dtype: "int8", Data: []byte{1, 2, 3, 4, 5, 6, 7, 0xff}},
			{Name: "h", Shape: []int{2}, Dtype: "float16", Data: []byte{0, 0x3c, 1, 0, 0, 0x7c, 0, 0x7e}},
			{Name: "bf", Shape: []int{1}, Dtype: "bfloat16", Data: []byte{0x80, 0x3f, 0, 0xc0}},
			long,
		},
		Padded: []client.Padded{
			{Name: "l", Length: 2, Dtype: "uint16", Data: []byte{9, 0, 1, 1, 9, 0, 9, 0}, Lengths: []int32{1, 0}, Left: true},
			{Name: "r", Length: 2, Dtype: "uint8", Data: []byte{3, 9, 4, 5}, Lengths: []int32{1, 2}},
		},
	}
	zeros := "[" + strings.Repeat("0,", 16) + "0]"
	for i, want := range []string{
		`{"flag":false,"m":[[1,2],[3,4]],"h":[1,5.9604645e-8],"bf":[1],"long":` + zeros + `,"l":[257],"r":[3]}`,
		`{"flag":true,"m":[[5,6],[7,-1]],"h":["+Inf",null],"bf":[-2],"long":` + zeros + `,"l":[],"r":[4,5]}`,
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
	if err := PrintRow(&out, b, 0, "text"); err != nil ||
		!strings.Contains(out.String(), `m=[[1,2],[3,4]] h=[1,5.9604645e-8] bf=[1] long="int8 [17]" l=[257]`) {
		t.Errorf("%s, %v", out.String(), err)
	}
}

// stored is a record as it comes back from a file.
func stored(t *testing.T, rec arrow.Record) arrow.Record {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.parquet")
	table, err := CreateTable(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := table.begin(rec.Schema()); err != nil {
		t.Fatal(err)
	}
	if err := table.writer.WriteBuffered(rec); err != nil {
		t.Fatal(err)
	}
	if err := table.Close(nil); err != nil {
		t.Fatal(err)
	}
	r, err := file.OpenParquetFile(path, false)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	files, err := pqarrow.NewFileReader(r, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := files.ReadTable(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rows := array.NewTableReader(whole, 0)
	rows.Next()
	return rows.Record()
}

func jsonOf(t *testing.T, rec arrow.Record, name string) string {
	t.Helper()
	text, err := json.Marshal(rec.Column(rec.Schema().FieldIndices(name)[0]))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestTensorsInTables(t *testing.T) {
	rec := stored(t, flatten(fake.Rows([]fake.Row{{K: 1}, {K: 5}, {K: 6}, {K: 8}})))
	for name, want := range map[string]string{
		"flags":   "[true,true,false,false]",
		"moments": "[[3,4,5],[15,16,17],[18,19,20],[24,25,26]]",
		"recent":  "[[1],[2,3,4,5],[],[7,8]]",
	} {
		if got := jsonOf(t, rec, name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if got := jsonOf(t, rec, "matrix"); !strings.HasPrefix(got, "[[3.67342e-40,4.59177e-40,") { // bits 4 and 5, and zeros
		t.Errorf("matrix is %s", got)
	}
}

// TestEveryDtypeInTables holds that files have values of each dtype, and the same columns where they have no rows.
func TestEveryDtypeInTables(t *testing.T) {
	program := new(pb.Program)
	var fields []arrow.Field
	var columns []arrow.Array
	for _, k := range pb.Kind_value {
		kind := pb.Kind(k)
		if _, ok := tensors.Element(kind); !ok {
			continue
		}
		data := slices.Repeat([]byte{1, 0, 0, 0, 0, 0, 0, 0}, 2) // 2 or more values
		flat := numbersOf(spec.KindName(kind), data)
		listed := lists(flat, []int32{0, 1, int32(flat.Len())})
		for i, c := range []arrow.Array{array.NewSlice(flat, 0, 2), listed} {
			name := fmt.Sprintf("%v%d", kind, i)
			fields, columns = append(fields, arrow.Field{Name: name, Type: c.DataType()}), append(columns, c)
			program.Outputs = append(program.Outputs, &pb.Output{
				Name: name, Layout: pb.Layout_TENSOR, Type: &pb.Type{Kind: kind}, Shape: []int32{2}[:i],
			})
		}
	}
	schema := arrow.NewSchema(fields, nil)
	if got := emptySchema(program); !got.Equal(schema) {
		t.Errorf("without rows a file has %v, with some %v", got, schema)
	}
	rec := array.NewRecord(schema, columns, 2)
	got := stored(t, rec)
	for _, f := range fields {
		if is, want := jsonOf(t, got, f.Name), jsonOf(t, rec, f.Name); is != want {
			t.Errorf("%s: %s came back as %s", f.Name, want, is)
		}
	}
}
