package transform

import (
	"math"
	"testing"

	"github.com/cespare/xxhash/v2"
	"pgregory.net/rapid"

	"github.com/penstock-ml/penstock/api/pb"
)

func TestSigridHashGolden(t *testing.T) {
	ids := make([]any, 17)
	for i := range ids {
		ids[i] = int64(i)
	}
	// From TorchArrow's documentation and tests.
	want := []any{6, 60, 54, 54, 9, 4, 91, 11, 67, 79, 2, 25, 92, 98, 83, 66, 2}
	for i := range want {
		want[i] = int64(want[i].(int))
	}
	int32s := make([]any, len(ids))
	for i, id := range ids {
		int32s[i] = int32(id.(int64))
	}
	runGolden(t, sigridHash(), []golden1{
		{"TorchArrow's values", scalar(pb.Kind_INT64), values{"salt": 0, "max": 100}, ids, want},
		{"int32", scalar(pb.Kind_INT32), values{"max": 100}, int32s, want},
		{
			"lists", list(pb.Kind_INT64),
			values{"max": 100},
			[]any{[]any{int64(1)}, []any{}, nil, []any{int64(14), nil, int64(16)}},
			[]any{[]any{int64(60)}, []any{}, nil, []any{int64(83), nil, int64(2)}},
		},
		{
			"one bucket", scalar(pb.Kind_INT64),
			values{"max": 1},
			[]any{int64(-5), int64(0), int64(7)},
			[]any{int64(0), int64(0), int64(0)},
		},
		{"nulls", scalar(pb.Kind_INT64), values{"max": 100}, []any{nil, int64(16)}, []any{nil, int64(2)}},
		{
			"text", list(pb.Kind_BINARY),
			values{"max": 1000000, "salt": 3},
			[]any{[]any{[]byte("05db9164"), []byte("")}, nil},
			[]any{[]any{
				int64(naiveHash(xxhash.Sum64String("05db9164"), 3, 1000000)),
				naiveHash(0xef46db3751d8e999, 3, 1000000),
			}, nil},
		},
	})
}

// naiveHash is the definition: TorchArrow's arithmetic as it is written there.
func naiveHash(id, salt uint64, limit int64) int64 {
	k := ^id + id<<21
	k ^= k >> 24
	k = k + k<<3 + k<<8
	k ^= k >> 14
	k = k + k<<2 + k<<4
	k ^= k >> 28
	k += k << 31
	a := (k ^ salt) * 0x9ddfea08eb382d69
	a ^= a >> 47
	b := (salt ^ a) * 0x9ddfea08eb382d69
	b ^= b >> 47
	h := int64(b * 0x9ddfea08eb382d69)
	if limit == 0 {
		return h
	}
	if h %= limit; h < 0 {
		h += limit
	}
	return h
}

func TestSigridHashProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]pb.Kind{pb.Kind_INT32, pb.Kind_INT64, pb.Kind_BINARY}).Draw(t, "kind")
		salt := rapid.Int64().Draw(t, "salt")
		limit := rapid.OneOf(rapid.Int64Range(1, 5), rapid.Int64Range(1, math.MaxInt64)).Draw(t, "max")
		checkElementwise(t, sigridHash(), values{"salt": salt, "max": limit}, kind, pb.Kind_INT64, func(x any) any {
			switch x := x.(type) {
			case int32:
				return naiveHash(uint64(x), uint64(salt), limit)
			case int64:
				return naiveHash(uint64(x), uint64(salt), limit)
			}
			return naiveHash(xxhash.Sum64(x.([]byte)), uint64(salt), limit)
		})
	})
}

// TestModulusIsExact divides the hardest numbers: around multiples of the divisor, and the ends of the range.
func TestModulusIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bits := rapid.IntRange(0, 62).Draw(t, "bits")
		d := max(1, min(math.MaxInt64, 1<<bits+rapid.Int64Range(-2, 2).Draw(t, "around")))
		if rapid.Bool().Draw(t, "any") {
			d = rapid.Int64Range(1, math.MaxInt64).Draw(t, "divisor")
		}
		q := rapid.Int64Range(math.MinInt64/d, math.MaxInt64/d).Draw(t, "quotient")
		h := int64(uint64(q*d) + uint64(rapid.Int64Range(-2, 2).Draw(t, "off")))
		if rapid.Bool().Draw(t, "any dividend") {
			h = rapid.Int64().Draw(t, "dividend")
		}
		want := h % d
		if want < 0 {
			want += d
		}
		if got := newModulus(d).of(uint64(h)); got != want {
			t.Fatalf("%d modulo %d: got %d, want %d", h, d, got, want)
		}
	})
}
