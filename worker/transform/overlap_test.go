package transform

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// The tables of TorchArrow's ComputeScoreTest.cpp and test_compute_score.py.
func torchArrowLists() (ids, scores, otherIDs, otherScores feature) {
	ids = idLists(i64s(1, 2, 3), i64s(4, 5, 6), i64s(7, 8, 9), i64s(10, 10, 11, 12))
	scores = scoreLists(f32s(1, 2, 3), f32s(4, 5, 6), f32s(7, 8, 9), f32s(10, 10, 11, 12))
	otherIDs = idLists(i64s(1, 2, 3), i64s(0, 10), i64s(7, 10, 10), i64s(10, 10, 11, 13))
	otherScores = scoreLists(f32s(1, 2, 3), f32s(0, 10), f32s(7, 10, 10), f32s(10, 10, 11, 13))
	return ids, scores, otherIDs, otherScores
}

func TestSimilarityIsTorchArrows(t *testing.T) {
	ids, scores, others, otherScores := torchArrowLists()
	checkRows(t, hasOverlap(), nil, f32s(1, 0, 1, 1), ids, others)
	checkRows(t, idOverlapCount(), nil, f32s(3, 0, 1, 3), ids, others)
	checkRows(t, jaccardSimilarity(), nil, f32s(1, 0, 0.2, 0.6), ids, others)
	checkRows(t, scoreSum(), nil, f32s(6, 0, 7, 31), ids, others, otherScores)
	checkRows(t, scoreMin(), nil, f32s(1, 0, 7, 10), ids, others, otherScores)
	checkRows(t, scoreMax(), nil, f32s(3, 0, 7, 11), ids, others, otherScores)
	checkRows(t, cosineSimilarity(), nil, f32s(
		14/math.Sqrt(14)/math.Sqrt(14), 0, 49/math.Sqrt(49+64+81)/math.Sqrt(49+400),
		(400.+121)/math.Sqrt(400+121+144)/math.Sqrt(400+121+169),
	), ids, scores, others, otherScores)

	// The examples of its functional.py. It says 3 for the count of the first row, which is not what it computes.
	few := idLists(i64s(1, 2, 3), i64s(5, 8), i64s(13))
	checkRows(t, idOverlapCount(), nil, f32s(1, 0, 1), few, idLists(i64s(1), i64s(2, 3), i64s(13)))
	repeated := idLists(i64s(1, 1, 2, 3), i64s(5, 8), i64s(13))
	checkRows(t, jaccardSimilarity(), nil, f32s(0.75, 0, 0.2), repeated,
		idLists(i64s(1, 2, 3), i64s(2, 3), i64s(13, 13, 13, 13, 13)))
	one := idLists(i64s(1, 2, 3))
	checkRows(t, cosineSimilarity(), nil, f32s(22/math.Sqrt(14)/math.Sqrt(50)), one, scoreLists(f32s(1, 2, 3)), one,
		scoreLists(f32s(5, 4, 3)))
	checkRows(t, scoreSum(), nil, f32s(9), one, idLists(i64s(1, 2)), scoreLists(f32s(5, 4)))
	checkRows(t, scoreMin(), nil, f32s(4), one, idLists(i64s(1, 2)), scoreLists(f32s(5, 4)))
	checkRows(t, scoreMax(), nil, f32s(5), one, idLists(i64s(1, 2)), scoreLists(f32s(5, 4)))
}

// TestScoresHaveOneNaN: processors differ in the sign of the NaN that they make of 0/0 and of infinities.
func TestScoresHaveOneNaN(t *testing.T) {
	empty, one := idLists(i64s()), idLists(i64s(1, 1))
	infinite := scoreLists(f32s(math.Inf(1), math.Inf(-1)))
	for _, c := range []struct {
		op Op
		in []feature
	}{
		{jaccardSimilarity(), []feature{empty, empty}},
		{cosineSimilarity(), []feature{empty, scoreLists(f32s()), empty, scoreLists(f32s())}},
		{scoreSum(), []feature{one, one, infinite}},
		{scoreMax(), []feature{one, one, scoreLists(f32s(1, float32(math.Copysign(math.NaN(), -1))))}},
	} {
		var types []spec.Type
		var in []*vector.Vector
		for _, f := range c.in {
			types, in = append(types, f.typ), append(in, f.vector())
		}
		if got := math.Float32bits(run(t, chainOf(t, c.op, nil, types...), in...).F32[0]); got != 0x7fc00000 {
			t.Errorf("%s: got NaN %#x, want %#x", c.op.Name, got, 0x7fc00000)
		}
	}
}

// TestSimilarityAtTheEdges has empty lists, nulls in either place, scalars, duplicates and NaN.
func TestSimilarityAtTheEdges(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	left := idLists(i64s(), i64s(), i64s(1), nil, i64s(1, nil), i64s(2))
	right := idLists(i64s(), i64s(1), i64s(), i64s(1), i64s(1), nil)
	checkRows(t, hasOverlap(), nil, f32s(0, 0, 0, nil, nil, nil), left, right)
	checkRows(t, idOverlapCount(), nil, f32s(0, 0, 0, nil, nil, nil), left, right)
	checkRows(t, jaccardSimilarity(), nil, f32s(nan, 0, 0, nil, nil, nil), left, right)
	item := feature{scalar(pb.Kind_INT32), []any{int32(4), nil, int32(5)}}
	checkRows(t, hasOverlap(), nil, f32s(1, nil, 0), item, idLists(i64s(3, 4), i64s(4), i64s(4)))

	scores := scoreLists(f32s(), f32s(0.5), f32s(), f32s(1), f32s(nil), nil)
	checkRows(t, scoreSum(), nil, f32s(0, 0, 0, nil, nil, nil), left, right, scores)
	ids := idLists(i64s(1, 2), i64s(1, 2), i64s(1, 1), i64s(1))
	others := idLists(i64s(1, 2, 3), i64s(2, 2, 1), i64s(1, 1, 1), i64s(1, 2))
	otherScores := scoreLists(f32s(1, nan, nan), f32s(-1, 2, inf), f32s(3, 2, 1), f32s(0.25, nan))
	checkRows(t, scoreMin(), nil, f32s(nan, -1, 1, 0.25), ids, others, otherScores)
	checkRows(t, scoreMax(), nil, f32s(nan, inf, 3, 0.25), ids, others, otherScores)
	checkRows(t, scoreSum(), nil, f32s(nan, inf, 6, 0.25), ids, others, otherScores)

	// Scores of one id are summed; vectors of length 0 have no angle; what only one list has cannot make the product
	// NaN.
	ids, scores = idLists(i64s(1, 1), i64s(1), i64s(), i64s(1)), scoreLists(f32s(1, 2), f32s(0), f32s(), f32s(inf))
	others, otherScores = idLists(i64s(1, 2, 1), i64s(1), i64s(1), i64s(2)), scoreLists(f32s(2, 4, 1), f32s(1), f32s(1),
		f32s(1))
	checkRows(t, cosineSimilarity(), nil, f32s(0.6, nan, nan, 0), ids, scores, others, otherScores)
}

func TestListJoinsGolden(t *testing.T) {
	// Velox's documentation of array_intersect and array_union.
	left := idLists(i64s(1, 2, 3), i64s(1, 2, 2), i64s(1, nil, nil), i64s(1, nil), i64s(), nil, i64s(1))
	right := idLists(i64s(4, 5, 6), i64s(1, 1, 2), i64s(1, 1, nil), i64s(2), i64s(), i64s(1), nil)
	checkRows(t, intersect(), nil, []any{i64s(), i64s(1, 2), i64s(1, nil), i64s(), i64s(), nil, nil}, left, right)
	checkRows(t, union(), nil, []any{
		i64s(1, 2, 3, 4, 5, 6), i64s(1, 2), i64s(1, nil), i64s(1, nil, 2), i64s(), nil,
		nil,
	}, left, right)
	// TorchArrow's test_functional.py.
	checkRows(t, intersect(), nil, []any{i64s(12), i64s(22, 23), i64s(32)},
		feature{list(pb.Kind_INT32), []any{
			[]any{int32(11), int32(12), int32(13)},
			[]any{int32(21), int32(22), int32(23), int32(24), int32(25), int32(26)},
			[]any{int32(31), int32(32)},
		}},
		idLists(i64s(12, 22, 23, 32), i64s(12, 22, 23, 32), i64s(12, 22, 23, 32)))
	item := feature{scalar(pb.Kind_INT64), []any{int64(9), nil}}
	checkRows(t, union(), nil, []any{i64s(1, 9), nil}, idLists(i64s(1), i64s(1)), item)
}

// drawIDLists draws two features of ids that share some, with as many rows.
func drawIDLists(t *rapid.T) (left, right feature) {
	kinds := rapid.SampledFrom([]pb.Kind{pb.Kind_INT32, pb.Kind_INT64})
	left.typ = spec.Type{Kind: kinds.Draw(t, "left"), List: rapid.IntRange(0, 4).Draw(t, "list") > 0}
	right.typ = spec.Type{Kind: kinds.Draw(t, "right"), List: true}
	rows := rapid.IntRange(1, 70).Draw(t, "rows")
	for range rows {
		left.rows = append(left.rows, drawIDs(t, left.typ))
		right.rows = append(right.rows, drawIDs(t, right.typ))
	}
	return left, right
}

func drawIDs(t *rapid.T, typ spec.Type) any {
	one := func() any {
		switch n := rapid.Int32Range(-1, 12).Draw(t, "id"); {
		case n == -1 && rapid.Bool().Draw(t, "null"):
			return nil
		case typ.Kind == pb.Kind_INT32:
			return n << 28
		default:
			return int64(n) << 60
		}
	}
	if !typ.List {
		return one()
	}
	if rapid.IntRange(0, 9).Draw(t, "null row") == 0 {
		return nil
	}
	l := make([]any, rapid.IntRange(0, 40).Draw(t, "length"))
	for i := range l {
		l[i] = one()
	}
	return l
}

func TestSimilarityProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		left, right := drawIDLists(t)
		var has, count, jaccard []any
		for row := range left.rows {
			if hasNull(left.rows[row]) || hasNull(right.rows[row]) {
				has, count, jaccard = append(has, nil), append(count, nil), append(jaccard, nil)
				continue
			}
			a, b := idsOf(left.rows[row]), idsOf(right.rows[row])
			n := sortedOverlap(a, b)
			has = append(has, float32(min(n, 1)))
			count = append(count, float32(n))
			jaccard = append(jaccard, float32(n)/float32(len(a)+len(b)-n))
		}
		checkRows(t, hasOverlap(), nil, has, left, right)
		checkRows(t, idOverlapCount(), nil, count, left, right)
		checkRows(t, jaccardSimilarity(), nil, jaccard, left, right)
	})
}

// hasNull reports whether a row or an element of it is null.
func hasNull(row any) bool {
	l, ok := row.([]any)
	return row == nil || ok && slices.Contains(l, nil)
}

// sortedOverlap counts as std::set_intersection of sorted lists does.
func sortedOverlap(a, b []int64) (n int) {
	slices.Sort(a)
	slices.Sort(b)
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] < b[0]:
			a = a[1:]
		case a[0] > b[0]:
			b = b[1:]
		default:
			a, b, n = a[1:], b[1:], n+1
		}
	}
	return n
}

func TestListJoinsProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		left, right := drawIDLists(t)
		var both, either []any
		for row := range left.rows {
			if left.rows[row] == nil || right.rows[row] == nil {
				both, either = append(both, nil), append(either, nil)
				continue
			}
			a, b := wide(left.rows[row]), wide(right.rows[row])
			shared, all := []any{}, []any{}
			for _, x := range a {
				if slices.Contains(b, x) && !slices.Contains(shared, x) {
					shared = append(shared, x)
				}
			}
			for _, x := range append(a, b...) {
				if !slices.Contains(all, x) {
					all = append(all, x)
				}
			}
			both, either = append(both, shared), append(either, all)
		}
		checkRows(t, intersect(), nil, both, left, right)
		checkRows(t, union(), nil, either, left, right)
	})
}

// wide is a row as a list of int64 and nulls.
func wide(row any) []any {
	l, ok := row.([]any)
	if !ok {
		l = []any{row}
	}
	made := []any{}
	for _, x := range l {
		if x != nil {
			x = asInt64(x)
		}
		made = append(made, x)
	}
	return made
}

func TestScoresProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		left, right := drawIDLists(t)
		of := map[string]feature{}
		draw := func(ids feature) feature {
			scores := feature{typ: spec.Type{Kind: drawNumberKind(t), List: ids.typ.List}}
			for _, row := range ids.rows {
				scores.rows = append(scores.rows, drawScores(t, row, scores.typ))
			}
			return scores
		}
		of["left"], of["right"] = draw(left), draw(right)
		var sum, least, most, cosine []any
		for row := range left.rows {
			a, b := idsOf(left.rows[row]), idsOf(right.rows[row])
			x, y := floatsOf(of["left"].rows[row]), floatsOf(of["right"].rows[row])
			broken := hasNull(left.rows[row]) || hasNull(right.rows[row]) || hasNull(of["right"].rows[row])
			if broken || hasNull(of["left"].rows[row]) {
				cosine = append(cosine, nil)
			} else {
				cosine = append(cosine, naiveCosine(a, x, b, y))
			}
			if broken {
				sum, least, most = append(sum, nil), append(least, nil), append(most, nil)
				continue
			}
			var shared []float64
			for i, id := range b {
				if slices.Contains(a, id) {
					shared = append(shared, y[i])
				}
			}
			total := 0.
			for _, s := range shared {
				total += s
			}
			if len(shared) == 0 {
				shared = []float64{0}
			}
			sum, least, most = append(sum, float32(total)), append(least, float32(slices.Min(shared))), append(most,
				float32(slices.Max(shared)))
		}
		checkRows(t, scoreSum(), nil, sum, left, right, of["right"])
		checkRows(t, scoreMin(), nil, least, left, right, of["right"])
		checkRows(t, scoreMax(), nil, most, left, right, of["right"])
		checkRows(t, cosineSimilarity(), nil, cosine, left, of["left"], right, of["right"])
	})
}

// drawScores draws a score for each id of a row; small whole numbers keep sums exact in any order.
func drawScores(t *rapid.T, row any, typ spec.Type) any {
	one := func() any {
		n := rapid.Int32Range(-4, 4).Draw(t, "score")
		switch typ.Kind {
		case pb.Kind_INT32:
			return n
		case pb.Kind_INT64:
			return int64(n)
		case pb.Kind_FLOAT32:
			return float32(n)
		}
		return float64(n)
	}
	l, ok := row.([]any)
	if !ok && !typ.List {
		return one()
	}
	scores := []any{}
	for range l {
		scores = append(scores, one())
	}
	if rapid.IntRange(0, 30).Draw(t, "null") == 0 && len(scores) > 0 {
		scores[0] = nil
	}
	return scores
}

func floatsOf(row any) (all []float64) {
	l, ok := row.([]any)
	if !ok {
		l = []any{row}
	}
	for _, x := range l {
		switch x := x.(type) {
		case nil:
		case float64:
			all = append(all, x)
		default:
			all = append(all, float64(asFloat32(x)))
		}
	}
	return all
}

func naiveCosine(a []int64, x []float64, b []int64, y []float64) float32 {
	left, right := map[int64]float64{}, map[int64]float64{}
	for i, id := range a {
		left[id] += x[i]
	}
	for i, id := range b {
		right[id] += y[i]
	}
	var dot, xx, yy float64
	for id, s := range left {
		dot += s * right[id]
		xx += s * s
	}
	for _, s := range right {
		yy += s * s
	}
	return float32(dot / math.Sqrt(xx) / math.Sqrt(yy))
}
