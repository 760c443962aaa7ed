package transform

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
	"github.com/penstock-ml/penstock/api/spec"
)

// exactExp is e^y to about 200 bits.
func exactExp(y *big.Float) *big.Float {
	const halvings = 64
	small := newBig().SetMantExp(y, -halvings)
	sum, term := newBig().SetInt64(1), newBig().SetInt64(1)
	for i := int64(1); i < 12; i++ {
		term.Mul(term, small)
		term.Quo(term, newBig().SetInt64(i))
		sum.Add(sum, term)
	}
	for range halvings {
		sum.Mul(sum, sum)
	}
	return sum
}

// offBy is the distance of got from the exact value, in units of its last place.
func offBy(got float64, exact *big.Float) float64 {
	near, _ := exact.Float64()
	near = math.Abs(near)
	off, _ := newBig().Sub(exact, newBig().SetFloat64(got)).Float64()
	return math.Abs(off) / (math.Nextafter(near, math.Inf(1)) - near)
}

func TestLn64IsWithinOneUlp(t *testing.T) {
	for i := range 5_000 {
		x := math.Float64frombits(mix(uint64(i)) >> 2) // positive, below 2
		switch i % 4 {
		case 0:
			x = 1 + math.Ldexp(float64(int64(mix(uint64(i)))), -63-i%50)
		case 1:
			x = math.Float64frombits(mix(uint64(i)) >> 12) // subnormal
		case 2:
			x = 1 / x
		}
		if x == 1 || x == 0 || math.IsInf(x, 0) {
			continue
		}
		if off := offBy(ln64(x), exactLog(newBig().SetFloat64(x))); off > 0.8 {
			t.Fatalf("ln64(%x) is off by %v units in the last place", x, off)
		}
	}
	for x, want := range map[float64]float64{
		0: math.Inf(-1), 1: 0, -1: math.NaN(), math.NaN(): math.NaN(),
		math.Inf(1): math.Inf(1), math.E: 1,
	} {
		if got := ln64(x); !same(got, want) {
			t.Errorf("ln64(%v): got %v, want %v", x, got, want)
		}
	}
}

func TestExpm1IsWithinTwoUlps(t *testing.T) {
	worst := 0.
	for i := range 5_000 {
		share := float64(int64(mix(uint64(i)))) / (1 << 63)
		y := share * [...]float64{709, 40, 1, 0.4, math.Ldexp(1, -i%60)}[i%5]
		if y == 0 || y < -50 {
			continue
		}
		exact := exactExp(newBig().SetFloat64(y))
		off := offBy(expm1(y), exact.Sub(exact, big.NewFloat(1)))
		if worst = max(worst, off); off > 2 {
			t.Fatalf("expm1(%x) is off by %v units in the last place", y, off)
		}
	}
	t.Logf("the worst is off by %.2f units in the last place", worst)
	inf := math.Inf(1)
	for y, want := range map[float64]float64{
		0: 0, inf: inf, -inf: -1, -60: -1, 709.79: inf, math.NaN(): math.NaN(),
		0x1.62e42fefa39efp+9: 0x1.fffffffffff2ap+1023,
	} {
		if got := expm1(y); !same(got, want) {
			t.Errorf("expm1(%v): got %x, want %x", y, got, want)
		}
	}
}

func TestLogit64IsWithinThreeUlps(t *testing.T) {
	one := big.NewFloat(1)
	for i := range 5_000 {
		share := float64(mix(uint64(i))>>11) * 0x1p-53
		x := [...]float64{
			share, 0.5 + (share-0.5)*0x1p-30, math.Ldexp(share, -i%900),
			1 - math.Ldexp(share, -i%50),
		}[i%4]
		if x == 0 || x == 1 || x == 0.5 {
			continue
		}
		odds := newBig().Quo(newBig().SetFloat64(x), newBig().Sub(one, newBig().SetFloat64(x)))
		if off := offBy(logit64(x), exactLog(odds)); off > 3 {
			t.Fatalf("logit64(%x) is off by %v units in the last place", x, off)
		}
	}
}

func TestLogitGolden(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	f32 := func(x float64) any { return float32(x) }
	runGolden(t, logit(), []golden1{
		{
			"as torch.logit", scalar(pb.Kind_FLOAT32), nil,
			[]any{f32(0.5), f32(0), f32(1), f32(-0.1), f32(1.1), f32(nan), nil, f32(0.75), f32(0.0010000000474974513)},
			[]any{
				f32(0), f32(-inf), f32(inf), f32(nan), f32(nan), f32(nan), nil, f32(1.0986122886681098),
				f32(-6.906754732131958),
			},
		},
		{
			"with eps", scalar(pb.Kind_FLOAT64),
			values{"eps": 1e-6},
			[]any{0., 1., -3., 7., nan, nil, 0.5, inf, -inf},
			[]any{
				-13.815509557963773, 13.815509557935018, -13.815509557963773, 13.815509557935018, nan, nil, 0.,
				13.815509557935018, -13.815509557963773,
			},
		},
		{
			"eps that float32 cannot tell from 0 at 1", scalar(pb.Kind_FLOAT32),
			values{"eps": 1e-9},
			[]any{f32(1)},
			[]any{f32(20.72326583694641)},
		},
		{"eps 0", scalar(pb.Kind_FLOAT64), values{"eps": 0}, []any{-1., 2.}, []any{-inf, inf}},
		{
			"lists of ints", list(pb.Kind_INT32), nil,
			[]any{[]any{int32(0), nil, int32(2)}, nil, []any{}},
			[]any{[]any{f32(-inf), nil, f32(nan)}, nil, []any{}},
		},
	})
}

func TestBoxCoxGolden(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	f32 := func(x float64) any { return float32(x) }
	special := []any{0., -1., inf, nan, nil, 1.}
	runGolden(t, boxCox(), []golden1{
		{"a half", scalar(pb.Kind_FLOAT32), values{"lambda": 0.5}, []any{
			f32(4), f32(9), f32(0), f32(-1), nil, f32(1),
			f32(2),
		}, []any{f32(2), f32(4), f32(-2), f32(nan), nil, f32(0), f32(0.8284271247461901)}},
		{
			"zero is the logarithm", scalar(pb.Kind_FLOAT64),
			values{"lambda": 0},
			append([]any{2.}, special...),
			[]any{math.Ln2, -inf, nan, inf, nan, nil, 0.},
		},
		{"above zero", scalar(pb.Kind_FLOAT64), values{"lambda": 2}, special, []any{-0.5, nan, inf, nan, nil, 0.}},
		{"below zero", scalar(pb.Kind_FLOAT64), values{"lambda": -2}, special, []any{-inf, nan, 0.5, nan, nil, 0.}},
		{
			"lists of ints", list(pb.Kind_INT64),
			values{"lambda": 1},
			[]any{[]any{int64(3), nil}, nil},
			[]any{[]any{f32(2), nil}, nil},
		},
	})
}

func TestBoxCoxIsClose(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lambda := rapid.Float64Range(-4, 4).Draw(t, "lambda")
		x := rapid.Float32Range(1e-5, 1e6).Draw(t, "x")
		if math.Abs(lambda) < 1e-3 {
			return
		}
		log := exactLog(newBig().SetFloat64(float64(x)))
		power := exactExp(log.Mul(log, newBig().SetFloat64(lambda)))
		want, _ := newBig().Quo(power.Sub(power, big.NewFloat(1)), newBig().SetFloat64(lambda)).Float32()
		out := run(t, chainOf(t, boxCox(), values{"lambda": lambda}, scalar(pb.Kind_FLOAT32)),
			vectorOf(scalar(pb.Kind_FLOAT32), []any{x}))
		if got := out.F32[0]; got != want && got != math.Nextafter32(want, got) {
			t.Fatalf("box_cox %v of %x: got %x, want %x", lambda, x, got, want)
		}
	})
}

// TestFloatOpsProperty checks what becomes of kinds, nulls and lists.
func TestFloatOpsProperty(t *testing.T) {
	cases := []struct {
		op     Op
		params values
		naive  func(x float64) float64
	}{
		{logit(), nil, logit64},
		{logit(), values{"eps": 0.01}, func(x float64) float64 {
			if x != x {
				return x
			}
			return logit64(max(0.01, min(1-0.01, x)))
		}},
		{boxCox(), values{"lambda": 0}, ln64},
		{boxCox(), values{"lambda": 0.3}, func(x float64) float64 { return expm1(0.3*ln64(x)) / 0.3 }},
	}
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.SampledFrom(cases).Draw(t, "case")
		kind, to := drawNumbers(t)
		checkElementwise(t, c.op, c.params, kind, to, func(x any) any {
			if x, ok := x.(float64); ok {
				return c.naive(x)
			}
			return float32(c.naive(float64(asFloat32(x))))
		})
	})
}

// drawNumbers draws a kind of numbers, and that of what ops like log1p make of it.
func drawNumbers(t *rapid.T) (from, to pb.Kind) {
	from, to = rapid.SampledFrom([]pb.Kind{pb.Kind_INT32, pb.Kind_INT64, pb.Kind_FLOAT32, pb.Kind_FLOAT64}).Draw(t,
		"kind"), pb.Kind_FLOAT32
	if from == pb.Kind_FLOAT64 {
		to = from
	}
	return from, to
}

func TestScaleGolden(t *testing.T) {
	f32 := func(x float64) any { return float32(x) }
	ints := []any{int64(1), int64(2), int64(3), nil, int64(4), int64(5)}
	// float32 rounds to 128 of them
	seconds := []any{int64(1_700_000_000), int64(1_700_000_050), int64(1_700_000_100), nil}
	// TorchArrow's test_functional_cpu.py, the statistics that it finds given.
	runGolden(t, scaleTo01(), []golden1{
		{
			"TorchArrow's", scalar(pb.Kind_INT64),
			values{"min": 1, "max": 5},
			ints,
			[]any{f32(0), f32(0.25), f32(0.5), nil, f32(0.75), f32(1)},
		},
		{
			"timestamps", scalar(pb.Kind_INT64),
			values{"min": 1_700_000_000, "max": 1_700_000_100},
			seconds,
			[]any{f32(0), f32(0.5), f32(1), nil},
		},
		{
			"int32", list(pb.Kind_INT32),
			values{"min": 1 << 24, "max": 1<<24 + 4},
			[]any{[]any{int32(1<<24 + 1), nil}, nil},
			[]any{[]any{f32(0.25), nil}, nil},
		},
		{
			"outside", list(pb.Kind_FLOAT64),
			values{"min": -1, "max": 1},
			[]any{[]any{-3., nil, math.NaN(), math.Inf(1)}, nil},
			[]any{[]any{-1., nil, math.NaN(), math.Inf(1)}, nil},
		},
		{
			"float32", scalar(pb.Kind_FLOAT32),
			values{"min": 0.1, "max": 0.7},
			[]any{f32(0.3)},
			[]any{(float32(0.3) - float32(0.1)) / float32(0.7-0.1)},
		},
	})
	runGolden(t, scaleToZScore(), []golden1{
		{
			"TorchArrow's", scalar(pb.Kind_INT64),
			values{"mean": 3, "std": 1.5811388300841898},
			ints,
			[]any{
				f32(-1.2649110555648804), f32(-0.6324555277824402), f32(0), nil, f32(0.6324555277824402),
				f32(1.2649110555648804),
			},
		},
		{
			"timestamps", scalar(pb.Kind_INT64),
			values{"mean": 1_700_000_050, "std": 40},
			seconds,
			[]any{f32(-1.25), f32(0), f32(1.25), nil},
		},
		{
			"TorchArrow's floats", scalar(pb.Kind_FLOAT32),
			values{"mean": 1.5, "std": 0.5773502588272095},
			[]any{f32(1), f32(2)},
			[]any{f32(-0.866025447845459), f32(0.866025447845459)},
		},
		{
			"float64", scalar(pb.Kind_FLOAT64),
			values{"mean": 0.1, "std": 0.3},
			[]any{1., nil},
			[]any{(1 - 0.1) / 0.3, nil},
		},
	})
}

func TestScaleProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind, to := drawNumbers(t)
		low := rapid.Float64Range(-9, 9).Draw(t, "low")
		span := rapid.Float64Range(0.1, 9).Draw(t, "span")
		check := func(op Op, params values, span float64) {
			checkElementwise(t, op, params, kind, to, func(x any) any {
				switch x := x.(type) {
				case float32:
					return (x - float32(low)) / float32(span)
				case float64:
					return (x - low) / span
				}
				return float32((float64(asInt64(x)) - low) / span)
			})
		}
		check(scaleTo01(), values{"min": low, "max": low + span}, low+span-low)
		check(scaleToZScore(), values{"mean": low, "std": span}, span)
	})
}

func TestPositiveModulusGolden(t *testing.T) {
	i64 := func(x int64) any { return x }
	runGolden(t, positiveModulus(), []golden1{
		{
			"negative ids", scalar(pb.Kind_INT64),
			values{"modulus": 5},
			[]any{i64(-7), i64(7), i64(0), i64(-5), nil, i64(math.MinInt64)},
			[]any{
				i64(3), i64(2), i64(0), i64(0),
				nil, i64(2),
			},
		},
		{
			"lists", list(pb.Kind_INT32),
			values{"modulus": 1 << 40},
			[]any{[]any{int32(-1), nil}, nil, []any{}},
			[]any{[]any{i64(1<<40 - 1), nil}, nil, []any{}},
		},
		{"one", scalar(pb.Kind_INT32), values{"modulus": 1}, []any{int32(-1)}, []any{i64(0)}},
	})
	rapid.Check(t, func(t *rapid.T) {
		modulus := rapid.OneOf(rapid.Int64Range(1, 100), rapid.Int64Range(1, math.MaxInt64)).Draw(t, "modulus")
		kind := rapid.SampledFrom([]pb.Kind{pb.Kind_INT32, pb.Kind_INT64}).Draw(t, "kind")
		checkElementwise(t, positiveModulus(), values{"modulus": modulus}, kind, pb.Kind_INT64, func(x any) any {
			wide := big.NewInt(asInt64(x))
			return wide.Mod(wide, big.NewInt(modulus)).Int64() // Euclidean
		})
	})
}

// asInt64 converts any int.
func asInt64(x any) int64 {
	if x, ok := x.(int32); ok {
		return int64(x)
	}
	return x.(int64)
}

func TestNumberOpsSayWhatIsWrong(t *testing.T) {
	floats, doubles, text := scalar(pb.Kind_FLOAT32), scalar(pb.Kind_FLOAT64), scalar(pb.Kind_BINARY)
	checkMistakes(t, []mistake{
		{"logit", values{"eps": 0.6}, []spec.Type{floats}, "eps: want a number from 0 to 0.5, found 0.6"},
		{"logit", nil, []spec.Type{text}, "in: want a scalar or list of numbers, found binary; cast turns it into one"},
		{"box_cox", nil, []spec.Type{floats}, "lambda: missing; want a number"},
		{"box_cox", values{"lambda": math.Inf(1)}, []spec.Type{floats}, "lambda: want a finite number, found +Inf"},
		{
			"scale_to_0_1",
			values{"min": 1, "max": 1},
			[]spec.Type{floats},
			"max: want a finite float32 above min, which is 1, found 1",
		},
		{
			"scale_to_0_1",
			values{"min": -1e300, "max": 1},
			[]spec.Type{floats},
			"min: want a finite float32, found -1e+300",
		},
		{
			"scale_to_0_1",
			values{"min": -1e308, "max": 1e308},
			[]spec.Type{doubles},
			"max: want a finite number above min, which is -1e+308, found 1e+308",
		},
		{
			"scale_to_0_1",
			values{"min": 0, "max": math.Inf(1)},
			[]spec.Type{scalar(pb.Kind_INT64)},
			"max: want a finite number above min, which is 0, found +Inf",
		},
		{
			"scale_to_z_score",
			values{"mean": 1, "std": 0},
			[]spec.Type{doubles},
			"std: want a finite number above 0, found 0",
		},
		{
			"positive_modulus",
			values{"modulus": 0},
			[]spec.Type{scalar(pb.Kind_INT32)},
			"modulus: want a positive int, found 0",
		},
		{
			"positive_modulus",
			values{"modulus": 3},
			[]spec.Type{floats},
			"in: want a scalar or list of ints, found float32",
		},
	})
}

// mistake is a step that a spec may not have.
type mistake struct {
	op     string
	params values
	in     []spec.Type
	want   string
}

func checkMistakes(t *testing.T, cases []mistake) {
	t.Helper()
	for _, c := range cases {
		_, err := Builtin().Check(c.op, c.params.proto(), c.in)
		if err == nil || err.Error() != c.want {
			t.Errorf("%s %v of %v\ngot  %v\nwant %s", c.op, c.params, c.in, err, c.want)
		}
	}
}
