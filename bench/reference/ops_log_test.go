package reference

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func exactLogOf1Plus(x float64) *big.Float {
	one := new(big.Float).SetPrec(precision).SetInt64(1)
	return exactLog(one.Add(one, big.NewFloat(x)))
}

func TestExactLog(t *testing.T) {
	for _, tt := range []struct {
		x    float64
		want string
	}{
		{2, "0.693147180559945309417232121458176568075500134360255254120680009"},
		{10, "2.302585092994045684017991454684364207601101488628772976033328"},
		{0.5, "-0.693147180559945309417232121458176568075500134360255254120680009"},
	} {
		if got := exactLog(big.NewFloat(tt.x)).Text('f', 60); got != tt.want[:len(got)] {
			t.Errorf("ln(%v) = %s; want %s", tt.x, got, tt.want)
		}
	}
}

func TestLog32IsRoundedToNearest(t *testing.T) {
	check := func(x float32) bool {
		want, _ := exactLogOf1Plus(float64(x)).Float32()
		return log32(x) == want
	}
	// The closest calls between two float32.
	for _, bits := range []uint32{0x35400003, 0x3710001b, 0x65d890d3, 0xb53ffffd, 0xb70fffe5, 0xbb0ec8c4} {
		if x := math.Float32frombits(bits); !check(x) {
			t.Errorf("log1p(%x) = %x", x, log32(x))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		if x := rapid.Float32Range(-0.9999999, math.MaxFloat32).Draw(t, "x"); x*x > 0x1p-100 && !check(x) {
			t.Fatalf("log1p(%x) = %x", x, log32(x))
		}
	})
	if zero := float32(math.Copysign(0, -1)); math.Float32bits(log32(zero)) != 1<<31 {
		t.Error("-0 lost its sign")
	}
}

func TestLog64IsRightToTheLastPlace(t *testing.T) {
	table := newLogTable()
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.Float64Range(-0.9999999999999999, math.MaxFloat64).Draw(t, "x")
		if math.Abs(x) < 0x1p-100 {
			return
		}
		want, _ := exactLogOf1Plus(x).Float64()
		got := table.log(x)
		if got != want && got != math.Nextafter(want, got) {
			t.Fatalf("log1p(%x) = %x; want %x", x, got, want)
		}
	})
	for x, want := range map[float64]float64{-1: math.Inf(-1), math.Inf(1): math.Inf(1), 0: 0} {
		if got := table.log(x); got != want {
			t.Errorf("log1p(%v) = %v", x, got)
		}
	}
	if !math.IsNaN(table.log(-2)) || !math.IsNaN(table.log(math.NaN())) {
		t.Error("below -1 and NaN are not NaN")
	}
}
