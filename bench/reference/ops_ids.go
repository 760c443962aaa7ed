package reference

import (
	"errors"
	"fmt"
	"math"

	"github.com/cespare/xxhash/v2"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// sigridHash maps ids to 0 up to max, as TorchArrow's function of that name does; text by its XXH64.
func sigridHash(p parameters, in []spec.Type) (operation, error) {
	salt, err1 := p.int("salt", 0)
	buckets, err2 := p.int("max", 0)
	if err := errors.Join(err1, err2); err != nil {
		return operation{}, err
	}
	if holdingOf(in[0].Kind) == storedFloats || in[0].Kind == pb.Kind_BOOL || buckets < 1 {
		return operation{}, fmt.Errorf("input %v, max %d", in[0], buckets)
	}
	return operation{out: spec.Type{Kind: pb.Kind_INT64, List: in[0].List}, run: func(in []*cell, out *cell) error {
		out.null = in[0].null
		out.gone = append(out.gone, in[0].gone...)
		for _, x := range in[0].ints {
			out.ints = append(out.ints, modulo(twoWords(uint64(salt), wang(uint64(x))), buckets))
		}
		for _, t := range in[0].texts {
			out.ints = append(out.ints, modulo(twoWords(uint64(salt), wang(xxhash.Sum64(t))), buckets))
		}
		return nil
	}}, nil
}

// modulo is the remainder of a signed number, from 0.
func modulo(h uint64, divisor int64) int64 {
	m := int64(h) % divisor
	if m < 0 {
		m += divisor
	}
	return m
}

// wang is Thomas Wang's mix of a 64-bit word.
func wang(x uint64) uint64 {
	x = x<<21 - x - 1
	x ^= x >> 24
	x *= 265
	x ^= x >> 14
	x *= 21
	x ^= x >> 28
	return x + x<<31
}

// twoWords is CityHash's hash of 128 bits.
func twoWords(high, low uint64) uint64 {
	const k = 0x9ddfea08eb382d69
	a := (low ^ high) * k
	a ^= a >> 47
	b := (high ^ a) * k
	return (b ^ b>>47) * k
}

// firstX keeps the first x elements of each list.
func firstX(p parameters, in []spec.Type) (operation, error) {
	return cut(p, in, func(n, x int) (from, to int) { return 0, min(n, x) })
}

// lastX keeps the last x elements of each list.
func lastX(p parameters, in []spec.Type) (operation, error) {
	return cut(p, in, func(n, x int) (from, to int) { return max(n-x, 0), n })
}

// cut keeps the elements that are within bounds, of a list of n.
func cut(p parameters, in []spec.Type, bounds func(n, x int) (from, to int)) (operation, error) {
	x, err := p.int("x", 0)
	if err != nil {
		return operation{}, err
	}
	if !in[0].List || x < 0 {
		return operation{}, fmt.Errorf("input %v, x %d", in[0], x)
	}
	return operation{out: in[0], run: func(in []*cell, out *cell) error {
		out.copyFrom(in[0])
		out.gone = within(out.gone, int(x), bounds)
		out.ints = within(out.ints, int(x), bounds)
		out.floats = within(out.floats, int(x), bounds)
		out.texts = within(out.texts, int(x), bounds)
		return nil
	}}, nil
}

func within[T any](list []T, x int, bounds func(n, x int) (from, to int)) []T {
	from, to := bounds(len(list), x)
	return list[from:to]
}

// ngram joins the ids of all inputs, without nulls, and makes one id of each n that follow one another.
func ngram(p parameters, in []spec.Type) (operation, error) {
	n, err1 := p.int("n", 0)
	salt, err2 := p.int("salt", 0)
	limit, err3 := p.int("max", 0)
	if err := errors.Join(err1, err2, err3); err != nil {
		return operation{}, err
	}
	for _, t := range in {
		if t.Kind != pb.Kind_INT32 && t.Kind != pb.Kind_INT64 {
			return operation{}, fmt.Errorf("input %v; want ints", t)
		}
	}
	if n < 1 {
		return operation{}, fmt.Errorf("n is %d", n)
	}
	return operation{out: spec.Type{Kind: pb.Kind_INT64, List: true}, run: func(in []*cell, out *cell) error {
		out.null = false
		var all []int64
		for _, c := range in {
			for j, id := range c.ints {
				if !c.isGone(j) {
					all = append(all, id)
				}
			}
		}
		for i := 0; i+int(n) <= len(all); i++ {
			h := gram(all[i:i+int(n)], uint64(salt))
			if limit > 0 {
				h = modulo(uint64(h), limit)
			}
			out.ints = append(out.ints, h)
			out.gone = append(out.gone, false)
		}
		return nil
	}}, nil
}

// gram is the hash of some ids in their order.
func gram(ids []int64, salt uint64) int64 {
	sum := uint64(0)
	for _, id := range ids {
		sum = sum*golden + wang(uint64(id))
	}
	return int64(twoWords(salt, sum))
}

// sample keeps a share of the rows.
func sample(p parameters, in []spec.Type) (operation, error) {
	rate, err1 := p.float("rate", -1)
	seed, err2 := p.int("seed", 0)
	if err := errors.Join(err1, err2); err != nil {
		return operation{}, err
	}
	if rate < 0 || rate > 1 {
		return operation{}, fmt.Errorf("rate %v", rate)
	}
	draws := func([]*cell, place) bool { return true }
	if text := p["where"].GetText(); text != "" {
		where, err := overInputs(text, in)
		if err != nil || where.kind != pb.Kind_BOOL {
			return operation{}, fmt.Errorf("where is %v: %w", where.kind, err)
		}
		draws = func(in []*cell, at place) bool {
			v := where.of(in, at)
			return !v.null && v.n != 0
		}
	}
	return operation{keep: func(in []*cell, at place) bool {
		return rate == 1 || !draws(in, at) || at.draw(uint64(seed)) < uint64(math.Ldexp(rate, 64))
	}}, nil
}

// golden is 2^64 divided by the golden ratio.
const golden = 0x9e3779b97f4a7c15

// draw is the random number of a row for ops with the given seed: that of a SplitMix64.
func (at place) draw(seed uint64) uint64 {
	key := split(split(split(split(uint64(at.seed))+uint64(at.epoch))+xxhash.Sum64String(at.uri)) + seed)
	return split(key + uint64(at.row+1)*golden)
}

// split is the output function of SplitMix64.
func split(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
