package fit

import (
	"cmp"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestSumsAreExact compares mean and standard deviation of floats and ints with those of rational numbers.
func TestSumsAreExact(t *testing.T) {
	finite := rapid.OneOf(
		rapid.Float64(), rapid.Float64Range(-10, 10), rapid.Map(rapid.Float32(), func(x float32) float64 { return float64(x) }),
		rapid.SampledFrom([]float64{
			0, math.Copysign(0, -1), 1, 1e16, -1e16, math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64,
			0x1p-1022, 0x1.fffffffffffffp-1023,
		}),
	).Filter(func(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) })
	rapid.Check(t, func(t *rapid.T) {
		xs := rapid.SliceOfN(finite, 1, 40).Draw(t, "floats")
		checkSums(t, xs, func(e *exact, x float64) { e.addFloat(x) }, func(x float64) *big.Rat { return new(big.Rat).SetFloat64(x) })
		is := rapid.SliceOfN(rapid.Int64(), 1, 40).Draw(t, "ints")
		checkSums(t, is, func(e *exact, x int64) { e.addInt(x) }, func(x int64) *big.Rat { return new(big.Rat).SetInt64(x) })
	})
}

func checkSums[T any](t *rapid.T, xs []T, add func(*exact, T), rat func(T) *big.Rat) {
	e := &exact{}
	sum, n := new(big.Rat), new(big.Rat).SetInt64(int64(len(xs)))
	for _, x := range xs {
		add(e, x)
		sum.Add(sum, rat(x))
	}
	mean := new(big.Rat).Quo(sum, n)
	variance := new(big.Rat)
	for _, x := range xs {
		d := new(big.Rat).Sub(rat(x), mean)
		variance.Add(variance, d.Mul(d, d))
	}
	variance.Quo(variance, n)
	wantMean, _ := mean.Float64()
	gotMean, gotStd := e.meanStd(uint64(len(xs)))
	if gotMean != wantMean {
		t.Fatalf("mean %v, want %v", gotMean, wantMean)
	}
	// The nearest float to the root: its square's neighbours, half a unit away, lie on both sides of the variance.
	below, above := halfway(math.Nextafter(gotStd, math.Inf(-1)), gotStd), halfway(gotStd, math.Nextafter(gotStd, math.Inf(1)))
	if variance.Sign() == 0 && gotStd != 0 || variance.Sign() > 0 && gotStd > 0 &&
		(below.Mul(below, below).Cmp(variance) > 0 || above.Mul(above, above).Cmp(variance) < 0) {
		v, _ := variance.Float64()
		t.Fatalf("std %v, want the root of %v", gotStd, v)
	}
}

func halfway(a, b float64) *big.Rat {
	if math.IsInf(b, 0) {
		b = math.MaxFloat64
	}
	h := new(big.Rat).Add(new(big.Rat).SetFloat64(a), new(big.Rat).SetFloat64(b))
	return h.Mul(h, big.NewRat(1, 2))
}

func TestKeysAndRoundingKeepTheOrder(t *testing.T) {
	notNaN := func(x float64) bool { return !math.IsNaN(x) }
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Float64().Filter(notNaN).Draw(t, "a"), rapid.Float64().Filter(notNaN).Draw(t, "b")
		if (a < b) != (floatKey(a) < floatKey(b)) || keyFloat(floatKey(a)) != a {
			t.Fatalf("%v and %v", a, b)
		}
		ra, rb := roundFloat(a), roundFloat(b)
		if a <= b && ra > rb || ra != roundFloat(ra) {
			t.Fatalf("%v and %v are rounded to %v and %v", a, b, ra, rb)
		}
		if math.Abs(a) >= 0x1p-1022 && !math.IsInf(a, 0) && math.Abs(ra-a) > roundingError*math.Abs(a) {
			t.Fatalf("%v is rounded to %v", a, ra)
		}
		i, j := rapid.Int64().Draw(t, "i"), rapid.Int64().Draw(t, "j")
		if (i < j) != (intKey(i) < intKey(j)) || keyInt(intKey(i)) != i || i <= j && roundKey(intKey(i), true) > roundKey(intKey(j), true) {
			t.Fatalf("%d and %d", i, j)
		}
		got := keyFloat(roundKey(intKey(i), true))
		if math.Abs(got-float64(i)) > roundingError*math.Abs(float64(i)) {
			t.Fatalf("%d is rounded to %v", i, got)
		}
	})
	for _, short := range []float64{0, 1, -1, 0.5, 1000, -1536, math.Inf(1), math.Inf(-1)} {
		if roundFloat(short) != short {
			t.Errorf("%v is rounded to %v", short, roundFloat(short))
		}
	}
}

func TestFlagSort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bits := rapid.IntRange(1, 64).Draw(t, "bits")
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		list := make([]counted, r.IntN(3000))
		for i := range list {
			list[i] = counted{r.Uint64() >> (64 - bits) << r.IntN(2), uint64(i)}
		}
		want := slices.Clone(list)
		slices.SortFunc(want, func(a, b counted) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.count, b.count)) })
		flagSort(list, 56, func(c *counted) uint64 { return c.key },
			func(a, b counted) int { return cmp.Compare(a.key, b.key) })
		if !slices.IsSortedFunc(list, func(a, b counted) int { return cmp.Compare(a.key, b.key) }) {
			t.Fatal("keys do not ascend")
		}
		slices.SortFunc(list, func(a, b counted) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.count, b.count)) })
		if !slices.Equal(list, want) {
			t.Fatal("entries were lost")
		}
	})
}
