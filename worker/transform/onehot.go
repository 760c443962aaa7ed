package transform

import (
	"fmt"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// maxMade bounds the values that ops which make more than they get make of one window.
const maxMade = 1 << 26

// onehot makes size floats of each row: 1 at the places that its ids name, else 0.
func onehot() Op {
	return Op{
		Name:    "onehot",
		Version: 1,
		Summary: "A list of size floats for each row: 1 at each of its ids, 0 elsewhere. Nulls and ids outside " +
			"[0, size) leave zeros.",
		Exact: "list<float32> of length size, never null: 1 at each place that an id of the row names, else 0. " +
			"Nulls and ids outside [0, size) name none. A row with which a window would have more than 2^26 " +
			"values is an error",
		Fails:  "a window of more than 2^26 values",
		Maps:   true,
		Inputs: "scalar or list of ints",
		Output: "list<float32>, never null, of length size",
		Params: []Param{{
			Name: "size", Want: PositiveInt, Required: true, Positional: true,
			Doc: "length of each list, at most 65536",
		}},
		Example: "{op: onehot, in: cat_1, out: cat_1_marks, size: 10}",
		Infer: func(_ Params, in []spec.Type) (spec.Type, error) {
			if !isInteger(in[0].Kind) {
				return spec.Type{}, fmt.Errorf(
					"in: want a scalar or list of ints, found %v; bucketize makes ints of numbers", in[0])
			}
			return spec.Type{Kind: pb.Kind_FLOAT32, List: true}, nil
		},
		New: func(p Params, in []spec.Type) (Kernel, error) {
			size := p.Int("size")
			if size > 1<<16 {
				return nil, fmt.Errorf("size: want at most %d, found %d; longer rows are cheaper as ids", 1<<16, size)
			}
			if in[0].Kind == pb.Kind_INT32 {
				return marks[int32]{int(size)}, nil
			}
			return marks[int64]{int(size)}, nil
		},
	}
}

type marks[S int32 | int64] struct{ size int }

// Makes implements Maker. More than maxMade are not made.
func (k marks[S]) Makes(rows int64) int64 { return min(rows*int64(k.size), maxMade) }

func (k marks[S]) Run(out *vector.Vector, in []*vector.Vector) error {
	v := in[0]
	if fit := maxMade / k.size; v.Rows > fit {
		return &RowError{
			Row: fit,
			What: fmt.Sprintf(
				"makes %d values, as each before it, and the rows of a window may have %d together; choose a smaller "+
					"size, or write row groups of fewer rows",
				k.size, maxMade),
		}
	}
	out.Valid, out.ElemValid = nil, nil
	out.Offsets = vector.Grow(out.Offsets, v.Rows+1)
	if n := v.Rows * k.size; cap(out.F32) < n {
		out.F32 = make([]float32, n) // not more than that, which is much
	} else {
		out.F32 = out.F32[:n]
		clear(out.F32)
	}
	ids, valid := *Values[S](v), v.ValueValid()
	for row := range v.Rows {
		out.Offsets[row] = int32(row * k.size)
		marked := out.F32[row*k.size:][:k.size]
		for from, end := bounds(v, row); from < end; from++ {
			id := uint64(int64(ids[from])) // negative ones are large
			if id < uint64(len(marked)) && (valid == nil || valid[from>>6]>>(from&63)&1 == 1) {
				marked[id] = 1
			}
		}
	}
	out.Offsets[v.Rows] = int32(v.Rows * k.size)
	return nil
}
