package transform

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
)

func drawNumberKind(t *rapid.T) pb.Kind {
	return rapid.SampledFrom([]pb.Kind{pb.Kind_INT32, pb.Kind_INT64, pb.Kind_FLOAT32, pb.Kind_FLOAT64}).Draw(t, "kind")
}

func TestClampGolden(t *testing.T) {
	nan, negative0 := math.NaN(), math.Copysign(0, -1)
	runGolden(t, clamp(), []golden1{
		{
			"int64", scalar(pb.Kind_INT64),
			values{"min": 0, "max": 100},
			[]any{int64(-1), int64(0), int64(50), int64(101), nil},
			[]any{
				int64(0), int64(0), int64(50), int64(100),
				nil,
			},
		},
		{
			"int32, min only", scalar(pb.Kind_INT32),
			values{"min": -2},
			[]any{int32(-3), int32(math.MaxInt32)},
			[]any{int32(-2), int32(math.MaxInt32)},
		},
		{
			"float64", scalar(pb.Kind_FLOAT64),
			values{"min": 0, "max": 0.5},
			[]any{negative0, nan, -1., 9., nil},
			[]any{negative0, nan, 0., 0.5, nil},
		},
		{
			"float32 bounds are rounded", scalar(pb.Kind_FLOAT32),
			values{"max": 0.1},
			[]any{float32(0.1), float32(1)},
			[]any{float32(0.1), float32(0.1)},
		},
		{
			"float32, infinite bounds", scalar(pb.Kind_FLOAT32),
			values{"min": math.Inf(-1), "max": math.Inf(1)},
			[]any{float32(-1), float32(math.Inf(1))},
			[]any{float32(-1), float32(math.Inf(1))},
		},
		{"float64 beyond float32", scalar(pb.Kind_FLOAT64), values{"min": 1e39}, []any{0.}, []any{1e39}},
		{
			"lists", list(pb.Kind_INT64),
			values{"max": 1},
			[]any{nil, []any{}, []any{int64(2), nil}},
			[]any{nil, []any{}, []any{int64(1), nil}},
		},
	})
}

func TestClampProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := drawNumberKind(t)
		low := rapid.IntRange(-4, 4).Draw(t, "min")
		high := rapid.IntRange(low, 5).Draw(t, "max")
		checkElementwise(t, clamp(), values{"min": low, "max": high}, kind, kind, func(x any) any {
			switch x := x.(type) {
			case int32:
				return max(int32(low), min(int32(high), x))
			case int64:
				return max(int64(low), min(int64(high), x))
			case float32:
				return float32(clampFloat(float64(x), low, high))
			}
			return clampFloat(x.(float64), low, high)
		})
	})
}

func clampFloat(x float64, low, high int) float64 {
	switch {
	case x < float64(low):
		return float64(low)
	case x > float64(high):
		return float64(high)
	}
	return x
}

func TestNormalizeGolden(t *testing.T) {
	f32 := func(x float64) any { return float32(x) }
	runGolden(t, normalize(), []golden1{
		{
			"float32", scalar(pb.Kind_FLOAT32),
			values{"mean": 1, "std": 2},
			[]any{f32(5), f32(-1), nil, f32(math.NaN()), f32(math.Inf(1))},
			[]any{
				f32(2), f32(-1), nil, f32(math.NaN()),
				f32(math.Inf(1)),
			},
		},
		{
			"ints", scalar(pb.Kind_INT64),
			values{"mean": 0, "std": 3},
			[]any{int64(1), int64(1<<24 + 1)},
			[]any{float32(1) / 3, float32(1<<24) / 3},
		},
		{"int32", scalar(pb.Kind_INT32), values{"mean": 0.5, "std": 0.25}, []any{int32(1), nil}, []any{f32(2), nil}},
		{
			"float64, in lists", list(pb.Kind_FLOAT64),
			values{"mean": 0.1, "std": 1},
			[]any{[]any{0.1, nil}, nil, []any{}},
			[]any{[]any{f32(0), nil}, nil, []any{}},
		},
	})
}

func TestNormalizeProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mean := rapid.Float64Range(-100, 100).Draw(t, "mean")
		std := rapid.Float64Range(0.001, 100).Draw(t, "std")
		checkElementwise(t, normalize(), values{"mean": mean, "std": std}, drawNumberKind(t), pb.Kind_FLOAT32,
			func(x any) any {
				// float64 has more than twice float32's bits: rounding its result once more is as good as rounding
				// once.
				difference := float32(float64(asFloat32(x)) - float64(float32(mean)))
				return float32(float64(difference) / float64(float32(std)))
			})
	})
}

func TestBucketizeGolden(t *testing.T) {
	i32 := func(all ...int32) (rows []any) {
		for _, n := range all {
			rows = append(rows, n)
		}
		return rows
	}
	nan, inf := math.NaN(), math.Inf(1)
	three := values{"borders": []float64{0.5, 1, 1.5}}
	runGolden(t, bucketize(), []golden1{
		{
			"float64", scalar(pb.Kind_FLOAT64), three,
			[]any{0.4, 0.5, 0.6, 1., 1.5, 1.6, nan, -inf, inf},
			i32(0, 0, 1, 1, 2, 3, 3, 0, 3),
		},
		{
			"float32", scalar(pb.Kind_FLOAT32),
			values{"borders": []float64{0.1}},
			[]any{float32(0.1), float32(nan), -float32(nan), nil},
			[]any{int32(0), int32(1), int32(1), nil},
		},
		{
			"zeros are equal", scalar(pb.Kind_FLOAT32),
			values{"borders": []float64{math.Copysign(0, -1)}},
			[]any{float32(0), float32(math.Copysign(0, -1))},
			i32(0, 0),
		},
		{
			"ints", scalar(pb.Kind_INT64), three,
			[]any{int64(0), int64(1), int64(2), int64(math.MinInt64)},
			i32(0, 1, 3, 0),
		},
		{
			"borders beyond ints", scalar(pb.Kind_INT32),
			values{"borders": []float64{-inf, -1e30, -1 << 31, 1 << 31, 1e30, inf}},
			[]any{int32(math.MinInt32), int32(math.MinInt32 + 1), int32(math.MaxInt32)},
			i32(2, 3, 3),
		},
		{
			"exact ints", scalar(pb.Kind_INT64),
			values{"borders": []any{int64(1 << 60), int64(1<<60 + 1)}},
			[]any{int64(1 << 60), int64(1<<60 + 1), int64(1<<60 + 2), int64(math.MaxInt64)},
			i32(0, 1, 2, 2),
		},
		{
			"infinite borders", scalar(pb.Kind_FLOAT64),
			values{"borders": []float64{-inf, inf}},
			[]any{-inf, 0., inf, nan},
			i32(0, 1, 1, 2),
		},
		{"equal borders", scalar(pb.Kind_FLOAT64), values{"borders": []float64{1, 1, 1, 1}}, []any{1., 2.}, i32(0, 4)},
		{
			"lists", list(pb.Kind_FLOAT64), three,
			[]any{[]any{9., nil}, nil, []any{}},
			[]any{[]any{int32(3), nil}, nil, []any{}},
		},
	})
}

func TestBucketizeProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := drawNumberKind(t)
		borders := rapid.SliceOfN(rapid.OneOf(rapid.Float64(), rapid.Float64Range(-5, 5)), 1, 70).Draw(t, "borders")
		slices.Sort(borders)
		checkElementwise(t, bucketize(), values{"borders": borders}, kind, pb.Kind_INT32, func(x any) any {
			for i, b := range borders {
				if notAbove(x, b) {
					return int32(i)
				}
			}
			return int32(len(borders))
		})
	})
}

// notAbove is x <= b, exactly, but for a float32 x with b rounded.
func notAbove(x any, b float64) bool {
	switch x := x.(type) {
	case int32:
		return float64(x) <= b
	case int64:
		return new(big.Float).SetInt64(x).Cmp(big.NewFloat(b)) <= 0
	case float32:
		return x <= float32(b)
	}
	return x.(float64) <= b
}
