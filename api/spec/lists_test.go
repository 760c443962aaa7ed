package spec

import (
	"math"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
)

func intValue(n int64) *pb.Value     { return &pb.Value{Kind: &pb.Value_Int{Int: n}} }
func floatValue(x float64) *pb.Value { return &pb.Value{Kind: &pb.Value_Float{Float: x}} }

func oldList(elements ...*pb.Value) *pb.Value {
	return &pb.Value{Kind: &pb.Value_List{List: &pb.List{Values: elements}}}
}

// TestListsHaveOneForm reads lists as people write them, and as clients that know one form alone send them.
func TestListsHaveOneForm(t *testing.T) {
	floats := func(values ...float64) *pb.Value {
		return &pb.Value{Kind: &pb.Value_Floats{Floats: &pb.Floats{Values: values}}}
	}
	ints := func(values ...int64) *pb.Value {
		return &pb.Value{Kind: &pb.Value_Ints{Ints: &pb.Ints{Values: values}}}
	}
	text := &pb.Value{Kind: &pb.Value_Text{Text: "a"}}
	for _, c := range []struct {
		text string
		old  *pb.Value
		want *pb.Value
	}{
		{"[0.5, 1.0]", oldList(floatValue(0.5), floatValue(1)), floats(0.5, 1)},
		{"[1, 2]", oldList(intValue(1), intValue(2)), ints(1, 2)},
		{"[0, 0.5, 9007199254740992]", oldList(intValue(0), floatValue(0.5), intValue(1<<53)), floats(0, 0.5, 1<<53)},
		{
			"[0.5, 9007199254740993]", oldList(floatValue(0.5), intValue(1<<53+1)),
			oldList(floatValue(0.5), intValue(1<<53+1)),
		},
		{"[a, 1]", oldList(text, intValue(1)), oldList(text, intValue(1))},
		{"[]", oldList(), oldList()},
		{"[]", floats(), oldList()},
		{"[]", ints(), oldList()},
		{"[[1], [2]]", oldList(ints(1), ints(2)), oldList(ints(1), ints(2))},
	} {
		s := mustParse(t, "{features: {sparse: x, default: "+c.text+"}, transforms: {op: o, p: "+c.text+"}}")
		if got := s.Transforms[0].Params["p"]; !proto.Equal(got, c.want) {
			t.Errorf("%s: read as %v, want %v", c.text, got, c.want)
		}
		old := &pb.Spec{
			Features:   []*pb.Feature{{Name: []string{"x"}, Layout: pb.Layout_SPARSE, Default: c.old}},
			Transforms: []*pb.Transform{{Op: "o", Params: map[string]*pb.Value{"p": c.old}}},
		}
		if c.old.GetList() != nil && len(Diff(old, s)) > 0 {
			t.Errorf("%s: forms of one list differ: %v", c.text, Diff(old, s))
		}
		Canonical(old)
		if !proto.Equal(old, s) || !slices.Equal(Fingerprint(old), Fingerprint(s)) {
			t.Errorf("%s: in its canonical form %v, want %v", c.text, old, s)
		}
	}
}

func TestListsKeepTheirElements(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		given := rapid.SliceOf(rapid.OneOf(
			rapid.Map(rapid.Int64(), intValue),
			rapid.Map(rapid.Float64(), floatValue),
		)).Draw(t, "elements")
		list := ListOf(given)
		if !IsList(list) || IsList(intValue(1)) {
			t.Fatal("no list is one")
		}
		got := Elements(list)
		if len(got) != len(given) {
			t.Fatalf("%d elements, want %d", len(got), len(given))
		}
		for i, e := range given {
			n, isInt := e.GetKind().(*pb.Value_Int)
			if isInt && got[i].GetFloat() == float64(n.Int) && int64(got[i].GetFloat()) == n.Int {
				continue // an int among floats
			}
			if !proto.Equal(got[i], e) || math.Signbit(got[i].GetFloat()) != math.Signbit(e.GetFloat()) {
				t.Fatalf("element %d is %v, want %v", i, got[i], e)
			}
		}
		if again := ListOf(got); !proto.Equal(again, list) {
			t.Fatalf("made again it is %v, want %v", again, list)
		}
	})
}
