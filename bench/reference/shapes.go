package reference

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"

	"github.com/apache/arrow/go/v15/arrow"
	"github.com/apache/arrow/go/v15/arrow/ipc"
	"github.com/parquet-go/parquet-go"
)

// addShapes adds what Arrow's writers say of columns whose rows all have one shape. Parquet's own schema has no place
// for it, so they put theirs beside it.
func addShapes(columns []column, f *parquet.File) {
	text, _ := f.Lookup("ARROW:schema")
	message, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return
	}
	r, err := ipc.NewReader(bytes.NewReader(message))
	if err != nil {
		return
	}
	defer r.Release()
	shapes := map[string][]int32{}
	fixedShapes(shapes, "", r.Schema().Fields())
	for i, c := range columns {
		shape := shapes[c.name]
		if c.supported() && c.typ.List && (c.typ.Nested == 0 || len(shape) == int(c.typ.Nested)+1) {
			columns[i].shape = shape
		}
	}
}

// fixedShapes gathers the shapes of fields by name, through structs.
func fixedShapes(out map[string][]int32, prefix string, fields []arrow.Field) {
	for _, f := range fields {
		if s, ok := f.Type.(*arrow.StructType); ok {
			fixedShapes(out, prefix+f.Name+".", s.Fields())
			continue
		}
		out[prefix+f.Name] = fixedShape(f)
	}
}

// fixedShape is that of a fixed-size list, of such lists, or of the extension type that says how to fold one.
func fixedShape(f arrow.Field) (shape []int32) {
	t := f.Type
	for list, ok := t.(*arrow.FixedSizeListType); ok; list, ok = t.(*arrow.FixedSizeListType) {
		shape, t = append(shape, list.Len()), list.Elem()
	}
	if _, ok := t.(arrow.ListLikeType); ok {
		return nil
	}
	if name, _ := f.Metadata.GetValue("ARROW:extension:name"); name == "arrow.fixed_shape_tensor" {
		var says struct {
			Shape       []int32
			Permutation []int
		}
		text, _ := f.Metadata.GetValue("ARROW:extension:metadata")
		if err := json.Unmarshal([]byte(text), &says); err == nil && len(says.Shape) > 0 &&
			slices.IsSorted(says.Permutation) { // else its values do not lie row by row
			return says.Shape
		}
	}
	return shape
}
