package format_test

import (
	"math"
	"testing"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/internal/formats/format"
)

func whole(n int64) *pb.Value { return &pb.Value{Kind: &pb.Value_Int{Int: n}} }

func float(x float64) *pb.Value { return &pb.Value{Kind: &pb.Value_Float{Float: x}} }

func text(s string) *pb.Value { return &pb.Value{Kind: &pb.Value_Text{Text: s}} }

// TestConstants: a constant of any scalar type stands in the place of its source's default, and one that is not of the
// type is refused.
func TestConstants(t *testing.T) {
	yes := &pb.Value{Kind: &pb.Value_Bool{Bool: true}}
	for kind, c := range map[pb.Kind]struct{ is, not []*pb.Value }{
		pb.Kind_BOOL:    {[]*pb.Value{yes, nil}, []*pb.Value{whole(1), text("true")}},
		pb.Kind_INT8:    {[]*pb.Value{whole(-128), {}}, []*pb.Value{whole(128), float(1)}},
		pb.Kind_INT16:   {[]*pb.Value{whole(math.MinInt16)}, []*pb.Value{whole(1 << 15)}},
		pb.Kind_UINT8:   {[]*pb.Value{whole(255)}, []*pb.Value{whole(-1)}},
		pb.Kind_INT32:   {[]*pb.Value{whole(math.MaxInt32)}, []*pb.Value{whole(1 << 31), text("1")}},
		pb.Kind_INT64:   {[]*pb.Value{whole(math.MinInt64)}, []*pb.Value{yes, float(1)}},
		pb.Kind_FLOAT32: {[]*pb.Value{float(0.5), float(math.NaN()), whole(3)}, []*pb.Value{float(1e300), yes}},
		pb.Kind_FLOAT64: {[]*pb.Value{float(math.Inf(1)), float(1e300)}, []*pb.Value{text("1")}},
		pb.Kind_BINARY:  {[]*pb.Value{text(""), text("de")}, []*pb.Value{whole(1)}},
	} {
		s := &pb.Source{Name: "c", Path: []string{"c"}, Type: &pb.Type{Kind: kind}, Default: text("before"), Partition: true}
		given := func(v *pb.Value) (*pb.Source, error) {
			f := &pb.File{Constants: []*pb.Constant{{Name: "other"}, {Name: "c", Value: v}}}
			out, err := format.Constants(f, []*pb.Source{s})
			if err != nil {
				return nil, err
			}
			return out[0], nil
		}
		for _, v := range c.is {
			got, err := given(v)
			if err != nil || got.GetDefault() != v {
				t.Errorf("%v of %v: got %v, %v", v, kind, got, err)
			}
		}
		for _, v := range c.not {
			if got, err := given(v); err == nil {
				t.Errorf("%v of %v: got %v", v, kind, got)
			}
		}
	}
	list := &pb.Source{Name: "c", Type: &pb.Type{Kind: pb.Kind_INT64, List: true}, Partition: true}
	if _, err := format.Constants(&pb.File{Constants: []*pb.Constant{{Name: "c", Value: whole(1)}}},
		[]*pb.Source{list}); err == nil {
		t.Error("a scalar is a list")
	}
}
