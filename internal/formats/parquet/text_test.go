package parquet_test

import (
	"encoding/binary"
	"testing"

	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/schema"

	footer "github.com/penstock-ml/penstock/internal/formats/parquet"
)

// TestText reads which columns of byte strings are text, wherever these lie.
func TestText(t *testing.T) {
	types := schema.ConvertedTypes
	req, opt, rep := parquet.Repetitions.Required, parquet.Repetitions.Optional, parquet.Repetitions.Repeated
	old := func(name string, r parquet.Repetition, c schema.ConvertedType) schema.Node {
		n, err := schema.NewPrimitiveNodeConverted(name, r, parquet.Types.ByteArray, c, 0, 0, 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	logical := func(name string, l schema.LogicalType, physical parquet.Type, length int) schema.Node {
		n, err := schema.NewPrimitiveNodeLogical(name, opt, l, physical, length, -1)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	bytes := parquet.Types.ByteArray
	file := noRowGroups(t,
		logical("string", schema.StringLogicalType{}, bytes, -1),
		logical("enum", schema.EnumLogicalType{}, bytes, -1),
		logical("json", schema.JSONLogicalType{}, bytes, -1),
		logical("bson", schema.BSONLogicalType{}, bytes, -1),
		logical("uuid", schema.UUIDLogicalType{}, parquet.Types.FixedLenByteArray, 16),
		logical("decimal", schema.NewDecimalLogicalType(20, 3), bytes, -1),
		old("utf8", opt, types.UTF8), old("old_enum", opt, types.Enum), old("old_json", opt, types.JSON),
		old("old_bson", opt, types.BSON), old("plain", opt, types.None), int64Leaf("number", opt),
		group(t, "s", opt, types.None, old("text", opt, types.UTF8), old("plain", opt, types.None)),
		group(t, "list", opt, types.List, group(t, "list", rep, types.None, old("element", opt, types.UTF8))),
		group(t, "deep", opt, types.List, group(t, "list", rep, types.None,
			group(t, "element", opt, types.List, group(t, "list", rep, types.None, old("element", opt, types.UTF8))))),
		group(t, "names", opt, types.Map, group(t, "key_value", rep, types.None,
			int64Leaf("key", req), old("value", opt, types.UTF8))),
		group(t, "counts", opt, types.Map, group(t, "key_value", rep, types.None,
			old("key", req, types.UTF8), int64Leaf("value", opt))),
	)
	length := int(binary.LittleEndian.Uint32(file[len(file)-8:]))
	f, err := footer.Read(file[len(file)-8-length : len(file)-8])
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{
		"string": true, "enum": true, "json": true, "bson": false, "uuid": false, "decimal": false,
		"utf8": true, "old_enum": true, "old_json": true, "old_bson": false, "plain": false, "number": false,
		"s.text": true, "s.plain": false, "list": true, "deep": true,
		"names": true, "names.key": false, "names.value": true,
		"counts": false, "counts.key": true, "counts.value": false,
	}
	for _, c := range f.Schema.Columns {
		if text, ok := want[c.Name]; c.Text != text || !ok || c.Unsupported != "" {
			t.Errorf("%+v, want text %t", c, text)
		}
		delete(want, c.Name)
	}
	if len(want) > 0 {
		t.Errorf("no columns %v", want)
	}
}
