package transform

import (
	"cmp"
	"fmt"
	"slices"
	"unsafe"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// sortByScore sorts the elements of a list by the scores in another, and one list by itself.
func sortByScore() Op {
	return Op{
		Name:    "sort_by_score",
		Version: 1,
		Summary: "Sorts each list by its scores, the greatest first. Equal ones keep their order, those without " +
			"a score (null, NaN) come last. A list alone is sorted by itself.",
		Exact: "the first list's elements by their scores, the greatest first; equal scores (-0 and 0 are " +
			"equal) keep the list's order; null and NaN scores come last, in the list's order. A null element " +
			"moves with its score. Null if either row is. One list is its own scores, which sorts the scores " +
			"alike",
		Inputs:  "a list of numbers, and its scores: a list of numbers of the same lengths",
		Output:  "the first input's type; null if an input is null",
		Keeps:   true,
		Params:  []Param{{Name: "ascending", Want: Bool, Default: false, Doc: "the least score first"}},
		Example: "{op: sort_by_score, in: [cat_1, scores_1], out: cat_1_best}",
		Infer: func(_ Params, in []spec.Type) (spec.Type, error) {
			if len(in) != 1 && len(in) != 2 {
				return spec.Type{}, fmt.Errorf(
					"in: want a list and its scores, or one list to sort by itself, found %d features", len(in))
			}
			for _, t := range in {
				if !t.List || !isInteger(t.Kind) && !isFloat(t.Kind) {
					return spec.Type{}, fmt.Errorf("in: want lists of numbers, found %v", t)
				}
			}
			return in[0], nil
		},
		New: func(p Params, in []spec.Type) (Kernel, error) {
			by := byScore{ascending: p.Bool("ascending")}
			switch in[0].Kind {
			case pb.Kind_INT32:
				return &sorted[int32]{byScore: by}, nil
			case pb.Kind_INT64:
				return &sorted[int64]{byScore: by}, nil
			case pb.Kind_FLOAT32:
				return &sorted[float32]{byScore: by}, nil
			}
			return &sorted[float64]{byScore: by}, nil
		},
	}
}

// ranked is an element and the number that it is sorted by, the least first.
type ranked struct {
	key int64
	at  int32
}

// byScore finds the order of a row's elements.
type byScore struct {
	ascending bool
	order     []ranked
	last      []ranked // those without a score
}

// rank orders a row's elements by the scores from one place up to another.
func (b *byScore) rank(scores *vector.Vector, from, end int) []ranked {
	b.order, b.last = slices.Grow(b.order[:0], end-from), b.last[:0]
	for j := from; j < end; j++ {
		key, ok := scoreKey(scores, j)
		if !b.ascending {
			key = ^key
		}
		if ok {
			b.order = append(b.order, ranked{key, int32(j - from)})
		} else {
			b.last = append(b.last, ranked{0, int32(j - from)})
		}
	}
	sortRanked(b.order)
	b.order = append(b.order, b.last...)
	return b.order
}

// scoreKey is an integer that is ordered as score j; equal ones have the same. Null and NaN have none.
func scoreKey(scores *vector.Vector, j int) (key int64, ok bool) {
	if scores.ElemIsNull(j) {
		return 0, false
	}
	switch scores.Type.Kind {
	case pb.Kind_INT32:
		return int64(scores.I32[j]), true
	case pb.Kind_INT64:
		return scores.I64[j], true
	case pb.Kind_FLOAT32:
		x := float64(scores.F32[j])
		return order64(x), x == x
	}
	x := scores.F64[j]
	return order64(x), x == x
}

// sortRanked keeps the order of equal keys. Most lists are short, where inserting is fastest.
func sortRanked(order []ranked) {
	if len(order) > 32 {
		slices.SortFunc(order, func(a, b ranked) int {
			if a.key != b.key {
				return cmp.Compare(a.key, b.key)
			}
			return cmp.Compare(a.at, b.at)
		})
		return
	}
	for i := 1; i < len(order); i++ {
		r := order[i]
		j := i
		for ; j > 0 && order[j-1].key > r.key; j-- {
			order[j] = order[j-1]
		}
		order[j] = r
	}
}

type sorted[T int32 | int64 | float32 | float64] struct {
	byScore
	values           []T
	offsets          []int32
	valid, elemValid []uint64
}

// Scratch implements Scratcher: of a row's elements and their scores.
func (k *sorted[T]) Scratch(in []*vector.Vector) int64 {
	return 3 * int64(unsafe.Sizeof(ranked{})) * int64(longest(in[:1])) // slices grow by more than they need
}

func (k *sorted[T]) Run(out *vector.Vector, in []*vector.Vector) error {
	v, scores := in[0], in[len(in)-1]
	src := *Values[T](v)
	k.values = vector.Grow(k.values, v.Len())[:0]
	k.offsets = vector.Grow(k.offsets, v.Rows+1)
	k.offsets[0] = 0
	k.valid = copyValid(k.valid, nil, v.Rows)
	k.elemValid = copyValid(k.elemValid, nil, v.Len())
	out.Valid, out.ElemValid = nil, nil
	var bad failing
	for row := range v.Rows {
		from, end := bounds(v, row)
		scoresFrom, scoresEnd := bounds(scores, row)
		switch {
		case v.IsNull(row) || scores.IsNull(row):
			clearBit(k.valid, row)
			out.Valid = k.valid
		case end-from != scoresEnd-scoresFrom:
			if err := bad.add(errUnequal(row, end-from, scoresEnd-scoresFrom)); err != nil {
				return err
			}
		default:
			for _, r := range k.rank(scores, scoresFrom, scoresEnd) {
				if v.ElemIsNull(from + int(r.at)) {
					clearBit(k.elemValid, len(k.values))
					out.ElemValid = k.elemValid
				}
				k.values = append(k.values, src[from+int(r.at)])
			}
		}
		k.offsets[row+1] = int32(len(k.values))
	}
	*Values[T](out), out.Offsets = k.values, k.offsets
	return bad.err()
}
