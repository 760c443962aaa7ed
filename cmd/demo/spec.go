package demo

import (
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// criteoSpec is a realistic chain over the generated dataset: what a click model trains from. Some columns it leaves as
// they are but for nulls: see keeps.
const criteoSpec = `
dataset: {uri: %q}
features:
  - label: label
  - dense: int_*
  - sparse: [cat_*, bucket_of_int_0, cat_0_x_cat_1]
transforms:
  - {op: fill_null, in: int_*, value: 0}
  - {op: bucketize, in: int_0, borders: [0, 1, 2, 5, 10, 50, 100], out: bucket_of_int_0}
  - {op: clamp, in: "int_?", min: 0, max: 1000000}
  - {op: log1p, in: "int_?"}
  - {op: normalize, in: "int_?", mean: 1.5, std: 2}
  - {op: ngram, in: [cat_0, cat_1], n: 2, out: cat_0_x_cat_1}
  - {op: sigrid_hash, in: ["cat_?", "cat_1?", cat_0_x_cat_1], salt: 0, max: 1000000}
  - {op: first_x, in: ["cat_?", "cat_1?", cat_0_x_cat_1], x: 20}
batch_size: 4096
last_batch: uneven
epochs: 1
seed: 1
shuffle: true
provenance: true
`

// keeps tells the columns that criteoSpec leaves as they are, so that it is known what arrives of them: label, int_10
// to int_12, cat_20 to cat_25.
func keeps(column string) bool {
	kind, number, _ := strings.Cut(column, "_")
	high := len(number) == 2
	return kind == "label" || kind == "int" && high || kind == "cat" && high && number[0] == '2'
}

func parseCriteoSpec(uri string) (*pb.Spec, error) {
	return spec.Parse(fmt.Appendf(nil, criteoSpec, uri))
}

// SpecFor chooses features by their types: a scalar column named like a label is one, other numbers are dense, lists
// of ids and strings are sparse (hashed), lists of floats are sparse as they are. It also returns the columns left out.
func SpecFor(uri string, schema spec.Schema) (*pb.Spec, []string, error) {
	s := &pb.Spec{
		Dataset: &pb.Dataset{Uri: []string{uri}}, BatchSize: 4096, LastBatch: pb.LastBatch_UNEVEN, Epochs: 1, Seed: 1,
		Shuffle: true, Provenance: true,
	}
	var fill, hash, left []string
	add := func(name string, layout pb.Layout) {
		s.Features = append(s.Features, &pb.Feature{Name: []string{name}, Layout: layout})
	}
	for _, c := range schema.Columns {
		if c.Unsupported != "" || c.Key != pb.Kind_KIND_UNSPECIFIED || c.Type.Nested > 0 || !plain(c.Name) {
			left = append(left, c.Name)
			continue
		}
		numeric := c.Type.Kind != pb.Kind_BINARY
		switch {
		case !c.Type.List && numeric && isLabel(c.Name):
			add(c.Name, pb.Layout_LABEL)
			fill = append(fill, c.Name)
		case !c.Type.List && numeric && c.Type.Kind != pb.Kind_INT64:
			add(c.Name, pb.Layout_DENSE)
			fill = append(fill, c.Name)
		case c.Type.List && (c.Type.Kind == pb.Kind_FLOAT32 || c.Type.Kind == pb.Kind_FLOAT64):
			add(c.Name, pb.Layout_SPARSE)
		case c.Type.Kind == pb.Kind_BOOL:
			left = append(left, c.Name)
		default:
			add(c.Name, pb.Layout_SPARSE)
			hash = append(hash, c.Name)
		}
	}
	if len(s.Features) == 0 {
		return nil, left, fmt.Errorf("demo: %s has no column that can be a feature; left out: %s",
			uri, strings.Join(left, ", "))
	}
	for _, name := range fill {
		s.Transforms = append(s.Transforms, &pb.Transform{
			Op: "fill_null", In: []string{name},
			Params: map[string]*pb.Value{"value": zero(schema, name)},
		})
	}
	if len(hash) > 0 {
		s.Transforms = append(s.Transforms, &pb.Transform{Op: "sigrid_hash", In: hash, Params: map[string]*pb.Value{
			"salt": integer(0), "max": integer(1_000_000),
		}})
	}
	return s, left, nil
}

// isLabel goes by the names that public datasets use.
func isLabel(name string) bool {
	return slices.Contains([]string{"label", "labels", "target", "y", "click", "clicked"}, strings.ToLower(name))
}

// plain reports whether a name means only itself in a spec.
func plain(name string) bool {
	return name != "" && !strings.ContainsAny(name, `*?[]\{}`) && name != "_file" && name != "_row"
}

func zero(schema spec.Schema, name string) *pb.Value {
	i := slices.IndexFunc(schema.Columns, func(c spec.Column) bool { return c.Name == name })
	if schema.Columns[i].Type.Kind == pb.Kind_BOOL {
		return &pb.Value{Kind: &pb.Value_Bool{Bool: false}}
	}
	return integer(0)
}

func integer(n int64) *pb.Value { return &pb.Value{Kind: &pb.Value_Int{Int: n}} }
