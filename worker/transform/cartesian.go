package transform

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// cartesian makes an id of each combination of one id of each feature: what ngram makes of the n ids in that order.
func cartesian() Op {
	return Op{
		Name:    "cartesian",
		Version: 1,
		Summary: "Hashes each combination of one id of each feature into one id, as ngram would. The last " +
			"feature's ids change fastest.",
		Exact: "list<int64>, never null: `ngram`'s hash of each combination of an id of each input, the last " +
			"input's fastest. Nulls are left out, a scalar counts as a list of one; any empty or null row gives " +
			"an empty list. A row of so many combinations that a window would have more than 2^26 is an error",
		Fails:  "a row of so many combinations that a window would have more than 2^26",
		Inputs: "two or more scalars or lists of ints",
		Output: "list<int64>, never null",
		Params: []Param{
			{Name: "salt", Want: Int, Default: 0, Doc: "makes hashes of the same ids differ"},
			{Name: "max", Want: PositiveInt, Doc: "results lie in [0, max); left out: any int64"},
		},
		Example: "{op: cartesian, in: [cat_1, cat_2], out: cat_1_x_2, max: 100000}",
		Infer: func(_ Params, in []spec.Type) (spec.Type, error) {
			if len(in) < 2 {
				return spec.Type{}, fmt.Errorf("in: want two or more features of ints, found %d", len(in))
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
			k := &product{salt: uint64(p.Int("salt"))}
			if p.Has("max") {
				k.limited, k.max = true, newModulus(p.Int("max"))
			}
			return k, nil
		},
	}
}

type product struct {
	salt         uint64
	limited      bool
	max          modulus
	mixed        []uint64 // of one row's ids of a feature
	heads, grown []uint64 // the sums of one row's combinations of the features but the last
}

func (k *product) Run(out *vector.Vector, in []*vector.Vector) error {
	made, _, err := combinations(in)
	if err != nil {
		return err
	}
	out.Valid, out.ElemValid = nil, nil
	out.Offsets = vector.Grow(out.Offsets, out.Rows+1)
	out.Offsets[0] = 0
	out.I64 = vector.Grow(out.I64, made)[:0]
	last := len(in) - 1
	for row := range out.Rows {
		if lacks(in, row) {
			out.Offsets[row+1] = int32(len(out.I64))
			continue
		}
		k.heads = append(k.heads[:0], 0)
		for _, v := range in[:last] {
			k.mixed = appendMixed(k.mixed[:0], v, row)
			k.combine()
		}
		k.mixed = appendMixed(k.mixed[:0], in[last], row)
		for _, head := range k.heads {
			for _, m := range k.mixed {
				out.I64 = append(out.I64, int64(combine(k.salt, head*golden+m)))
			}
		}
		out.Offsets[row+1] = int32(len(out.I64))
	}
	if k.limited {
		for i, h := range out.I64 {
			out.I64[i] = k.max.of(uint64(h))
		}
	}
	return nil
}

// Scratch implements Scratcher: of the hashes of a feature's ids.
func (k *product) Scratch(in []*vector.Vector) int64 {
	return 24 * int64(longest(in)) // slices grow by more than they need
}

// Size implements Sizer: of the results, and of the heads of the row that has most, twice.
func (k *product) Size(in []*vector.Vector) (int64, error) {
	made, heads, err := combinations(in)
	return 8*int64(made+made/8+64) + 16*int64(heads), err // vector.Grow leaves room
}

// combinations counts the results of all rows, and the most that a row's features but the last have.
func combinations(in []*vector.Vector) (made, heads int, err error) {
	for row := range in[0].Rows {
		if lacks(in, row) {
			continue
		}
		n := 1
		for i, v := range in {
			if i == len(in)-1 {
				heads = max(heads, n)
			}
			if n *= present(v, row); n > maxMade {
				return 0, 0, errTooMany(in, row)
			}
		}
		if made += n; made > maxMade {
			return 0, 0, errTooMany(in, row)
		}
	}
	return made, heads, nil
}

// lacks reports whether a feature of a row has no value, and the row no combination.
func lacks(in []*vector.Vector, row int) bool {
	for _, v := range in {
		if present(v, row) == 0 {
			return true
		}
	}
	return false
}

// present counts the values of a row that are not null.
func present(v *vector.Vector, row int) (n int) {
	from, end := bounds(v, row)
	valid := v.ValueValid()
	if valid == nil {
		return end - from
	}
	for ; from < end; from++ {
		n += int(valid[from>>6] >> (from & 63) & 1)
	}
	return n
}

// combine makes of each head one for each of a feature's ids.
func (k *product) combine() {
	k.grown = k.grown[:0]
	for _, head := range k.heads {
		head *= golden
		for _, m := range k.mixed {
			k.grown = append(k.grown, head+m)
		}
	}
	k.heads, k.grown = k.grown, k.heads
}

// errTooMany is of a row whose combinations, with those of the rows before it, are more than a window may have.
func errTooMany(in []*vector.Vector, row int) error {
	lengths := make([]string, len(in))
	for i, v := range in {
		lengths[i] = strconv.Itoa(present(v, row))
	}
	return &RowError{
		Row: row,
		What: fmt.Sprintf(
			"has %s combinations of its ids, and the rows of a window may have %d together; shorten the lists before, "+
				"with first_x",
			strings.Join(lengths, " x "), maxMade),
	}
}
