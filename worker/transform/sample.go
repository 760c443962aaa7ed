package transform

import "math"

// sample keeps a row if the number that it draws from the sequence of the op's seed (Rows.Draws), divided by 2^64, is
// below rate.
func sample() Op {
	return Op{
		Name:    "sample",
		Version: 1,
		Summary: "Keeps each row with probability rate, anew in each epoch. To split a dataset, filter by " +
			"hash(KEY, seed) % 100: samples of one seed overlap.",
		Exact:  "keeps a row if `draw < rate * 2^64`, all if rate is 1, see below",
		Inputs: "none",
		Output: "none: it selects rows",
		Params: []Param{
			{Name: "rate", Want: Share, Required: true, Positional: true, Doc: "1 keeps all rows, 0 none"},
			{Name: "seed", Want: Int, Default: 0, Doc: "beside the spec's seed"},
		},
		Example: "{op: sample, rate: 0.1, seed: 1}",
		Select: func(p Params) (Selector, error) {
			return sampler{rate: p.Number("rate"), seed: uint64(p.Int("seed"))}, nil
		},
	}
}

type sampler struct {
	rate float64
	seed uint64
}

func (s sampler) Select(rows Rows, sel []uint64) {
	if s.rate >= 1 {
		return
	}
	below := uint64(math.Ldexp(s.rate, 64))
	draws := rows.Draws(s.seed)
	for w := range (rows.N + 63) >> 6 {
		kept := uint64(0)
		for i := w << 6; i < min(w<<6+64, rows.N); i++ {
			if draws.At(i) < below {
				kept |= 1 << (i & 63)
			}
		}
		sel[w] &= kept
	}
}
