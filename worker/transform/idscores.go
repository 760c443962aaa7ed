package transform

import (
	"math"
	"slices"
	"unsafe"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// cosineSimilarity is TorchArrow's functional.get_cosine_similarity, computed in float64.
func cosineSimilarity() Op {
	return Op{
		Name:    "cosine_similarity",
		Version: 1,
		Summary: "The cosine of two lists of ids as vectors of their scores. Those of one id are summed, as " +
			"TorchArrow's functional.get_cosine_similarity; NaN for a vector of length 0.",
		Exact: "float32: the cosine of the vectors that have the sum of an id's scores at that id. NaN if one " +
			"has length 0, as an empty list does",
		Fails:   scoresDiffer,
		Inputs:  "ids, their scores, other ids, their scores: scalars or lists of ints and of numbers",
		Output:  floatOfRow,
		Example: "{op: cosine_similarity, in: [cat_1, scores_1, cat_2, scores_2], out: cat_1_2_cosine}",
		Infer: func(_ Params, in []spec.Type) (spec.Type, error) {
			return spec.Type{Kind: pb.Kind_FLOAT32}, checkRoles(in, roleIDs, roleScores, roleIDs, roleScores)
		},
		New: func(Params, []spec.Type) (Kernel, error) {
			k := &cosine{}
			return &rowFloats{of: k.row, scratch: func(in []*vector.Vector) int64 {
				ids := longest([]*vector.Vector{in[0], in[2]})
				return scratchOf(ids, longest(in)) + int64(unsafe.Sizeof(scoreSums{}))*int64(ids)
			}}, nil
		},
	}
}

// scoresDiffer is a mistake in data, in the words of Op.Fails.
const scoresDiffer = "a row that has more or fewer scores than ids"

// floatOfRow is the output of ops on ids and scores, in the words of Op.Output.
const floatOfRow = "float32; null if an input, or an element of one, is null"

type cosine struct {
	ids    [2]idReader
	scores [2]scoreReader
	table  idTable
	sums   []scoreSums // by the ids' numbers
}

type scoreSums struct {
	of    [2]float64
	right bool // whether the second list has the id
}

func (k *cosine) row(in []*vector.Vector, row int) (float32, error) {
	left, right := k.ids[0].row(in[0], row), k.ids[1].row(in[2], row)
	leftScores, rightScores := k.scores[0].row(in[1], row), k.scores[1].row(in[3], row)
	if len(left) != len(leftScores) {
		return 0, errUnequal(row, len(left), len(leftScores))
	}
	if len(right) != len(rightScores) {
		return 0, errUnequal(row, len(right), len(rightScores))
	}
	k.table.reset(len(left) + len(right))
	k.sums = slices.Grow(k.sums[:0], len(left)+len(right))
	k.add(0, left, leftScores)
	both := len(k.sums)
	k.add(1, right, rightScores)
	var dot, leftNorm, rightNorm float64
	for i := range k.sums {
		s := &k.sums[i]
		if i < both {
			leftNorm += float64(s.of[0] * s.of[0])
		}
		if i < both && s.right {
			dot += float64(s.of[0] * s.of[1])
		}
		if s.right {
			rightNorm += float64(s.of[1] * s.of[1])
		}
	}
	return float32(dot / math.Sqrt(leftNorm) / math.Sqrt(rightNorm)), nil
}

func (k *cosine) add(side int, ids []int64, scores []float64) {
	for i, id := range ids {
		at, seen := k.table.number(id)
		if !seen {
			k.sums = append(k.sums, scoreSums{})
		}
		s := &k.sums[at]
		s.of[side] += scores[i]
		s.right = side == 1
	}
}

func scoreSum() Op {
	op := foldScores("score_sum", func(all, score float64) float64 { return all + score })
	op.Summary = "The sum of the scores of the second list's ids that are in the first, too. As TorchArrow's " +
		"functional.get_score_sum."
	op.Exact = "float32: the sum of the scores of the second list's elements whose ids are in the first; 0 if there " +
		"are none"
	return op
}

func scoreMin() Op {
	op := foldScores("score_min", func(all, score float64) float64 { return min(all, score) })
	op.Summary = "The least score of the second list's ids that are in the first, too, 0 if there is none. As " +
		"TorchArrow's functional.get_score_min; NaN if one is."
	op.Exact = "float32: the least of the scores that `score_sum` adds; 0 if there are none, NaN if one is NaN; -0 " +
		"is below 0"
	return op
}

func scoreMax() Op {
	op := foldScores("score_max", func(all, score float64) float64 { return max(all, score) })
	op.Summary = "The greatest score of the second list's ids that are in the first, too, 0 if there is none. As " +
		"TorchArrow's functional.get_score_max; NaN if one is."
	op.Exact = "float32: the greatest of the scores that `score_sum` adds, likewise"
	return op
}

// foldScores declares an op that makes one float of the scores of shared ids, but for what it computes.
func foldScores(name string, fold func(all, score float64) float64) Op {
	return Op{
		Name:    name,
		Version: 1,
		Fails:   scoresDiffer,
		Inputs:  "ids, other ids, the scores of those: scalars or lists of ints, the scores of numbers",
		Output:  floatOfRow,
		Example: "{op: " + name + ", in: [cat_1, cat_2, scores_2], out: cat_1_2_score}",
		Infer: func(_ Params, in []spec.Type) (spec.Type, error) {
			return spec.Type{Kind: pb.Kind_FLOAT32}, checkRoles(in, roleIDs, roleIDs, roleScores)
		},
		New: func(Params, []spec.Type) (Kernel, error) {
			k := &scoreFold{fold: fold}
			return &rowFloats{
				of:      k.row,
				scratch: func(in []*vector.Vector) int64 { return scratchOf(longest(in[:1]), longest(in)) },
			}, nil
		},
	}
}

type scoreFold struct {
	ids    [2]idReader
	scores scoreReader
	table  idTable
	fold   func(all, score float64) float64
}

func (k *scoreFold) row(in []*vector.Vector, row int) (float32, error) {
	left, right, scores := k.ids[0].row(in[0], row), k.ids[1].row(in[1], row), k.scores.row(in[2], row)
	if len(right) != len(scores) {
		return 0, errUnequal(row, len(right), len(scores))
	}
	k.table.reset(len(left))
	for _, id := range left {
		k.table.number(id)
	}
	all, found := 0., false
	for i, id := range right {
		switch {
		case k.table.find(id) < 0:
		case found:
			all = k.fold(all, scores[i])
		default:
			all, found = scores[i], true
		}
	}
	return float32(all), nil
}
