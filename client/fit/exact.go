package fit

import (
	"math"
	"math/big"
	"math/bits"
)

// exact is a sum of numbers, and one of their squares, without any rounding: a bucket for each exponent of a float64
// has the sums of the significands, which are integers. (Neal 2015, "Fast exact summation using small and large
// superaccumulators", with buckets so wide that they never overflow.) Integers are in a bucket of their own.
type exact struct {
	floats [2047]bucket // by exponent, without that of infinities and NaN
	ints   bucket
}

// bucket has the sum of integers, in two's complement, and of their squares, each with the least word first. 2^63
// values of 2^63 each do not overflow it.
type bucket struct {
	Sum     [2]uint64
	Squares [3]uint64
}

func (b *bucket) add(v int64) {
	var carry uint64
	sign := uint64(v >> 63)
	b.Sum[0], carry = bits.Add64(b.Sum[0], uint64(v), 0)
	b.Sum[1] += sign + carry
	size := (uint64(v) ^ sign) - sign
	hi, lo := bits.Mul64(size, size)
	b.Squares[0], carry = bits.Add64(b.Squares[0], lo, 0)
	b.Squares[1], carry = bits.Add64(b.Squares[1], hi, carry)
	b.Squares[2] += carry
}

// addFloat adds a finite number.
func (e *exact) addFloat(x float64) {
	b := math.Float64bits(x)
	exponent, significand := b>>52&0x7ff, int64(b&(1<<52-1))
	if exponent != 0 {
		significand |= 1 << 52
	}
	sign := int64(b) >> 63
	e.floats[exponent].add((significand ^ sign) - sign)
}

func (e *exact) addInt(v int64) { e.ints.add(v) }

// unit is the exponent of the least float64: floats are that many times 2^unit.
const unit = -1074

// sums are the sum in units of 2^unit, and the sum of squares in units of 2^(2 unit).
func (e *exact) sums() (sum, squares *big.Int) {
	sum, squares = new(big.Int), new(big.Int)
	take := func(b *bucket, shift uint) {
		if *b == (bucket{}) {
			return
		}
		s, q := b.big()
		sum.Add(sum, s.Lsh(s, shift))
		squares.Add(squares, q.Lsh(q, 2*shift))
	}
	for i := range e.floats {
		take(&e.floats[i], uint(max(i, 1)-1)) // subnormal numbers have the exponent 0, and the unit of 1
	}
	take(&e.ints, -unit)
	return sum, squares
}

func (b *bucket) big() (sum, squares *big.Int) {
	sum = words(b.Sum[:]...)
	if int64(b.Sum[1]) < 0 {
		sum.Sub(sum, new(big.Int).Lsh(big.NewInt(1), 128))
	}
	return sum, words(b.Squares[:]...)
}

// words makes a number of its words, the least first.
func words(ws ...uint64) *big.Int {
	n := new(big.Int)
	for i := len(ws) - 1; i >= 0; i-- {
		n.Lsh(n, 64).Or(n, new(big.Int).SetUint64(ws[i]))
	}
	return n
}

// meanStd is the mean of n numbers and their standard deviation, each the float64 nearest to the exact one. It is that
// of the population: the root of the mean of squared distances.
func (e *exact) meanStd(n uint64) (mean, std float64) {
	sum, squares := e.sums()
	count := new(big.Int).SetUint64(n)
	mean = nearest(new(big.Int).Abs(sum), count, unit)
	if sum.Sign() < 0 {
		mean = -mean
	}
	// the variance is (n squares - sum^2) / n^2
	variance := new(big.Int).Mul(count, squares)
	variance.Sub(variance, sum.Mul(sum, sum))
	return mean, nearestRoot(variance, count, unit)
}

// spare is how many bits of a quotient are found: more than a float64 has, so that those beyond, and whether anything
// was left, decide how it is rounded.
const spare = 72

// nearest is the float64 nearest to a/b 2^exp, of a not negative.
func nearest(a, b *big.Int, exp int) float64 {
	shift := max(0, spare+b.BitLen()-a.BitLen())
	q, r := new(big.Int).QuoRem(new(big.Int).Lsh(a, uint(shift)), b, new(big.Int))
	return rounded(q, r.Sign() != 0, exp-shift)
}

// nearestRoot is the float64 nearest to the root of a, divided by b, times 2^exp.
func nearestRoot(a, b *big.Int, exp int) float64 {
	shift := max(0, spare+b.BitLen()-a.BitLen()/2)
	q, r := new(big.Int).QuoRem(new(big.Int).Lsh(a, uint(2*shift)), new(big.Int).Mul(b, b), new(big.Int))
	root := new(big.Int).Sqrt(q)
	whole := new(big.Int).Mul(root, root).Cmp(q) == 0
	return rounded(root, r.Sign() != 0 || !whole, exp-shift)
}

// rounded is the float64 nearest to (n + a bit, if more) 2^exp.
func rounded(n *big.Int, more bool, exp int) float64 {
	n.Lsh(n, 1)
	if more {
		n.SetBit(n, 0, 1)
	}
	f := new(big.Float).SetInt(n) // as precise as n is long
	f.SetMantExp(f, exp-1)
	v, _ := f.Float64()
	return v
}
