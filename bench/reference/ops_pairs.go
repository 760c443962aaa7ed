package reference

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// number is value j of a cell of numbers.
func (c *cell) number(j int) float64 {
	if j < len(c.ints) {
		return float64(c.ints[j])
	}
	return c.floats[j]
}

// broken reports whether a cell is null or has a null element.
func (c *cell) broken() bool { return c.null || slices.Contains(c.gone, true) }

// floatOf makes an op that gives null for rows that are broken, and else a float32.
func floatOf(roles string, in []spec.Type, f func(in []*cell) (float64, error)) (operation, error) {
	if len(in) != len(roles) {
		return operation{}, fmt.Errorf("%d inputs; want %d", len(in), len(roles))
	}
	for i, t := range in {
		if !isNumeric(t.Kind) || roles[i] == 'i' && !isInt(t.Kind) {
			return operation{}, fmt.Errorf("input %d is %v", i, t)
		}
	}
	return operation{out: spec.Type{Kind: pb.Kind_FLOAT32}, run: func(in []*cell, out *cell) error {
		if slices.ContainsFunc(in, (*cell).broken) {
			return nil
		}
		x, err := f(in)
		out.null, out.floats = false, append(out.floats, float64(float32(x)))
		return err
	}}, nil
}

func compareIDs(f func(a, b []int64) float64) func(parameters, []spec.Type) (operation, error) {
	return func(_ parameters, in []spec.Type) (operation, error) {
		return floatOf("ii", in, func(in []*cell) (float64, error) { return f(in[0].ints, in[1].ints), nil })
	}
}

func hasOverlap(a, b []int64) float64 { return min(1, overlapCount(a, b)) }

// overlapCount takes each id of a out of b once.
func overlapCount(a, b []int64) (n float64) {
	rest := slices.Clone(b)
	for _, id := range a {
		if at := slices.Index(rest, id); at >= 0 {
			rest = slices.Delete(rest, at, at+1)
			n++
		}
	}
	return n
}

func jaccard(a, b []int64) float64 {
	n := overlapCount(a, b)
	return n / (float64(len(a)+len(b)) - n)
}

// scored is an id with the sum of its scores.
type scored struct {
	id  int64
	sum float64
}

// sumScores has the ids in the order of their first occurrence.
func sumScores(ids, scores *cell) ([]scored, error) {
	var all []scored
	if len(ids.ints) != len(scores.ints)+len(scores.floats) {
		return nil, errors.New("ids and scores are not as many")
	}
	for j, id := range ids.ints {
		at := slices.IndexFunc(all, func(s scored) bool { return s.id == id })
		if at < 0 {
			at = len(all)
			all = append(all, scored{id: id})
		}
		all[at].sum += scores.number(j)
	}
	return all, nil
}

// cosine sums products over ids in the order of their first occurrence, in the first list before the second.
func cosine(_ parameters, in []spec.Type) (operation, error) {
	return floatOf("isis", in, func(in []*cell) (float64, error) {
		a, err1 := sumScores(in[0], in[1])
		b, err2 := sumScores(in[2], in[3])
		var dot, lengthA, lengthB float64
		sharedFirst := slices.Clone(a)
		for _, s := range b {
			if !slices.ContainsFunc(a, func(t scored) bool { return t.id == s.id }) {
				sharedFirst = append(sharedFirst, s)
			}
		}
		for _, s := range a {
			lengthA += float64(s.sum * s.sum)
		}
		for _, s := range sharedFirst {
			at := slices.IndexFunc(b, func(t scored) bool { return t.id == s.id })
			if at < 0 {
				continue
			}
			lengthB += float64(b[at].sum * b[at].sum)
			if slices.Contains(in[0].ints, s.id) {
				dot += float64(s.sum * b[at].sum)
			}
		}
		return dot / math.Sqrt(lengthA) / math.Sqrt(lengthB), errors.Join(err1, err2)
	})
}

// foldScores combines the scores of the second list's ids that the first has, too.
func foldScores(fold func(a, b float64) float64) func(parameters, []spec.Type) (operation, error) {
	return func(_ parameters, in []spec.Type) (operation, error) {
		return floatOf("iis", in, func(in []*cell) (float64, error) {
			var shared []float64
			for j, id := range in[1].ints {
				if slices.Contains(in[0].ints, id) {
					shared = append(shared, in[2].number(j))
				}
			}
			if len(shared) == 0 {
				return 0, nil
			}
			all := shared[0]
			for _, s := range shared[1:] {
				all = fold(all, s)
			}
			if slices.ContainsFunc(shared, math.IsNaN) {
				all = math.NaN()
			}
			return all, nil
		})
	}
}

// sortByScore sorts a list by another, or by itself.
func sortByScore(p parameters, in []spec.Type) (operation, error) {
	if len(in) < 1 || len(in) > 2 || !in[0].List || !in[len(in)-1].List {
		return operation{}, fmt.Errorf("inputs %v; want one or two lists", in)
	}
	ascending := p["ascending"].GetBool()
	return operation{out: in[0], run: func(in []*cell, out *cell) error {
		list, scores := in[0], in[len(in)-1]
		if list.null || scores.null {
			return nil
		}
		out.null = false
		order := make([]int, len(list.gone))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(i, j int) int { return scores.compare(i, j, ascending) })
		for _, i := range order {
			out.gone = append(out.gone, list.gone[i])
			if len(list.ints) > 0 {
				out.ints = append(out.ints, list.ints[i])
			} else {
				out.floats = append(out.floats, list.floats[i])
			}
		}
		return nil
	}}, nil
}

// compare orders values i and j; null and NaN come last.
func (c *cell) compare(i, j int, ascending bool) int {
	last := func(j int) int { return int(boolInt(c.gone[j] || len(c.ints) == 0 && math.IsNaN(c.floats[j]))) }
	if last(i) == 1 || last(j) == 1 {
		return last(i) - last(j)
	}
	if !ascending {
		i, j = j, i
	}
	var less, greater bool
	if len(c.ints) > 0 {
		less, greater = c.ints[i] < c.ints[j], c.ints[i] > c.ints[j]
	} else {
		less, greater = c.floats[i] < c.floats[j], c.floats[i] > c.floats[j]
	}
	return int(boolInt(greater) - boolInt(less))
}

// cartesian makes a gram of each combination.
func cartesian(p parameters, in []spec.Type) (operation, error) {
	salt, err1 := p.int("salt", 0)
	limit, err2 := p.int("max", 0)
	if err := errors.Join(err1, err2); err != nil || len(in) < 2 {
		return operation{}, errors.Join(fmt.Errorf("%d inputs", len(in)), err)
	}
	return operation{out: spec.Type{Kind: pb.Kind_INT64, List: true}, run: func(in []*cell, out *cell) error {
		out.null = false
		var combine func(chosen []int64, rest []*cell)
		combine = func(chosen []int64, rest []*cell) {
			if len(rest) == 0 {
				h := gram(chosen, uint64(salt))
				if limit > 0 {
					h = modulo(uint64(h), limit)
				}
				out.ints, out.gone = append(out.ints, h), append(out.gone, false)
				return
			}
			for j, id := range rest[0].ints {
				if !rest[0].isGone(j) && !rest[0].null {
					combine(append(slices.Clone(chosen), id), rest[1:])
				}
			}
		}
		combine(nil, in)
		return nil
	}}, nil
}

// idOrNull is an element of a list of ids.
type idOrNull struct {
	id   int64
	gone bool
}

func (c *cell) elements() (all []idOrNull) {
	for j, id := range c.ints {
		e := idOrNull{id, c.isGone(j)}
		if e.gone {
			e.id = 0
		}
		all = append(all, e)
	}
	return all
}

func intersect(_ parameters, in []spec.Type) (operation, error) {
	return joinLists(in, func(a, b []idOrNull) []idOrNull {
		return slices.DeleteFunc(a, func(e idOrNull) bool { return !slices.Contains(b, e) })
	})
}

func unite(_ parameters, in []spec.Type) (operation, error) {
	return joinLists(in, func(a, b []idOrNull) []idOrNull { return append(a, b...) })
}

// joinLists makes a list of two, and leaves each element in it once.
func joinLists(in []spec.Type, join func(a, b []idOrNull) []idOrNull) (operation, error) {
	if len(in) != 2 || !isInt(in[0].Kind) || !isInt(in[1].Kind) {
		return operation{}, fmt.Errorf("inputs %v; want two of ids", in)
	}
	return operation{out: spec.Type{Kind: pb.Kind_INT64, List: true}, run: func(in []*cell, out *cell) error {
		if in[0].null || in[1].null {
			return nil
		}
		out.null = false
		joined := join(in[0].elements(), in[1].elements())
		for i, e := range joined {
			if !slices.Contains(joined[:i], e) {
				out.ints, out.gone = append(out.ints, e.id), append(out.gone, e.gone)
			}
		}
		return nil
	}}, nil
}
