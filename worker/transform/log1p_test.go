package transform

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
)

// exactLog is ln(x) to about 150 bits, for x > 0.
func exactLog(x *big.Float) *big.Float {
	mantissa := newBig()
	exponent := x.MantExp(mantissa)
	sum := atanhSeries(mantissa)
	return sum.Add(sum, newBig().Mul(atanhSeries(big.NewFloat(2)), newBig().SetInt64(int64(exponent))))
}

// atanhSeries is ln(m) = 2 atanh((m-1)/(m+1)), for m in [0.5, 2].
func atanhSeries(m *big.Float) *big.Float {
	one := big.NewFloat(1)
	t := newBig().Quo(newBig().Sub(m, one), newBig().Add(m, one))
	square, power, sum := newBig().Mul(t, t), newBig().Set(t), newBig()
	for i := int64(1); i < 110; i += 2 {
		sum.Add(sum, newBig().Quo(power, newBig().SetInt64(i)))
		power.Mul(power, square)
	}
	return sum.Mul(sum, big.NewFloat(2))
}

func newBig() *big.Float { return new(big.Float).SetPrec(300) }

// exactLog1p is ln(1+x) to about 100 bits, for |x| above 1e-40.
func exactLog1p(x float64) *big.Float {
	return exactLog(newBig().Add(newBig().SetFloat64(x), big.NewFloat(1)))
}

func TestLogCells(t *testing.T) {
	for i, cell := range logCells {
		from := math.Float64frombits(cellBase + uint64(i)<<45)
		to := math.Float64frombits(cellBase + uint64(i+1)<<45)
		c := (from + to) / 2
		if from == 1 || to == 1 {
			c = 1
		}
		exact := exactLog(big.NewFloat(c))
		log, _ := exact.Float64()
		hi := math.RoundToEven(math.Ldexp(log, 42)) * 0x1p-42
		lo, _ := newBig().Sub(exact, big.NewFloat(hi)).Float64()
		if want := (logCell{c, 1 / c, log, hi, lo}); cell != want {
			t.Errorf("cell %d: got %x, want %x", i, cell, want)
		}
	}
	exact := exactLog(big.NewFloat(2))
	log, _ := exact.Float64()
	lo, _ := newBig().Sub(exact, big.NewFloat(ln2Hi)).Float64()
	if ln2 != log || ln2Lo != lo {
		t.Errorf("ln(2): got %x and %x, want %x and %x", ln2, ln2Lo, log, lo)
	}
}

// TestLog1p32RoundsToNearest compares with a wider type, and where that is too close to call, with a far wider one.
func TestLog1p32RoundsToNearest(t *testing.T) {
	hard := []uint32{ // the closest calls of all
		0x35400003, 0x3710001b, 0x65d890d3, 0xb53ffffd, 0xb70fffe5, 0xbb0ec8c4,
	}
	const stride = 20011 // a prime; stride 1 passes, too
	for bits := uint32(0); bits < 0xbf800000-stride; bits += stride {
		checkLog1p32(t, math.Float32frombits(bits))
	}
	for _, bits := range hard {
		checkLog1p32(t, math.Float32frombits(bits))
	}
}

func checkLog1p32(t *testing.T, x float32) {
	t.Helper()
	if x != x {
		return
	}
	if got, want := log1p32(x), nearestLog1p(x); !same(got, want) {
		t.Fatalf("log1p32(%x): got %x, want %x", x, got, want)
	}
}

// nearestLog1p is ln(1+x) rounded to nearest.
func nearestLog1p(x float32) float32 {
	wide := math.Log1p(float64(x))
	if x > -1 && float32(wide*(1-0x1p-50)) != float32(wide*(1+0x1p-50)) {
		nearest, _ := exactLog1p(float64(x)).Float32()
		return nearest
	}
	return float32(wide)
}

func TestLog1p64IsWithinOneUlp(t *testing.T) {
	for i := range 5_000 {
		r := mix(uint64(i))
		share := float64(int64(r)) / (1 << 63)
		x := share * 0.999
		switch i % 4 {
		case 0: // any positive number that is not tiny
			x = math.Float64frombits(r>>2 | 0x3c0<<52)
		case 1: // near 0
			x = math.Ldexp(share, -int(r%40))
		case 2: // just above -1
			x = math.Ldexp(math.Abs(share), -int(r%40)) - 1
		}
		if x <= -1 || x == 0 {
			continue
		}
		exact := exactLog1p(x)
		want, _ := exact.Float64()
		ulp := math.Nextafter(math.Abs(want), math.Inf(1)) - math.Abs(want)
		off, _ := newBig().Sub(exact, big.NewFloat(log1p64(x))).Float64()
		if math.Abs(off) > 0.75*ulp {
			t.Fatalf("log1p64(%x) is off by %v units in the last place", x, off/ulp)
		}
	}
}

func TestLog1pGolden(t *testing.T) {
	inf, nan, negative0 := math.Inf(1), math.NaN(), math.Copysign(0, -1)
	f32 := func(x float64) any { return float32(x) }
	runGolden(t, log1p(), []golden1{
		{
			"float32", scalar(pb.Kind_FLOAT32), nil,
			[]any{
				f32(0), f32(negative0), f32(1), f32(-0.5), f32(-1), f32(-1.5), f32(inf), f32(-inf), f32(nan), nil,
				f32(1e-40), f32(-1e-10),
			},
			[]any{
				f32(0), f32(negative0), f32(math.Ln2), f32(-math.Ln2), f32(-inf), f32(nan), f32(inf), f32(nan),
				f32(nan), nil, f32(1e-40), f32(-1e-10),
			},
		},
		{
			"float64", scalar(pb.Kind_FLOAT64), nil,
			[]any{0., negative0, 1., -0.5, -1., -1.5, inf, -inf, nan, nil, 1e-310, math.MaxFloat64},
			[]any{0., negative0, math.Ln2, -math.Ln2, -inf, nan, inf, nan, nan, nil, 1e-310, 0x1.62e42fefa39efp+9},
		},
		{
			"lists of ints", list(pb.Kind_INT64), nil,
			[]any{[]any{int64(0), nil, int64(-1)}, nil, []any{}, []any{int64(1)}},
			[]any{[]any{f32(0), nil, f32(-inf)}, nil, []any{}, []any{f32(math.Ln2)}},
		},
		{"int32", scalar(pb.Kind_INT32), nil, []any{int32(1), int32(-2), nil}, []any{f32(math.Ln2), f32(nan), nil}},
	})
}

func TestLog1pProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]pb.Kind{pb.Kind_INT32, pb.Kind_INT64, pb.Kind_FLOAT32, pb.Kind_FLOAT64}).Draw(t,
			"kind")
		to := pb.Kind_FLOAT32
		if kind == pb.Kind_FLOAT64 {
			to = kind
		}
		checkElementwise(t, log1p(), nil, kind, to, func(x any) any {
			if x, ok := x.(float64); ok {
				return log1p64(x)
			}
			return nearestLog1p(asFloat32(x))
		})
	})
}

// asFloat32 converts any number.
func asFloat32(x any) float32 {
	switch x := x.(type) {
	case int32:
		return float32(x)
	case int64:
		return float32(x)
	case float64:
		return float32(x)
	}
	return x.(float32)
}
