package transform

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// packTexts brings lists of texts to a fit.
func packTexts() Op {
	return Op{
		Name:    spec.PackOp,
		Version: 1,
		Summary: "Makes one text of each list of texts: each of them behind its length, without nulls.",
		Maps:    true,
		Inputs:  "list of text",
		Output:  "text, never null",
		Infer: func(_ Params, in []spec.Type) (spec.Type, error) {
			if !in[0].List || in[0].Kind != pb.Kind_BINARY {
				return spec.Type{}, fmt.Errorf("in: want a list of texts, found %v", in[0])
			}
			return spec.Type{Kind: pb.Kind_BINARY}, nil
		},
		New:    func(Params, []spec.Type) (Kernel, error) { return &packing{}, nil },
		hidden: true,
	}
}

type packing struct {
	data []byte
	ends []int32
}

func (k *packing) Run(out *vector.Vector, in []*vector.Vector) error {
	v := in[0]
	n := v.Len()
	if most := int64(v.Ends[n]-v.Ends[0]) + binary.MaxVarintLen32*int64(n); most > math.MaxInt32 {
		return fmt.Errorf("the texts of a window of %d rows are over 2 GiB", v.Rows)
	}
	k.data, k.ends = k.data[:0], vector.Grow(k.ends, v.Rows+1)
	k.ends[0] = 0
	for row := range v.Rows {
		for j := v.Offsets[row]; j < v.Offsets[row+1]; j++ {
			if !v.ElemIsNull(int(j)) {
				k.data = spec.PackText(k.data, v.Data[v.Ends[j]:v.Ends[j+1]])
			}
		}
		k.ends[row+1] = int32(len(k.data))
	}
	out.Valid, out.Data, out.Ends = nil, k.data, k.ends
	return nil
}
