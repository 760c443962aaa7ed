package transform

import "github.com/penstock-ml/penstock/worker/vector"

// Seeds fills into with a seed for each of the n rows of the vectors, for a function at a place among the transforms:
// "transforms[3]". In full, with all sums modulo 2^64, the row of the file draws a number d from the sequence of the
// XXH64 of that place (Rows.Draws), and row p of those that were made of it has the seed mix(d + (p+1)*golden), which
// is number p of SplitMix64 seeded by d. Where there is no flat_map before the function, p is 0.
func (r Rows) Seeds(into []uint64, place string, n int) []uint64 {
	into = vector.Grow(into, n)
	draws := r.Draws(Hash(place))
	last, part := -1, uint64(0)
	for i := range into {
		row := r.Of(i)
		if part++; row != last {
			last, part = row, 1
		}
		into[i] = mix(draws.At(row) + part*golden)
	}
	return into
}
