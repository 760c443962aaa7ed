package images

import (
	"image"
	"math"
	"math/bits"
)

// RandomCrop chooses a part of a picture as torchvision's RandomResizedCrop does: of a share of its area and of a ratio
// of width to height that lie in given ranges, the ratio's logarithm uniformly.
type RandomCrop struct {
	Scale, Ratio [2]float64
	LogRatio     [2]float64 // natural logarithms
}

// tries is how many shapes are drawn before the greatest part in the middle is taken whose ratio is in range.
const tries = 10

// box chooses a part of a picture. Number n of seed is number n of SplitMix64 with that seed; try t takes four from 4t
// on: area, ratio, top, left.
func (c *RandomCrop) box(width, height int, seed uint64) image.Rectangle {
	area := float64(width) * float64(height)
	for try := range uint64(tries) {
		target := area * between(c.Scale, number(seed, 4*try))
		ratio := exp(between(c.LogRatio, number(seed, 4*try+1)))
		w := int(math.RoundToEven(math.Sqrt(float64(target * ratio))))
		h := int(math.RoundToEven(math.Sqrt(target / ratio)))
		if w > 0 && w <= width && h > 0 && h <= height {
			top, left := below(height-h+1, number(seed, 4*try+2)), below(width-w+1, number(seed, 4*try+3))
			return image.Rect(left, top, left+w, top+h)
		}
	}
	w, h := width, height
	if in := float64(width) / float64(height); in < c.Ratio[0] {
		h = max(1, int(math.RoundToEven(float64(w)/c.Ratio[0])))
	} else if in > c.Ratio[1] {
		w = max(1, int(math.RoundToEven(float64(h)*c.Ratio[1])))
	}
	left, top := (width-w)/2, (height-h)/2
	return image.Rect(left, top, left+w, top+h)
}

// number is number n of SplitMix64 with a seed.
func number(seed, n uint64) uint64 {
	x := seed + (n+1)*0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// between is uniform in a range: 53 bits of a draw.
func between(r [2]float64, draw uint64) float64 {
	return r[0] + float64(float64(draw>>11)*0x1p-53*(r[1]-r[0]))
}

// below is uniform in [0, n).
func below(n int, draw uint64) int {
	high, _ := bits.Mul64(draw, uint64(n))
	return int(high)
}

// exp is e^x for |x| up to 40, off by about one unit in the last place, the same on every CPU: 2^k * e^r with |r| <=
// ln(2)/2, by its series.
func exp(x float64) float64 {
	const (
		ln2High = 6.93147180369123816490e-01
		ln2Low  = 1.90821492927058770002e-10
	)
	k := math.RoundToEven(x * (1 / math.Ln2))
	r := x - float64(k*ln2High) - float64(k*ln2Low)
	sum := 1.0
	for n := 14.0; n >= 1; n-- {
		sum = 1 + float64(sum*r)/n
	}
	return math.Ldexp(sum, int(k))
}
