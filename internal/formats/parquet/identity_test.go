package parquet_test

import (
	"bytes"
	"strings"
	"testing"

	parquetgo "github.com/parquet-go/parquet-go"

	"github.com/penstock-ml/penstock/api/pb"
)

// identified is a file as a table's writer had it once: each field has an id, unless ids is false.
func identified(t *testing.T, ids bool) []byte {
	t.Helper()
	field := func(id int, n parquetgo.Node) parquetgo.Node {
		if ids {
			return parquetgo.FieldID(parquetgo.Optional(n), id)
		}
		return parquetgo.Optional(n)
	}
	whole, text := parquetgo.Leaf(parquetgo.Int32Type), parquetgo.String()
	var buf bytes.Buffer
	w := parquetgo.NewWriter(&buf, parquetgo.NewSchema("table", parquetgo.Group{
		"a": field(1, whole),
		"b": field(2, parquetgo.Group{
			"c": field(3, parquetgo.Leaf(parquetgo.FloatType)),
			"d": field(4, parquetgo.List(text)),
			"e": field(5, parquetgo.List(parquetgo.Group{"f": field(6, whole)})),
		}),
		"m":     field(7, parquetgo.Map(text, parquetgo.Int(64))),
		"twice": field(8, whole),
		"again": field(8, whole),
	}))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// TestColumnsByID: a table's columns are found by their ids in files that give any, else by the names that these have,
// wherever they stand; errors name the feature.
func TestColumnsByID(t *testing.T) {
	source := func(name string, id int32, stored string, kind pb.Kind, list bool) *pb.Source {
		s := &pb.Source{Name: name, Path: strings.Split(name, "."), Id: id, Type: &pb.Type{Kind: kind, List: list}}
		if stored != "" {
			s.Stored = strings.Split(stored, ".")
		}
		return s
	}
	key := source("n.k", 7, "m", pb.Kind_INT64, false)
	key.Path, key.Key = []string{"n"}, new(string)
	for _, ids := range []bool{true, false} {
		f := load(t, identified(t, ids))
		for want, s := range map[string]*pb.Source{
			"a":                  source("x", 1, "a", pb.Kind_INT64, false),
			"b.c":                source("s.y", 3, "b.c", pb.Kind_FLOAT64, false),
			"b.d.list.element":   source("s.tags", 4, "b.d", pb.Kind_BINARY, true),
			"b.e.list.element.f": source("s.items.g", 6, "b.e.f", pb.Kind_INT32, true),
			"m.key_value.value":  key,
		} {
			bound, err := f.Bind([]*pb.Source{s})
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(f.Leaves[bound.Uses[bound.Bindings[0].Value].Leaf].Path, "."); got != want {
				t.Errorf("ids %v: %s is %s, want %s", ids, s.GetName(), got, want)
			}
			if !f.Knows([]*pb.Source{s}) || !bound.Has(0) {
				t.Errorf("ids %v: %s is not known", ids, s.GetName())
			}
		}
		// A column that was dropped, and another one of its name that was added.
		added := source("a", 9, "", pb.Kind_BINARY, false)
		bound, err := f.Bind([]*pb.Source{added})
		if ids && (err != nil || bound.Has(0)) || !ids && err == nil {
			t.Errorf("ids %v: a new column: %v, %v", ids, bound, err)
		}
		if _, err = f.Bind([]*pb.Source{source("short", 1, "a", pb.Kind_BINARY, false)}); err == nil ||
			!strings.Contains(err.Error(), "feature short: column a is int32 here") {
			t.Errorf("ids %v: %v", ids, err)
		}
		_, err = f.Bind([]*pb.Source{source("z", 8, "twice", pb.Kind_INT32, false)})
		if ids != (err != nil) {
			t.Errorf("ids %v: %v", ids, err)
		}
	}
}
