package spec

import (
	"fmt"
	"math"

	"google.golang.org/protobuf/proto"

	"github.com/penstock-ml/penstock/api/pb"
)

// setDefaults gives the columns among an entry's features their default. A feature that a transform replaced in place
// still bears its column's name; those that transforms added have no default.
func (b *outputBuilder) setDefaults(path string, features []*feature, v *pb.Value, mistakes *grouped) {
	columns := 0
	for _, f := range features {
		if source, err := b.source(f.name); source != nil && err == nil {
			columns++
			b.setDefault(path, source, v, mistakes)
		}
	}
	if columns == 0 && len(features) > 0 {
		b.problems.add(path+".default",
			"%s: made by transforms, and defaults are for columns of the dataset; use fill_null", few(names(features)))
	}
}

func (b *outputBuilder) setDefault(path string, f *feature, v *pb.Value, mistakes *grouped) {
	converted, ok := convertDefault(v, f.typ)
	if !ok {
		mistakes.add(f.name, fmt.Sprintf("%v, but the default is %s", f.typ, newFormatter().value(v)))
		return
	}
	if at, ok := b.defaults[f.name]; ok && !proto.Equal(f.source.GetDefault(), converted) {
		mistakes.add(f.name, "has another default at "+at)
		return
	}
	b.defaults[f.name] = path
	f.source.Default = converted
}

// convertDefault makes v a value of the type: integers become floats where floats are wanted, and a single value a
// list of one.
func convertDefault(v *pb.Value, t Type) (*pb.Value, bool) {
	if !t.List {
		return convertScalar(v, t.Kind)
	}
	values := AsList(v)
	list := make([]*pb.Value, 0, len(values))
	for _, item := range values {
		converted, ok := convertScalar(item, t.Kind)
		if !ok {
			return nil, false
		}
		list = append(list, converted)
	}
	return ListOf(list), true
}

func convertScalar(v *pb.Value, k pb.Kind) (*pb.Value, bool) {
	switch from := v.GetKind().(type) {
	case *pb.Value_Bool:
		return v, k == pb.Kind_BOOL
	case *pb.Value_Text:
		return v, k == pb.Kind_BINARY
	case *pb.Value_Int:
		switch k {
		case pb.Kind_INT32:
			return v, from.Int == int64(int32(from.Int))
		case pb.Kind_INT64:
			return v, true
		case pb.Kind_FLOAT32, pb.Kind_FLOAT64:
			return &pb.Value{Kind: &pb.Value_Float{Float: float64(from.Int)}}, true
		}
	case *pb.Value_Float:
		overflows := math.IsInf(float64(float32(from.Float)), 0) && !math.IsInf(from.Float, 0)
		return v, k == pb.Kind_FLOAT64 || k == pb.Kind_FLOAT32 && !overflows
	}
	return nil, false
}
