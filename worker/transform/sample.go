package transform

import (
	"fmt"
	"math"
	"slices"

	"github.com/penstock-ml/penstock/api/expr"
	"github.com/penstock-ml/penstock/api/spec"
	"github.com/penstock-ml/penstock/worker/vector"
)

// sample keeps a row if the number that it draws from the sequence of the op's seed (Rows.Draws), divided by 2^64, is
// below rate, or if its condition is not true.
func sample() Op {
	return Op{
		Name:    "sample",
		Version: 1,
		Summary: "Keeps each row with probability rate, anew in each epoch. To split a dataset, filter by " +
			"hash(KEY, seed) % 100: samples of one seed overlap.",
		Exact: "keeps a row if `draw < rate * 2^64`, all if rate is 1, see below; with `where` also each row for which " +
			"the condition is false or unknown",
		Inputs: "none",
		Output: "none: it selects rows",
		Names:  spec.SampleWhere,
		Params: []Param{
			{Name: "rate", Want: Share, Required: true, Positional: true, Doc: "1 keeps all rows, 0 none"},
			{
				Name: spec.SampleWhere, Want: Text,
				Doc: "a condition over the dataset's columns, such as label == 0: other rows are kept",
			},
			{Name: "seed", Want: Int, Default: 0, Doc: "beside the spec's seed"},
		},
		Example: "{op: sample, rate: 0.1, seed: 1}",
		Select: func(p Params, in []spec.Type) (Selector, error) {
			s := &sampler{rate: p.Number("rate"), seed: uint64(p.Int("seed"))}
			switch {
			case p.Has(spec.SampleWhere):
			case len(in) > 0:
				return nil, fmt.Errorf("in: sample selects rows and takes no features, found %d", len(in))
			default:
				return s, nil
			}
			var err error
			if s.where, err = condition(p.Text(spec.SampleWhere), in); err != nil {
				return nil, fmt.Errorf("where: %w", err)
			}
			return s, nil
		},
	}
}

// condition is one over inputs of such types: one for each name in it, in order.
func condition(text string, in []spec.Type) (*Formula, error) {
	n, err := expr.Parse(text)
	if err != nil {
		return nil, err
	}
	names := n.Columns()
	if len(names) != len(in) {
		return nil, fmt.Errorf("it names %d columns, and has %d inputs", len(names), len(in))
	}
	slot := func(column string) int { return slices.Index(names, column) }
	typed, errs := n.CheckTruth(func(column string) (expr.Type, error) {
		t := in[slot(column)]
		return expr.Type{Kind: t.Kind, List: t.List}, nil
	})
	if len(errs) > 0 {
		return nil, joined(errs)
	}
	return NewFormula(typed, slot), nil
}

type sampler struct {
	rate  float64
	seed  uint64
	where *Formula // nil: all rows draw
	found []uint64 // by where
}

// Select implements Selector.
func (s *sampler) Select(rows Rows, in []*vector.Vector, sel []uint64) {
	if s.rate >= 1 {
		return
	}
	words := vector.Words(rows.N)
	if s.where != nil {
		s.found = vector.Grow(s.found, words)
		s.where.Find(s.found, true, in, rows.N, rows.File, rows.First)
	}
	below := uint64(math.Ldexp(s.rate, 64))
	draws := rows.Draws(s.seed)
	for w := range words {
		kept := uint64(0)
		for i := w << 6; i < min(w<<6+64, rows.N); i++ {
			if draws.At(i) < below {
				kept |= 1 << (i & 63)
			}
		}
		if s.where != nil {
			kept |= ^s.found[w]
		}
		sel[w] &= kept
	}
}
