package reference

import (
	"fmt"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/penstock-ml/penstock/api/pb"
)

// element describes a schema's element in words: its name, the number of children of a group or the type of a leaf, and
// what else is said of it.
func element(t *testing.T, text string) format.SchemaElement {
	words := strings.Fields(text)
	e := format.SchemaElement{Name: words[0], RepetitionType: thrift.New(format.Required)}
	for _, w := range words[1:] {
		switch w {
		case "optional":
			e.RepetitionType = thrift.New(format.Optional)
		case "repeated":
			e.RepetitionType = thrift.New(format.Repeated)
		case "list":
			e.ConvertedType = thrift.New(deprecated.List)
		case "map":
			e.ConvertedType = thrift.New(deprecated.MapKeyValue)
		case "uint32":
			e.ConvertedType = thrift.New(deprecated.Uint32)
		case "null":
			e.LogicalType.Value = &format.NullType{}
		case "uint8":
			e.ConvertedType = thrift.New(deprecated.Uint8)
		case "int16":
			e.LogicalType.Value = &format.IntType{BitWidth: 16, IsSigned: true}
		case "half":
			e.Type, e.TypeLength = thrift.New(format.FixedLenByteArray), thrift.New[int32](2)
			e.LogicalType.Value = &format.Float16Type{}
		case "int32":
			e.Type = thrift.New(format.Int32)
		case "int64":
			e.Type = thrift.New(format.Int64)
		case "float":
			e.Type = thrift.New(format.Float)
		case "decimal39":
			e.Type = thrift.New(format.ByteArray)
			e.LogicalType.Value = &format.DecimalType{Precision: 39}
		default:
			var n int32
			if _, err := fmt.Sscan(w, &n); err != nil {
				t.Fatalf("%s: %v", w, err)
			}
			e.NumChildren = thrift.New(n)
		}
	}
	return e
}

func TestColumnsOfSchemas(t *testing.T) {
	for schema, want := range map[string]string{
		"x int32":                 "x int32 0/0/0",
		"x optional int32 uint32": "x int64 of uint32 1/0/1",
		"x int32 uint8; y int32 int16; z optional half": "x int32 of uint8 0/0/0; y int32 of int16 0/0/0; " +
			"z float32 of float16 1/0/1",
		"x repeated int32":                                           "x list<int32> 0/1/1",
		"x optional decimal39":                                       "x -",
		"x optional int32 null":                                      "x -",
		"s 1 optional; x optional float":                             "s.x float32 2/0/2",
		"s 1 optional; x repeated float":                             "s.x list<float32> 1/2/2",
		"s 1 repeated; x optional float":                             "s -",
		"x 1 optional list; array repeated int64":                    "x list<int64> 1/2/2",
		"x 1 optional list; list 1 repeated; element optional int64": "x list<int64> 1/2/3",
		"x 1 list; bag 1 repeated; array_element int64":              "x list<int64> 0/1/1",
		"x 1 optional list; array 1 repeated; y int64":               "x -",
		"x 1 optional list; x_tuple 1 repeated; y int64":             "x -",
		"x 1 optional list; list 1 repeated; element repeated int64": "x -",
		"x 1 optional list; list 2 repeated; a int64; b int64":       "x -",
		"x 1 optional list; list 1 repeated; element 1 optional list; list 1 repeated; element optional int32 int16": "" +
			"x list<list<int32>> of int16 1/2/5 3/4",
		"x 1 list; list 1 repeated; element 1 list; list 1 repeated; element 1 optional list; list 1 repeated; e float": "" +
			"x list<list<list<float32>>> 0/1/4 1/2 3/4",
		"x 1 optional list; array 1 repeated list; array repeated int64":                        "x list<list<int64>> 1/2/3 2/3",
		"x 1 optional list; list 1 repeated; element 1 list; list 2 repeated; a int64; b int64": "x -",
		"x 1 optional list; list 1 repeated; element 1 map; map 2 repeated; k int64; v int64":   "x -",
		"x 1 optional list; y optional int64":                                                   "x -",
		"m 1 optional map; map 2 repeated; key int32; value optional float": "m map<float32> 1/2/2 1/2/3; m.key " +
			"list<int32> 1/2/2; m.value list<float32> 1/2/3",
		"m 1 optional map; map 2 repeated; key float; value optional float": "m -",
		"m 1 optional map; map 1 repeated; key int32":                       "m -",
		"x int32; x int64": "x -; x -",
		"s 2; a int32; t 1 optional; b optional int64": "s.a int32 0/0/0; s.t.b int64 2/0/2",
	} {
		elements := []format.SchemaElement{{Name: "root"}}
		top := int32(0)
		open := int32(0)
		for _, text := range strings.Split(schema, ";") {
			if open == 0 {
				top++
				open = 1
			}
			e := element(t, text)
			open += e.NumChildren.V - 1
			elements = append(elements, e)
		}
		elements[0].NumChildren = thrift.New(top)
		columns, err := columnsOf(elements)
		if err != nil {
			t.Errorf("%s: %v", schema, err)
			continue
		}
		var got []string
		for _, c := range columns {
			got = append(got, describe(c))
		}
		if got := strings.Join(got, "; "); got != want {
			t.Errorf("%s: got %s; want %s", schema, got, want)
		}
	}
	if _, err := columnsOf([]format.SchemaElement{element(t, "root 2"), element(t, "x int32")}); err == nil {
		t.Error("a schema that ends early: no error")
	}
}

// describe gives a column's name, type, and of each leaf the levels of row, element and value.
func describe(c column) string {
	if !c.supported() {
		return c.name + " -"
	}
	out := c.name + " " + c.typ.String()
	if c.own != pb.Kind_KIND_UNSPECIFIED {
		out += " of " + strings.ToLower(c.own.String())
	}
	if c.isMap {
		out = c.name + " map<" + strings.ToLower(c.typ.Kind.String()) + ">"
	}
	for _, l := range c.leaves {
		out += fmt.Sprintf(" %d/%d/%d", l.rowDef, l.elementDef, l.valueDef)
		for _, below := range l.inner {
			out += fmt.Sprintf(" %d/%d", below.listDef, below.elementDef)
		}
	}
	return out
}
