package transform

import (
	"math"
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// hasOverlap is TorchArrow's functional.has_id_overlap.
func hasOverlap() Op {
	op := compareIDs("has_overlap",
		func(t *overlapTable, left, right []int64) float32 {
			t.reset(len(left))
			for _, id := range left {
				t.number(id)
			}
			for _, id := range right {
				if t.find(id) >= 0 {
					return 1
				}
			}
			return 0
		})
	op.Summary = "1 if the lists share an id, else 0, as TorchArrow's functional.has_id_overlap."
	op.Exact = "float32: 1 if the lists share an id, else 0"
	return op
}

// idOverlapCount is TorchArrow's functional.id_overlap_count.
func idOverlapCount() Op {
	op := compareIDs("id_overlap_count",
		func(t *overlapTable, left, right []int64) float32 { return float32(t.shared(left, right)) })
	op.Summary = "How many ids the lists share, each as often as in both, as TorchArrow's functional.id_overlap_count."
	op.Exact = "float32: the count of ids that both have, an id m times in one and n times in the other counting " +
		"min(m, n) times"
	return op
}

// jaccardSimilarity is TorchArrow's functional.get_jaccard_similarity.
func jaccardSimilarity() Op {
	op := compareIDs("jaccard_similarity",
		func(t *overlapTable, left, right []int64) float32 {
			n := t.shared(left, right)
			return float32(n) / float32(len(left)+len(right)-n)
		})
	op.Summary = "id_overlap_count divided by the ids of both lists less those shared. NaN for two empty lists, as " +
		"TorchArrow's functional.get_jaccard_similarity."
	op.Exact = "float32: c / (a + b - c) for lists of a and b ids and their overlap count c; NaN if both are empty"
	return op
}

// compareIDs declares an op that makes a float of two lists of ids, but for what it computes.
func compareIDs(name string, of func(t *overlapTable, left, right []int64) float32) Op {
	return Op{
		Name:    name,
		Version: 1,
		Inputs:  "two scalars or lists of ints",
		Output:  floatOfRow,
		Example: "{op: " + name + ", in: [cat_1, cat_2], out: cat_1_2}",
		Infer: func(_ Params, in []spec.Type) (spec.Type, error) {
			return spec.Type{Kind: pb.Kind_FLOAT32}, checkRoles(in, roleIDs, roleIDs)
		},
		New: func(Params, []spec.Type) (Kernel, error) {
			k := &comparison{of: of}
			return &rowFloats{
				of:      k.row,
				scratch: func(in []*vector.Vector) int64 { return scratchOf(longest(in[:1]), longest(in)) },
			}, nil
		},
	}
}

type comparison struct {
	left, right idReader
	table       overlapTable
	of          func(t *overlapTable, left, right []int64) float32
}

func (k *comparison) row(in []*vector.Vector, row int) (float32, error) {
	return k.of(&k.table, k.left.row(in[0], row), k.right.row(in[1], row)), nil
}

// overlapTable counts ids.
type overlapTable struct {
	idTable
	counts []int32 // by the ids' numbers
}

// shared counts the ids that are in both lists, each as often as in the one that has it less often.
func (t *overlapTable) shared(left, right []int64) int {
	t.reset(len(left))
	t.counts = slices.Grow(t.counts[:0], len(left))
	for _, id := range left {
		at, seen := t.number(id)
		if !seen {
			t.counts = append(t.counts, 0)
		}
		t.counts[at]++
	}
	n := 0
	for _, id := range right {
		if at := t.find(id); at >= 0 && t.counts[at] > 0 {
			t.counts[at]--
			n++
		}
	}
	return n
}

// rowFloats computes a float of each row that is complete; others become null.
type rowFloats struct {
	of      func(in []*vector.Vector, row int) (float32, error)
	scratch func(in []*vector.Vector) int64
	valid   []uint64
}

// Scratch implements Scratcher.
func (k *rowFloats) Scratch(in []*vector.Vector) int64 { return k.scratch(in) }

func (k *rowFloats) Run(out *vector.Vector, in []*vector.Vector) error {
	out.F32 = vector.Grow(out.F32, out.Rows)
	k.valid = copyValid(k.valid, nil, out.Rows)
	out.Valid = nil
	var bad failing
	for row := range out.F32 {
		if !complete(in, row) {
			clearBit(k.valid, row)
			out.Valid, out.F32[row] = k.valid, 0
			continue
		}
		x, err := k.of(in, row)
		if err != nil {
			if err = bad.add(err); err != nil {
				return err
			}
			continue
		}
		if x != x {
			x = float32(math.NaN()) // of several that processors make
		}
		out.F32[row] = x
	}
	return bad.err()
}
