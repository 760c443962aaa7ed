package parquet_test

import (
	"bytes"
	"testing"

	"github.com/apache/arrow/go/v15/parquet"
	"github.com/apache/arrow/go/v15/parquet/file"
	"github.com/apache/arrow/go/v15/parquet/schema"
)

func int64Leaf(name string, r parquet.Repetition) schema.Node {
	return schema.NewInt64Node(name, r, -1)
}

func group(
	t *testing.T, name string, r parquet.Repetition, kind schema.ConvertedType, children ...schema.Node,
) schema.Node {
	t.Helper()
	n, err := schema.NewGroupNodeConverted(name, r, schema.FieldList(children), kind, -1)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// decimal is one of 9 digits in so many bytes.
func decimal(t *testing.T, bytes int) schema.Node {
	t.Helper()
	n, err := schema.NewPrimitiveNodeConverted("a", parquet.Repetitions.Required, parquet.Types.FixedLenByteArray,
		schema.ConvertedTypes.Decimal, bytes, 9, 2, -1)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// noRowGroups makes a file of the schema with no row groups.
func noRowGroups(t testing.TB, fields ...schema.Node) []byte {
	t.Helper()
	root, err := schema.NewGroupNode("schema", parquet.Repetitions.Required, schema.FieldList(fields), -1)
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	if err := file.NewParquetWriter(&buf, root).Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// What old writers made of lists and maps, by the compatibility rules of the format.
func TestLegacyShapes(t *testing.T) {
	list, asMap, mapKV := schema.ConvertedTypes.List, schema.ConvertedTypes.Map, schema.ConvertedTypes.MapKeyValue
	none := schema.ConvertedTypes.None
	req, opt, rep := parquet.Repetitions.Required, parquet.Repetitions.Optional, parquet.Repetitions.Repeated
	for name, tc := range map[string]struct {
		field schema.Node
		want  string
	}{
		"repeated scalar": {int64Leaf("a", rep), "a list<int64>: a 1/1 row 0 list 1"},
		"repeated in optional struct": {
			group(t, "s", opt, none, int64Leaf("a", rep)),
			"s.a list<int64>: s.a 2/1 row 1 list 2",
		},
		"two levels": {
			group(t, "a", opt, list, int64Leaf("element", rep)),
			"a list<int64>: a.element 2/1 row 1 list 2",
		},
		"two levels, required": {
			group(t, "a", req, list, int64Leaf("array", rep)),
			"a list<int64>: a.array 1/1 row 0 list 1",
		},
		"hive's three levels": {
			group(t, "a", opt, list, group(t, "bag", rep, none, int64Leaf("array_element", opt))),
			"a list<int64>: a.bag.array_element 3/1 row 1 list 2",
		},
		"required element": {
			group(t, "a", req, list, group(t, "list", rep, none, int64Leaf("element", req))),
			"a list<int64>: a.list.element 1/1 row 0 list 1",
		},
		"array of one field": {
			group(t, "a", opt, list, group(t, "array", rep, none, int64Leaf("x", opt))),
			"a.x list<int64>: a.array.x 3/1 row 1 list 2",
		},
		"a_tuple": {
			group(t, "a", opt, list, group(t, "a_tuple", rep, none, int64Leaf("x", opt))),
			"a.x list<int64>: a.a_tuple.x 3/1 row 1 list 2",
		},
		"two levels of structs": {
			group(t, "a", opt, list, group(t, "element", rep, none, int64Leaf("x", opt), int64Leaf("y", req))),
			"a.x list<int64>: a.element.x 3/1 row 1 list 2\na.y list<int64>: a.element.y 2/1 row 1 list 2",
		},
		"repeated group": {
			group(t, "a", rep, none, int64Leaf("x", opt)),
			"a.x list<int64>: a.x 2/1 row 0 list 1",
		},
		"structs in structs": {
			group(t, "a", opt, list, group(t, "list", rep, none, group(t, "element", opt, none,
				int64Leaf("x", req), group(t, "s", opt, none, int64Leaf("y", opt), int64Leaf("z", rep)),
				group(t, "l", opt, list, int64Leaf("element", rep)), group(t, "r", rep, none, int64Leaf("w", opt))))),
			"a.x list<int64>: a.list.element.x 3/1 row 1 list 2\na.s.y list<int64>: a.list.element.s.y 5/1 row 1 " +
				"list 2\n" +
				"a.s.z unsupported: a list of lists\na.l unsupported: a list of lists\na.r unsupported: a list of lists",
		},
		"two levels in two levels": {
			group(t, "a", opt, list, group(t, "array", rep, list, int64Leaf("array", rep))),
			"a list<list<int64>>: a.array.array 3/2 row 1 list 2 null 2 list 3",
		},
		"two levels in three, in a struct": {
			group(t, "s", opt, none, group(t, "a", req, list, group(t, "list", rep, none,
				group(t, "element", opt, list, int64Leaf("element", rep))))),
			"s.a list<list<int64>>: s.a.list.element.element 4/2 row 1 list 2 null 3 list 4",
		},
		"structs in lists of lists": {
			group(t, "a", opt, list, group(t, "list", rep, none, group(t, "element", opt, list,
				group(t, "list", rep, none, group(t, "element", opt, none, int64Leaf("x", req)))))),
			"a unsupported: a list of lists",
		},
		"repeated scalars in a level": {
			group(t, "a", opt, list, group(t, "list", rep, none, int64Leaf("x", rep))),
			"a.x unsupported: a list of lists",
		},
		"list without repetition": {
			group(t, "a", opt, list, int64Leaf("x", opt)),
			"a unsupported: a list without a repeated level",
		},
		"list of maps": {
			group(t, "a", opt, list, group(t, "list", rep, none,
				group(t, "element", opt, asMap, group(t, "kv", rep, none, int64Leaf("k", req), int64Leaf("v", opt))))),
			"a unsupported: a list of maps",
		},
		"MAP_KEY_VALUE outside": {
			group(t, "m", opt, mapKV, group(t, "map", rep, none, int64Leaf("key", req), int64Leaf("value", req))),
			"m map<int64>int64: m.map.key 2/1 row 1 list 2 m.map.value 2/1 row 1 list 2\n" +
				"m.key list<int64>: m.map.key 2/1 row 1 list 2\nm.value list<int64>: m.map.value 2/1 row 1 list 2",
		},
		"hive's map of lists": {
			group(t, "m", opt, asMap, group(t, "map", rep, none, int64Leaf("key", req),
				group(t, "value", opt, list, group(t, "bag", rep, none, int64Leaf("array_element", opt))))),
			"m map<int64>list<int64>: m.map.key 2/1 row 1 list 2 m.map.value.bag.array_element 5/2 row 1 list 2 " +
				"null 3 list 4\nm.key list<int64>: m.map.key 2/1 row 1 list 2\n" +
				"m.value list<list<int64>>: m.map.value.bag.array_element 5/2 row 1 list 2 null 3 list 4",
		},
		"MAP_KEY_VALUE of two levels": {
			group(t, "m", opt, mapKV, group(t, "map", rep, none, int64Leaf("key", req),
				group(t, "value", req, list, int64Leaf("array", rep)))),
			"m map<int64>list<int64>: m.map.key 2/1 row 1 list 2 m.map.value.array 3/2 row 1 list 2 null 2 list 3\n" +
				"m.key list<int64>: m.map.key 2/1 row 1 list 2\n" +
				"m.value list<list<int64>>: m.map.value.array 3/2 row 1 list 2 null 2 list 3",
		},
		"map of maps of maps": {
			group(t, "m", opt, asMap, group(t, "kv", rep, none, int64Leaf("key", req),
				group(t, "value", opt, asMap, group(t, "kv", rep, none, int64Leaf("key", req),
					group(t, "value", opt, asMap, group(t, "kv", rep, none, int64Leaf("key", req), int64Leaf("v", opt))))))),
			"m unsupported: a map whose values are maps whose values are maps",
		},
		"map of repeated values": {
			group(t, "m", opt, asMap, group(t, "kv", rep, none, int64Leaf("key", req), int64Leaf("value", rep))),
			"m unsupported: a map whose values are lists without a level of their own",
		},
		"set": {
			group(t, "m", opt, asMap, group(t, "key_value", rep, none, int64Leaf("key", req))),
			"m unsupported: a map whose entries have 1 fields instead of key and value",
		},
		"map of doubles": {
			group(t, "m", opt, asMap, group(t, "key_value", rep, none, schema.NewFloat64Node("key", req, -1),
				int64Leaf("value", opt))),
			"m unsupported: a map with float64 keys; keys may be integers or strings",
		},
		"same names": {
			group(t, "s", opt, none, int64Leaf("a", opt), group(t, "t", opt, none, int64Leaf("b", opt)),
				int64Leaf("t.b", opt)),
			"s.a int64: s.a 2/0 row 2 list 0\n" +
				"s.t.b unsupported: one of several columns of this name\ns.t.b unsupported: one of several columns " +
				"of this name",
		},
		"decimal of 16 bytes": {decimal(t, 16), "a float64: a 0/0 row 0 list 0"},
		"decimal of 17 bytes": {
			decimal(t, 17),
			"a unsupported: a decimal of 9 digits in 17 bytes; at most 38 in 16 can be read",
		},
		"int96": {schema.NewInt96Node("t", opt, -1), "t int64: t 1/0 row 1 list 0"},
	} {
		t.Run(name, func(t *testing.T) {
			f := load(t, noRowGroups(t, tc.field))
			if got := describe(f); got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
			if f.Rows != 0 || len(f.RowGroups) != 0 {
				t.Errorf("%d rows in %d row groups, want none", f.Rows, len(f.RowGroups))
			}
			for i, l := range f.Leaves {
				if l.Column < 0 {
					continue
				}
				if from, to := f.LeavesOf(l.Column); i < from || i >= to ||
					f.Schema.Columns[l.Column].Unsupported != "" {
					t.Errorf("leaf %v says that it belongs to column %d", l.Path, l.Column)
				}
			}
			for i, c := range f.Schema.Columns {
				if got, ok := f.Column(c.Name); c.Unsupported == "" && (!ok || got != i) {
					t.Errorf("column %s is found as %d, want %d", c.Name, got, i)
				}
			}
		})
	}
}
