package spec

import (
	"fmt"
	"maps"
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
)

// fakeOp infers one op's result.
type fakeOp struct {
	maps  bool
	check func(params map[string]*pb.Value, in []Type) (Signature, error)
}

// fakeCatalog stands in for the worker's registry.
type fakeCatalog map[string]fakeOp

func (c fakeCatalog) Names() []string { return slices.Sorted(maps.Keys(c)) }

func (c fakeCatalog) Maps(op string) (maps, ok bool) {
	o, ok := c[op]
	return o.maps, ok
}

func (c fakeCatalog) Fitting(op string) Fitting {
	return map[string]Fitting{
		"scale_to_z_score": {By: "of", Params: map[string]string{"mean": Mean, "std": Std}},
		"map_id": {
			By: "vocabulary", Params: map[string]string{"vocabulary": Vocabulary}, With: []string{"min_count", "max_size"},
		},
	}[op]
}

func (c fakeCatalog) Check(op string, params map[string]*pb.Value, in []Type) (Signature, error) {
	return c[op].check(params, in)
}

func numeric(t Type) bool { return t.Kind >= pb.Kind_INT32 && t.Kind <= pb.Kind_FLOAT64 }

// newCatalog has ops that are named, and infer types, like real ones.
func newCatalog() fakeCatalog {
	same := func(_ map[string]*pb.Value, in []Type) (Signature, error) {
		return Signature{Version: 1, Out: in[0], Keeps: true}, nil
	}
	number := func(out pb.Kind) func(map[string]*pb.Value, []Type) (Signature, error) {
		return func(params map[string]*pb.Value, in []Type) (Signature, error) {
			if !numeric(in[0]) {
				return Signature{}, fmt.Errorf("want numbers, found %v", in[0])
			}
			return Signature{Version: 2, Out: Type{Kind: out, List: in[0].List}, Params: params}, nil
		}
	}
	return fakeCatalog{
		"fill_null": {true, same},
		"clamp":     {true, same},
		"first_x":   {true, same},
		"log1p":     {true, number(pb.Kind_FLOAT32)},
		"bucketize": {true, number(pb.Kind_INT32)},
		"local_hour": {true, func(params map[string]*pb.Value, in []Type) (Signature, error) {
			return Signature{Version: 1, Out: Type{Kind: pb.Kind_INT32, List: in[0].List}, Params: params}, nil
		}},
		"sigrid_hash": {true, func(params map[string]*pb.Value, in []Type) (Signature, error) {
			if _, ok := params["max"]; !ok {
				return Signature{}, fmt.Errorf("parameter max is missing")
			}
			pinned := map[string]*pb.Value{"salt": {Kind: &pb.Value_Int{Int: 0}}}
			maps.Copy(pinned, params)
			return Signature{Version: 3, Out: Type{Kind: pb.Kind_INT64, List: in[0].List}, Params: pinned}, nil
		}},
		"ngram": {false, func(_ map[string]*pb.Value, in []Type) (Signature, error) {
			if len(in) == 0 || slices.ContainsFunc(in, func(t Type) bool { return !t.List }) {
				return Signature{}, fmt.Errorf("want lists, found %v", in)
			}
			return Signature{Version: 1, Out: Type{Kind: pb.Kind_INT64, List: true}}, nil
		}},
		"sample": {false, func(params map[string]*pb.Value, in []Type) (Signature, error) {
			return Signature{Version: 1, SelectsRows: true, Params: params}, nil
		}},
		"expr": {false, func(params map[string]*pb.Value, in []Type) (Signature, error) {
			return Signature{Version: 1, Out: Type{Kind: pb.Kind_FLOAT64}, Params: params}, nil
		}},
		"keep_if": {true, func(_ map[string]*pb.Value, in []Type) (Signature, error) {
			return Signature{Version: 1, SelectsRows: true}, nil
		}},
	}
}

func column(name string, kind pb.Kind) Column {
	return Column{Name: name, Path: []string{name}, Type: Type{Kind: kind}}
}

func listColumn(name string, kind pb.Kind) Column {
	c := column(name, kind)
	c.Type.List = true
	return c
}

func mapColumn(name string, key, value pb.Kind) []Column {
	c := column(name, value)
	c.Key = key
	return []Column{c, listColumn(name+".key", key), listColumn(name+".value", value)}
}

// newSchema is a schema as a click dataset has it, and some odd columns.
func newSchema() Schema {
	columns := []Column{column("label", pb.Kind_INT32)}
	for i := range 13 {
		columns = append(columns, column(fmt.Sprintf("int_%d", i), pb.Kind_FLOAT32))
	}
	for i := range 26 {
		columns = append(columns, listColumn(fmt.Sprintf("cat_%d", i), pb.Kind_INT64))
	}
	columns = append(columns,
		column("country", pb.Kind_BINARY), column("clicked", pb.Kind_BOOL), column("photo", pb.Kind_BINARY),
		column("user.age", pb.Kind_INT64), listColumn("words", pb.Kind_BINARY), listColumn("cat_0_scores",
			pb.Kind_FLOAT32),
		Column{Name: "events", Path: []string{"events"}, Unsupported: "a list of lists"},
	)
	columns = append(columns, mapColumn("scores", pb.Kind_INT64, pb.Kind_FLOAT32)...)
	columns = append(columns, column("scores.7", pb.Kind_FLOAT64))
	return Schema{Columns: append(columns, mapColumn("tags", pb.Kind_BINARY, pb.Kind_INT64)...)}
}
