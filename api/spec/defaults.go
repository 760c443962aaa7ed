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

// setDefault gives a column its default, as ops see it and as tensors do.
func (b *outputBuilder) setDefault(path string, f *feature, v *pb.Value, mistakes *grouped) {
	at, set := b.defaults[f.name]
	for _, f := range []*feature{f, b.own(f)} {
		converted, ok := convertDefault(v, f.typ)
		if !ok {
			mistakes.add(f.name, fmt.Sprintf("%v, but the default is %s", f.typ, newFormatter().value(v)))
			return
		}
		if set && !proto.Equal(f.source.GetDefault(), converted) {
			mistakes.add(f.name, "has another default at "+at)
			return
		}
		f.source.Default = converted
	}
	b.defaults[f.name] = path
}

// convertDefault makes v a value of the type: integers become floats where floats are wanted, and a single value a
// list of one.
func convertDefault(v *pb.Value, t Type) (*pb.Value, bool) {
	if !t.List {
		return ConvertScalar(v, t.Kind)
	}
	values := AsList(v)
	list := make([]*pb.Value, 0, len(values))
	for _, item := range values {
		converted, ok := ConvertScalar(item, t.Kind)
		if !ok {
			return nil, false
		}
		list = append(list, converted)
	}
	return ListOf(list), true
}

// ConvertScalar makes v a value of a kind, if it is one: integers become floats where floats are wanted.
func ConvertScalar(v *pb.Value, k pb.Kind) (*pb.Value, bool) {
	switch from := v.GetKind().(type) {
	case *pb.Value_Bool:
		return v, k == pb.Kind_BOOL
	case *pb.Value_Text:
		return v, k == pb.Kind_BINARY
	case *pb.Value_Int:
		if least, most, ok := integers(k); ok {
			return v, from.Int >= least && from.Int <= most
		}
		as := float64(from.Int)
		return &pb.Value{Kind: &pb.Value_Float{Float: as}}, isFloat(as, k)
	case *pb.Value_Float:
		return v, isFloat(from.Float, k)
	}
	return nil, false
}

// integers are the least and the greatest value of a kind of integers.
func integers(k pb.Kind) (least, most int64, ok bool) {
	switch k {
	case pb.Kind_INT8, pb.Kind_INT16, pb.Kind_INT32, pb.Kind_INT64:
		most = math.MaxInt64 >> (64 - 8*Width(k))
		return -most - 1, most, true
	case pb.Kind_UINT8, pb.Kind_UINT16, pb.Kind_UINT32:
		return 0, 1<<(8*Width(k)) - 1, true
	}
	return 0, 0, false
}

// isFloat reports whether x can be, rounded or not, a value of a kind of floats: its finite ones stay finite.
func isFloat(x float64, k pb.Kind) bool {
	most := math.MaxFloat64
	switch k {
	case pb.Kind_FLOAT16:
		most = math.Nextafter(65520, 0) // from there on they are rounded to infinity
	case pb.Kind_FLOAT32:
		return math.IsInf(x, 0) || !math.IsInf(float64(float32(x)), 0)
	case pb.Kind_BFLOAT16:
		most = math.Nextafter(0x1.ffp127, 0)
	case pb.Kind_FLOAT64:
	default:
		return false
	}
	return math.IsInf(x, 0) || !(math.Abs(x) > most)
}
