package spec

import (
	"fmt"
	"math"

	"github.com/penstock-ml/penstock/api/pb"
	"google.golang.org/protobuf/proto"
)

// setDefault gives the source column of a feature its default. A feature that a transform replaced in place still
// bears its column's name.
func (b *outputBuilder) setDefault(path, name string, v *pb.Value, mistakes *grouped) {
	f, err := b.source(name)
	if f == nil || err != nil {
		mistakes.add(name, "made by a transform, and defaults are for columns of the dataset; use fill_null")
		return
	}
	converted, ok := convertDefault(v, f.typ)
	if !ok {
		mistakes.add(name, fmt.Sprintf("%v, but the default is %s", f.typ, newFormatter().value(v)))
		return
	}
	if at, ok := b.defaults[name]; ok && !proto.Equal(f.source.GetDefault(), converted) {
		mistakes.add(name, "has another default at "+at)
		return
	}
	b.defaults[name] = path
	f.source.Default = converted
}

// convertDefault makes v a value of the type: integers become floats where floats are wanted, and a single value a
// list of one.
func convertDefault(v *pb.Value, t Type) (*pb.Value, bool) {
	if !t.List {
		return convertScalar(v, t.Kind)
	}
	values := v.GetList().GetValues()
	if v.GetList() == nil {
		values = []*pb.Value{v}
	}
	list := &pb.List{}
	for _, item := range values {
		converted, ok := convertScalar(item, t.Kind)
		if !ok {
			return nil, false
		}
		list.Values = append(list.Values, converted)
	}
	return &pb.Value{Kind: &pb.Value_List{List: list}}, true
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
