package transform

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// ngram joins, row by row, the ids of all features in their order, leaving out nulls, and makes one id of each n
// consecutive ones. A row with less than n ids gets an empty list. Ids id[0..n) become, modulo 2^64,
//
//	combine(salt, mixID(id[0])*golden^(n-1) + ... + mixID(id[n-2])*golden + mixID(id[n-1]))
//
// and from there, if max is given, what sigrid_hash makes of its own combine(salt, mixID(id)): for n = 1 the two ops
// agree.
func ngram() Op {
	return Op{
		Name:    "ngram",
		Version: 1,
		Summary: "Joins the features' ids row by row, without nulls, and hashes each n consecutive ones into one id.",
		Exact:   "list<int64>, see below",
		Inputs:  "one or more scalars or lists of ints",
		Output:  "list<int64>, never null",
		Params: []Param{
			{Name: "n", Want: PositiveInt, Required: true, Positional: true, Doc: "ids that make one"},
			{Name: "salt", Want: Int, Default: 0, Doc: "makes hashes of the same ids differ"},
			{Name: "max", Want: PositiveInt, Doc: "results lie in [0, max); left out: any int64"},
		},
		Example: "{op: ngram, in: [cat_1, cat_2], out: cat_1_2, n: 2, max: 100000}",
		Infer: func(_ Params, in []spec.Type) (spec.Type, error) {
			if len(in) == 0 {
				return spec.Type{}, errors.New("in: missing; want features of ints")
			}
			for _, t := range in {
				if !isInteger(t.Kind) {
					return spec.Type{}, fmt.Errorf(
						"in: want scalars or lists of ints, found %v; sigrid_hash makes ids of text", t)
				}
			}
			return spec.Type{Kind: pb.Kind_INT64, List: true}, nil
		},
		New: func(p Params, _ []spec.Type) (Kernel, error) {
			n := int(min(p.Int("n"), math.MaxInt32))
			k := &grams{n: n, salt: uint64(p.Int("salt")), last: power(golden, n)}
			if p.Has("max") {
				k.limited, k.max = true, newModulus(p.Int("max"))
			}
			return k, nil
		},
	}
}

// power is base^n modulo 2^64.
func power(base uint64, n int) uint64 {
	result := uint64(1)
	for ; n > 0; n >>= 1 {
		if n&1 == 1 {
			result *= base
		}
		base *= base
	}
	return result
}

type grams struct {
	n       int
	salt    uint64
	last    uint64 // golden^n
	limited bool
	max     modulus
	mixed   []uint64 // of one row's ids
}

// Scratch implements Scratcher.
func (k *grams) Scratch(in []*vector.Vector) int64 {
	return 24 * int64(longest(in)) // slices grow by more than they need
}

func (k *grams) Run(out *vector.Vector, in []*vector.Vector) error {
	ids := 0
	for _, v := range in {
		ids += v.Len()
	}
	if ids > math.MaxInt32 {
		return fmt.Errorf("the features have %d ids in one window of %d rows; the most is %d",
			ids, out.Rows, math.MaxInt32)
	}
	out.Valid, out.ElemValid = nil, nil
	out.Offsets = vector.Grow(out.Offsets, out.Rows+1)
	out.Offsets[0] = 0
	out.I64 = vector.Grow(out.I64, ids)
	made := 0
	for row := range out.Rows {
		k.mixed = k.mixed[:0]
		for _, v := range in {
			k.mixed = appendMixed(k.mixed, v, row)
		}
		made += k.hash(out.I64[made:], k.mixed)
		out.Offsets[row+1] = int32(made)
	}
	if k.limited {
		for i, h := range out.I64[:made] {
			out.I64[i] = k.max.of(uint64(h))
		}
	}
	return nil
}

// appendMixed appends the hashes of a row's ids.
func appendMixed(to []uint64, v *vector.Vector, row int) []uint64 {
	from, end := bounds(v, row)
	to, valid := slices.Grow(to, end-from), v.ValueValid()
	if v.Type.Kind == pb.Kind_INT32 {
		return mixInto(to, v.I32, valid, from, end)
	}
	return mixInto(to, v.I64, valid, from, end)
}

func mixInto[S int32 | int64](to []uint64, ids []S, valid []uint64, from, end int) []uint64 {
	if valid == nil {
		for _, id := range ids[from:end] {
			to = append(to, mixID(uint64(int64(id))))
		}
		return to
	}
	for j := from; j < end; j++ {
		if valid[j>>6]>>(j&63)&1 == 1 {
			to = append(to, mixID(uint64(int64(ids[j]))))
		}
	}
	return to
}

// hash writes the hash of each n consecutive ids, by a rolling sum, and returns how many those are.
func (k *grams) hash(dst []int64, mixed []uint64) int {
	if len(mixed) < k.n {
		return 0
	}
	sum := uint64(0)
	for _, m := range mixed[:k.n] {
		sum = sum*golden + m
	}
	dst = dst[:len(mixed)-k.n+1]
	dst[0] = int64(combine(k.salt, sum))
	gone := mixed[:len(dst)-1]
	for i, m := range mixed[k.n:] {
		sum = sum*golden + m - gone[i]*k.last
		dst[i+1] = int64(combine(k.salt, sum))
	}
	return len(dst)
}
