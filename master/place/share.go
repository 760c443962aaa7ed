package place

import "math"

// Claim is what a session asks of the pool, in workers.
type Claim struct {
	Weight   float64 // above 0
	Need     float64 // what its demand takes; infinite: as much as there is
	Min, Max float64 // Max may be infinite
}

// Divide divides a pool of workers among sessions. First each has its minimum. Then all get more in proportion to their
// weights, and nobody more than it needs; what is left over then goes to all by weight, up to their maximums. If there
// are too few for the minimums, these are met by weight.
func Divide(pool float64, claims []Claim) []float64 {
	n := len(claims)
	nothing, floors, needs, limits := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	for i, c := range claims {
		limits[i] = max(0, c.Max)
		floors[i] = min(max(0, c.Min), limits[i])
		needs[i] = min(max(c.Need, floors[i]), limits[i])
	}
	for _, step := range []struct{ low, high []float64 }{{nothing, floors}, {floors, needs}, {needs, limits}} {
		if total(step.high) >= pool {
			return level(pool, claims, step.low, step.high)
		}
	}
	return limits
}

// level gives each claim its weight times the same level, within its bounds, so that the whole pool is given.
func level(pool float64, claims []Claim, low, high []float64) []float64 {
	out := make([]float64, len(claims))
	at := func(level float64) float64 {
		for i, c := range claims {
			out[i] = min(max(level*c.Weight, low[i]), high[i])
		}
		return total(out)
	}
	from, to := 0.0, 1.0
	for at(to) < pool && to < math.MaxFloat64/2 {
		to *= 2
	}
	for range 100 {
		if mid := from + (to-from)/2; at(mid) < pool {
			from = mid
		} else {
			to = mid
		}
	}
	at(from) // rather a little less than there is
	return out
}

func total(v []float64) (sum float64) {
	for _, x := range v {
		sum += x
	}
	return sum
}

// MaxStreams is how many streams a trainer keeps open at most.
const MaxStreams = 16

// whole keeps a hair's breadth, by which Divide gives less than there is, from costing a stream.
const whole = 1e-6

// StreamsOf is how many streams each of n trainers of a session should keep open that has a part of the workers; was is
// how many it was told before, 0 if none: a small change of its part changes nothing.
func (p *Places) StreamsOf(part float64, n int, was uint32) uint32 {
	if p.Workers == 0 {
		return max(1, was)
	}
	slots := part/float64(p.Workers)*float64(p.Slots)/float64(max(1, n)) + whole
	ideal := max(slots*3/4, min(2, slots)) // as in Streams
	want := uint32(min(MaxStreams, max(1, math.Floor(ideal))))
	if want < was && ideal >= float64(was)-max(0.5, 0.15*float64(was)) {
		return was
	}
	return want
}
