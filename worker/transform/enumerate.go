package transform

import (
	"fmt"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// enumerate numbers the elements of each list.
func enumerate() Op {
	return Op{
		Name:    "enumerate",
		Version: 1,
		Summary: "The places of each list's elements, from start on; null elements have places, too.",
		Exact:   "list<int64> of the same lengths: start, start + 1, ... Null rows stay null, null elements count",
		Maps:    true,
		Inputs:  "list of anything",
		Output:  "list<int64> of the input's lengths",
		Params:  []Param{{Name: "start", Want: Int, Default: 0, Doc: "place of the first element"}},
		Example: "{op: enumerate, in: cat_*, out: \"{}_place\"}",
		Infer: func(_ Params, in []spec.Type) (spec.Type, error) {
			if !in[0].List {
				return spec.Type{}, fmt.Errorf("in: want a list, found %v", in[0])
			}
			return spec.Type{Kind: pb.Kind_INT64, List: true}, nil
		},
		New: func(p Params, _ []spec.Type) (Kernel, error) { return places{p.Int("start")}, nil },
	}
}

type places struct{ start int64 }

func (k places) Run(out *vector.Vector, in []*vector.Vector) error {
	v := in[0]
	shareShape(out, v)
	out.ElemValid = nil
	out.I64 = vector.Grow(out.I64, v.Len())
	for row := range v.Rows {
		numbered := out.I64[v.Offsets[row]:v.Offsets[row+1]]
		for i := range numbered {
			numbered[i] = k.start + int64(i)
		}
	}
	return nil
}
