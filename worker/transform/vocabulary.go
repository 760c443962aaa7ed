package transform

import (
	"errors"
	"fmt"

	"github.com/penstock-ml/penstock/api/filter"
	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/lookup"
	"github.com/penstock-ml/penstock/worker/vector"
)

// vocabularyID is map_id with a fitted vocabulary, which is the step's table: a key with its place.
func vocabularyID() Op {
	return Op{
		Name:    spec.VocabularyOp,
		Version: 1,
		Summary: "Finds the place of values in a vocabulary, behind null and the buckets of others.",
		Maps:    true,
		Inputs:  "scalar or list of ints or text",
		Output:  "int64, scalar or list like the input",
		Params:  []Param{{Name: "buckets", Want: Int, Required: true, Doc: "of values that the vocabulary lacks"}},
		Infer: func(p Params, in []spec.Type) (spec.Type, error) {
			if n := p.Int("buckets"); n < 0 || n > maxBuckets {
				return spec.Type{}, fmt.Errorf("buckets: want 0 to %d, found %d", maxBuckets, n)
			}
			if !isInteger(in[0].Kind) && in[0].Kind != pb.Kind_BINARY {
				return spec.Type{}, fmt.Errorf("in: want a scalar or list of ints or text, found %v", in[0])
			}
			return spec.Type{Kind: pb.Kind_INT64, List: in[0].List}, nil
		},
		newLookup: func(p Params, _ []spec.Type, t *lookup.Table) (Kernel, error) {
			if len(t.Columns()) != 1 || t.Columns()[0].Type != (spec.Type{Kind: pb.Kind_INT64}) {
				return nil, errors.New("its table is no vocabulary")
			}
			return &vocabulary{
				table: t, places: t.Columns()[0].Pieces, buckets: p.Int("buckets"), hash: filter.NewHash(0),
			}, nil
		},
	}
}

// maxBuckets bounds the buckets of what a vocabulary lacks.
const maxBuckets = 1 << 30

// vocabulary is the kernel of vocabularyID: 0 of null, then the buckets, then the vocabulary.
type vocabulary struct {
	table   *lookup.Table
	places  []*vector.Vector // pieces of int64
	buckets int64
	hash    filter.Hash
	found   []int32
}

func (k *vocabulary) again() Kernel {
	return &vocabulary{table: k.table, places: k.places, buckets: k.buckets, hash: k.hash}
}

// Borrows says that results never are the inputs' values.
func (k *vocabulary) Borrows() bool { return false }

func (k *vocabulary) Run(out *vector.Vector, in []*vector.Vector) error {
	v := in[0]
	n := v.Len()
	k.found = vector.Grow(k.found, n)
	out.I64 = vector.Grow(out.I64, n)
	k.table.Find(k.found, in)
	first := 1 + k.buckets
	valid := v.ValueValid()
	for i, row := range k.found {
		switch {
		case valid != nil && valid[i>>6]>>(i&63)&1 == 0:
			out.I64[i] = 0
		case row == lookup.Absent:
			out.I64[i] = k.other(v, i)
		default:
			piece, at := lookup.Place(row)
			out.I64[i] = first + k.places[piece].I64[at]
		}
	}
	shareShape(out, v)
	setValueValid(out, nil)
	return nil
}

// other is the bucket of a value that the vocabulary lacks.
func (k *vocabulary) other(v *vector.Vector, i int) int64 {
	if k.buckets == 0 {
		return 0
	}
	var id uint64
	switch v.Type.Kind {
	case pb.Kind_INT32:
		id = uint64(int64(v.I32[i]))
	case pb.Kind_INT64:
		id = uint64(v.I64[i])
	default:
		id = filter.TextID(v.Data[v.Ends[i]:v.Ends[i+1]])
	}
	return 1 + k.hash.Of(id)%k.buckets
}
