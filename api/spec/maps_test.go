package spec

import (
	"reflect"
	"slices"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
)

// mapOfMaps is a column of maps from keys of a kind to scores by ids.
func mapOfMaps(name string, key, id pb.Kind) []Column {
	side := func(field string, kind pb.Kind) Column {
		c := listColumn(name, kind)
		c.Name, c.Key, c.Field = ColumnName(c.Path, []string{field}), key, []string{field}
		return c
	}
	all := func(field string, kind pb.Kind) Column {
		c := listColumn(name+".value."+field, kind)
		c.Path, c.Type.Nested = []string{name, "value", field}, 1
		return c
	}
	return []Column{
		side("key", id), side("value", pb.Kind_FLOAT32), listColumn(name+".key", key), all("key", id),
		all("value", pb.Kind_FLOAT32),
	}
}

// TestKeysOfMaps: names select keys of maps of lists and of maps, or the message says what is meant.
func TestKeysOfMaps(t *testing.T) {
	bags := mapColumn("bags", pb.Kind_INT64, pb.Kind_INT32)
	bags[0].Type.List = true
	far := mapColumn("far", pb.Kind_INT64, pb.Kind_INT32)
	far[0].Type.List, far[0].UnsignedKeys = true, true
	x := newIndex(Schema{slices.Concat(bags, far, mapOfMaps("ranked", pb.Kind_BINARY, pb.Kind_INT64),
		[]Column{{Name: "odd", Path: []string{"odd"}, Unsupported: "a map whose values are structs"}})})
	for name, want := range map[string]struct{ key, column, err string }{
		"bags.-7":                  {key: "-7", column: "bags"},
		"bags.key":                 {column: "bags.key"},
		"far.18446744073709551615": {key: "18446744073709551615", column: "far"},
		"far.-1":                   {err: `far.-1: the keys of map far are uint64, and "-1" is none`},
		"far.18446744073709551616": {err: `far.18446744073709551616: the keys of map far are uint64, and ` +
			`"18446744073709551616" is none`},
		"bags.9223372036854775808": {err: `bags.9223372036854775808: the keys of map bags are int64, and ` +
			`"9223372036854775808" is none`},
		"far":                {err: "far is a map with uint64 keys; select one of its keys, such as far.42"},
		"ranked.a.key":       {key: "a", column: "ranked.*.key"},
		"ranked.a.b.value":   {key: "a.b", column: "ranked.*.value"},
		"ranked.key.key":     {key: "key", column: "ranked.*.key"},
		"ranked.value.value": {column: "ranked.value.value"},
		"bags.1.key":         {err: `bags.1.key: the keys of map bags are int64, and "1.key" is none`},
		"bags":               {err: "bags is a map with int64 keys; select one of its keys, such as bags.42"},
		"ranked": {err: "ranked is a map with binary keys; select one of its keys, such as ranked.some_key.key or " +
			"ranked.some_key.value"},
		"ranked.*.key": {err: "ranked is a map with binary keys; select one of its keys, such as ranked.some_key.key"},
		"ranked.a":     {err: "ranked.a: the values of map ranked are maps; select ranked.a.key or ranked.a.value"},
		"odd.1":        {err: "odd.1 cannot be a feature: odd is a map whose values are structs"},
		"ranked..key":  {err: `ranked..key: the keys of map ranked are binary, and "" is none`},
	} {
		src, _, err := x.source(name)
		if err != nil {
			if err.Error() != want.err {
				t.Errorf("%s: %v, want %s", name, err, want.err)
			}
			continue
		}
		if got := ColumnName(src.GetPath(), src.GetField()); got != want.column || src.GetKey() != want.key ||
			!src.GetType().GetList() || src.GetName() != name {
			t.Errorf("%s: %v, want %+v", name, src, want)
		}
	}
}

// TestGlobsOfKeys: a glob that is meant for keys of a map says that these are named one by one.
func TestGlobsOfKeys(t *testing.T) {
	given := Given{Schema: Schema{mapOfMaps("ranked", pb.Kind_BINARY, pb.Kind_INT64)}, Catalog: newCatalog()}
	_, err := Resolve(mustParse(t, head+"features: [{sparse: ranked.a*.key}]"), given)
	compareProblems(t, err, []string{"features[0]: no feature matches ranked.a*.key; keys of maps must be named one by one"})
}

// TestMergeMapsOfMaps: files agree on what a map holds, or the message names both.
func TestMergeMapsOfMaps(t *testing.T) {
	ranked := mapOfMaps("m", pb.Kind_INT32, pb.Kind_INT32)
	wide := mapOfMaps("m", pb.Kind_INT64, pb.Kind_INT64)
	nulls := Column{Name: "m", Path: []string{"m"}, Unsupported: "without a type", Untyped: true}
	field := column("m.x", pb.Kind_INT32)
	field.Path = []string{"m", "x"}
	got, err := Merge([]FileSchema{{"a", Schema{ranked}}, {"b", Schema{[]Column{nulls}}}, {"c", Schema{wide}}})
	if err != nil || !reflect.DeepEqual(got.Columns, append(slices.Clone(wide), nulls)) {
		t.Errorf("%+v, %v", got, err)
	}
	if src, _, err := newIndex(got).source("m.1.value"); err != nil || src.GetKey() != "1" {
		t.Errorf("%v, %v", src, err)
	}
	for want, other := range map[string][]Column{
		"m: is map<int32, bool> in b, but a map of maps in a":  mapColumn("m", pb.Kind_INT32, pb.Kind_BOOL)[:1],
		"m: is int32 in b, but a map of maps in a":             {column("m", pb.Kind_INT32)},
		"m: is a map of maps in a, but a struct with m.x in b": {field},
	} {
		_, err := Merge([]FileSchema{{"a", Schema{ranked}}, {"b", Schema{other}}})
		compareProblems(t, err, []string{want + "; one dataset takes one type"})
	}
}

// TestAlikeNames: a column whose name reads like the path of another one is none of its parts.
func TestAlikeNames(t *testing.T) {
	ranked := mapOfMaps("b", pb.Kind_BINARY, pb.Kind_INT64)
	for i := range ranked {
		ranked[i].Path = append([]string{"a"}, ranked[i].Path...)
		ranked[i].Name = "a." + ranked[i].Name
	}
	zero := column("a\x00b.c", pb.Kind_INT32)
	zero.Path = []string{"a\x00b", "c"}
	within := column("a.b", pb.Kind_INT32)
	within.Path = []string{"a", "b"}
	for what, columns := range map[string][]Column{
		"a dot": append([]Column{column("a.b", pb.Kind_INT32)}, ranked...), "a zero": {within, zero},
	} {
		got, err := Merge([]FileSchema{{"a", Schema{columns}}})
		if err != nil || !reflect.DeepEqual(got.Columns, columns) {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
		if src, _, err := newIndex(got).source("a.b"); err != nil || src.GetKey() != "" {
			t.Errorf("%s: %v, %v", what, src, err)
		}
	}
}
